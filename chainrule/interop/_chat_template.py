"""Recognises the style of conversations in a model's chat template by its marks, and writes a template of a style.

A template is a program. It is only searched as text and never executed; whatever it does beyond its style is left out.
Exported models get a template that is written from the style alone, which other programs execute.
"""

import re

from chainrule.text.chat import STYLES, Around, Chat, Style


def _ends_with_eos(role: str) -> str:
    """Zephyr's turns end with eos; other templates with the same marks end theirs with a line break or <|end|>."""
    return rf"""<\|{role}\|>(\\n|\n)['"]\s*\+\s*message(\[['"]content['"]\]|\.content)\s*\+\s*eos_token"""


# Of each style, all of these are in a template of its kind.
MARKS = {
    "chatml": (r"<\|im_start\|>", r"<\|im_end\|>"),
    "llama-3": (r"<\|start_header_id\|>", r"<\|end_header_id\|>", r"<\|eot_id\|>"),
    "zephyr": (*map(_ends_with_eos, ("system", "user", "assistant")), r"(?s)\A(?!.*<\|end\|>)"),
    "llama-2": (r"\[INST\] ", r" \[/INST\]", r"<<SYS>>", r"<</SYS>>"),
    "mistral-v1": (r"""['"] \[INST\] """, r" \[/INST\]"),
    "mistral-v3": (r"""['"]\[INST\] """, r"""['"]\[/INST\]"""),
    "mistral": (r"""['"]\[INST\] """, r" \[/INST\]"),
}
# The default system message of ChatML's templates, as a text in one of their quotes.
SYSTEM = re.compile(r"""<\|im_start\|>system(?:\\n|\n)([^'"{}<>\\]+)<\|im_end\|>""")


def recognise(template: object) -> Chat | None:
    """The style of a template: None where there is no template, a plain transcript where no known style fits."""
    if not isinstance(template, str) or not template.strip():
        return None
    style = next(
        (name for name, marks in MARKS.items() if all(re.search(mark, template) for mark in marks)), "transcript"
    )
    system = SYSTEM.search(template) if style == "chatml" else None
    return Chat(style, system[1] if system else None)


def chat_notes(chat: Chat | None) -> list[str]:
    """Notes on the conversations of an imported model."""
    if chat is None:
        return []
    if chat.written.is_plain:
        known = ", ".join(name for name in STYLES if name != chat.style)
        return [f"its chat template is of no supported style ({known}); conversations are written as a transcript"]
    return [f"conversations are written in the style {chat.style}, told by the marks in its chat template"]


def template_of(chat: Chat | None) -> str | None:
    """A jinja2 template that renders what Style.pieces gives; None for a transcript, which needs none."""
    if chat is None or chat.written.is_plain:
        return None
    style = chat.written
    answer = style.assistant.before.rstrip(" ")
    return "".join(
        [
            _say(style.opening),
            _with_systems(style, chat.system) if style.system else _without_systems(style),
            f"{{% if add_generation_prompt %}}{_say(answer)}{{% endif %}}" if answer else "",
        ]
    )


def _with_systems(style: Style, system: str | None) -> str:
    """Every message is a turn; the default system message comes first unless the conversation has its own."""
    assert style.system is not None
    default = _say(f"{style.system.before}{system}{style.system.after}")
    first = f"{{% if messages[0]['role'] != 'system' %}}{default}{{% endif %}}" if system is not None else ""
    roles = {"system": style.system, "user": style.user, "assistant": style.assistant}
    turns = "".join(_when(role, _turn(around, _said(style, role))) for role, around in roles.items())
    return f"{first}{{% for message in messages %}}{turns}{{% endfor %}}"


def _without_systems(style: Style) -> str:
    """System messages are joined into the first or the last user message; without any, they are a user message."""
    users = "(messages | selectattr('role', 'equalto', 'user') | list | length)"
    joined = f"{_quote(style.within.before)} + system + {_quote(style.within.after)} + message['content']"
    trimmed = " | trim" if "user" in style.trims else ""
    content = (
        "{% set seen.users = seen.users + 1 %}"
        f"{{% if system and seen.users == {users if style.joins_last else '1'} %}}{{% set content = {joined} %}}"
        "{% else %}{% set content = message['content'] %}{% endif %}"
    )
    return (
        "{% set system = messages | selectattr('role', 'equalto', 'system') | map(attribute='content')"
        " | join('\\n\\n') %}{% set seen = namespace(users=0) %}"
        f"{{% if system and {users} == 0 %}}{_turn(style.user, f'(system{trimmed})')}{{% endif %}}"
        "{% for message in messages %}"
        + _when("user", content + _turn(style.user, f"(content{trimmed})"))
        + _when("assistant", _turn(style.assistant, _said(style, "assistant")))
        + "{% endfor %}"
    )


def _when(role: str, turn: str) -> str:
    return f"{{% if message['role'] == '{role}' %}}{turn}{{% endif %}}"


def _said(style: Style, role: str) -> str:
    return "(message['content'] | trim)" if role in style.trims else "message['content']"


def _turn(around: Around, said: str) -> str:
    return f"{{{{ {' + '.join(filter(None, [_expression(around.before), said, _expression(around.after)]))} }}}}"


def _say(text: str) -> str:
    return f"{{{{ {_expression(text)} }}}}" if text else ""


def _expression(text: str) -> str:
    """'<s>[INST] ' -> bos_token + '[INST] '"""
    tokens = {"<s>": "bos_token", "</s>": "eos_token"}
    return " + ".join(tokens.get(part) or _quote(part) for part in re.split("(</?s>)", text) if part)


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"
