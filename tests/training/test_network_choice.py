"""`--minutes --one`: the architecture and the tokens of a single network are chosen by trials on the text itself."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from chainrule.data.texts import find_texts
from chainrule.errors import Diverged, Stopped
from chainrule.text.choice import Tokenization
from chainrule.training import network_choice
from chainrule.training.network_choice import choose_network, leaves_network_open
from chainrule.training.pipeline import train
from chainrule.training.request import Request

LINES = [f"On day {i} the cow number {i * 7 % 31} eats hay by the river." for i in range(200)]


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "cows.txt"
    path.write_text("\n".join(LINES))
    return str(path)


class Trials:
    """In place of training: notes what is tried, and gives each candidate its figure in each round."""

    def __init__(self, *rounds: dict[str, float]) -> None:
        self.rounds, self.tried, self.texts = list(rounds), [], set()

    def __call__(self, request: Request) -> SimpleNamespace:
        name = f"{request.model} {request.tokenization.tokenizer}"
        if name not in self.rounds[0]:
            self.rounds.pop(0)
        self.tried.append((name, round(60 * request.settings["minutes"], 3)))
        self.texts |= {*find_texts(request.inputs[0]), "|", *find_texts(request.validation[0])}
        bits = self.rounds[0].pop(name)
        if bits == 0:
            raise Diverged("the loss is not a number")
        return SimpleNamespace(trained={"validation": {"bits_per_byte": bits}})


def test_the_best_two_are_tried_again_for_longer(text: str) -> None:
    first = {
        "lstm characters": 2.5,
        "transformer characters": 0,
        "lstm bpe": 2.2,
        "transformer bpe": 2.6,
        "lstm words": 2.1,
    }
    trials = Trials(first, {"lstm bpe": 1.8, "lstm words": 1.9})
    found = choose_network(Request((text,), settings={"minutes": 4}, one=True), trials)
    assert (found.model, found.tokenization) == ("lstm", Tokenization("bpe"))
    assert [seconds for _, seconds in trials.tried] == [4.8] * 5 + [12.0] * 2
    assert found.settings == {"minutes": 4} and found.inputs == (text,)


def test_trials_learn_from_and_are_ranked_by_training_text_alone(text: str) -> None:
    trials = Trials(
        dict.fromkeys(["lstm characters", "transformer characters", "lstm bpe", "transformer bpe", "lstm words"], 2.0)
    )
    choose_network(Request((text,), settings={"minutes": 1}, one=True), trials)
    assert len(trials.tried) == 5
    known = {line for each in trials.texts for line in each.split("\n")} - {"|"}
    assert known < set(LINES) and len(known) < 0.97 * len(LINES)  # the validation documents are not among them


@pytest.mark.parametrize(("size", "model"), [(1, "lstm"), (300, "transformer")])
def test_with_too_little_time_for_trials_the_size_of_the_text_decides(tmp_path: Path, size: int, model: str) -> None:
    path = tmp_path / "text.txt"
    path.write_text("\n\n".join(f"{line} {i}" for i in range(size) for line in LINES[:40]))
    found = choose_network(Request((str(path),), settings={"minutes": 0.1}, one=True), Trials())
    assert (found.model, found.tokenization.tokenizer) == (model, "characters")


def test_an_interrupted_trial_does_not_say_how_to_resume_it(text: str) -> None:
    def interrupted(request: Request) -> SimpleNamespace:
        raise Stopped(f"stopped after step 5; resume with: chainrule train --resume {request.path}", 130)

    with pytest.raises(Stopped, match="^interrupted; a trial cannot be resumed, so train again$") as found:
        choose_network(Request((text,), settings={"minutes": 1}, one=True), interrupted)
    assert found.value.exit_code == 130


def test_what_was_asked_for_is_not_chosen(text: str) -> None:
    request = Request((text,), settings={"minutes": 1}, one=True)
    assert leaves_network_open(request)
    for changes in ({"one": False}, {"model": "gru"}, {"tokenization": Tokenization("bytes")}, {"inputs": ("-",)}):
        assert not leaves_network_open(
            Request(**{"inputs": (text,), "settings": {"minutes": 1}, "one": True, **changes})
        )


def test_one_network_is_trained_and_can_be_used(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_choice, "SHORTEST_TRIAL", 0.02)
    run = train(Request((text,), settings={"minutes": 0.05}, one=True, path=tmp_path / "run"))
    assert run.architecture in ("lstm", "transformer")
    assert run.trained["validation"]["bits_per_byte"] > 0
    assert run.config["data"]["inputs"] == [text]
