"""The reference in docs/reference, written from the code: `make reference`."""

from pathlib import Path

from tools.reference import commands, http_api, models, python_api, settings

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"
PAGES = {
    "commands.md": commands.page,
    "models.md": models.page,
    "settings.md": settings.page,
    "python.md": python_api.page,
    "http.md": http_api.page,
}
NOTE = "<!-- Written from the code by `make reference`; do not edit. -->"


def write(folder: Path) -> list[Path]:
    """Write every page of the reference into the folder and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, page in PAGES.items():
        path = folder / name
        path.write_text(f"{NOTE}\n{page()}\n", encoding="utf-8")
        paths.append(path)
    return paths
