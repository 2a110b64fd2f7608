"""Bad input: one clear sentence on standard error, exit code 2, no traceback, nothing left behind."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ENVIRONMENT = {**os.environ, "NO_COLOR": "1", "COLUMNS": "100"}


def chainrule(*arguments: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "chainrule", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=120, **options)  # type: ignore[call-overload]


def assert_refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("chainrule: ")
    assert done.stderr.count("\n") == 1
    for word in words:
        assert word in done.stderr
    assert not Path("runs").exists() or os.listdir("runs") == []


FILES = {
    "empty.txt": (b"", ("'empty.txt' is empty",)),
    "blank.txt": (b" \n\t\n \r\n", ("only whitespace",)),
    "nul.txt": (b"hello\x00world\n", ("binary", "byte 5")),
    "mixed.txt": ("café ".encode() + b"caf\xe9 au lait\n", ("byte 9", "--encoding")),
    "late.txt": (b"fine\n" * 100_000 + b"\x81\n", ("byte 500000",)),
    "picture.txt": (b"\x89PNG\r\n\x1a\n" + bytes(50), ("PNG",)),
    "bad.jsonl": (b'{"text": "a"}\n{"text": \n', ("bad.jsonl", "2")),
    "other.jsonl": (b'{"txt": "a"}\n', ("'text'", "'txt'")),
    "bad.gz": (b"not gzip at all", ("bad.gz",)),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_cannot_be_read_is_refused_in_one_sentence(tmp_path, name):
    content, words = FILES[name]
    (tmp_path / name).write_bytes(content)
    assert_refused(chainrule("train", name), *words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("train", "absent.txt"), ("absent.txt",)),
        (("train", "empty-folder"), ("empty-folder", ".txt")),
        (("train", "*.nothing"), ("*.nothing",)),
        (("train", "some.txt", "--model", "ngarm"), ("did you mean 'ngram'",)),
        (("train", "some.txt", "--set", "ordre=3"), ("did you mean 'order'",)),
        (("train", "some.txt", "--order", "0"), ("between 1 and 200",)),
        (("train", "some.txt=0.5", "some.txt"), ("has no weight",)),
        (("train", "some.txt", "--encoding", "klingon"), ("klingon",)),
        (("sample", "runs/none"), ("run 'runs/none' not found", "chainrule train makes runs")),
        (("show", "runs/none"), ("not found",)),
        (("import", "some.txt"), ("some.txt",)),
        (("import", "absent.arpa"), ("absent.arpa",)),
    ],
)
def test_a_wrong_argument_is_refused_in_one_sentence(tmp_path, arguments, words):
    (tmp_path / "some.txt").write_text("some text\n" * 30)
    (tmp_path / "empty-folder").mkdir()
    assert_refused(chainrule(*arguments), *words)


def test_a_misspelled_flag_is_explained_and_exits_with_2():
    done = chainrule("train", "--ordr", "3")
    assert done.returncode == 2
    assert "--order" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("flags", "word"),
    [(("--temperature", "-1"), "temperature"), (("--top-p", "2"), "top_p"), (("--max-tokens", "0"), "max_tokens")],
)
def test_sampling_settings_out_of_range_are_refused(tmp_path, flags, word):
    (tmp_path / "some.txt").write_text("some text here\n" * 30)
    assert chainrule("train", "some.txt", "--as", "made").returncode == 0
    assert_refused(chainrule("sample", "made", *flags), word)


GOOD = {
    "bom.txt": b"\xef\xbb\xbfthe cow\nthe hay\n",
    "utf16.txt": "the cow\nthe hay é\n".encode("utf-16"),
    "crlf.txt": b"the cow\r\nthe hay\r\n",
    "separator.txt": "the\u2028cow\nthe hay\n".encode(),
    "one-word.txt": b"cow",
}


@pytest.mark.parametrize("name", GOOD)
def test_unusual_but_readable_files_just_work(tmp_path, name):
    (tmp_path / name).write_bytes(GOOD[name])
    done = chainrule("train", name, "--unit", "line")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_a_pipe_is_read_like_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")

    def write() -> None:
        (tmp_path / "pipe").write_text("the cow eats hay\n" * 50)

    writer = threading.Thread(target=write)
    writer.start()
    done = chainrule("train", "pipe", "--unit", "line")
    writer.join()
    assert done.returncode == 0, done.stderr
    assert "50 documents" in done.stdout or "45 documents" in done.stdout


def test_help_and_version_answer_without_heavy_imports():
    code = (
        "import sys; sys.argv = ['chainrule', '{}']\n"
        "try:\n    from chainrule.cli.main import main; main()\n"
        "except SystemExit: pass\n"
        "heavy = {{'torch', 'numpy', 'numba', 'tokenizers', 'pydantic'}} & set(sys.modules)\n"
        "print(sorted(heavy), file=sys.stderr)"
    )
    for flag, word in (("--help", "train"), ("--version", "chainrule ")):
        done = subprocess.run([sys.executable, "-c", code.format(flag)], capture_output=True, text=True, check=True)
        assert word in done.stdout
        assert done.stderr.strip() == "[]"


def test_training_and_sampling_by_counting_never_import_torch(tmp_path):
    (tmp_path / "some.txt").write_text("some text here\n" * 30)
    code = (
        "import sys, chainrule\n"
        "run = chainrule.train('some.txt'); run.sample('some', seed=1); run.evaluate('some.txt')\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("command", ["train", "sample", "evaluate", "show", "export", "import", "merge", "forget"])
def test_every_command_explains_itself(command):
    done = chainrule(command, "--help")
    assert done.returncode == 0
    assert "--json" in done.stdout
    assert "\x1b[" not in done.stdout


def test_interrupting_leaves_nothing_and_exits_with_130(tmp_path):
    import signal
    import time

    (tmp_path / "some.txt").write_text("some text here\n" * 30)
    os.mkfifo(tmp_path / "pipe")  # nobody writes to it, so reading waits
    process = subprocess.Popen(
        [sys.executable, "-m", "chainrule", "train", "pipe"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )  # fmt: skip
    writer = os.open(tmp_path / "pipe", os.O_WRONLY)  # waits until it is read from
    for _ in range(3):  # a signal just before the read begins is heard only with the next one
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=15)
            break
        except subprocess.TimeoutExpired:
            continue
    _, err = process.communicate(timeout=30)
    os.close(writer)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert not Path("runs").exists() or os.listdir("runs") == []


def test_a_reader_that_leaves_early_is_no_error(tmp_path):
    (tmp_path / "some.txt").write_text("some text here and there\n" * 30)
    assert chainrule("train", "some.txt", "--as", "made").returncode == 0
    line = f"{sys.executable} -m chainrule sample made -n 200 | head -c 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True)
    assert done.stderr == b""


def test_completion_is_offered_for_shells():
    done = subprocess.run(
        [sys.executable, "-m", "chainrule", "--show-completion", "bash"],
        capture_output=True, text=True, env={**ENVIRONMENT, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
    )  # fmt: skip
    assert "complete" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "flag"),
    [
        (["poems.txt"], "the text"),
        (["--seed", "7"], "--seed"),
        (["--as", "runs/y"], "--as"),
        (["--tokenizer", "bpe"], "--tokenizer"),
        (["--size", "small"], "--size"),
    ],
)
def test_resuming_refuses_what_would_have_no_effect(arguments, flag):
    assert_refused(
        chainrule("train", "--resume", "runs/x", *arguments),
        f"--resume continues with the settings that training began with; leave out {flag}",
    )
