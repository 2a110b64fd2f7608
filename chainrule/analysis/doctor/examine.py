"""`chainrule doctor`: every examination that applies to a run, the gravest findings first."""

from pathlib import Path

from chainrule.analysis.doctor.baselines import look_at_baselines
from chainrule.analysis.doctor.course import look_at_course
from chainrule.analysis.doctor.data import look_at_data
from chainrule.analysis.doctor.findings import Findings
from chainrule.analysis.doctor.subject import load_subject
from chainrule.training.finding import SEVERITIES


def examine(name: str | Path) -> Findings:
    """The findings about a run; one that learned by gradient also gets a picture of its gradients, report/depth.svg."""
    subject = load_subject(name)
    found, picture = look_at_course(subject), None
    if subject.recipe is not None:
        from chainrule.analysis.doctor.depth import PICTURE, look_at_gradients
        from chainrule.analysis.doctor.units import look_at_units

        found += [*look_at_units(subject), *look_at_gradients(subject)]
        picture = subject.folder / PICTURE
    found += [*look_at_data(subject), *look_at_baselines(subject)]
    return Findings(sorted(found, key=lambda finding: SEVERITIES.index(finding.severity)), picture)
