"""/passages: for the game "Which is the real one?", a real passage of the text that a run was validated on."""

from typing import Annotated

import numpy as np
from fastapi import FastAPI, Query

from chainrule.data.shards import TokenShards
from chainrule.errors import UserError
from chainrule.runs.folder import Run
from chainrule.serving.errors import APIError
from chainrule.serving.responses import JsonObject, declare
from chainrule.serving.service import Service
from chainrule.text.base import Tokenizer

TRIES = 64  # documents from which one that is long enough is chosen
LONG = 0.75  # where none is, the first that is longer than this quantile of them
MOST_TOKENS = 4096  # read of one document


def add_routes(app: FastAPI, service: Service) -> None:
    @app.get(
        "/passages",
        summary="A passage of the text that a run was trained on: its beginning and its continuation.",
        responses=declare(),
    )
    async def passage(
        model: Annotated[str | None, Query(max_length=4096)] = None,
        seed: Annotated[int, Query(ge=0, le=2**53)] = 0,
        characters: Annotated[int, Query(ge=8, le=1000)] = 120,
    ) -> JsonObject:
        """`characters` is the length of the prompt, and of its continuation, where the text has such documents."""
        served = service.models.language_model(model)
        return await service.scheduler.run(lambda: choose_passage(served.run, seed, characters))


def choose_passage(run: Run, seed: int, characters: int) -> JsonObject:
    """A passage of the validation text, or else of the training text, determined by the seed."""
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
    prompt, continuation = split_passage(text, characters)
    if not continuation:
        raise APIError(404, f"the text of '{run.name}' has no passage to show; its documents are empty", "not_found")
    place = shards.place(shard, int(starts[tried[chosen]]) + skipped, run.tokenizer)
    passage: JsonObject = {"prompt": prompt, "continuation": continuation, "path": place.path, "line": place.line}
    return passage | {"split": name}


def _shards(run: Run) -> tuple[str, TokenShards]:
    if not run.has_shards:
        raise APIError(404, f"'{run.name}' has no text of its own to take passages from", "not_found", "model")
    for name in ("validation", "train"):
        try:
            shards = run.shards(name)
        except UserError:
            continue
        if shards.part.documents:
            return name, shards
    raise APIError(404, f"'{run.name}' has no text of its own to take passages from", "not_found", "model")


def _weights(shards: TokenShards) -> np.ndarray:
    documents = np.array([each["documents"] for each in shards.part.shards], np.float64)
    return documents / documents.sum()


def _read(tokenizer: Tokenizer, tokens: np.ndarray, random: np.random.Generator) -> tuple[int, str]:
    """The text of a document, or a random part of a long one; and how many tokens were skipped before it."""
    skipped = int(random.integers(max(len(tokens) - MOST_TOKENS, 0) + 1))
    return skipped, tokenizer.decode(tokens[skipped : skipped + MOST_TOKENS])


def split_passage(text: str, characters: int) -> tuple[str, str]:
    """A beginning and its continuation, each of about `characters` characters, cut before spaces if possible.

    'to be or not to be', 6 -> ('to be', ' or not')
    """
    first = _space_near(text, min(characters, len(text) // 2))
    return text[:first], text[first : _space_near(text, min(first + characters, len(text)))]


def _space_near(text: str, place: int) -> int:
    """The last space in the second half of text[:place], or `place` itself where there is none."""
    if place >= len(text) or text[place].isspace():
        return min(place, len(text))
    return max((i for i in range(place // 2, place) if text[i].isspace()), default=place)
