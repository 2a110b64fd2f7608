"""A language model's run with the verbs of the command line: sample, search, prompt, explain, evaluate, export."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from chainrule.analysis.doctor.examine import examine
from chainrule.analysis.doctor.findings import Findings
from chainrule.analysis.explain.explanation import TOP, Explanation, explain
from chainrule.analysis.followers import Followers, count_followers
from chainrule.api.conversations import evaluate_conversations
from chainrule.api.curves import plot_training
from chainrule.api.inputs import Inputs, StrPath, input_names
from chainrule.api.preferences import evaluate_preferences
from chainrule.config import fields, override
from chainrule.data.corpus import Corpus, Reading
from chainrule.errors import UserError
from chainrule.evaluation.rows import RowFigures, choose_columns, score_rows
from chainrule.evaluation.text import Text, evaluate_text
from chainrule.generation import Beam, Generation, Sampling, beam_search, sample
from chainrule.generation.drafts import Draft, GreedyDraft, PromptLookup
from chainrule.generation.embeddings import POOLINGS, embed_texts, encode_texts
from chainrule.generation.prompt import read_prompt
from chainrule.generation.settings import CONSTRAINTS
from chainrule.generation.template import find_template
from chainrule.models import infinigram
from chainrule.models.contract import HasHiddenStates
from chainrule.runs.folder import LANGUAGE, KeptAside, Run
from chainrule.runs.quantized import Cost, quantize

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from chainrule.interop.export import Exported

LOOKUP = "lookup"  # a draft that guesses from the text itself


class Evidence(TypedDict):
    """The longest end of a text that occurs in a corpus, how many tokens it has, how often it occurs, and where."""

    text: str
    tokens: int
    count: int
    places: list[dict[str, object]]


class TrainedRun(Run):
    """A run of a language model. Settings are named as the flags of the command of the same name."""

    def __repr__(self) -> str:
        return f"<run '{self.path}': {self.architecture} of {', '.join(self.config['data']['inputs'])}>"

    def sample(self, prompt: str = "", draft: StrPath | None = None, **settings: Any) -> str:
        """The prompt and one continuation of it; settings as in `samples`."""
        return prompt + self.samples(prompt, draft, **settings)[0].text

    def samples(
        self,
        prompt: str = "",
        draft: StrPath | None = None,
        beam: int = 0,
        length_penalty: float = 1.0,
        **settings: object,
    ) -> list[Generation]:
        """Continuations of the prompt: temperature=0.8, top_k=40, samples=3, seed=1, stop="." and so on.

        `json_schema`, `regex` or `grammar` say what the continuation must match. `draft` is "lookup" or a smaller run
        that guesses ahead: the same text, sooner. `beam` is the width of a beam search, which finds the most likely
        texts instead of drawing some; `length_penalty` is of that search.
        """
        sampling = _sampling(Sampling(), settings, "sample")
        if beam:
            search = Beam.from_sampling(beam, length_penalty, sampling, has_draft=draft is not None)
            return beam_search(self.model, self.tokenizer, prompt, search)
        guesses = None if draft is None else self.draft(draft)
        return sample(self.model, self.tokenizer, prompt, sampling, draft=guesses)

    def draft(self, name: StrPath) -> Draft:
        """What guesses the next tokens for this model to verify: "lookup", or a run with the same tokens."""
        if name == LOOKUP:
            return PromptLookup()
        other = Run(name)
        if other.tokenizer.fingerprint != self.tokenizer.fingerprint:
            raise UserError(
                f"'{name}' cuts text into other tokens than '{self.path}', so it cannot guess for it; "
                f"train it with the tokenizer of '{self.path}'"
            )
        return GreedyDraft(other.model)

    def beam_search(self, prompt: str = "", **settings: object) -> list[Generation]:
        """The most likely continuations, best first: width=4, samples=2, length_penalty=0.6, stop="."."""
        search = override(Beam(), _with_stops(settings), "beam_search")
        return beam_search(self.model, self.tokenizer, prompt, search)

    def prompt(self, template: str, **values: object) -> str:
        """The answer to a task: run.prompt("qa", passage=..., question=...); settings as in `samples`."""
        found = find_template(template)
        settings = {name: value for name, value in values.items() if name in fields(Sampling)}
        text = found.fill({name: str(value) for name, value in values.items() if name not in settings})
        sampling = _sampling(found.sampling, settings, "prompt")
        return sample(self.model, self.tokenizer, text, sampling)[0].text.strip()

    def evidence(self, text: str, most: int = 10) -> Evidence:
        """Of an infinity-gram: the longest end of the text that occurs in the corpus, how often, and where."""
        if not isinstance(self.model, infinigram.Model):
            raise UserError(f"'{self.path}' is of kind {self.architecture}; only an infinigram keeps its corpus")
        ids = read_prompt(self.model, self.tokenizer, text, truncate=True).ids
        ids = ids[ids != self.tokenizer.eos]  # the text may stand anywhere in a document
        length, positions = self.model.evidence(ids)
        shards = self.shards()
        places = [shards.place(*shards.locate(int(position)), self.tokenizer) for position in positions[:most]]
        return {
            "text": self.tokenizer.decode(ids[len(ids) - length :]),
            "tokens": length,
            "count": len(positions),
            "places": [asdict(place) for place in places],
        }

    def embed(self, texts: str | Sequence[str], pooling: str = "mean") -> np.ndarray:
        """Vectors of texts (texts, width), or the one of a single text (width,): the model's hidden states, averaged
        over the tokens of each text or, with pooling="last", the one after its last token."""
        if pooling not in POOLINGS:
            raise UserError(f"unknown pooling '{pooling}' (there are: {', '.join(POOLINGS)})")
        if not isinstance(self.model, HasHiddenStates):
            raise UserError(
                f"'{self.path}' is of kind {self.architecture}, which has no hidden state to make vectors of"
            )
        given = [texts] if isinstance(texts, str) else texts
        vectors = embed_texts(self.model, encode_texts(self.model, self.tokenizer, given), pooling)
        return vectors[0] if isinstance(texts, str) else vectors

    def counts(self, text: str) -> Followers:
        """Of an n-gram: what followed the last words of the text, how often, and with what probability."""
        return count_followers(self.model, self.tokenizer, text, self.architecture)

    def explain(self, text: str, token: str | None = None, top: int = TOP, **sampling: object) -> Explanation:
        """Why `token`, by default the likeliest, comes after the text; settings as in `chainrule explain`."""
        if "faces" in sampling:  # the former name of `top`
            top = int(str(sampling.pop("faces")))
        settings = override(Sampling(temperature=1.0), sampling, "explain")
        shards = self.shards() if self.has_shards else None
        return explain(self.model, self.tokenizer, text, token, settings, shards, top)

    def evaluate(
        self,
        inputs: Inputs | None = None,
        *,
        worst: int = 0,
        documents: bool = False,
        against: StrPath | Run | None = None,
        **reading: object,
    ) -> dict[str, Any]:
        """Perplexity, bits per byte and the counts behind them, of any text; default: the text kept aside in training.

        `worst` adds so many of the worst-predicted passages, `documents` the figures of every document, and `against`
        a paired bootstrap of the difference from another run. `seen` says how many documents of the text the run was
        trained on. How the text is read goes by name: unit="line".
        """
        names = None if inputs is None else input_names(inputs)
        return self.evaluate_text(self.open_text(names, reading), worst, documents, against)

    def evaluate_conversations(
        self, inputs: Inputs | None = None, *, validated: int = 100, **reading: object
    ) -> dict[str, Any]:
        """The loss of the assistant's turns in conversations, and in `figures` the share of the run's own answers that
        end by themselves, to `validated` of the questions; default: the conversations kept aside in training."""
        names = None if inputs is None else input_names(inputs)
        return evaluate_conversations(self, names, override(Reading(), reading, "evaluate_conversations"), validated)

    def evaluate_preferences(self, inputs: Inputs | None = None, **reading: object) -> dict[str, Any]:
        """How well the run tells the chosen answers of pairs from the rejected ones: in `figures` the accuracy and the
        share of pairs whose chosen answer is likelier; default: the pairs kept aside in training."""
        names = None if inputs is None else input_names(inputs)
        return evaluate_preferences(self, names, override(Reading(), reading, "evaluate_preferences"))

    def score(self, texts: Any, *, column: str | None = None, ids: Any = None) -> list[RowFigures]:
        """How probable each text is: a row of figures each, in their order, empty texts too (as None).

        `texts` are strings, a column of a table such as df["review"], or a table with `column="review"`; `ids` are
        one for each text, or the name of a column. pandas.DataFrame(run.score(df["review"])) has a row for each of
        df's.
        """
        return score_rows(self, *choose_columns(texts, column, ids))

    def open_text(self, names: list[str] | None, reading: dict[str, object]) -> Text:
        """The text to measure on; None: what was kept aside. How it is cut depends on the text and on `reading` alone,
        so that every run is measured on the same documents."""
        if names is not None:
            return Corpus(names, override(Reading(), reading, "evaluate"))
        parts = self.config["data"].get("text")
        if not parts or not parts["validation"]["documents"]:
            raise UserError(f"'{self.path}' has no text kept aside; name one: chainrule evaluate {self.path} OTHER.txt")
        return KeptAside(self)

    def evaluate_text(self, text: Text, worst: int, documents: bool, against: StrPath | Run | None) -> dict[str, Any]:
        """`evaluate` of a text that is open."""
        other = against if isinstance(against, Run) or against is None else Run(against)
        found = evaluate_text(self, text, worst=worst, documents=documents, against=other)
        found["notes"] = [*found["notes"], *self._note_unit(text)]
        return found

    def _note_unit(self, text: Text) -> list[str]:
        """A word on documents that are longer or shorter than those of training, as they are harder or easier."""
        own = self.config["data"].get("unit") if "text" in self.config["data"] else None
        if own in (None, text.unit) or self.task != LANGUAGE:
            return []
        return [f"one document is a {text.unit} here, but was a {own} in training; the unit {own} cuts as training did"]

    def quantize(self, kind: str = "int8") -> Cost:
        """Round the weights in memory to eight bits; the result says what that costs in bits per byte."""
        return quantize(self, kind)

    def export(
        self, to: str, output: StrPath | None = None, *, dtype: str = "f32", overwrite: bool = False
    ) -> "Exported":
        """Write the model in another program's format: "huggingface", "gguf", "onnx" or "arpa"."""
        from chainrule.interop.export import export_run

        return export_run(self, to, None if output is None else Path(output), dtype, overwrite)

    def plot(self, kind: str = "loss") -> "Figure":
        """The curves of its training as a figure of matplotlib: "loss", or "gradients" for their norm."""
        return plot_training(self, kind)

    def doctor(self) -> Findings:
        """What is wrong with the run, the most serious first, and what to do about it; a notebook shows a table."""
        return examine(self.path)


def _sampling(defaults: Sampling, settings: dict[str, object], where: str) -> Sampling:
    matched: dict[str, Any] = {name: value for name, value in settings.items() if name in CONSTRAINTS}
    others = {name: value for name, value in _with_stops(settings).items() if name not in CONSTRAINTS}
    return replace(override(defaults, others, where), **matched)


def _with_stops(settings: dict[str, object]) -> dict[str, object]:
    """The same settings; a single stop string becomes a tuple of one."""
    return {**settings, "stop": (settings["stop"],)} if isinstance(settings.get("stop"), str) else settings
