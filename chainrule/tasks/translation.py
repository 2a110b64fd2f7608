"""Translation: sentences of one language to another, measured by BLEU and chrF."""

from typing import Any

from chainrule.evaluation import bleu
from chainrule.generation.beam import Beam
from chainrule.tasks._pairs import PairTask


class Task(PairTask):
    def measure(self, model: Any, sources: list[str], targets: list[str], beam: Beam) -> dict[str, float] | None:
        if not bleu.is_measurable():
            return None
        written = [each.texts[0] for each in self.write(model, sources, beam, truncate=True)]
        found = bleu.measure(written, targets, self.settings.lowercase)
        return {"BLEU": found.bleu, "chrF": found.chrf}
