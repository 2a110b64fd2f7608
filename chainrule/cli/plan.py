"""`chainrule plan`: how large, how long, how much, on paper."""

from typing import TYPE_CHECKING, Annotated

import typer

from chainrule.analysis.plan.quantities import (
    bytes_text,
    count_text,
    duration_text,
    flops_text,
    parse_count,
    speed_text,
)
from chainrule.cli import options
from chainrule.cli.output import print_json, print_notes, say, visible
from chainrule.errors import UserError

if TYPE_CHECKING:
    from rich.table import Table

    from chainrule.analysis.plan.plan import PlanRequest, TrainingPlan
    from chainrule.analysis.plan.planned_model import PlannedModel

Rows = list[tuple[str, str, str]]  # what, how much, what that means
WIDE = 200  # columns of a file or pipe, where no line needs to be folded
BLOCKS = ("attention", "feedforward", "norms")  # the other parts are tables with a row for each token or position


def command(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="PRESET|RUN",
            help="A published model, such as gpt2 or gpt3-175b, or a run; default: list the presets.",
        ),
    ] = None,
    tokens: Annotated[
        str | None,
        typer.Option(
            help="Tokens to train on, such as 300B; default: as many as it was trained on, else 20 per parameter."
        ),
    ] = None,
    machine: Annotated[
        str | None,
        typer.Option(
            help="this (measured), v100, a100, h100, tpu-v3, tpu-v4, or FLOP/s such as 6.5T; default: several."
        ),
    ] = None,
    utilisation: Annotated[
        float, typer.Option(help="The share of the machine's peak speed that training reaches.")
    ] = 0.4,
    devices: Annotated[int, typer.Option(help="How many such machines.")] = 1,
    price: Annotated[
        float | None, typer.Option(help="The price of one machine for one hour, in any currency, to compute the cost.")
    ] = None,
    batch_size: Annotated[int | None, typer.Option(help="Sequences per batch; default: as published, else 1.")] = None,
    context_length: Annotated[int | None, typer.Option(help="Tokens per sequence; default: the model's.")] = None,
    as_json: options.Json = False,
) -> None:
    """Plan a training without running it: parameters, FLOPs, memory, time, and the Chinchilla-optimal size."""
    if model is None:
        _list_presets(as_json)
        return
    from chainrule.analysis.plan.machines import SHOWN, find_machine
    from chainrule.analysis.plan.plan import make_plan
    from chainrule.analysis.plan.planned_model import find_subject

    wanted = None if tokens is None else parse_count(tokens, "--tokens")
    request = _request(wanted, batch_size, context_length, utilisation, devices, price)
    subject = find_subject(model)
    machines = [find_machine(name) for name in ([machine] if machine else SHOWN)]
    plan = make_plan(subject, request, machines)
    if as_json:
        print_json(plan.to_json())
        return
    _print([*_model_rows(plan), *_compute_rows(plan), *_memory_rows(plan), *_time_rows(plan), *_advice_rows(plan)])
    if plan.model.note:
        print_notes([plan.model.note])


def _request(
    tokens: int | None,
    batch_size: int | None,
    context_length: int | None,
    utilisation: float,
    devices: int,
    price: float | None,
) -> "PlanRequest":
    """The request that these flags make; an error names the flag in place of the argument."""
    from chainrule.analysis.plan.plan import PlanRequest

    try:
        return PlanRequest(tokens, batch_size, context_length, utilisation, devices, price)
    except UserError as error:
        name, _, rest = str(error).partition(" ")
        raise UserError(f"--{name.replace('_', '-')} {rest}") from None


def _model_rows(plan: "TrainingPlan") -> Rows:
    model, config, parts = plan.model, plan.model.config, plan.model.parameters.parts
    rows = [("model", model.name, model.source)]
    total = model.parameters.total
    if config is None:
        return [*rows, ("parameters", count_text(total), f"{total:,}")]
    shared = f", {config.key_value_heads} of keys" if config.key_value_heads < config.num_heads else ""
    width = f"of width {config.width:,}, {config.num_heads} heads of {config.width_of_head}{shared}"
    published = f"; published as {count_text(model.published_parameters)}" if model.published_parameters else ""
    tables = {name: count for name, count in parts.items() if name not in BLOCKS}
    blocks = {name: count for name, count in parts.items() if name in BLOCKS}
    return [
        *rows,
        ("shape", f"{config.num_layers} layers", width),
        ("context", f"{config.context_length:,} tokens", f"from a vocabulary of {model.vocabulary_size:,}"),
        ("parameters", count_text(total), f"{total:,}{published}"),
        ("  blocks", count_text(sum(blocks.values())), _name_parts(blocks)),
        ("  embeddings", count_text(sum(tables.values())), _name_parts(tables)),
    ]


def _name_parts(parts: dict[str, int]) -> str:
    return ", ".join(f"{name.replace('_embedding', 's')} {count_text(count, 3)}" for name, count in parts.items())


