"""The same in three lines of Python:

run = chainrule.train("poems.txt")
print(run.sample("The "))
run.evaluate("other.txt")
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from chainrule.analysis.compare.compare import Comparison
from chainrule.analysis.compare.compare import compare as compare_request
from chainrule.analysis.compare.compare import default_path as comparison_path
from chainrule.analysis.compare.entrants import read_entrants
from chainrule.analysis.compare.report import Report
from chainrule.analysis.doctor.examine import examine
from chainrule.analysis.explain.explanation import FACES, Explanation, explain
from chainrule.analysis.mix.make import Request as MixRequest
from chainrule.analysis.mix.make import mix as mix_request
from chainrule.config import fields, override
from chainrule.data.corpus import Corpus, Reading
from chainrule.data.split import Splitting
from chainrule.errors import UserError
from chainrule.evaluation.score import figures, score
from chainrule.generation import Generation, Sampling
from chainrule.generation import sample as draw
from chainrule.generation.template import find_template
from chainrule.models import infinigram
from chainrule.models.mix import Config as MixConfig
from chainrule.runs.folder import Run
from chainrule.runs.pairs import PairsRun, load_pairs_run
from chainrule.training.finding import Finding
from chainrule.training.prepare import Tokenization
from chainrule.training.train import DEFAULT_CORPUS, Request
from chainrule.training.train import train as train_request

G = TypeVar("G", Reading, Splitting, Tokenization)
Inputs = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class TrainedRun(Run):
    """A run with the verbs of the command line."""

    def __repr__(self) -> str:
        return f"<run '{self.path}': {self.architecture} of {', '.join(self.config['data']['inputs'])}>"

    def sample(self, prompt: str = "", **settings: Any) -> str:
        """One continuation of the prompt, as text; settings as in `chainrule sample` (temperature, top_k, seed ...)."""
        return prompt + self.samples(prompt, **settings)[0].text

    def samples(self, prompt: str = "", **settings: Any) -> list[Generation]:
        if isinstance(settings.get("stop"), str):
            settings["stop"] = (settings["stop"],)
        return draw(self.model, self.tokenizer, prompt, override(Sampling(), settings, "sample"))  # type: ignore[arg-type]

    def prompt(self, template: str, **values: Any) -> str:
        """The answer to a task: run.prompt("qa", passage=..., question=...); settings as in `chainrule prompt`."""
        found = find_template(template)
        settings = {name: value for name, value in values.items() if name in fields(Sampling)}
        text = found.fill({name: value for name, value in values.items() if name not in settings})
        if isinstance(settings.get("stop"), str):
            settings["stop"] = (settings["stop"],)
        sampling = override(found.sampling, settings, "prompt")
        return draw(self.model, self.tokenizer, text, sampling)[0].text.strip()  # type: ignore[arg-type]

    def evidence(self, text: str, most: int = 10) -> dict[str, Any]:
        """Of an infinity-gram: the longest end of the text that occurs in the corpus, how often, and where."""
        if not isinstance(self.model, infinigram.Model):
            raise UserError(f"'{self.path}' is of kind {self.architecture}; only an infinigram keeps its corpus")
        ids = self.tokenizer.encode(text)
        length, positions = self.model.evidence(ids)
        shards = self.shards()
        places = [shards.place(*shards.locate(int(position)), self.tokenizer) for position in positions[:most]]
        found = {"text": self.tokenizer.decode(ids[len(ids) - length :]), "tokens": length, "count": len(positions)}
        return found | {"places": [vars(place) for place in places]}

    def explain(self, text: str, token: str | None = None, faces: int = FACES, **sampling: Any) -> Explanation:
        """Why `token`, or else the likeliest, comes after the text; settings as in `chainrule explain`."""
        settings = override(Sampling(), sampling, "explain")
        shards = self.shards() if (self.path / "tokens").is_dir() else None
        return explain(self.model, self.tokenizer, text, token, settings, shards, faces)

    def evaluate(self, inputs: Inputs, **reading: Any) -> dict[str, Any]:
        """Perplexity, bits per byte and the counts behind them, of any text."""
        defaults = Reading(unit=self.config["data"]["unit"])
        corpus = Corpus(_names(inputs), override(defaults, reading, "evaluate"))
        return figures(score(self.model, self.tokenizer, corpus.batches()), self.model, self.tokenizer)

    def doctor(self) -> list[Finding]:
        """What is wrong with it, the gravest first, and what to do: as `chainrule doctor` tells."""
        return examine(self.path)


def load(path: str | os.PathLike[str]) -> TrainedRun:
    """An existing run."""
    return TrainedRun(path)


def train(
    inputs: Inputs = DEFAULT_CORPUS,
    *,
    model: str | None = None,
    size: str | None = None,
    path: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    validation: Inputs = (),
    **settings: Any,
) -> TrainedRun:
    """Train on text; any other setting of `chainrule train` goes by its name: minutes=5, order=3, tokenizer="bpe"."""
    return TrainedRun(_train(inputs, validation, path, settings, model=model, size=size, overwrite=overwrite))


def _train(inputs: Inputs, validation: Inputs, path: Any, settings: dict[str, Any], **more: Any) -> Path:
    reading, splitting, tokenization = _take_groups(settings, "train")
    request = Request(
        inputs=tuple(_names(inputs)),
        validation=tuple(_names(validation)),
        settings=settings,
        reading=reading,
        splitting=splitting,
        tokenization=tokenization,
        path=Path(path) if path else None,
        **more,
    )
    return train_request(request).path


def train_pairs(
    inputs: Inputs,
    *,
    task: str = "translation",
    size: str | None = None,
    path: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    validation: Inputs = (),
    **settings: Any,
) -> PairsRun:
    """Learn to write one text from another; `run.translate("ein Hund")`. Settings go by their names, as for `train`."""
    return load_pairs(_train(inputs, validation, path, settings, task=task, size=size, overwrite=overwrite))


def load_pairs(path: str | os.PathLike[str]) -> PairsRun:
    """An existing run that writes one text from another."""
    return load_pairs_run(path)


def compare(
    inputs: Inputs = (),
    *,
    models: Sequence[str] = (),
    minutes: float = 1.0,
    test: Inputs = (),
    validation: Inputs = (),
    path: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    **settings: Any,
) -> Report:
    """Every kind of model, or those named as for `chainrule compare`, on one text; the report is also in `path`."""
    reading, splitting, tokenization = _take_groups(settings, "compare")
    if settings:
        raise UserError(f"unknown setting '{next(iter(settings))}' in compare; settings of a model go with its name")
    asked = Comparison(
        inputs=tuple(_names(inputs)),
        entrants=tuple(read_entrants(models)),
        minutes=minutes,
        test=tuple(_names(test)),
        validation=tuple(_names(validation)),
        reading=reading,
        splitting=splitting,
        tokenization=tokenization,
    )
    return compare_request(asked, Path(path) if path else comparison_path(asked.inputs), overwrite)


def mix(
    runs: Sequence[str | os.PathLike[str] | Run],
    *,
    cache: bool = False,
    on: Inputs = (),
    test: Inputs = (),
    path: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    **settings: Any,
) -> TrainedRun:
    """Runs of the same tokens as one, by weights fitted on what they kept aside; by="entropy", dynamic=0.1 as flags."""
    request = MixRequest(
        runs=tuple(run if isinstance(run, Run) else Run(run) for run in runs),
        config=override(MixConfig(), settings, "mix"),
        cache=cache,
        on=tuple(_names(on)),
        test=tuple(_names(test)),
        path=Path(path) if path else None,
        overwrite=overwrite,
    )
    return TrainedRun(mix_request(request).path)


def resume(path: str | os.PathLike[str]) -> TrainedRun:
    """Go on with a training that was interrupted, exactly where it stood."""
    from chainrule.training.neural import resume as resume_training

    return TrainedRun(resume_training(Path(path), {}).path)


def _take_groups(settings: dict[str, Any], where: str) -> tuple[Reading, Splitting, Tokenization]:
    """How text is read, split and cut into tokens, taken out of the settings by their names."""

    def take(group: G) -> G:
        own = {name: settings.pop(name) for name in fields(type(group)) if name in settings}
        return override(group, own, where)

    return take(Reading()), take(Splitting()), take(Tokenization())


def _names(inputs: Inputs) -> list[str]:
    if isinstance(inputs, str | os.PathLike):
        return [os.fspath(inputs)]
    return [os.fspath(each) for each in inputs]
