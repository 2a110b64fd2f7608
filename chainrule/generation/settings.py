"""How to draw texts from a model, and how to search for the most likely ones."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from secrets import randbits

from chainrule.checks import require_number, require_whole
from chainrule.config import setting, settings_of
from chainrule.errors import UserError

LARGEST_SEED = 2**64 - 1
CONSTRAINTS = ("json_schema", "regex", "grammar")
SHARED = ("max_tokens", "samples", "truncate", "stop", "alternatives")  # settings that a beam search takes, too
LARGEST_BIAS = 100  # of a logit, as OpenAI has it


@dataclass(frozen=True)
class Sampling:
    """How to draw samples. They are numbered from `first_sample`, and number i depends on the seed and on i alone."""

    temperature: float = setting(
        0.8,
        "0 always takes the most likely token, 1 leaves the probabilities as they are, above 1 flattens them.",
        flag=True,
    )
    top_k: int = setting(0, "Keep the k most likely tokens (0: all).", flag=True)
    top_p: float = setting(1.0, "Keep the most likely tokens that together have this probability.", flag=True)
    min_p: float = setting(0.0, "Keep tokens at least this likely relative to the most likely one.", flag=True)
    typical_p: float = setting(
        1.0, "Keep the tokens of most typical surprise that together have this probability.", flag=True
    )
    repetition_penalty: float = setting(1.0, "Above 1 makes tokens that were already used less likely.", flag=True)
    frequency_penalty: float = setting(
        0.0, "Subtract this from a token's logit for every time that it was drawn (-2 to 2).", flag=True
    )
    presence_penalty: float = setting(
        0.0, "Subtract this from the logit of every token that was drawn (-2 to 2).", flag=True
    )
    no_repeat_ngram_size: int = setting(0, "Never repeat this many tokens in a row (0: they may repeat).", flag=True)
    logit_bias: Mapping[int, float] | None = setting(
        None, "Add this to the logits of tokens, by their ids (-100 to 100).", metavar="ID=BIAS"
    )
    min_tokens: int = setting(0, "Do not end before this many tokens.", flag=True)
    max_tokens: int = setting(200, "Stop after this many tokens.", flag=True)
    stop: tuple[str, ...] = setting((), "Stop before this text; may be given several times.", flag=True, metavar="TEXT")
    seed: int | None = setting(None, "The same seed gives the same text.", flag=True)
    samples: int = setting(1, "How many texts to draw.", flag=("--samples", "-n"))
    first_sample: int = setting(0, "The number of the first sample.")
    alternatives: int = setting(
        0, "With --json: report this many of the most likely tokens beside each one drawn.", flag="--logprobs"
    )
    truncate: bool = setting(False, "Read only the end of a prompt that is too long.", flag=True)
    json_schema: Mapping[str, object] | str | None = setting(
        None, "The text is JSON that matches this schema.", metavar="FILE"
    )
    regex: str | None = setting(None, "The text matches this regular expression.", metavar="PATTERN")
    grammar: str | None = setting(
        None, "The text matches this grammar, in Lark's or llama.cpp's format.", metavar="FILE"
    )

    def __post_init__(self) -> None:
        require_number("temperature", self.temperature, 0)
        require_whole("top_k", self.top_k, 0)
        require_number("top_p", self.top_p, 0, 1)
        require_number("min_p", self.min_p, 0, 1)
        require_number("typical_p", self.typical_p, 0, 1)
        require_number("repetition_penalty", self.repetition_penalty, 0.01, 100)
        require_number("frequency_penalty", self.frequency_penalty, -2, 2)
        require_number("presence_penalty", self.presence_penalty, -2, 2)
        require_whole("no_repeat_ngram_size", self.no_repeat_ngram_size, 0)
        require_whole("min_tokens", self.min_tokens, 0)
        for id, bias in (self.logit_bias or {}).items():
            require_whole("a token of logit_bias", id, 0)
            require_number(f"logit_bias of the token {id}", bias, -LARGEST_BIAS, LARGEST_BIAS)
        require_whole("max_tokens", self.max_tokens, 1)
        require_whole("samples", self.samples, 1)
        require_whole("first_sample", self.first_sample, 0, 2**32)
        require_whole("alternatives", self.alternatives, 0)
        if self.seed is not None:
            require_whole("seed", self.seed, 0, LARGEST_SEED)
        _require_stops(self.stop)
        self._check_constraint()

    def _check_constraint(self) -> None:
        given = [name for name in CONSTRAINTS if getattr(self, name) is not None]
        if len(given) > 1:
            raise UserError(f"a text can match one of {', '.join(CONSTRAINTS)}, got {' and '.join(given)}")
        for name in given:
            source = getattr(self, name)
            if not isinstance(source, str) and not (name == "json_schema" and isinstance(source, Mapping)):
                raise UserError(f"{name} must be text, got {source!r}")

    @property
    def filters(self) -> tuple[float, int, float, float, float]:
        """The settings that change a distribution whatever came before; rows that share them are filtered at once."""
        return self.temperature, self.top_k, self.top_p, self.min_p, self.typical_p

    @property
    def changes_logits(self) -> bool:
        """Whether logits are changed by what came before, ahead of the filters."""
        penalties = self.repetition_penalty != 1 or self.frequency_penalty or self.presence_penalty
        return bool(penalties or self.no_repeat_ngram_size or self.min_tokens or self.logit_bias)

    @property
    def constraint(self) -> tuple[str, str] | None:
        """What the text must match: "json_schema", "regex" or "grammar", and its source."""
        for name in CONSTRAINTS:
            source = getattr(self, name)
            if source is not None:
                return name, source if isinstance(source, str) else json.dumps(source)
        return None

    def seeded(self) -> "Sampling":
        """The same settings with a seed, a random one where there was none, so that the samples can be reproduced."""
        return self if self.seed is not None else replace(self, seed=randbits(32))


OF_SEVERAL = ("samples", "alternatives", "truncate")  # flags that make no sense for an answer in a conversation
OF_ANSWERS = tuple(name for name, own in settings_of(Sampling).items() if own.flags and name not in OF_SEVERAL)


@dataclass(frozen=True)
class Beam:
    """How to search; the `samples` best texts are returned."""

    width: int = setting(4, "The width of the beam: how many hypotheses are kept; 1 is greedy.", flag="--beam")
    length_penalty: float = setting(1.0, "Above 0 favours long texts, below 0 short ones.", flag=True)
    max_tokens: int = setting(200, "Stop after this many tokens.", flag=True)
    samples: int = setting(1, "How many of the best texts to return.", flag=("--samples", "-n"))
    truncate: bool = setting(False, "Read only the end of a prompt that is too long.", flag=True)
    stop: tuple[str, ...] = setting((), "Stop before this text; may be given several times.", flag=True, metavar="TEXT")

    def __post_init__(self) -> None:
        require_whole("width", self.width, 1, 1000)
        require_number("length_penalty", self.length_penalty, -10, 10)
        require_whole("max_tokens", self.max_tokens, 1)
        require_whole("samples of a beam", self.samples, 1, self.width)
        _require_stops(self.stop)

    @property
    def considered(self) -> int:
        """How many extensions of a step are looked at: enough for `width` to go on where as many end."""
        return 1 if self.width == 1 else 2 * self.width

    @classmethod
    def from_sampling(cls, width: int, length_penalty: float, sampling: Sampling, has_draft: bool = False) -> "Beam":
        """A search with what it shares with sampling; settings that only matter for drawing are refused."""
        plain = Sampling()
        drawing = [each.name for each in fields(Sampling) if getattr(sampling, each.name) != getattr(plain, each.name)]
        refused = [name for name in drawing if name not in SHARED] + ["draft"] * has_draft
        if refused:
            raise UserError(
                f"a beam search draws nothing and cannot use {', '.join(refused)}; leave that out, or the beam"
            )
        shared = {name: getattr(sampling, name) for name in SHARED if name != "alternatives"}
        return cls(width=width, length_penalty=length_penalty, **shared)

    def score(self, log_probability: float, length: int) -> float:
        return float(log_probability / length**self.length_penalty)

    def bound(self, log_probability: float, length: int) -> float:
        """The best score that anything starting with these tokens can still reach.

        More tokens only lower the log-probability, and n**length_penalty is largest at one end of the lengths
        that are left.
        """
        longest = max(length + 1, self.max_tokens)
        return max(self.score(log_probability, length + 1), self.score(log_probability, longest))


def _require_stops(stop: object) -> None:
    if not isinstance(stop, tuple) or not all(isinstance(text, str) and text for text in stop):
        raise UserError(f"stop must be a tuple of strings that are not empty, got {stop!r}")
