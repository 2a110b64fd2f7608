"""The same in three lines of Python:

run = chainrule.train("poems.txt")
print(run.sample("The "))
run.evaluate("other.txt")

Inputs are paths; texts in memory are passed as chainrule.Texts(["first document", "second document"]).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

from chainrule.analysis.compare.compare import Comparison
from chainrule.analysis.compare.compare import compare as compare_request
from chainrule.analysis.compare.compare import default_path as comparison_path
from chainrule.analysis.compare.entrants import read_entrants
from chainrule.analysis.compare.notebook import NotebookReport
from chainrule.analysis.mix.make import MixRequest
from chainrule.analysis.mix.make import mix as mix_request
from chainrule.api.conversations import DIALOGUE
from chainrule.api.inputs import Inputs, StrPath, input_names
from chainrule.api.language import TrainedRun as TrainedRun
from chainrule.api.pairs import PairsRun as PairsRun
from chainrule.api.pairs import load_pairs_run, pair_task
from chainrule.api.preferences import PREFERENCES
from chainrule.api.settings_file import read_settings
from chainrule.api.tagging import TaggerRun as TaggerRun
from chainrule.api.tagging import load_tagger_run
from chainrule.config import fields, override
from chainrule.data.corpus import Corpus, Reading
from chainrule.data.split import Splitting
from chainrule.data.texts import Texts as Texts
from chainrule.data.texts import is_texts
from chainrule.data.windows import random_windows as random_windows
from chainrule.errors import UserError
from chainrule.models.mix import Config as MixConfig
from chainrule.ngram.lesson import LESSON, check_lesson
from chainrule.runs.folder import Run
from chainrule.tasks.base import LANGUAGE
from chainrule.text.base import Tokenizer
from chainrule.text.choice import Tokenization, make_tokenizer
from chainrule.training.pipeline import train as train_request
from chainrule.training.recipe import BUDGETS
from chainrule.training.request import DEFAULT_CORPUS, Request

TAGGING = "tagging"
AnyRun = TrainedRun | PairsRun | TaggerRun
G = TypeVar("G", Reading, Splitting, Tokenization)


@overload
def load(path: StrPath, task: None = None) -> AnyRun: ...
@overload
def load(path: StrPath, task: Literal["language"]) -> TrainedRun: ...
@overload
def load(path: StrPath, task: Literal["translation", "summarisation"]) -> PairsRun: ...
@overload
def load(path: StrPath, task: Literal["tagging"]) -> TaggerRun: ...
def load(path: StrPath, task: str | None = None) -> AnyRun:
    """An existing run of any task, with the methods that it has: `sample` of a language model, `translate`, `tag`.

    Where `task` is given, a run of another task is refused.
    """
    run = Run(path, task)
    if run.is_language_model:
        return TrainedRun(run.path)
    if run.task == TAGGING:
        return load_tagger_run(run.path)
    found = pair_task(run)
    if found is None:
        raise UserError(f"'{run.path}' is a run for {run.task}, which the Python interface cannot use yet")
    return PairsRun(run, found)


def train(inputs: Inputs = DEFAULT_CORPUS, **settings: Any) -> TrainedRun:
    """Train a language model on text; everything that `chainrule train` takes goes by its name: model, size, path,
    overwrite, validation, config, and the settings of reading, of the tokenizer, of the model and of training.

    `lesson=True` counts as by hand: whole words, all of the text, no smoothing, order 3, unless they are given.

    chainrule.train("poems.txt", minutes=5, path="runs/poems")
    chainrule.train(chainrule.Texts(documents), order=3, tokenizer="words", overwrite=True)
    """
    return TrainedRun(_train(LANGUAGE, inputs, **settings).path)


def train_pairs(inputs: Inputs, *, task: str = "translation", **settings: Any) -> PairsRun:
    """Learn to write one text from another; `run.translate("ein Hund")`. Settings go by their names, as for `train`."""
    return load_pairs_run(_train(task, inputs, **settings).path)


def train_dialogue(inputs: Inputs, **settings: Any) -> TrainedRun:
    """Learn to answer from conversations in files: `run.evaluate_conversations()`. Settings as for `train`, and
    learn_from="assistant", "last" or "all", most_tokens and validated."""
    return TrainedRun(_train(DIALOGUE, inputs, **settings).path)


def train_preferences(inputs: Inputs, start: StrPath | Run, **settings: Any) -> TrainedRun:
    """Go on training a run with pairs of a better and a worse answer: `run.evaluate_preferences()`. Settings as for
    `train`, and method="dpo", "orpo" or "simpo", beta, gamma, odds_weight, label_smoothing, sft_weight, most_tokens."""
    return TrainedRun(_train(PREFERENCES, inputs, start=start, **settings).path)


def train_tagger(inputs: Inputs, **settings: Any) -> TaggerRun:
    """Learn the tags of words from CoNLL-U: `run.tag("The cow eats hay")`. Settings as for `train`."""
    return load_tagger_run(_train(TAGGING, inputs, **settings).path)


def _train(task: str, inputs: Inputs, /, *, config: StrPath | None = None, **settings: Any) -> Run:
    """Train with the settings in the file `config`, and with those given by name, which take precedence."""
    from_file = {} if config is None else _from_file(Path(config), settings)
    return train_request(_request(task, inputs, **{**from_file, **settings}))


def _request(
    task: str,
    inputs: Inputs,
    /,
    *,
    validation: Inputs = (),
    model: str | None = None,
    size: str | None = None,
    start: StrPath | Run | None = None,
    path: StrPath | None = None,
    overwrite: bool = False,
    tensorboard: bool = False,
    one: bool = False,
    lesson: bool = False,
    **settings: object,
) -> Request:
    if "task" in settings:
        raise UserError(
            "the task is not a setting here; use train, train_pairs, train_dialogue, train_preferences or train_tagger"
        )
    if lesson:
        check_lesson(task, model, settings)
        settings = {**LESSON, **settings}
    names, kept_aside = input_names(inputs), input_names(validation)
    if task != LANGUAGE and any(map(is_texts, [*names, *kept_aside])):
        raise UserError(f"the task {task} reads files, not texts in memory; write them to a file first")
    reading, splitting, tokenization = _take_groups(settings, "train")
    return Request(
        inputs=tuple(names),
        task=task,
        validation=tuple(kept_aside),
        model=model,
        size=size,
        settings=settings,
        reading=reading,
        splitting=splitting,
        tokenization=tokenization,
        start=None if start is None else start.path if isinstance(start, Run) else Path(start),
        path=Path(path) if path else None,
        overwrite=overwrite,
        tensorboard=tensorboard,
        one=one,
    )


def _from_file(file: Path, settings: Mapping[str, object]) -> dict[str, Any]:
    """The settings in a file but for the task, and for its time limit where the call has another."""
    left_out = {"task", *(BUDGETS if any(name in settings for name in BUDGETS) else ())}
    return {name: value for name, value in read_settings(file).items() if name not in left_out}


def resume(path: StrPath, **settings: object) -> AnyRun:
    """Continue a training that was interrupted, exactly where it stood; settings are compared with its own."""
    from chainrule.training.pipeline import resume as resume_training

    return load(resume_training(Path(path), settings).path)


def load_pairs(path: StrPath) -> PairsRun:
    """An existing run that writes one text from another."""
    return load_pairs_run(path)


def train_tokenizer(inputs: Inputs, kind: str = "bpe", **settings: object) -> Tokenizer:
    """A new tokenizer, trained on a text: kind="words", vocabulary_size=8000; it has `encode`, `decode` and `save`."""
    reading, _, tokenization = _take_groups(settings, "train_tokenizer")
    if settings:
        raise UserError(f"unknown setting '{next(iter(settings))}' of a tokenizer")
    return make_tokenizer(Corpus(input_names(inputs), reading).batches(), tokenization, kind)


def load_tokenizer(path: StrPath) -> Tokenizer:
    """The tokenizer of a run, of a folder that holds one, or of a tokenizer.json."""
    return make_tokenizer((), Tokenization(tokenizer=str(path)), "bpe")


def import_model(
    model: StrPath,
    *,
    tokenizer: StrPath | None = None,
    base: StrPath | None = None,
    path: StrPath | None = None,
    overwrite: bool = False,
) -> AnyRun:
    """A run of a model that another program made: a Hugging Face folder, a .gguf file, an ARPA file and others.

    `base`: the run that a LoRA adapter is added to; else the one of the name that the adapter gives.
    """
    from chainrule.interop.importing import import_run

    name, tokenizer_path, base_path = (Path(each) if each else None for each in (path, tokenizer, base))
    return load(import_run(Path(model), name, tokenizer_path, overwrite, base_path).run.path)


def compare(
    inputs: Inputs = (),
    *,
    models: Sequence[str] = (),
    minutes: float = 1.0,
    test: Inputs = (),
    validation: Inputs = (),
    seed: int = 0,
    path: StrPath | None = None,
    overwrite: bool = False,
    **settings: object,
) -> NotebookReport:
    """Every kind of model, or those named as for `chainrule compare`, on one text; the report is also in `path`."""
    reading, splitting, tokenization = _take_groups(settings, "compare")
    if settings:
        raise UserError(f"unknown setting '{next(iter(settings))}' in compare; settings of a model go with its name")
    asked = Comparison(
        inputs=tuple(input_names(inputs)),
        entrants=tuple(read_entrants(models)),
        minutes=minutes,
        test=tuple(input_names(test)),
        validation=tuple(input_names(validation)),
        reading=reading,
        splitting=splitting,
        tokenization=tokenization,
        seed=seed,
    )
    return compare_request(asked, Path(path) if path else comparison_path(asked.inputs), overwrite)


def mix(
    runs: Sequence[StrPath | Run],
    *,
    cache: bool = False,
    on: Inputs = (),
    test: Inputs = (),
    path: StrPath | None = None,
    overwrite: bool = False,
    **settings: object,
) -> TrainedRun:
    """Runs of the same tokens as one, by weights fitted on what they kept aside; by="entropy", dynamic=0.1 as flags."""
    request = MixRequest(
        runs=tuple(run if isinstance(run, Run) else Run(run) for run in runs),
        config=override(MixConfig(), settings, "mix"),
        cache=cache,
        on=tuple(input_names(on)),
        test=tuple(input_names(test)),
        path=Path(path) if path else None,
        overwrite=overwrite,
    )
    return TrainedRun(mix_request(request).path)


def _take_groups(settings: dict[str, object], where: str) -> tuple[Reading, Splitting, Tokenization]:
    """How text is read, split and cut into tokens, taken out of the settings by their names."""

    def take(group: G) -> G:
        own = {name: settings.pop(name) for name in fields(type(group)) if name in settings}
        return override(group, own, where)

    return take(Reading()), take(Splitting()), take(Tokenization())
