"""Explanations as people see them: a page with nothing from elsewhere, a notebook's piece, JSON, a terminal."""

import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread
from rich.console import Console

import chainrule
from chainrule import registry
from chainrule.analysis.explain.heat_map import AGAINST, FOR, heat_map_png, tint
from chainrule.analysis.explain.terminal import _bar, sections
from chainrule.api import TrainedRun
from chainrule.models.contract import Counts
from tests.contracts.test_models import ARCHITECTURES

TEXT = "<b>cows</b> & 'cows' eat \"corn\"\n" * 40
VOID = {"meta", "img", "br"}


@pytest.fixture(scope="module", params=ARCHITECTURES)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TrainedRun:
    folder = tmp_path_factory.mktemp("explained")
    (folder / "cows.txt").write_text(TEXT)
    module = registry.find("chainrule.models", request.param, "model")
    settings = {} if issubclass(module.Model, Counts) else {"steps": 2, "batch_size": 2, "window": 8}
    return chainrule.train(
        folder / "cows.txt", path=folder / "run", model=request.param, size="tiny", unit="line", tokenizer="bytes",
        validation_fraction=0.0, **settings,
    )  # fmt: skip


class Checker(HTMLParser):
    """Whether every tag is closed by its own name, and what is loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.loads += [value or "" for name, value in attributes if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_page_is_sound_and_stands_alone(run: TrainedRun):
    found = run.explain("<b>cows</b> & 'c")
    for html in (found.html(), found._repr_html_()):
        checker = Checker()
        checker.feed(html)
        assert checker.open == [], "every tag is closed"
        assert all(each.startswith("data:image/png;base64,") for each in checker.loads)
        assert "@import" not in html and "url(" not in html and "<script" not in html
        assert "<b>" not in html, "what is text is not markup"
        assert f"{found.probability:.4f}" in "".join(checker.text)


def test_json_holds_everything(run: TrainedRun):
    found = run.explain("cows eat", top=5)
    back = json.loads(json.dumps(found.to_json()))
    assert back["probability"] == found.probability
    assert back["distribution"]["top"][0]["probability"] == found.distribution.top[0].probability
    assert len(back["surprise"]) == len(found.tokens) - 1 == len(back["importance"]["left_out"])
    assert (back["importance"]["gradient"] is None) == isinstance(run.model, Counts)
    if run.architecture == "transformer":
        weights = np.array(back["inside"]["attention"])
        assert weights.shape == (*found.inside.attention.shape,)  # type: ignore[union-attr]
        assert weights.sum(-1) == pytest.approx(1.0, abs=1e-4)


def test_the_terminal_shows_the_figures(run: TrainedRun):
    found = run.explain("cows eat")
    console = Console(width=160, record=True, file=io.StringIO())
    for section in sections(found):
        console.print(section)
    text = console.export_text()
    assert f"{found.probability:.6g}" in text
    assert f"{found.distribution.top[-1].probability:.4f}" in text
    assert f"{found.surprise[-1]:.2f} bits" in text


def test_nothing_read_is_explained_too(run: TrainedRun):
    found = run.explain("")
    assert found.tokens == ["<eos>"]
    assert found.surprise == [] and found.importance.left_out == []
    assert "No token was read yet" in found.html()


def test_a_space_at_the_end_is_read_where_it_is_a_token_of_its_own(run: TrainedRun):
    found = run.explain("cows ")
    assert found.tokens[1:] == list("cows ")
    assert found.notes == []


def test_a_space_at_the_end_begins_the_next_token_where_tokens_begin_with_one(tmp_path: Path):
    (tmp_path / "t.txt").write_text("the cow eats hay , the cow sleeps\n" * 30)
    run = chainrule.train("t.txt", tokenizer="words", min_count=1, unit="line", validation_fraction=0.0, order=3)
    found = run.explain("the cow ")
    assert found.tokens == ["<eos>", " the", " cow"]
    assert all(each.token.startswith(" ") for each in found.distribution.top)
    assert sum(
        each.probability for each in found.distribution.top
    ) + found.distribution.others_probability == pytest.approx(1.0)
    assert found.probability == pytest.approx(run.explain("the cow", token=found.token).probability)
    assert found.notes[0].startswith("the space at the end belongs to the next token")


def test_words_that_look_like_markup_are_only_words(tmp_path: Path):
    (tmp_path / "t.txt").write_text("a [/b] [i] c\n" * 30)
    run = chainrule.train("t.txt", tokenizer="words", closed_vocabulary=True, min_count=1, unit="line", order=2,
                          validation_fraction=0.0)  # fmt: skip
    console = Console(width=160, record=True, file=io.StringIO())
    for section in sections(run.explain("a", token="[/b]")):
        console.print(section)
    assert "which tokens mattered for '[/b]'" in console.export_text()
    assert run.explain("zzz a", token="qqq").notes == [
        "1 words of the text are not in the vocabulary; they are read as <unk>",
        "'qqq' is not in the vocabulary; <unk> is explained in its place",
    ]


def test_scores_that_do_not_sum_to_one_are_said_to_be_scores(tmp_path: Path):
    (tmp_path / "t.txt").write_text("a b c a b d\n" * 30)
    run = chainrule.train("t.txt", tokenizer="bytes", unit="line", order=3, smoothing="stupid-backoff")
    assert run.explain("a b").notes[0].startswith("its scores do not sum to one")


def test_a_token_of_several_is_explained_by_its_first(run: TrainedRun):
    found = run.explain("cows", token=" eat")
    assert found.token == " "
    assert found.notes == ["' eat' is 4 tokens; the first of them, ' ', is explained"]
    assert run.explain("cows", token="<eos>").token == "<eos>"


def test_a_picture_is_a_png_of_these_colours():
    data = heat_map_png(np.array([[1.0, -0.5, 0.0], [np.nan, 2.0, -1.0]]))
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    pixels = np.round(imread(io.BytesIO(data)) * 255).astype(int).tolist()
    assert pixels[0] == [[*FOR, 255], [*AGAINST, 127], [*FOR, 0]]
    assert pixels[1] == [[*AGAINST, 0], [*FOR, 255], [*AGAINST, 255]]


def test_a_tint_is_the_colour_of_the_sign_and_as_opaque_as_the_size():
    assert tint(0.5) == "rgb(20 130 205 / 0.500)"
    assert tint(-2.0, 0.75) == "rgb(222 105 15 / 0.750)"


def test_bars_have_eighths():
    assert (_bar(1.0), _bar(0.5), _bar(0.0)) == ("█" * 24, "█" * 12, "")
    assert _bar(1 / 24 / 8) == "▏" and _bar(2.0) == "█" * 24


def test_a_text_too_long_is_read_from_its_end(tmp_path: Path):
    (tmp_path / "t.txt").write_text("ab " * 200)
    run = chainrule.train("t.txt", model="bow", size="tiny", tokenizer="bytes", steps=1, batch_size=1, window=8)
    found = run.explain("ab" * 100)
    assert len(found.tokens) == run.model.config.context_length == 64  # type: ignore[attr-defined]
    assert re.fullmatch("the text has 200 tokens, of which the last 64 were read", found.notes[0])
