import builtins
from pathlib import Path

import pytest

from chainrule.errors import UserError
from chainrule.training.tensorboard import TensorBoard


def step_record(step: int):
    return {
        "step": step, "loss": 8 / step, "bits_per_byte": 4 / step, "learning_rate": step / 1024, "gradient_norm": 0.5,
        "tokens_per_second": 1000 + step, "memory_bytes": 2**20 * step, "clipped": False, "epochs": [0.5],
    }  # fmt: skip


def read(folder: Path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(folder))
    accumulator.Reload()
    return accumulator


def scalars(accumulator, tag: str) -> list[tuple[int, float]]:
    return [(each.step, each.value) for each in accumulator.Scalars(tag)]


def test_tensorboard_reads_back_what_was_written(tmp_path):
    pytest.importorskip("tensorboard")
    board = TensorBoard(tmp_path)
    board.on_event({"event": "begin", "resumed_at_step": 0})
    board.step(step_record(1))
    board.step({**step_record(2), "bits_per_byte": None})
    board.epoch({"epoch": 1, "step": 2, "loss": 6.0})
    board.evaluation({"step": 2, "loss": 3.5, "perplexity": 33.0, "bits_per_byte": 1.25, "is_best": True})
    board.sample({"step": 2, "text": "# To be,\nor not"})
    board.message("not for TensorBoard")
    board.on_event({"event": "end"})
    board.close()

    found = read(tmp_path)
    assert {tag: scalars(found, tag) for tag in found.Tags()["scalars"]} == {
        "train/loss": [(1, 8.0), (2, 4.0)],
        "train/bits_per_byte": [(1, 4.0)],
        "train/epoch_loss": [(2, 6.0)],
        "learning_rate": [(1, 1 / 1024), (2, 2 / 1024)],
        "gradient_norm": [(1, 0.5), (2, 0.5)],
        "tokens_per_second": [(1, 1001.0), (2, 1002.0)],
        "memory_bytes": [(1, 2.0**20), (2, 2.0**21)],
        "validation/loss": [(2, 3.5)],
        "validation/perplexity": [(2, 33.0)],
        "validation/bits_per_byte": [(2, 1.25)],
    }
    (sample,) = found.Tensors("sample/text_summary")
    assert (sample.step, sample.tensor_proto.string_val[0]) == (2, b"    # To be,\n    or not")


def test_a_resumed_run_hides_what_came_after_the_checkpoint(tmp_path):
    pytest.importorskip("tensorboard")
    killed = TensorBoard(tmp_path)
    killed.on_event({"event": "begin", "resumed_at_step": 0})
    for step in (1, 2, 3):
        killed.step({**step_record(step), "gradient_norm": 9.0})
    killed.close()
    resumed = TensorBoard(tmp_path)
    resumed.on_event({"event": "begin", "resumed_at_step": 2})
    for step in (3, 4):
        resumed.step(step_record(step))
    resumed.close()
    assert scalars(read(tmp_path), "gradient_norm") == [(1, 9.0), (2, 9.0), (3, 0.5), (4, 0.5)]


def test_without_the_package_one_sentence_says_what_to_install(tmp_path, monkeypatch):
    real = builtins.__import__

    def refuse(name, *rest):
        if name.endswith("tensorboard"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(UserError, match="pip install tensorboard"):
        TensorBoard(tmp_path)
