"""Pages from the Jinja templates of this folder; whatever is not markup is escaped."""

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from chainrule.analysis.explain.heat_map import tint
from chainrule.progress import times, visible, visible_token

LABEL_CHARACTERS = 10


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("chainrule.analysis.explain"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["token"] = visible_token
    environment.filters["times"] = times
    environment.filters["label"] = _label
    environment.filters["in_text"] = lambda token: visible(token).replace("\n", "⏎\n")
    environment.filters["thousands"] = "{:,}".format
    environment.globals["tint"] = tint
    return environment


def _label(token: str) -> str:
    """A token that stands beside a picture, where there is room for LABEL_CHARACTERS."""
    shown = visible_token(token)
    return shown if len(shown) <= LABEL_CHARACTERS else f"{shown[: LABEL_CHARACTERS - 1]}…"


def render(template: str, **values: object) -> str:
    """A template of the folder filled in."""
    return _environment().get_template(template).render(**values)
