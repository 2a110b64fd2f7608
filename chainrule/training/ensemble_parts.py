"""What an ensemble is made of: contexts, an n-gram of words, networks, and the text that they learn from.

Contexts are read on one core while a network of words learns on the others. Where much time is left once they are read,
a second network, which began with other weights, takes their place.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from threading import Event

import numpy as np

from chainrule.data.shards import TokenShards
from chainrule.data.texts import Texts
from chainrule.errors import Stopped
from chainrule.kernels.jit import CORES
from chainrule.models import contextmixing, wordgram
from chainrule.models.contract import LanguageModel
from chainrule.models.ensemble import Config as EnsembleConfig
from chainrule.models.ensemble import Model as Ensemble
from chainrule.progress import say, size
from chainrule.runs.folder import TOKENS_FOLDER, Run
from chainrule.tasks.language import Task
from chainrule.text.choice import Tokenization
from chainrule.training.request import Request

CONTEXTS, WORDS, NETWORK, SECOND_NETWORK, BYTE_NETWORK, FROM_RUN = (
    "contexts", "words", "network", "second network", "network of bytes", "network from the run",
)  # fmt: skip
NETWORKS = (NETWORK, SECOND_NETWORK, BYTE_NETWORK, FROM_RUN)
BYTES = Tokenization(tokenizer="bytes")
MOST_BYTES = 64_000_000  # of the text are read by the ensemble; counting alone reads all of it
CHOOSING_PART = 0.1  # of the training text is kept from the parts
MOST_CHOOSING_BYTES = 100_000
FEWEST_DOCUMENTS, FEWEST_BYTES = 8, 2_000  # of fewer, none can be spared for choosing
CONTEXTS_PART = 0.85  # of the time for learning, at the most, goes to reading for the contexts, beside the network
ONLY_COUNTED_PART = 0.85  # of that, at the most, to what is only counted; a text that takes longer is read in part
LARGE_TABLES = 0.8  # the speed of reading much, whose counts do not fit into caches, beside that of reading little
SPEED_BYTES = 60_000  # read to find out how fast reading is
NETWORK_BYTES = 30_000  # of less text, a network of words learns nothing that counting does not know
BYTE_NETWORK_BYTES = 150_000  # and of less than this, a network of bytes
NETWORK_SECONDS = 10.0  # in less time it does not get far enough
MOST_UNKNOWN = 0.25  # of the tokens, as in a list of names: there a network of words has nothing to say
NETWORK_WORDS = 15_000  # a second, that it reads at least: of a text that it cannot read once it learns too little
BYTE_NETWORK_SECONDS = 25.0  # where words have nothing to say it is tried in all the time that is left
BYTE_NETWORK_MODEL = "transformer"
LEAST_SECONDS = 1.0  # for learning, where other work took longer than expected
SECOND_NETWORK_SECONDS = 60.0  # left when contexts are read; in less, the other cores help the first one
TrainPart = Callable[[Request], Run]


@dataclass(frozen=True)
class Text:
    """The training text as streams eos d1 eos ... eos: what the parts learn from, and what they are chosen by."""

    learning: np.ndarray
    choosing: np.ndarray  # empty where there is too little text
    decode: Callable[[np.ndarray], str]

    @property
    def whole(self) -> np.ndarray:
        return np.concatenate([self.learning, self.choosing[1:]])

    @cached_property
    def learning_documents(self) -> list[str]:
        return self._documents(self.learning)

    @cached_property
    def choosing_documents(self) -> list[str]:
        return self._documents(self.choosing)

    def _documents(self, stream: np.ndarray) -> list[str]:
        return [self.decode(stream[a + 1 : b]) for a, b in pairwise(np.flatnonzero(stream == stream[0]))]


def split(task: Task) -> Text:
    """The training text of a task, with documents from all over it kept for choosing where there are enough."""
    shards = TokenShards(task.folder / TOKENS_FOLDER, "train")
    streams, tables = [shards.tokens(i) for i in range(len(shards))], [shards.table(i) for i in range(len(shards))]
    sizes = [np.diff(table["starts"], append=len(tokens)) for table, tokens in zip(tables, streams, strict=True)]
    bytes_of_token = shards.part.text_bytes / max(shards.part.tokens, 1)
    # Equal documents stay together; the order is another one than that by which validation documents were chosen.
    keys = np.concatenate([table["hashes"] for table in tables]) * np.uint64(0x9E3779B97F4A7C15)
    order = np.argsort(keys, kind="stable")
    upto = np.cumsum(np.concatenate(sizes)[order]) * bytes_of_token
    kept = max(int(np.searchsorted(upto, MOST_BYTES)), 1)
    if kept < len(order):
        say(f"of {size(int(upto[-1]))}, {size(int(upto[kept - 1]))} are read by all but the n-gram")
    total, count = int(upto[min(kept, len(order)) - 1]), 0
    if len(order) >= FEWEST_DOCUMENTS and total >= FEWEST_BYTES:
        count = max(int(np.searchsorted(upto, min(CHOOSING_PART * total, MOST_CHOOSING_BYTES))), 1)
        count = int(np.searchsorted(keys[order], keys[order[count - 1]], side="right"))
    else:
        say("too little text to keep some for choosing: all parts weigh the same")
    is_choosing, is_learning = np.zeros((2, len(order)), bool)
    is_choosing[order[:count]] = True
    is_learning[order[count:kept]] = True
    learning, choosing = (_gather(streams, sizes, chosen) for chosen in (is_learning, is_choosing))
    return Text(learning, choosing if count else choosing[:0], task.tokenizer.decode)


def _gather(streams: list[np.ndarray], sizes: list[np.ndarray], is_chosen: np.ndarray) -> np.ndarray:
    """The chosen documents of all streams as one; `sizes` are those of the documents, with their ends."""
    found, first = [streams[0][:1]], 0
    for stream, of_stream in zip(streams, sizes, strict=True):
        found.append(stream[1:][np.repeat(is_chosen[first : first + len(of_stream)], of_stream)])
        first += len(of_stream)
    return np.concatenate(found)


@contextmanager
def part_of(whole: str) -> Iterator[None]:
    """Trainings inside are parts of a whole that cannot be resumed, so none of them says how to resume it."""
    try:
        yield
    except Stopped as stop:
        raise Stopped(f"interrupted; {whole} cannot be resumed, so train again", stop.exit_code) from None


def compile_kernels() -> None:
    """Let all models that count predict a few bytes, so that nothing is left to compile in a new installation."""
    stream = np.resize(np.append(np.frombuffer(b"one two one two", np.uint8), 256), 2 * contextmixing.AT_ONCE)
    stream[0] = stream[-1] = 256
    contexts = contextmixing.Model(contextmixing.Config(passes=1, predicted_bytes=1), 257, 256).fit([stream])
    model = Ensemble(EnsembleConfig(), [contexts, count_words(stream)], [CONTEXTS, WORDS])
    model.fit(model.ask(stream[:100]), stream[:100], 1)


def measure_reading(stream: np.ndarray) -> float:
    """How many bytes a second contexts read here, in a large text, once kernels are compiled."""
    sample = np.append(stream[:SPEED_BYTES], stream[0])
    began = time.perf_counter()
    contextmixing.Model(contextmixing.Config(passes=1), 257, 256).fit([sample])
    return LARGE_TABLES * len(sample) / (time.perf_counter() - began)


def read_contexts(
    stream: np.ndarray, speed: float, seconds: float, advance: Callable[[int], None]
) -> contextmixing.Model:
    """Contexts that have read the text as often, and predicted as much of it, as the seconds allow."""
    seconds = max(seconds, 0) * CONTEXTS_PART
    countable = max(int(ONLY_COUNTED_PART * seconds * speed * contextmixing.COUNTING_IS_FASTER), SPEED_BYTES)
    most = countable if countable < len(stream) else 0
    config = contextmixing.Config(most_bytes=most, predicted_bytes=MOST_BYTES, dynamic=True)
    model = contextmixing.Model(config, 257, 256).fit([stream], advance=advance, seconds=seconds)
    read = len(model.text) - contextmixing.REACH
    say(
        f"contexts: {size(read)} of text, {size(model.predicted)} predicted over all passes to learn what each is worth"
    )
    return model


def count_words(stream: np.ndarray) -> wordgram.Model:
    return wordgram.Model(wordgram.SIZES[wordgram.DEFAULT_SIZE], 257, 256).fit([stream])


def is_worth_a_network(text: Text, words: wordgram.Model, seconds: float) -> bool:
    """Whether there are time and text enough for a network of words to learn what counting does not know."""
    if len(text.learning) < NETWORK_BYTES or not len(text.choosing) or seconds < NETWORK_SECONDS:
        return False
    unknown = (words.encode(text.choosing) < words.cutting.kinds).mean()
    return unknown < MOST_UNKNOWN and len(words.encode(text.learning)) < NETWORK_WORDS * seconds


def learn(
    text: Text, words: wordgram.Model, speed: float, seconds: float, has_network: bool, seed: int
) -> dict[str, LanguageModel]:
    """The parts that need no run of their own."""
    ends_at, stopping = time.perf_counter() + seconds, Event()
    with ThreadPoolExecutor(1) as pool:
        beside = pool.submit(_learn_beside, text, words, speed, seconds, has_network, seed, stopping)
        try:
            found: dict[str, LanguageModel] = {WORDS: words}
            if has_network:
                found[NETWORK] = _train_first_network(text, words, ends_at, seed, beside.done)
            found |= beside.result()
            return {name: found[name] for name in (CONTEXTS, WORDS, *NETWORKS) if name in found}
        except BaseException:
            stopping.set()
            raise


def _learn_beside(
    text: Text, words: wordgram.Model, speed: float, seconds: float, has_network: bool, seed: int, stopping: Event
) -> dict[str, LanguageModel]:
    """What one core learns beside the first network: contexts, and a second network in the time that is left."""
    ends_at = time.perf_counter() + seconds

    def stop_when_asked(tokens: int) -> None:
        if stopping.is_set():
            raise Stopped("the ensemble is no longer trained", 1)

    parts: dict[str, LanguageModel] = {CONTEXTS: read_contexts(text.learning, speed, seconds, stop_when_asked)}
    left = ends_at - time.perf_counter()
    if has_network and CORES > 1 and left > SECOND_NETWORK_SECONDS:
        from chainrule.training.word_network import Heartbeat, train_word_network

        callbacks = [Heartbeat(lambda: stop_when_asked(0))]
        streams = text.learning, text.choosing
        parts[SECOND_NETWORK] = train_word_network(
            SECOND_NETWORK, words, *streams, left, (2 * seed + 1) % 2**32, 1, callbacks
        )
    return parts


def _train_first_network(
    text: Text, words: wordgram.Model, ends_at: float, seed: int, is_alone: Callable[[], bool]
) -> LanguageModel:
    """A network that learns on all cores but one, and on that, too, as soon as it is free."""
    from chainrule.training.view import View
    from chainrule.training.word_network import TakesFreeCores, train_word_network  # torch, which takes a while

    left = max(ends_at - time.perf_counter(), LEAST_SECONDS)
    callbacks = [View(), TakesFreeCores(is_alone, CORES)]
    streams = text.learning, text.choosing
    return train_word_network(NETWORK, words, *streams, left, 2 * seed % 2**32, max(CORES - 1, 1), callbacks)


def train_byte_network(
    request: Request, text: Text, folder: Path, seconds: float, train_part: TrainPart
) -> LanguageModel | None:
    """A network of bytes; None where text or time are too short for one."""
    if len(text.learning) < BYTE_NETWORK_BYTES or seconds < BYTE_NETWORK_SECONDS:
        return None
    learning, choosing = Texts(text.learning_documents), Texts(text.choosing_documents)
    part = replace(
        request,
        inputs=(learning.name,),
        validation=(choosing.name,),
        model=BYTE_NETWORK_MODEL,
        tokenization=BYTES,
        settings={**request.settings, "minutes": seconds / 60},
        path=folder / "network",
        started_at=time.time(),
    )
    return train_part(part).model