def _compute_rows(plan: "TrainingPlan") -> Rows:
    compute = plan.compute
    parameters = plan.model.parameters
    each = "parameter" if parameters.multiplied == parameters.total else "parameter not just looked up"
    forward, training = f"forward: 2 per {each}", f"6 per {each}"
    days = f"{compute.petaflop_days:,.{0 if compute.petaflop_days >= 100 else 2}f}"
    total = f"{days if float(days.replace(',', '')) else 'under 0.01'} petaflop/s-days"
    if plan.model.config:
        attention = compute.attention_training_flops_per_token
        forward += f"; attention adds {flops_text(compute.attention_forward_flops_per_token)}"
        training += f"; attention adds {flops_text(attention)}"
        total += f"; with attention {flops_text(compute.training_flops_with_attention)}"
    return [
        ("FLOPs per token", flops_text(compute.forward_flops_per_token), forward),
        ("  to train", flops_text(compute.training_flops_per_token), training),
        (f"  {count_text(compute.tokens)} tokens", flops_text(compute.training_flops), total),
    ]


def _memory_rows(plan: "TrainingPlan") -> Rows:
    memory = plan.memory
    held = f"weights {bytes_text(memory.weights)}, gradients {bytes_text(memory.gradients)}"
    rows = [("memory to train", bytes_text(memory.total), f"{held}, Adam {bytes_text(memory.optimizer)}")]
    if plan.model.config is None or memory.activations is None or memory.batch_size is None:
        return rows
    assert memory.activations_per_sequence and memory.cache_per_token and memory.cache_per_context
    context = f"{plan.model.config.context_length:,}"
    batch = f"for {context} tokens"
    if memory.batch_size > 1:
        batch += f"; {bytes_text(memory.activations)} for {memory.batch_size:,} sequences"
    cache = f"keys and values per token; {bytes_text(memory.cache_per_context)} for {context}"
    return [
        *rows,
        ("  activations", bytes_text(memory.activations_per_sequence), batch),
        ("  cache", bytes_text(memory.cache_per_token), cache),
    ]


def _time_rows(plan: "TrainingPlan") -> Rows:
    first = plan.times[0]
    whose = "one machine" if first.devices == 1 else f"{first.devices:,} machines"
    rows = [("time to train", "", f"at {100 * first.utilisation:.3g} % of the speed of {whose}")]
    for time in plan.times:
        meaning = f"{speed_text(time.flops_per_second)} {time.number_format}".strip()
        if (time.devices_for_memory or 0) > time.devices:
            meaning += f"; needs the memory of {time.devices_for_memory:,}"
        if time.cost is not None:
            meaning += f"; costs {time.cost:,.2f}"
        rows.append((f"  {time.machine}", duration_text(time.seconds), meaning))
    return rows


def _advice_rows(plan: "TrainingPlan") -> Rows:
    advice = plan.advice
    here = f"tokens: 20 per parameter; here {count_text(advice.tokens_per_parameter, 3)}"
    best = f"parameters, {count_text(advice.best_tokens_for_compute)} tokens: best for these FLOPs"
    rows = [
        ("Chinchilla", count_text(advice.best_tokens_for_parameters), here),
        ("", count_text(advice.best_parameters_for_compute), best),
    ]
    if advice.expected_loss is None:
        return [*rows, ("  expected loss", "unknown", "the fit, made of larger models, does not reach here")]
    meaning = f"per token of web text{', extrapolated' if advice.is_extrapolated else ''}"
    if advice.expected_loss_at_best:
        meaning += f"; at best {advice.expected_loss_at_best:.2f}"
    return [*rows, ("  expected loss", f"{advice.expected_loss:.2f} nats", meaning)]


def _print(rows: Rows) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    _print_table(table)


def _print_table(table: "Table") -> None:
    import sys

    from rich.console import Console

    Console(highlight=False, width=None if sys.stdout.isatty() else WIDE).print(table)


def _list_presets(as_json: bool) -> None:
    from chainrule.analysis.plan.planned_model import of_preset
    from chainrule.models._presets import PUBLISHED

    presets = [of_preset(name, preset) for name, preset in PUBLISHED.items()]
    if as_json:
        print_json([preset.to_json() for preset in presets])
        return
    _print_presets(presets)
    say("next: chainrule plan gpt2 --tokens 10B")


def _print_presets(presets: list["PlannedModel"]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for title in ("preset", "size", "layers", "width", "heads", "context", "batch", "learning rate"):
        table.add_column(title, justify="left" if title == "preset" else "right", no_wrap=True)
    for preset in presets:
        config = preset.config
        assert config is not None and preset.batch_tokens is not None  # they are published Transformers
        table.add_row(
            preset.name,
            count_text(preset.parameters.total),
            str(config.num_layers),
            f"{config.width:,}",
            f"{config.num_heads} of {config.width_of_head}",
            f"{config.context_length:,}",
            count_text(preset.batch_tokens),
            f"{preset.learning_rate:.1e}" if preset.learning_rate else "-",
        )
    _print_table(table)
