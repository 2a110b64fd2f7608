"""Signals, nonsense, a full disk and rivals: real processes that are really interrupted."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import chainrule
from chainrule.training.checkpoint import Checkpoints
from chainrule.training.interrupt import stop_requests
from tests.training.processes import Commands, steps_journalled, until

RUN = Path("runs/cows")
UNFINISHED = Path("runs/.cows.unfinished")
MODEL = ("--model", "gru", "--size", "tiny", "--tokenizer", "characters", "--batch-size", 4, "--set", "window=16")
REQUEST = ("train", "cows.txt", *MODEL, "--as", RUN)
WILD = ("--model", "mlp", "--optimizer", "sgd", "--learning-rate", "1e38", "--set", "clip=0")


def interrupted(commands: Commands, number: int, at: int, *arguments: object) -> tuple[int, str]:
    process = commands.start(*arguments)
    until(lambda: steps_journalled(RUN) >= at)
    process.send(number)
    return process.wait()


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_step_stores_it_and_says_how_to_go_on(commands, text, number, code):
    found, said = interrupted(commands, number, 3, *REQUEST, "--steps", 300)
    (step,) = Checkpoints(UNFINISHED).steps()
    assert found == code
    assert said.splitlines()[-1] == (
        f"chainrule: stopped after step {step}; resume with: chainrule train --resume runs/cows"
    )
    assert "Traceback" not in said
    assert not RUN.exists()
    code, said = commands.run("train", "--resume", RUN)
    assert code == 0, said
    run = chainrule.load(RUN)
    assert run.metrics[-1]["steps"] == 300
    assert [event["step"] for event in run.metrics if event["event"] == "step"] == list(range(1, 301))
    assert not UNFINISHED.exists()


@pytest.mark.slow
def test_a_second_signal_leaves_at_once(commands, text):
    """Steps of this one take long: the first signal waits for the end of one, the second does not."""
    long_steps = ("--set", "width=256", "--set", "window=256", "--batch-size", 32)
    process = commands.start(*REQUEST, "--steps", 1000, *long_steps)
    until(lambda: steps_journalled(RUN) >= 1)
    process.send(signal.SIGINT)
    process.send(signal.SIGTERM)
    code, said = process.wait()
    assert code == 143
    assert "stopped after" not in said
    assert Checkpoints(UNFINISHED).steps() == []
    assert (UNFINISHED / "training.json").exists()


def test_the_first_signal_is_noted_and_old_handlers_come_back():
    before = signal.getsignal(signal.SIGTERM)
    with stop_requests() as request:
        assert request.signal is None
        signal.raise_signal(signal.SIGTERM)
        assert request.signal == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before


def test_ctrl_c_outside_the_loop_says_how_to_go_on_too(text, monkeypatch):
    def press(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("chainrule.tasks.language.evaluate_shards", press)
    from chainrule.errors import Stopped

    with pytest.raises(Stopped, match="interrupted; resume with: chainrule train --resume runs/cows") as stop:
        chainrule.train(text, model="bow", size="tiny", tokenizer="characters", steps=2, path=RUN)
    assert stop.value.exit_code == 130


@pytest.mark.slow
def test_a_loss_that_explodes_ends_in_one_sentence_and_keeps_the_last_checkpoint(commands, text):
    code, said = commands.run(*REQUEST, "--steps", 50, *WILD, "--set", "checkpoint_seconds=0")
    assert code == 2
    sentence = said.splitlines()[-1]
    kept = Checkpoints(UNFINISHED).steps()[-1]
    assert sentence.startswith(("chainrule: the loss is ", "chainrule: the gradient's norm is "))
    assert f"at step {kept} (a batch that begins with '" in sentence
    assert f"the checkpoint of step {kept} is kept" in sentence
    assert "Traceback" not in said
    again, said = commands.run("train", "--resume", RUN)
    assert (again, said.splitlines()[-1]) == (2, sentence)  # the same step, the same text


@pytest.mark.slow
def test_without_any_checkpoint_nothing_is_left_of_a_training_that_failed(commands, text):
    code, said = commands.run(*REQUEST, "--steps", 50, *WILD)
    assert code == 2
    assert "no checkpoint was stored yet" in said.splitlines()[-1]
    assert "--resume" not in said
    assert not os.path.exists("runs"), "which was made for it"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """runs/ on a file system of 1.5 MB."""
    folder = tmp_path / "runs"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1536k", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no mount here")
    if mounted.returncode:
        pytest.skip(f"mounting a small file system is not allowed here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.slow
def test_a_full_disk_leaves_the_last_checkpoint_whole(commands, text, small_disk):
    process = commands.start(*REQUEST, "--steps", 100, "--set", "checkpoint_seconds=0")
    until(lambda: len(Checkpoints(UNFINISHED).steps()) == 2)
    ballast = small_disk / "ballast"
    with open(ballast, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
    code, said = process.wait()
    assert code == 2, said
    sentence = said.splitlines()[-1]
    assert sentence.startswith("chainrule: the disk is full")
    assert sentence.endswith("resume with: chainrule train --resume runs/cows")
    assert "Traceback" not in said
    assert Checkpoints(UNFINISHED).load() is not None
    ballast.unlink()
    code, said = commands.run("train", "--resume", RUN)
    assert code == 0, said
    assert chainrule.load(RUN).metrics[-1]["steps"] == 100
    assert commands.run("train", "cows.txt", *MODEL, "--steps", 100, "--as", "elsewhere")[0] == 0
    assert (RUN / "model.safetensors").read_bytes() == Path("elsewhere/model.safetensors").read_bytes()


@pytest.mark.slow
def test_a_second_trainer_of_one_run_is_refused_at_once(commands, text):
    first = commands.start(*REQUEST, "--steps", 100_000)
    until(lambda: steps_journalled(RUN) >= 1)
    for arguments in (("train", "--resume", RUN), (*REQUEST, "--steps", 5, "--overwrite")):
        code, said = commands.run(*arguments)
        assert code == 2
        assert "another process is training 'runs/cows' now" in said.splitlines()[-1]
    code, said = commands.run(*REQUEST, "--steps", 5)
    assert code == 2
    assert "a training of 'runs/cows' is unfinished" in said
    first.send(signal.SIGINT)
    code, said = first.wait()
    assert code == 130
    assert Checkpoints(UNFINISHED).load() is not None


@pytest.mark.slow
def test_the_command_itself_is_interrupted_and_resumed(text):
    """Once without the server that makes the other tests quick: `python -m chainrule` from start to end."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "chainrule"]
    process = subprocess.Popen(
        [*command, *map(str, REQUEST), "--steps", "300"], stderr=subprocess.PIPE, text=True, env=environment
    )
    until(lambda: steps_journalled(RUN) >= 3, 120)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "resume with: chainrule train --resume runs/cows" in said
    done = subprocess.run(
        [*command, "train", "--resume", str(RUN)], capture_output=True, text=True, env=environment, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert chainrule.load(RUN).metrics[-1]["steps"] == 300
