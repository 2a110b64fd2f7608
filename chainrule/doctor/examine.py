"""`chainrule doctor`: every look at a run that applies to it, the gravest findings first."""

from pathlib import Path

from chainrule.doctor.baselines import look_at_baselines
from chainrule.doctor.course import look_at_course
from chainrule.doctor.data import look_at_data
from chainrule.doctor.patient import admit
from chainrule.training.finding import SEVERITIES, Finding


def examine(name: str | Path) -> list[Finding]:
    """What was found; a finished run of a model that learns also gets a picture of its gradients, report/depth.svg."""
    patient = admit(name)
    found = look_at_course(patient)
    if patient.recipe is not None:
        from chainrule.doctor.depth import look_at_gradients
        from chainrule.doctor.units import look_at_units

        found += [*look_at_units(patient), *look_at_gradients(patient)]
    found += [*look_at_data(patient), *look_at_baselines(patient)]
    return sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))
