"""A checkpoint is whole or not there; the newest whole one is picked, and what was passed over is said."""

import os
from pathlib import Path

import pytest
import torch

from chainrule.errors import UserError
from chainrule.training.checkpoint import Checkpoint, Checkpoints
from tests.training.trainings import HARD, assert_same_tensors, go_on


def checkpoint(step: int) -> Checkpoint:
    generator = torch.Generator().manual_seed(step)
    tensors = {
        "model/weight": torch.randn(4, 5, generator=generator),
        "state/0": torch.randn(6, 3, generator=generator).t(),  # not contiguous
        "optimizer/step": torch.tensor(float(step)),
        "ids": torch.arange(step),
    }
    return Checkpoint(tensors, {"step": step, "loss": 0.1 + step, "none": None, "list": [1, [2.5]]})


def save(folder: Path, *steps: int) -> Checkpoints:
    checkpoints = Checkpoints(folder)
    for step in steps:
        checkpoints.save(checkpoint(step))
    return checkpoints


def assert_loads(folder: Path, step: int, *notes: int) -> Checkpoints:
    checkpoints = Checkpoints(folder)
    found = checkpoints.load()
    assert found is not None
    assert found.facts == checkpoint(step).facts
    assert_same_tensors(found.tensors, checkpoint(step).tensors)
    expected = [f"the checkpoint of step {each} is damaged and was skipped" for each in notes]
    assert checkpoints.notes == expected
    return checkpoints


def files(folder: Path) -> list[str]:
    return sorted(os.listdir(folder / "checkpoints"))


def test_loaded_equals_saved_bit_for_bit(tmp_path):
    save(tmp_path, 3)
    assert_loads(tmp_path, 3)


def test_what_is_loaded_is_aligned_as_torch_aligns_its_own(tmp_path):
    """A matrix product may round differently by where its operands lie."""
    save(tmp_path, 3)
    found = Checkpoints(tmp_path).load()
    assert all(tensor.data_ptr() % 64 == 0 for tensor in found.tensors.values() if tensor.numel())


def test_the_two_newest_are_kept(tmp_path):
    checkpoints = save(tmp_path, 1, 2, 3, 10)
    assert checkpoints.steps() == [3, 10]
    assert files(tmp_path) == [f"{step:09d}.{end}" for step in (3, 10) for end in ("json", "safetensors")]


def test_without_any_there_is_nothing_to_load(tmp_path):
    assert Checkpoints(tmp_path).load() is None


def truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 1)


def flip_a_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 16
    file.write_bytes(content)


@pytest.mark.parametrize("damage", [truncate, flip_a_byte, Path.unlink, lambda file: file.write_bytes(b"")])
@pytest.mark.parametrize("ending", ["safetensors", "json"])
def test_a_damaged_one_is_passed_over_with_a_note(tmp_path, damage, ending):
    save(tmp_path, 10, 20)
    damage(tmp_path / "checkpoints" / f"000000020.{ending}")
    assert_loads(tmp_path, 10, 20)


def test_no_byte_of_a_checkpoint_can_change_unnoticed(tmp_path):
    save(tmp_path, 10, 20)
    for ending in ("safetensors", "json"):
        file = tmp_path / "checkpoints" / f"000000020.{ending}"
        whole = file.read_bytes()
        for place in range(0, len(whole), 7):
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            found = Checkpoints(tmp_path).load()
            assert found is not None
            assert found.facts["step"] == 10 or (ending == "json" and found.facts == checkpoint(20).facts)
        file.write_bytes(whole)


def test_what_a_killed_writer_left_is_never_picked_and_goes_with_the_next_one(tmp_path):
    save(tmp_path, 10)
    whole = (tmp_path / "checkpoints" / "000000010.safetensors").read_bytes()
    for name in ("000000020.tmp", "000000020.json.tmp", "000000015.safetensors"):
        (tmp_path / "checkpoints" / name).write_bytes(whole)
    checkpoints = assert_loads(tmp_path, 10, 15)
    checkpoints.save(checkpoint(21))
    assert files(tmp_path) == [f"{step:09d}.{end}" for step in (10, 21) for end in ("json", "safetensors")]


def test_torn_ones_do_not_take_the_place_of_whole_ones(tmp_path):
    """After all were torn, training begins anew: its checkpoints are older in step, and must stay."""
    save(tmp_path, 50, 100)
    for step in (50, 100):
        flip_a_byte(tmp_path / "checkpoints" / f"{step:09d}.safetensors")
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.load() is None
    assert len(checkpoints.notes) == 2
    checkpoints.save(checkpoint(20))
    assert_loads(tmp_path, 20)
    checkpoints.save(checkpoint(30))
    checkpoints.save(checkpoint(60))
    assert checkpoints.steps() == [30, 60]
    assert_loads(tmp_path, 60)


def test_a_torn_one_that_is_reached_again_is_whole_again(tmp_path):
    save(tmp_path, 50, 100)
    flip_a_byte(tmp_path / "checkpoints" / "000000100.safetensors")
    checkpoints = assert_loads(tmp_path, 50, 100)
    checkpoints.save(checkpoint(100))
    assert checkpoints.steps() == [50, 100]
    assert_loads(tmp_path, 100)


def test_a_full_disk_leaves_the_one_before_and_no_rest(tmp_path, monkeypatch):
    checkpoints = save(tmp_path, 10)

    def no_space(path: Path, *rest: object) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("chainrule.training.checkpoint.save_arrays", no_space)
        with pytest.raises(UserError, match="the disk is full: the checkpoint of step 20 .* that of step 10 is whole"):
            checkpoints.save(checkpoint(20))
    assert files(tmp_path) == ["000000010.json", "000000010.safetensors"]
    assert_loads(tmp_path, 10)


def test_training_goes_on_from_the_one_before_a_torn_one_to_the_same_end(tmp_path):
    whole, _ = go_on(tmp_path / "whole", "gru", HARD)
    for stop in (4, 9):
        with pytest.raises(Exception, match=f"stopped after step {stop}"):
            go_on(tmp_path / "torn", "gru", HARD, stop)
    truncate(tmp_path / "torn" / "checkpoints" / "000000009.safetensors")
    resumed, notes = go_on(tmp_path / "torn", "gru", HARD)
    assert notes == ["the checkpoint of step 9 is damaged and was skipped"]
    assert_same_tensors(resumed.model.state_dict(), whole.model.state_dict())


def test_where_all_are_torn_training_begins_again_and_says_so(tmp_path):
    whole, _ = go_on(tmp_path / "whole", "gru", HARD)
    with pytest.raises(Exception, match="stopped after step 4"):
        go_on(tmp_path / "torn", "gru", HARD, 4)
    flip_a_byte(tmp_path / "torn" / "checkpoints" / "000000004.safetensors")
    resumed, notes = go_on(tmp_path / "torn", "gru", HARD)
    assert len(notes) == 1
    assert_same_tensors(resumed.model.state_dict(), whole.model.state_dict())
