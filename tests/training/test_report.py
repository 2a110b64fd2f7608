import builtins
import math
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from chainrule.training.journal import Journal
from chainrule.training.report import write_report

SVG = "{http://www.w3.org/2000/svg}"


def step_record(step: int, **changes):
    norm = 4.0 if step % 10 == 0 else 0.5
    record = {
        "step": step, "tokens": step * 100, "loss": 2 + 6 / step, "gradient_norm": norm, "clipped": norm > 1,
    }  # fmt: skip
    return record | changes


def write(path: Path, steps: list[dict], evaluations: list[dict] = ()) -> Path:
    journal = Journal(path)
    journal.on_event({"event": "begin", "architecture": "gpt"})
    for record in steps:
        journal.on_event({"event": "step", **record})
    for record in evaluations:
        journal.on_event({"event": "evaluation", **record})
    journal.close()
    return path


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("matplotlib")
    evaluations = [
        {"step": step, "loss": loss, "bits_per_byte": loss / 2, "is_best": False}
        for step, loss in ((10, 3.0), (20, 2.5), (30, 2.75))
    ]
    path = tmp_path_factory.mktemp("run") / "metrics.jsonl"
    return write(path, [step_record(step) for step in range(1, 31)], evaluations)


@pytest.fixture(scope="module")
def report(journal: Path) -> Path:
    assert write_report(journal, journal.parent / "report", clip=1.0) == []
    return journal.parent / "report"


def part(svg: Path, name: str) -> ElementTree.Element | None:
    return ElementTree.parse(svg).find(f".//{SVG}g[@id='{name}']")


def points(svg: Path, name: str) -> list[tuple[float, float]]:
    """Of the line of that name, in the picture's own units."""
    found = part(svg, name)
    assert found is not None
    path = found.find(f"{SVG}path")
    assert path is not None
    return [(float(x), float(y)) for x, y in re.findall(r"[ML] (\S+) (\S+)", path.get("d", ""))]


def marks(svg: Path, name: str) -> list[tuple[float, float]]:
    found = part(svg, name)
    assert found is not None
    return [(float(each.attrib["x"]), float(each.attrib["y"])) for each in found.iter(f"{SVG}use")]


def test_the_loss_has_a_point_per_record_and_the_best_is_marked(report):
    svg = report / "loss.svg"
    training, validation = points(svg, "training"), points(svg, "validation")
    assert (len(training), len(validation)) == (30, 3)
    assert [x for x, _ in validation] == pytest.approx([training[i][0] for i in (9, 19, 29)])
    assert marks(svg, "best") == [pytest.approx(validation[1], abs=1e-3)]
    assert "best: 2.500 (1.250 bits per byte) at step 20" in svg.read_text()


def test_the_loss_is_drawn_to_scale_against_the_logarithm_of_tokens(report):
    drawn = points(report / "loss.svg", "training")
    (left, top), (right, bottom) = drawn[0], drawn[-1]
    for step, (x, y) in enumerate(drawn, 1):
        assert (x - left) / (right - left) == pytest.approx(math.log(step) / math.log(30), abs=1e-5)
        assert (y - top) / (bottom - top) == pytest.approx((8 - (2 + 6 / step)) / (6 - 6 / 30), abs=1e-5)


def test_gradients_have_the_limit_as_a_line_and_clipped_records_marked(report):
    svg = report / "gradients.svg"
    norms, limit = points(svg, "norm"), points(svg, "limit")
    assert len(norms) == 30
    assert marks(svg, "clipped") == [pytest.approx(norms[i], abs=1e-3) for i in (9, 19, 29)]
    low, high = norms[0][1], norms[9][1]  # 0.5 and 4, by logarithm; 1 is a third of the way
    assert [y for _, y in limit] == pytest.approx([low + (high - low) / 3] * 2)
    assert "clipped: 3 of 30 records (10.0%)" in svg.read_text()


def test_without_clipping_there_is_no_limit_to_draw(journal, tmp_path):
    write_report(journal, tmp_path / "report", clip=0.0)
    assert part(tmp_path / "report" / "gradients.svg", "limit") is None


def test_the_same_journal_gives_the_same_bytes(journal, report, tmp_path):
    import matplotlib

    with matplotlib.rc_context({"lines.linewidth": 9, "figure.facecolor": "black"}):  # a user's own settings
        write_report(journal, tmp_path, clip=1.0)
        assert matplotlib.rcParams["lines.linewidth"] == 9  # which are left as they were
    for name in ("loss.svg", "gradients.svg"):
        data = (report / name).read_bytes()
        assert data == (tmp_path / name).read_bytes()
        assert b"dc:date" not in data


LOST = step_record(1, loss=math.nan, gradient_norm=math.inf, clipped=True)


@pytest.mark.parametrize(
    ("steps", "drawn"),
    [([LOST, step_record(2), step_record(3, gradient_norm=0.0)], 2), ([step_record(1)], 1), ([LOST], 0)],
)
def test_gaps_and_a_single_record_and_a_torn_line_do_no_harm(tmp_path, steps, drawn):
    pytest.importorskip("matplotlib")
    unmeasured = {"step": 3, "loss": math.nan, "bits_per_byte": None, "is_best": False}
    journal = write(tmp_path / "metrics.jsonl", steps, [unmeasured])
    journal.write_bytes(journal.read_bytes() + b'{"event": "st')
    assert write_report(journal, tmp_path / "report", clip=1.0) == []
    assert len(points(tmp_path / "report" / "loss.svg", "training")) == drawn
    assert part(tmp_path / "report" / "gradients.svg", "norm") is not None


def test_a_model_that_counts_has_no_report(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"event": "trained", "parameters": 3}\n')
    assert write_report(path, tmp_path / "report") == []
    assert not (tmp_path / "report").exists()


def test_without_matplotlib_a_note_says_so(journal, tmp_path, monkeypatch):
    real = builtins.__import__

    def refuse(name, *rest):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    (note,) = write_report(journal, tmp_path / "report")
    assert "pip install matplotlib" in note
    assert not (tmp_path / "report").exists()
