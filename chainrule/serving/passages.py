"""/passages: a real passage of the text that a run was tested on, for the game "Which is the real one?"."""

from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, Query

from chainrule.data.shards import TokenShards
from chainrule.errors import UserError
from chainrule.runs.folder import Run
from chainrule.serving.answers import ERRORS
from chainrule.serving.problems import Problem
from chainrule.serving.service import Service
from chainrule.text.base import Tokenizer

TRIES = 64  # documents that are looked at for one that is long enough
LONG = 0.75  # where none is, one of the longest quarter will do
MOST_TOKENS = 4096  # of a document that are looked at


def add_routes(app: FastAPI, service: Service) -> None:
    @app.get("/passages", summary="A passage of a run's own text: its beginning, and how it goes on.", responses=ERRORS)
    async def passage(
        model: Annotated[str | None, Query(max_length=4096)] = None,
        seed: Annotated[int, Query(ge=0, le=2**53)] = 0,
        characters: Annotated[int, Query(ge=8, le=1000)] = 120,
    ) -> dict[str, Any]:
        """`characters` is how long the prompt and its continuation are, each, where the text has such documents."""
        served = service.library.language(model)
        return await service.engine.run(lambda: choose(served.run, seed, characters))


def choose(run: Run, seed: int, characters: int) -> dict[str, Any]:
    """From the validation text, else from the training text: the same for the same seed."""
    name, shards = _shards(run)
    random = np.random.default_rng(seed)
    shard = int(random.choice(len(shards), p=_weights(shards)))
    stream, starts = shards.tokens(shard), shards.table(shard)["starts"]
    ends = np.append(starts[1:], len(stream)) - 1  # without <eos>
    tried = random.integers(len(starts), size=TRIES)
    texts = [_read(run.tokenizer, stream[starts[each] : ends[each]], random) for each in tried]
    enough = min(2 * characters, float(np.quantile([len(text) for _, text in texts], LONG)))
    chosen = next(i for i, (_, text) in enumerate(texts) if len(text) >= enough)
    skipped, text = texts[chosen]
    prompt, continuation = cut(text, characters)
    if not continuation:
        raise Problem(404, f"the text of '{run.name}' has no passage to show; its documents are empty", "not_found")
    place = shards.place(shard, int(starts[tried[chosen]]) + skipped, run.tokenizer)
    found = {"prompt": prompt, "continuation": continuation, "path": place.path, "line": place.line}
    return found | {"split": name}


def _shards(run: Run) -> tuple[str, TokenShards]:
    if not (run.path / "tokens").is_dir():
        raise Problem(404, f"'{run.name}' has no text of its own to take passages from", "not_found", "model")
    for name in ("validation", "train"):
        try:
            shards = run.shards(name)
        except UserError:
            continue
        if shards.part.documents:
            return name, shards
    raise Problem(404, f"'{run.name}' has no text of its own to take passages from", "not_found", "model")


def _weights(shards: TokenShards) -> np.ndarray:
    documents = np.array([each["documents"] for each in shards.part.shards], np.float64)
    return documents / documents.sum()


def _read(tokenizer: Tokenizer, tokens: np.ndarray, random: np.random.Generator) -> tuple[int, str]:
    """The text of a document, of a long one a part from somewhere in it; and how many tokens were skipped."""
    skipped = int(random.integers(max(len(tokens) - MOST_TOKENS, 0) + 1))
    return skipped, tokenizer.decode(tokens[skipped : skipped + MOST_TOKENS])


def cut(text: str, characters: int) -> tuple[str, str]:
    """A beginning and what follows it, each of about so many characters, cut before spaces where there are any.

    'to be or not to be', 6 -> ('to be', ' or not')
    """
    first = _space_near(text, min(characters, len(text) // 2))
    return text[:first], text[first : _space_near(text, min(first + characters, len(text)))]


def _space_near(text: str, place: int) -> int:
    """The last place before a space that is not beyond this one; itself where that would be less than half as far."""
    if place >= len(text) or text[place].isspace():
        return min(place, len(text))
    return max((i for i in range(place // 2, place) if text[i].isspace()), default=place)
