"""Flags are made from the fields of settings: the same names, defaults and help."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from chainrule import registry
from chainrule.cli.flags import Flags, Given, expand, option
from chainrule.config import setting, settings_of
from chainrule.data.settings import Reading, Splitting
from chainrule.generation.settings import Sampling
from chainrule.ngram.config import Config, smoothings
from chainrule.text.settings import Tokenization
from chainrule.training.recipe import OPTIMIZERS, Recipe
from chainrule.training.resolve import MADE_OF_RUNS


@dataclass(frozen=True)
class Baking:
    loaves: int = setting(2, "How many loaves.", flag=("--loaves", "-l"))
    oven_heat: float = setting(220.0, "How hot.", flag=True)
    seeds: tuple[str, ...] = setting((), "What is on top: {names}.", flag=True, names=lambda: ("poppy", "sesame"))
    is_dark: bool = setting(False, "Dark.", flag="--dark")
    secret: int = setting(1, "No flag.")


def call(*arguments: str) -> tuple[Baking, Given, int]:
    found: list[tuple[Baking, Given, int]] = []

    def command(
        whole: Annotated[Baking, Flags()],
        changes: Annotated[Given, Flags(Splitting, ("split_seed", "split"))],
        width: Annotated[int, option(Sampling, "top_k", "--width")] = 3,
    ) -> None:
        found.append((whole, changes, width))

    app = typer.Typer()
    app.command()(expand(command))
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return found[0]


def test_a_command_gets_settings_whole_or_as_what_was_given():
    assert call() == (Baking(), {}, 3)
    given = call(
        "-l", "3", "--oven-heat", "180", "--seeds", "poppy", "--seeds", "sesame", "--dark", "--split-seed", "7"
    )
    assert given == (Baking(3, 180.0, ("poppy", "sesame"), True), {"split_seed": 7}, 3)
    assert call("--width", "9", "--split", "tail") == (Baking(), {"split": "tail"}, 9)


def test_help_names_what_there_is():
    assert settings_of(Baking)["seeds"].help == "What is on top: poppy, sesame."
    assert settings_of(Baking)["oven_heat"].flags == ("--oven-heat",)
    assert settings_of(Baking)["secret"].flags == ()


def help_of(*command: str) -> str:
    environment = {**os.environ, "COLUMNS": "400", "NO_COLOR": "1"}
    line = [sys.executable, "-m", "chainrule", *command, "--help"]
    done = subprocess.run(line, capture_output=True, text=True, check=True, env=environment)
    return done.stdout


def test_train_lists_every_flag_of_its_settings_and_every_name_there_is():
    text = help_of("train")
    for cls in (Reading, Splitting, Tokenization, Recipe, Config):
        for own in settings_of(cls).values():
            for flag in own.flags:
                assert re.search(rf"{flag}\b", text), flag
            if own.flags:
                assert own.help in text
    for name in [*OPTIMIZERS, *smoothings(), *registry.names("chainrule.tasks")]:
        assert name in text
    for name in registry.names("chainrule.models", without=(*registry.NOT_NAMED, *MADE_OF_RUNS)):
        assert name in text


@pytest.mark.parametrize("command", ["train", "sample", "evaluate", "translate", "compare", "serve"])
def test_flags_that_take_no_value_show_no_type(command):
    assert "<bool>" not in help_of(command)


@pytest.mark.parametrize("command", ["train", "sample", "prompt", "translate", "evaluate"])
def test_the_help_of_a_command_loads_nothing_heavy(command):
    code = (
        f"import sys; sys.argv = ['chainrule', '{command}', '--help']\n"
        "try:\n    from chainrule.cli.main import main; main()\n"
        "except SystemExit: pass\n"
        "print(sorted({'torch', 'numpy', 'numba', 'tokenizers'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_every_setting_of_training_says_what_it_is():
    for cls in (Reading, Splitting, Tokenization, Recipe, Config, Sampling):
        own = settings_of(cls)
        missing = [name for name in cls.__dataclass_fields__ if name not in own]
        assert not missing, (cls, missing)
