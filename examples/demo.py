"""From no context to four words of it: n-gram models of Python's own documentation, trained, measured and sampled from.

python examples/demo.py            what `make demo` runs
python examples/demo.py FILE.svg   the same, kept as a picture
"""

import re
import shutil
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

import chainrule
from chainrule.cli.output import visible

HOME = Path("runs") / "demo"
RUNGS = [
    ("1-gram", "ngram", {"order": 1}),
    ("2-gram", "ngram", {"order": 2}),
    ("3-gram", "ngram", {"order": 3}),
    ("5-gram", "ngram", {"order": 5}),
    ("5-gram of BPE", "ngram", {"order": 5, "tokenizer": "bpe"}),
]


def main(picture: str | None = None) -> None:
    console = Console(record=picture is not None, width=100 if picture else None, highlight=False)
    console.print("The text: [bold]builtin:python-docs[/bold], Python's own language reference.\n")
    shutil.rmtree(HOME, ignore_errors=True)
    table = Table("model", "bits/byte", "a sample", padding=(0, 1, 1, 1), show_edge=False)
    with console.status("counting (the first run also compiles the kernels, once)"):
        for name, model, settings in RUNGS:
            run = chainrule.train(model=model, path=HOME / name.replace(" ", "-").lower(), **settings)
            measured = run.metrics[-1]
            sample = visible(" ".join(run.sample("The", seed=11, max_tokens=40, temperature=0.8).split()))
            table.add_row(
                name,
                f"{measured['validation']['bits_per_byte']:.3f}",
                Text(sample),
            )
    console.print(table)
    part = run.config["data"]["text"]["validation"]
    console.print(f"Lower is better: on {part['documents']} documents of {part['bytes']:,} bytes that were kept aside.")
    console.print("\nTry next, after [bold]source .venv/bin/activate[/bold]:")
    for command, what in (
        ("chainrule train YOUR.txt", "a model of your own text"),
        (f"chainrule sample {HOME}/5-gram --prompt The", "text from this one, as it comes"),
        (f"chainrule evaluate {HOME}/5-gram README.md", "how well it predicts another text"),
        (f"chainrule show {HOME}/5-gram", "what is in it"),
        (f"chainrule export {HOME}/5-gram --to arpa", "take it to KenLM and others"),
    ):
        console.print(f"  {command:<46} {what}", highlight=False, soft_wrap=True)
    if picture:
        drawn = re.sub(r"@font-face \{.*?\}", "", console.export_svg(title="make demo"), flags=re.DOTALL)
        Path(picture).write_text(
            drawn.replace("Fira Code", "ui-monospace, DejaVu Sans Mono")
        )  # no fonts from elsewhere


if __name__ == "__main__":
    main(*sys.argv[1:])
