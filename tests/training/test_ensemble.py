"""`--minutes` alone: what is made, what it is compared with, and what takes its place where counting is better."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import chainrule
from chainrule.data.corpus import Corpus
from chainrule.data.shards import TokenShards
from chainrule.errors import Stopped
from chainrule.evaluation.score import NATS_PER_BIT
from chainrule.models import contextmixing
from chainrule.runs.folder import Run
from chainrule.training import ensemble, ensemble_parts
from chainrule.training.request import Request

SIZE = 50_000  # bytes of Python's documentation


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "documentation.txt"
    found = b"".join(documents.buffer.tobytes() for documents in Corpus(["builtin:python-docs"]).batches())
    path.write_bytes(found[:SIZE])
    return path


@pytest.fixture(scope="module")
def run(text: Path) -> Run:
    return Run(chainrule.train(text, minutes=0.05, path=text.parent / "ensemble").path)


def test_minutes_alone_make_an_ensemble_that_beats_counting_and_its_parts(run: Run, text: Path):
    found = run.trained["validation"]
    counted = Run(chainrule.train(text, path=text.parent / "counted").path)
    assert run.architecture == "ensemble"
    assert found["counting"] == pytest.approx(counted.trained["validation"]["bits_per_byte"])
    assert found["bits_per_byte"] < min(found["counting"], *(part["bits_per_byte"] for part in found["parts"]))
    assert all(part["saves"] > 0 for part in found["parts"])


def test_the_figure_is_of_the_documents_that_were_kept_aside(run: Run):
    shards = TokenShards(run.path / "tokens", "validation")
    nats = -float(run.model.score(shards.tokens(0)).astype(np.float64).sum())
    expected = nats / NATS_PER_BIT / shards.part.text_bytes
    assert run.trained["validation"]["bits_per_byte"] == pytest.approx(expected, rel=1e-6)


def test_what_is_chosen_by_is_neither_learned_nor_reported(run: Run):
    from chainrule.tasks.language import Task

    parts = ensemble_parts.split(Task(run.path))
    held_out = {run.tokenizer.decode(each) for each in documents(TokenShards(run.path / "tokens", "validation"))}
    learning, choosing = set(parts.learning_documents), set(parts.choosing_documents)
    assert not (learning & choosing or learning & held_out or choosing & held_out)
    assert len(choosing) > 10 and len(learning) > 5 * len(choosing)
    assert np.array_equal(np.sort(parts.whole[1:]), np.sort(TokenShards(run.path / "tokens").tokens(0)[1:]))


def documents(shards: TokenShards) -> list[np.ndarray]:
    stream = shards.tokens(0)
    return [each[:-1] for each in np.split(stream[1:], np.flatnonzero(stream[1:] == 256) + 1)[:-1]]


def test_documents_from_all_over_are_whole_and_in_order():
    stream = np.array([256, *(each for i in range(1, 51) for each in (i, i, 256))])
    assert ensemble.from_all_over(stream, 200) is stream
    part = ensemble.from_all_over(stream, 30)
    assert part.tolist() == [256, *(each for i in (1, 6, 11, 17, 22, 28, 33, 39, 44, 50) for each in (i, i, 256))]


@pytest.fixture(scope="module")
def learned_from(run: Run) -> ensemble_parts.Text:
    from chainrule.tasks.language import Task

    return ensemble_parts.split(Task(run.path))


def test_where_time_is_left_a_second_network_learns_beside_the_first(
    learned_from: ensemble_parts.Text, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ensemble_parts, "SECOND_NETWORK_SECONDS", 0.1)
    monkeypatch.setattr(ensemble_parts, "CORES", 2)
    monkeypatch.setattr(contextmixing, "MOST_PASSES", 1)
    words = ensemble_parts.count_words(learned_from.learning)
    parts = ensemble_parts.learn(learned_from, words, 1e5, 8.0, has_network=True, seed=0)
    assert list(parts) == ["contexts", "words", "network", "second network"]
    stream = learned_from.choosing[:2000]
    first, second = (parts[name].score(stream).mean() for name in ("network", "second network"))
    together = np.logaddexp(parts["network"].score(stream), parts["second network"].score(stream)) - np.log(2)
    assert together.mean() > (first + second) / 2 + 0.005  # they learned apart, and err differently
    assert min(first, second) > parts["words"].score(stream).mean() - 0.5
    monkeypatch.setattr(ensemble_parts, "CORES", 1)
    assert "second network" not in ensemble_parts.learn(learned_from, words, 1e5, 3.0, has_network=True, seed=0)


def test_what_learns_beside_a_network_ends_with_it(learned_from: ensemble_parts.Text, monkeypatch: pytest.MonkeyPatch):
    def stop(*given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ensemble_parts, "_train_first_network", stop)
    words, began = ensemble_parts.count_words(learned_from.learning), time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        ensemble_parts.learn(learned_from, words, 1e5, 600.0, has_network=True, seed=0)
    assert time.perf_counter() - began < 300


def test_an_interrupted_ensemble_leaves_nothing_and_does_not_say_how_to_resume_a_part(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def interrupted(*given: object) -> None:
        raise Stopped("stopped after step 5; resume with: chainrule train --resume runs/.poems.unfinished/trying", 130)

    monkeypatch.setattr(ensemble, "make", interrupted)
    with pytest.raises(Stopped, match="^interrupted; an ensemble cannot be resumed, so train again$"):
        chainrule.train(text, minutes=0.05, path=tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_nothing_is_left_to_compile_when_the_time_is_divided(text: Path, tmp_path: Path):
    """Kernels that are compiled, or read from where compiled ones are kept, in a process that trains nothing else."""
    code = (
        "import sys, chainrule\n"
        "from numba.core.registry import CPUDispatcher\n"
        "from chainrule.training import ensemble\n"
        "def compiled():\n"
        "    names = [name for name in sys.modules if name.startswith('chainrule.')]\n"
        "    kernels = [(name, each) for name in names for each in vars(sys.modules[name]).items()]\n"
        "    return {(name, kernel, signature) for name, (kernel, each) in kernels if isinstance(each, CPUDispatcher)\n"
        "            for signature in each.signatures}\n"
        "make = ensemble.make\n"
        "def observed(*given):\n"
        "    before = compiled()\n"
        "    made = make(*given)\n"
        "    print('later:', *sorted({f'{name}.{kernel}' for name, kernel, _ in compiled() - before}))\n"
        "    return made\n"
        "ensemble.make = observed\n"
        "chainrule.train(sys.argv[1], minutes=0.1, path=sys.argv[2])\n"
    )
    command = [sys.executable, "-c", code, str(text), str(tmp_path / "run")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    later = {name for line in done.stdout.splitlines() if line.startswith("later:") for name in line.split()[1:]}
    assert Run(tmp_path / "run").architecture == "ensemble"
    assert later <= {"chainrule.models._wordgram.read_symbols", "chainrule.models.wordnetwork.read_symbols"}


def test_counting_takes_its_place_where_it_is_better(text: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ensemble, "_is_beaten", lambda *given: True)
    path = text.parent / "beaten"
    found = Run(chainrule.train(text, minutes=0.05, path=path).path)
    assert found.architecture == "ngram"
    assert not list(text.parent.glob(".beaten*"))


def test_a_part_that_saves_nothing_is_left_out(run: Run):
    from chainrule.models import ngram
    from chainrule.models.ensemble import Config, Model

    contexts, words = run.model.parts[:2]
    stream = TokenShards(run.path / "tokens", "validation").tokens(0)
    useless = ngram.Model(ngram.Config(order=1, smoothing="add-k", k=1e9), 257, 256).fit([stream])
    model = Model(Config(), [contexts, words, useless], ["contexts", "words", "network"])
    chosen, found = ensemble.choose(model, model.ask(stream), stream)
    assert chosen.model.names == ("contexts", "words") and len(found) == 2


def test_a_text_of_two_lines_says_that_nothing_was_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "two.txt").write_text("The cat sat.\nThe dog ran.\n")
    found = Run(chainrule.train(tmp_path / "two.txt", minutes=0.05, path=tmp_path / "two").path)
    assert found.architecture == "ensemble"
    assert "too little text to keep some for choosing" in capsys.readouterr().err


def test_whatever_else_is_asked_for_is_trained_by_itself():
    minutes = {"minutes": 1.0}
    assert ensemble.is_open(Request(("poems.txt",), settings=minutes))
    assert ensemble.is_open(Request(("poems.txt",), settings=minutes | {"seed": 1}))
    assert not ensemble.is_open(Request(("poems.txt",), settings={}))
    assert not ensemble.is_open(Request(("poems.txt",), settings=minutes, one=True))
    assert not ensemble.is_open(Request(("poems.txt",), settings=minutes | {"width": 64}))
    assert not ensemble.is_open(Request(("poems.txt",), settings=minutes, model="lstm"))
    assert not ensemble.is_open(Request(("a.txt=2", "b.txt=1"), settings=minutes))
