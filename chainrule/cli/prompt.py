"""`chainrule prompt`: a task put into words, on any run."""

from typing import Annotated

import typer

from chainrule.cli import options
from chainrule.cli.flags import Flags, Given
from chainrule.generation.settings import Sampling
from chainrule.generation.template import names as template_names


def command(
    template: Annotated[
        str | None,
        typer.Argument(metavar="TEMPLATE", help=f"{', '.join(template_names())}, or a .toml file of your own."),
    ] = None,
    run: Annotated[str | None, typer.Argument(metavar="RUN", help="A run folder.", show_default=False)] = None,
    fields: Annotated[
        list[str] | None,
        typer.Argument(metavar="FIELD=TEXT", help="A field of the template; FIELD=- reads it from standard input."),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the templates with their fields.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Print the filled-in prompt without running a model.")] = False,
    *,
    drawing: Annotated[Given, Flags(Sampling)],
    greedy: options.Greedy = False,
    as_json: options.Json = False,
) -> None:
    """Prompt a run with a template: write an article, answer a question about a passage, correct grammar.

    For example: chainrule prompt qa runs/smollm2 question="Who kept the lamp?" passage=- < story.txt
    The template sets how to sample and where to stop, unless a flag overrides it.
    """
    from dataclasses import replace

    from chainrule.config import override
    from chainrule.errors import UserError
    from chainrule.generation.template import find_template

    if list_:
        _list(as_json)
        return
    if template is None:
        raise UserError("name a template, then a run; the templates: chainrule prompt --list")
    found = find_template(template)
    if run is None and not show:
        raise UserError("name the run after the template; to see the prompt without one, pass --show")
    if show and run is not None and "=" in run:  # no run was named
        fields = [run, *(fields or [])]
    text = found.fill(_values(fields or []))
    if show:
        _show(found.name, text, as_json)
        return
    changes = drawing | ({"temperature": 0.0} if greedy else {})
    sampling = override(replace(found.sampling, truncate=False), changes, "prompt").seeded()
    assert run is not None
    _answer(run, found.name, text, sampling, as_json)


def _values(fields: list[str]) -> dict[str, str]:
    from chainrule.cli.standard_input import read_standard_input
    from chainrule.errors import UserError

    values: dict[str, str] = {}
    for each in fields:
        name, equals, value = each.partition("=")
        if not equals:
            raise UserError(f"fields are filled by FIELD=TEXT, got '{each}'")
        values[name.strip()] = read_standard_input() if value == "-" else value
    return values


def _list(as_json: bool) -> None:
    from chainrule.cli.output import print_json, print_rows
    from chainrule.generation.template import find_template, names

    found = [find_template(name) for name in names()]
    if as_json:
        print_json([{"name": each.name, "about": each.about, "fields": each.fields} for each in found])
        return
    rows = []
    for each in found:
        rows.append((each.name, each.about))
        rows += [(f"  {name}", about) for name, about in each.fields.items()]
    print_rows(rows)


def _show(name: str, text: str, as_json: bool) -> None:
    from chainrule.cli.output import print_json, show_text

    if as_json:
        print_json({"template": name, "prompt": text})
    else:
        show_text(text, end="\n")


def _answer(path: str, name: str, text: str, sampling: Sampling, as_json: bool) -> None:
    """Print the answer alone, as it comes."""
    options.let_threads_sleep()
    from chainrule.api import load
    from chainrule.cli.output import print_json, show_text
    from chainrule.cli.sample import draw_samples
    from chainrule.generation import stream

    run = load(path, "language")
    if as_json or sampling.samples > 1:
        samples = draw_samples(run, text, sampling)
        if as_json:
            about = {"run": str(run.path), "template": name, "prompt": text, "seed": sampling.seed}
            print_json({**about, "samples": samples})
        else:
            for each in samples:
                show_text(str(each["text"]).strip(), end="\n")
        return
    has_begun = False
    for token in stream(run.model, run.tokenizer, text, sampling):
        shown = token.text if has_begun else token.text.lstrip()
        has_begun |= bool(shown)
        show_text(shown)
    print()
