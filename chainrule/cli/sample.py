"""`chainrule sample`: text from a model, as it comes."""

from typing import Annotated, Any

import typer

from chainrule.cli import options


def command(
    run: options.RunPath,
    prompt: Annotated[str, typer.Option(help="What the text starts with; - reads it from standard input.")] = "",
    temperature: Annotated[float, options.TEMPERATURE] = 1.0,
    top_k: Annotated[int, options.TOP_K] = 0,
    top_p: Annotated[float, options.TOP_P] = 1.0,
    min_p: Annotated[float, options.MIN_P] = 0.0,
    repetition_penalty: Annotated[float, options.REPETITION_PENALTY] = 1.0,
    max_tokens: Annotated[int, options.MAX_TOKENS] = 200,
    stop: Annotated[list[str] | None, options.STOP] = None,
    samples: Annotated[int, options.SAMPLES] = 1,
    seed: Annotated[int | None, options.SEED] = None,
    greedy: Annotated[bool, options.GREEDY] = False,
    beam: Annotated[int, typer.Option(help="Search with a beam of this width instead of sampling.")] = 0,
    length_penalty: Annotated[float, typer.Option(help="Of beam search: above 0 favours long texts.")] = 1.0,
    logprobs: Annotated[int, options.LOGPROBS] = 0,
    truncate: Annotated[bool, options.TRUNCATE] = False,
    draft: Annotated[
        str | None,
        typer.Option(
            metavar="lookup|RUN",
            help="Guess ahead, from the text itself or by a smaller run, and verify: the same text, sooner.",
        ),
    ] = None,
    quantize: options.Quantize = None,
    as_json: options.Json = False,
) -> None:
    """Sample text from a run, token by token."""
    options.let_threads_sleep()
    import sys

    from chainrule.errors import UserError
    from chainrule.generation import Beam, Sampling
    from chainrule.runs.folder import Run

    loaded = Run(run)
    if quantize:
        options.quantize(loaded, quantize)
    prompt = sys.stdin.read() if prompt == "-" else prompt
    if beam:
        if (
            draft
            or stop
            or seed is not None
            or (temperature, top_k, top_p, min_p, repetition_penalty) != (1.0, 0, 1.0, 0.0, 1.0)
        ):
            raise UserError(
                "a beam search draws nothing: leave out --beam, or --stop, --seed, --draft and the sampling settings"
            )
        _search(loaded, prompt, Beam(beam, length_penalty, max_tokens, samples, truncate), as_json)
        return
    sampling = Sampling(
        temperature=0.0 if greedy else temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        max_tokens=max_tokens,
        stop=tuple(stop or ()),
        seed=seed,
        samples=samples,
        alternatives=logprobs,
        truncate=truncate,
    ).seeded()
    guesses = _draft(loaded, draft) if draft else None
    if as_json or samples > 1:
        _sample_whole(loaded, prompt, sampling, guesses, as_json)
    else:
        _sample_live(loaded, prompt, sampling, guesses)


def _draft(run: Any, name: str) -> Any:
    from chainrule.errors import UserError
    from chainrule.generation.drafts import GreedyDraft, PromptLookup
    from chainrule.runs.folder import Run

    if name == "lookup":
        return PromptLookup()
    other = Run(name)
    if other.tokenizer.fingerprint != run.tokenizer.fingerprint:
        raise UserError(
            f"'{name}' cuts text into other tokens than '{run.path}', so it cannot guess for it; "
            f"train it with --tokenizer {run.path}"
        )
    return GreedyDraft(other.model)


def _sample_live(run: Any, prompt: str, sampling: Any, draft: Any) -> None:
    from chainrule.cli.output import show_text
    from chainrule.generation import stream

    tokens = stream(run.model, run.tokenizer, prompt, sampling, draft=draft)
    show_text(prompt)
    for token in tokens:
        show_text(token.text)
    print()


def _sample_whole(run: Any, prompt: str, sampling: Any, draft: Any, as_json: bool) -> None:
    from chainrule.generation import sample

    if as_json:
        _print_json(run, prompt, draw_samples(run, prompt, sampling, draft), seed=sampling.seed)
    else:
        _print_texts(sample(run.model, run.tokenizer, prompt, sampling, draft=draft), prompt)


def draw_samples(run: Any, prompt: str, sampling: Any, draft: Any = None) -> list[dict[str, Any]]:
    """Whole texts with their tokens, for JSON."""
    from chainrule.generation import stream

    rows: dict[int, list[Any]] = {}
    for token in stream(run.model, run.tokenizer, prompt, sampling, draft=draft):
        rows.setdefault(token.sample, []).append(token)
    return [
        {
            "text": "".join(token.text for token in tokens),
            "finish_reason": tokens[-1].finish_reason,
            "tokens": [_describe(token, run.tokenizer) for token in tokens],
        }
        for _, tokens in sorted(rows.items())
    ]


def _describe(token: Any, tokenizer: Any) -> dict[str, Any]:
    def named(id: int, log_probability: float) -> dict[str, Any]:
        return {"id": id, "token": tokenizer.token_text(id), "log_probability": log_probability}

    others = {"alternatives": [named(*other) for other in token.alternatives]} if token.alternatives else {}
    return named(token.id, token.log_probability) | others


def _search(run: Any, prompt: str, beam: Any, as_json: bool) -> None:
    from chainrule.generation import beam_search

    found = beam_search(run.model, run.tokenizer, prompt, beam)
    if not as_json:
        _print_texts(found, prompt)
        return
    samples = [
        {
            "text": each.text,
            "finish_reason": each.finish_reason,
            "score": each.score,
            "tokens": [
                {"id": id, "token": run.tokenizer.token_text(id), "log_probability": log_probability}
                for id, log_probability in zip(each.ids, each.log_probabilities, strict=True)
            ],
        }
        for each in found
    ]
    _print_json(run, prompt, samples)


def _print_json(run: Any, prompt: str, samples: list[Any], **more: Any) -> None:
    from chainrule.cli.output import print_json

    print_json({"run": str(run.path), "prompt": prompt, **more, "samples": samples})


def _print_texts(generations: list[Any], prompt: str) -> None:
    from chainrule.cli.output import show_text

    for i, generation in enumerate(generations):
        if i:
            print("-" * 20)
        show_text(prompt + generation.text, end="\n")
