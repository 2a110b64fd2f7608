"""What a notebook shows of results: tables, plots and pictures, by the methods that notebooks look for."""

import re
from html import unescape
from pathlib import Path

import pytest
from matplotlib.figure import Figure

import chainrule
from chainrule.errors import UserError

LINES = [f"on day {i} the {'red' if i % 3 else 'old'} cow eats {'hay' if i % 2 else 'grass'}" for i in range(200)]
TINY = {"model": "transformer", "size": "tiny", "tokenizer": "words", "steps": 3, "batch_size": 2, "window": 8}


@pytest.fixture
def cows() -> Path:
    Path("cows.txt").write_text("\n".join(LINES) + "\n")
    return Path("cows.txt")


def words_of(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


def test_a_comparison_shows_its_verdict_table_and_plots(cows: Path) -> None:
    report = chainrule.compare(cows, models=["ngram:order=1", "ngram:order=2"], unit="line")
    html = report._repr_html_()
    text = words_of(html)
    assert report.verdict in text
    for row in report.table.rows:
        assert row.model in text and f"{row.bits:.4f}" in text
    assert html.count("data:image/svg+xml;base64,") == 2
    assert "<style" not in html, "the notebook's own style is left alone"


def test_the_doctor_shows_a_table_and_the_gradients(cows: Path) -> None:
    run = chainrule.train(cows, **TINY)
    findings = run.doctor()
    html = findings._repr_html_()
    for each in findings:
        assert each.name in words_of(html) and " ".join(each.advice.split()) in words_of(html)
    assert html.count("<tr>") == len(findings) and html.count("data:image/svg+xml;base64,") == 1
    counted = chainrule.train(cows, order=2, path="runs/counted")
    assert "<img" not in counted.doctor()._repr_html_()


def test_training_curves_are_a_figure_with_the_losses(cows: Path) -> None:
    run = chainrule.train(cows, **TINY)
    figure = run.plot()
    assert isinstance(figure, Figure) and figure._repr_png_().startswith(b"\x89PNG")
    (axes,) = figure.axes
    lines = {line.get_gid(): line for line in axes.get_lines()}
    losses = [event["loss"] for event in run.metrics if event["event"] == "step"]
    assert list(lines["training"].get_ydata()) == losses
    evaluations = [event["loss"] for event in run.metrics if event["event"] == "evaluation"]
    assert list(lines["validation"].get_ydata()) == evaluations
    norms = [event["gradient_norm"] for event in run.metrics if event["event"] == "step"]
    assert list(run.plot("gradients").axes[0].get_lines()[0].get_ydata()) == norms


def test_a_model_that_counts_has_no_training_curves(cows: Path) -> None:
    with pytest.raises(UserError, match="was not trained by gradient, so it has no training curves"):
        chainrule.train(cows, order=2).plot()


def test_attention_maps_have_their_tokens_as_labels(cows: Path) -> None:
    found = chainrule.train(cows, **TINY).explain("the red cow eats")
    maps = re.findall(r"<svg.*?</svg>", found._repr_html_(), re.DOTALL)
    assert len(maps) == found.inside.attention.shape[0] * found.inside.attention.shape[1]
    for each in maps:
        labels = [unescape(label).strip() for label in re.findall(r"<text[^>]*>(.*?)</text>", each)]
        assert labels == 2 * ["<eos>", "the", "red", "cow", "eats"]
