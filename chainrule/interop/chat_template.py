"""Which style of conversations a model's chat template stands for, told by the marks in it.

Such a template is a program. It is looked at as text and never run: what it would do beyond its style is left out.
"""

import re
from typing import Any

from chainrule.text.chat import STYLES, Chat

# Of each style, all of these are in a template of its kind.
MARKS = {
    "chatml": (r"<\|im_start\|>", r"<\|im_end\|>"),
    "llama-3": (r"<\|start_header_id\|>", r"<\|end_header_id\|>", r"<\|eot_id\|>"),
    "zephyr": (r"<\|user\|>(\\n|\n)", r"<\|system\|>(\\n|\n)", r"<\|assistant\|>", r"eos_token"),
    "llama-2": (r"\[INST\] ", r" \[/INST\]", r"<<SYS>>", r"<</SYS>>"),
    "mistral-v1": (r"""['"] \[INST\] """, r" \[/INST\]"),
    "mistral-v3": (r"""['"]\[INST\] """, r"""['"]\[/INST\]"""),
    "mistral": (r"""['"]\[INST\] """, r" \[/INST\]"),
}
# The default system message of ChatML's templates, as a text in one of their quotes.
SYSTEM = re.compile(r"""<\|im_start\|>system(?:\\n|\n)([^'"{}<>\\]+)<\|im_end\|>""")


def recognise(template: Any) -> Chat | None:
    """None where there is no template, a plain transcript where it is of no style known here."""
    if not isinstance(template, str) or not template.strip():
        return None
    style = next(
        (name for name, marks in MARKS.items() if all(re.search(mark, template) for mark in marks)), "transcript"
    )
    system = SYSTEM.search(template) if style == "chatml" else None
    return Chat(style, system[1] if system else None)


def chat_notes(chat: Chat | None) -> list[str]:
    """What whoever imports a model should know of its conversations."""
    if chat is None:
        return []
    if chat.written.is_plain:
        known = ", ".join(name for name in STYLES if name != chat.style)
        return [f"its chat template is of no style known here ({known}); conversations are written as a transcript"]
    return [f"conversations are written in the style {chat.style}, told by the marks in its chat template"]
