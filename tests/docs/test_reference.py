"""docs/reference says what the code says."""

from pathlib import Path

from tools.reference import FOLDER, PAGES, write


def test_the_reference_is_up_to_date(tmp_path: Path) -> None:
    for path in write(tmp_path):
        stored = FOLDER / path.name
        assert stored.read_text(encoding="utf-8") == path.read_text(encoding="utf-8"), (
            f"{path.name}: run make reference"
        )


def test_nothing_else_is_in_the_folder() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(PAGES)


def test_commands_have_their_options_with_defaults() -> None:
    page = PAGES["commands.md"]()
    assert "## chainrule train" in page and "| `--task NAME` | `language` |" in page


def test_a_setting_is_described_by_the_comment_behind_it() -> None:
    page = PAGES["models.md"]()
    assert "| `order` | `int` | `5` |" in page
    assert "## transformer" in page and "| `tiny` |" in page
