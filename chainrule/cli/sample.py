"""`chainrule sample`: text from a model, as it comes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chainrule.cli import options
from chainrule.cli.flags import Flags, option
from chainrule.generation.settings import Beam, Sampling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.api.language import TrainedRun
    from chainrule.generation import Generation, Token
    from chainrule.generation.drafts import Draft
    from chainrule.text.base import Tokenizer


def command(
    run: options.RunPath,
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="[PROMPT]", help="The text to continue; - reads it from standard input.", show_default=False
        ),
    ] = None,
    prompt: Annotated[str | None, typer.Option(help="The text to continue, as a flag.", show_default=False)] = None,
    prompt_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Read the text to continue from this file.", show_default=False)
    ] = None,
    *,
    sampling: Annotated[Sampling, Flags()],
    greedy: options.Greedy = False,
    beam: Annotated[int, option(Beam, "width", help="Search with a beam of this width instead of sampling.")] = 0,
    length_penalty: Annotated[
        float, option(Beam, "length_penalty", help="For a beam search: above 0 favours long texts.")
    ] = 1.0,
    json_schema: Annotated[
        Path | None, option(Sampling, "json_schema", "--json-schema", help="The text is JSON that matches this schema.")
    ] = None,
    regex: Annotated[str | None, option(Sampling, "regex", "--regex")] = None,
    grammar: Annotated[Path | None, option(Sampling, "grammar", "--grammar")] = None,
    logit_bias: Annotated[list[str] | None, option(Sampling, "logit_bias", "--logit-bias")] = None,
    draft: Annotated[
        str | None,
        typer.Option(
            metavar="lookup|RUN",
            help="Speculative decoding: a smaller run, or a lookup in the text so far, drafts tokens that the model "
            "verifies; the same text, faster.",
        ),
    ] = None,
    quantize: options.Quantize = None,
    as_json: options.Json = False,
) -> None:
    """Sample text from a run, token by token."""
    options.let_threads_sleep()
    from dataclasses import replace

    from chainrule.api import load

    prompt = _read_prompt(text, prompt, prompt_file)
    loaded = load(run, "language")
    if quantize:
        options.quantize(loaded, quantize)
    sampling = replace(
        sampling,
        json_schema=_read(json_schema, "schema"),
        regex=regex,
        grammar=_read(grammar, "grammar"),
        logit_bias=_parse_bias(logit_bias) if logit_bias else None,
    )
    if beam:
        _search(loaded, prompt, Beam.from_sampling(beam, length_penalty, sampling, draft is not None), as_json)
        return
    sampling = replace(sampling, temperature=0.0 if greedy else sampling.temperature).seeded()
    guesses = None if draft is None else loaded.draft(draft)
    if as_json or sampling.samples > 1:
        _sample_whole(loaded, prompt, sampling, guesses, as_json)
    else:
        _sample_live(loaded, prompt, sampling, guesses)


def _read_prompt(text: str | None, prompt: str | None, file: Path | None) -> str:
    """The prompt, given in one of three ways or not at all."""
    from chainrule.cli.standard_input import read_standard_input, read_text_file
    from chainrule.errors import UserError

    given = {"an argument": text, "--prompt": prompt, "--prompt-file": file}
    ways = [way for way, value in given.items() if value is not None]
    if len(ways) > 1:
        raise UserError(f"the prompt was given twice, as {' and '.join(ways)}; leave one out")
    if file is not None:
        return read_text_file(file)
    written = text or prompt or ""
    return read_standard_input() if written == "-" else written


def _read(path: Path | None, what: str) -> str | None:
    from chainrule.errors import UserError

    if path is None:
        return None
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the {what} '{path}': {getattr(error, 'strerror', None) or error}") from None


def _parse_bias(assignments: list[str]) -> dict[int, float]:
    """['262=-5'] -> {262: -5.0}"""
    from chainrule.errors import UserError

    found = {}
    for each in assignments:
        id, _, bias = each.partition("=")
        try:
            found[int(id)] = float(bias)
        except ValueError:
            raise UserError(f"a logit bias is given as ID=BIAS, such as 262=-5, got '{each}'") from None
    return found


def _sample_live(run: "TrainedRun", prompt: str, sampling: Sampling, draft: "Draft | None") -> None:
    from chainrule.cli.output import show_text
    from chainrule.generation import stream

    tokens = stream(run.model, run.tokenizer, prompt, sampling, draft=draft)
    show_text(prompt)
    for token in tokens:
        show_text(token.text)
    print()


def _sample_whole(run: "TrainedRun", prompt: str, sampling: Sampling, draft: "Draft | None", as_json: bool) -> None:
    from chainrule.generation import sample

    if as_json:
        _print_json(run, prompt, draw_samples(run, prompt, sampling, draft), seed=sampling.seed)
    else:
        _print_texts(sample(run.model, run.tokenizer, prompt, sampling, draft=draft), prompt)


def draw_samples(
    run: "TrainedRun", prompt: str, sampling: Sampling, draft: "Draft | None" = None
) -> list[dict[str, object]]:
    """Whole texts with their tokens, for JSON."""
    from chainrule.generation import stream

    rows: dict[int, list[Token]] = {}
    for token in stream(run.model, run.tokenizer, prompt, sampling, draft=draft):
        rows.setdefault(token.sample, []).append(token)
    return [
        {
            "text": "".join(token.text for token in tokens),
            "finish_reason": tokens[-1].finish_reason,
            "tokens": [describe_token(token, run.tokenizer) for token in tokens],
        }
        for _, tokens in sorted(rows.items())
    ]


def describe_token(token: "Token", tokenizer: "Tokenizer") -> dict[str, object]:
    """A token for JSON."""
    described = _named(tokenizer, token.id, token.log_probability)
    if token.alternatives:
        described["alternatives"] = [_named(tokenizer, *other) for other in token.alternatives]
    return described


def _named(tokenizer: "Tokenizer", id: int, log_probability: float) -> dict[str, object]:
    return {"id": id, "token": tokenizer.token_text(id), "log_probability": log_probability}


def _search(run: "TrainedRun", prompt: str, beam: Beam, as_json: bool) -> None:
    from chainrule.generation import beam_search

    found = beam_search(run.model, run.tokenizer, prompt, beam)
    if not as_json:
        _print_texts(found, prompt)
        return
    samples: list[dict[str, object]] = [
        {
            "text": each.text,
            "finish_reason": each.finish_reason,
            "score": each.score,
            "tokens": [
                _named(run.tokenizer, id, log_probability)
                for id, log_probability in zip(each.ids, each.log_probabilities, strict=True)
            ],
        }
        for each in found
    ]
    _print_json(run, prompt, samples)


def _print_json(run: "TrainedRun", prompt: str, samples: list[dict[str, object]], **more: object) -> None:
    from chainrule.cli.output import print_json

    print_json({"run": str(run.path), "prompt": prompt, **more, "samples": samples})


def _print_texts(generations: "Sequence[Generation]", prompt: str) -> None:
    from chainrule.cli.output import show_text

    for i, generation in enumerate(generations):
        if i:
            print("-" * 20)
        show_text(prompt + generation.text, end="\n")
