"""The commands of the guides and of the README work, and what they print fits a terminal of 80 columns."""

import gzip
import json
import os
import re
from pathlib import Path
from pydoc_data.topics import topics
from urllib.request import urlopen

import pytest

from tests.docs.shell import (
    COLUMNS,
    ROOT,
    blocks,
    free_port,
    make_environment,
    run_on_terminal,
    served,
    with_small_budgets,
)
from tests.tagging.treebank import write as write_treebank
from tests.tasks.chats import colours
from tests.tasks.chats import write as write_chats
from tests.tasks.toys import sentences, translate

GUIDES = sorted(page for page in (ROOT / "docs" / "guides").glob("*.md") if blocks(page))
TEXT = "\n\n".join(topics.values())[:60_000]
# What these print is text, however long its lines are.
FREE = re.compile(r"^(echo .* \| )?chainrule ((sample|chat|prompt|evaluate|translate|tag)\b|explain runs/de-en)")

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="needs a shell and a terminal")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A place with the texts that the guides name."""
    home = tmp_path / "home"
    home.mkdir()
    for name in ("poems.txt", "other.txt"):
        (home / name).write_text(TEXT if name == "poems.txt" else TEXT[20_000:24_000])
    (home / "small.txt").write_text(TEXT[:20_000])
    (home / "start.txt").write_text("The function\n")
    write_translations(home)
    write_conversations(home)
    for name, count in (("en-train", 60), ("en-dev", 10), ("en-test", 10), ("new", 5)):
        (home / f"{name}.conllu").write_text(write_treebank(count, seed=count))
    return home


def write_translations(home: Path) -> None:
    sources = sentences(200)
    targets = [translate(each) for each in sources]
    pairs = list(zip(sources, targets, strict=True))
    (home / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    (home / "news.jsonl").write_text("".join(json.dumps({"article": a, "summary": b}) + "\n" for a, b in pairs))
    for language, texts in (("de", sources), ("en", targets)):
        (home / f"test.{language}").write_text("".join(f"{text}\n" for text in texts[:20]))
        for name, part in (("train", texts[20:]), ("val", texts[:20])):
            (home / f"{name}.{language}.gz").write_bytes(gzip.compress("".join(f"{each}\n" for each in part).encode()))


def write_conversations(home: Path) -> None:
    for name, count in (("chats", 60), ("new", 10), ("dev", 10)):
        write_chats(home / f"{name}.jsonl", colours(count, seed=count))
    for name, count in (("pairs", 60), ("other", 10)):
        talks = colours(count, seed=count)
        pairs = [{"prompt": talk[0][1], "chosen": talk[1][1], "rejected": "Who knows?"} for talk in talks]
        (home / f"{name}.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in pairs))
    logged = (f"{'User' if role == 'user' else 'Agent'}: {text}" for talk in colours(30) for role, text in talk)
    (home / "log.txt").write_text("\n---\n".join("\n".join(pair) for pair in zip(logged, logged, strict=True)))


def commands_of(block: str) -> list[str]:
    return re.sub(r"\\\n\s*", "", block).splitlines()


def check_width(command: str, printed: str) -> None:
    if FREE.match(command):
        return
    for line in printed.splitlines():
        assert len(line.rstrip()) <= COLUMNS, f"{command}: {line}"


def test_the_guides_have_commands_to_run() -> None:
    assert {page.stem for page in GUIDES} >= {"comparing", "doctor", "generation", "mixing", "tagging", "translation"}


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_every_command_of_a_guide_works(page: Path, folder: Path, tmp_path: Path) -> None:
    environment = make_environment(tmp_path / "bin")
    if page.stem not in (
        "mixing",
        "doctor",
        "translation",
        "tagging",
        "serving",
        "dialogue",
        "preferences",
        "finetuning",
    ):  # these train what they use
        run_on_terminal("chainrule train poems.txt", folder, environment)
    for command in (line for block in blocks(page) for line in commands_of(block)):
        check_width(command, run_on_terminal(with_small_budgets(command), folder, environment))


def test_the_commands_of_the_readme_work(folder: Path, tmp_path: Path) -> None:
    environment = make_environment(tmp_path / "bin")
    found = [line for block in blocks(ROOT / "README.md", "") for line in block.splitlines()]
    commands = [line.partition("#")[0].strip() for line in found if line.startswith("chainrule ")]
    (serve,) = (command for command in commands if command.startswith("chainrule serve"))
    assert len(commands) == 8
    for command in commands:
        if command != serve:
            printed = run_on_terminal(with_small_budgets(command), folder, environment)
            assert printed.strip()
            check_width(command, printed)
    port = free_port()
    with served(f"{serve} --port {port}", folder, environment), urlopen(f"http://127.0.0.1:{port}/v1/models") as answer:
        assert [each["id"] for each in json.load(answer)["data"]] == ["poems", "poems-5"]


def test_help_fits_the_terminal_and_is_not_cut_off(folder: Path, tmp_path: Path) -> None:
    import typer.main

    from chainrule.cli.main import app

    environment = make_environment(tmp_path / "bin")
    for name, command in typer.main.get_group(app).commands.items():
        printed = run_on_terminal(f"chainrule {name} --help", folder, environment)
        assert max(map(len, printed.splitlines())) <= COLUMNS
        words = " ".join(re.sub(r"[│╭╮╰╯─]", " ", printed).split())
        for parameter in command.params:
            for flag in (
                each for each in parameter.opts if each.startswith("--") and not getattr(parameter, "hidden", False)
            ):
                assert re.search(rf"{flag}(\s|,|$)", words), f"chainrule {name} {flag} is cut off"


def test_no_word_of_an_explanation_is_cut_off(folder: Path, tmp_path: Path) -> None:
    environment = make_environment(tmp_path / "bin")
    run_on_terminal("chainrule train poems.txt", folder, environment)
    printed = run_on_terminal("chainrule explain runs/poems 'New in version'", folder, environment)
    ladder = printed.partition("back-off ladder")[2].partition("sum")[0]
    assert "version" in ladder and "(uniform)" in ladder and "…" not in ladder
