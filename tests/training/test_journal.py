import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from chainrule.training.callbacks import CallbackList
from chainrule.training.journal import LAST, Journal, events

FACTS = {"architecture": "gpt", "parameters": 1000, "resumed_at_step": 0}


def tell(journal: Journal, first: int, last: int) -> None:
    """What the steps from `first` to `last` give rise to."""
    for step in range(first, last + 1):
        journal.on_event({"event": "step", "step": step, "loss": 1 / step})
        if step % 4 == 0:
            journal.on_event({"event": "evaluation", "step": step, "loss": 2 / step, "is_best": True})
            journal.on_event({"event": "sample", "step": step, "text": f"é\u2028\n{step}"})
        if step % 5 == 0:
            journal.on_event({"event": "epoch", "epoch": step // 5, "step": step, "loss": 1.5})


def end(journal: Journal) -> None:
    """As the run does when it is written."""
    journal.close()
    with open(journal.path, "a") as file:
        file.write(json.dumps({"event": LAST, "step": 12, "seconds": 3.5}) + "\n")


@pytest.fixture
def uninterrupted(tmp_path: Path) -> bytes:
    journal = Journal(tmp_path / "uninterrupted.jsonl")
    journal.on_event({"event": "begin", **FACTS})
    tell(journal, 1, 12)
    end(journal)
    return journal.path.read_bytes()


@pytest.mark.parametrize("checkpoint", [0, 3, 4, 7])
@pytest.mark.parametrize("tail", [b"", b'{"event": "step", "st', b"\0\0\0", b'{"event"\n', b"\xff"])
def test_a_killed_and_resumed_run_has_the_journal_of_an_uninterrupted_one(tmp_path, uninterrupted, checkpoint, tail):
    path = tmp_path / "metrics.jsonl"
    killed = Journal(path)
    killed.on_event({"event": "begin", **FACTS})
    tell(killed, 1, 7)
    killed.close()
    path.write_bytes(path.read_bytes() + tail)

    resumed = Journal(path)
    resumed.rewind(checkpoint)
    resumed.on_event({"event": "begin", **FACTS, "resumed_at_step": checkpoint})
    resumed.message("resumed")
    tell(resumed, checkpoint + 1, 12)
    end(resumed)
    assert path.read_bytes() == uninterrupted
    assert sorted(each.name for each in tmp_path.iterdir()) == ["metrics.jsonl", "uninterrupted.jsonl"]


def test_every_cut_of_the_file_can_be_rewound(tmp_path, uninterrupted, monkeypatch):
    """However few bytes of it reached the disk, what is left is a prefix of whole lines."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    path = tmp_path / "metrics.jsonl"
    lines = uninterrupted.splitlines(keepends=True)
    ends = [sum(map(len, lines[: i + 1])) for i in range(len(lines) - 1)]  # all but the last, which is the end
    for cut in range(len(uninterrupted) - 160, len(uninterrupted)):
        path.write_bytes(uninterrupted[:cut])
        Journal(path).rewind(12)
        whole = max([0] + [end for end in ends if end - 1 <= cut])  # only the newline may be missing
        assert path.read_bytes() == uninterrupted[:whole]


def test_a_finished_run_that_goes_on_loses_only_its_end(tmp_path, uninterrupted):
    journal = Journal(tmp_path / "uninterrupted.jsonl")
    journal.rewind(12)
    assert journal.path.read_bytes() == b"".join(uninterrupted.splitlines(keepends=True)[:-1])


def test_lines_are_on_disk_as_they_are_written_even_if_the_process_is_killed(tmp_path):
    path = tmp_path / "metrics.jsonl"
    code = f"""
import os
from pathlib import Path
from chainrule.training.journal import Journal
journal = Journal(Path({str(path)!r}))
journal.on_event({{"event": "step", "step": 1, "loss": 2.5}})
os.kill(os.getpid(), 9)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    killed = subprocess.run([sys.executable, "-c", code], env=environment, check=False)
    assert killed.returncode == -9
    assert path.read_bytes() == b'{"event": "step", "step": 1, "loss": 2.5}\n'


def test_what_is_not_finite_is_null(tmp_path):
    journal = Journal(tmp_path / "metrics.jsonl")
    journal.on_event(
        {
            "event": "step",
            "step": 1,
            "loss": float("nan"),
            "gradient_norm": float("inf"),
            "epochs": [float("-inf"), 0.5],
        }
    )
    line = journal.path.read_text()
    assert json.loads(line, parse_constant=pytest.fail) == {
        "event": "step", "step": 1, "loss": None, "gradient_norm": None, "epochs": [None, 0.5],
    }  # fmt: skip
    journal.close()


def test_a_torn_last_line_is_passed_over_by_readers_and_cut_off_by_the_next_writer(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"event": "step", "step": 1}\n{"event": "st')
    assert list(events(path)) == [{"event": "step", "step": 1}]
    journal = Journal(path)
    journal.on_event({"event": "step", "step": 2})
    journal.close()
    assert path.read_text() == '{"event": "step", "step": 1}\n{"event": "step", "step": 2}\n'


def test_without_a_file_there_is_nothing_to_read_or_rewind(tmp_path):
    path = tmp_path / "metrics.jsonl"
    Journal(path).rewind(3)
    assert list(events(path)) == []
    assert not path.exists()


def test_several_watchers_are_told_the_same_and_all_closed_even_if_one_fails(tmp_path, uninterrupted):
    class Failing(Journal):
        def close(self) -> None:
            super().close()
            raise OSError("disk full")

    paths = [tmp_path / name for name in ("a", "b", "c")]
    journals = [Journal(paths[0]), Failing(paths[1]), Journal(paths[2])]
    with pytest.raises(OSError, match="disk full"), CallbackList(*journals) as callbacks:
        callbacks.on_event({"event": "begin", **FACTS})
        tell(callbacks, 1, 12)
        callbacks.message("not journalled")
    assert {path.read_bytes() for path in paths} == {b"".join(uninterrupted.splitlines(keepends=True)[:-1])}
    assert all(journal._file is None for journal in journals)


def test_a_run_without_a_checkpoint_begins_anew(tmp_path, uninterrupted):
    journal = Journal(tmp_path / "uninterrupted.jsonl")
    journal.rewind(-1)
    journal.on_event({"event": "begin", **FACTS})
    tell(journal, 1, 12)
    end(journal)
    assert journal.path.read_bytes() == uninterrupted
