"""Rows 21 and 31 of what Chainrule promises: the shapes of GPT, and what training them takes."""

import subprocess
import sys
from dataclasses import replace

import pytest

from chainrule.analysis.plan.compute import PETAFLOP_DAY, training_compute
from chainrule.analysis.plan.machines import Machine, training_time
from chainrule.analysis.plan.parameters import count_parameters
from chainrule.analysis.plan.quantities import YEAR, significant
from chainrule.models._presets import PUBLISHED

GPT_VOCABULARY = 40_478
MONTH = YEAR / 12

# Table 2.1 of GPT-3: layers, width, heads, head width, batch in tokens, learning rate;
# and of its Appendix D: parameters in millions, petaflop/s-days, FLOPs
TABLES = {
    "gpt3-small": (12, 768, 12, 64, 0.5e6, 6.0e-4, 125, 2.60, 2.25e20),
    "gpt3-medium": (24, 1024, 16, 64, 0.5e6, 3.0e-4, 356, 7.42, 6.41e20),
    "gpt3-large": (24, 1536, 16, 96, 0.5e6, 2.5e-4, 760, 15.8, 1.37e21),
    "gpt3-xl": (24, 2048, 24, 128, 1e6, 2.0e-4, 1320, 27.5, 2.38e21),
    "gpt3-2.7b": (32, 2560, 32, 80, 1e6, 1.6e-4, 2650, 55.2, 4.77e21),
    "gpt3-6.7b": (32, 4096, 32, 128, 2e6, 1.2e-4, 6660, 139, 1.20e22),
    "gpt3-13b": (40, 5140, 40, 128, 2e6, 1.0e-4, 12850, 268, 2.31e22),
    "gpt3-175b": (96, 12288, 96, 128, 3.2e6, 0.6e-4, 174600, 3640, 3.14e23),
}


def count(name: str, vocabulary_size: int | None = None) -> int:
    preset = PUBLISHED[name]
    return count_parameters(preset.config, vocabulary_size or preset.vocabulary_size).total


def as_printed(number: int, published: int) -> int:
    """Rounded to the last digit that was published: 174,604,259,328 beside 174.6B is 174.6B."""
    step = 10 ** (len(str(published)) - len(str(published).rstrip("0")))
    return round(number / step) * step


@pytest.mark.parametrize("name", TABLES)
def test_row_21_gpt3_has_its_table(name: str):
    """Row 21: the eight rows with their sizes, batches and learning rates; parameters as published."""
    preset = PUBLISHED[name]
    printed = replace(preset.config, **preset.printed)
    shape = (printed.num_layers, printed.width, printed.num_heads, printed.head_width)
    assert (*shape, preset.batch_tokens, preset.learning_rate) == TABLES[name][:6]
    assert preset.published_parameters == TABLES[name][6] * 10**6
    assert as_printed(count(name), preset.published_parameters) == preset.published_parameters
    assert (preset.config.context_length, preset.vocabulary_size) == (2048, 50_257)


@pytest.mark.parametrize("name", [name for name in TABLES if PUBLISHED[name].printed])
def test_row_21_the_two_misprints_of_the_table_do_not_give_the_published_counts(name: str):
    """Row 21: why XL has 16 heads here and 13B a width of 5,120, and that they say so."""
    preset = PUBLISHED[name]
    literal = count_parameters(replace(preset.config, **preset.printed), preset.vocabulary_size).total
    assert as_printed(literal, preset.published_parameters) != preset.published_parameters
    assert "prints" in preset.note


def test_row_21_gpt_has_117_million():
    """Row 21: GPT, and the three rows of the lecture's table of GPTs."""
    assert count("gpt") == 116_534_784
    assert as_printed(count("gpt"), 117 * 10**6) == PUBLISHED["gpt"].published_parameters == 117 * 10**6
    rows = {"gpt": (12, 768, 12), "gpt2-xl": (48, 1600, 25), "gpt3-175b": (96, 12288, 96)}
    for name, row in rows.items():
        config = PUBLISHED[name].config
        assert (config.num_layers, config.width, config.num_heads) == row
        assert config.width_of_feedforward == 4 * config.width


@pytest.mark.parametrize(
    ("name", "parameters", "published"),
    [
        ("gpt2", 124_439_808, 117),
        ("gpt2-medium", 354_823_168, 345),
        ("gpt2-large", 774_030_080, 762),
        ("gpt2-xl", 1_557_611_200, 1542),
    ],
)
def test_row_21_gpt2_has_its_four_sizes(name: str, parameters: int, published: int):
    """Row 21: exact, as in the released weights; and the paper's 1542M, which is what GPT's vocabulary gives."""
    assert count(name) == parameters
    assert PUBLISHED[name].published_parameters == published * 10**6
    assert as_printed(count(name, GPT_VOCABULARY), published * 10**6) == published * 10**6
    assert "40,478" in PUBLISHED[name].note


def test_row_21_nothing_is_allocated_to_count():
    """Row 21: 175 billion parameters are counted without torch."""
    program = (
        "import sys; from chainrule.analysis.plan.planned_model import find_subject; "
        "assert find_subject('gpt3-175b').parameters.total == 174_604_259_328; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.parametrize("name", TABLES)
def test_row_31_total_train_compute_of_gpt3(name: str):
    """Row 31: Appendix D's table, digit for digit from its own rounded counts, and closely from the exact ones."""
    *_, days, flops = TABLES[name]
    preset = PUBLISHED[name]
    assert preset.training_tokens == 300 * 10**9
    published = training_compute(preset.published_parameters, preset.training_tokens)
    assert significant(published.training_flops, 3) == pytest.approx(flops, rel=1e-12)
    assert significant(published.petaflop_days, 3) == pytest.approx(days, rel=1e-12)
    exact = training_compute(count(name), preset.training_tokens)
    assert exact.training_flops == pytest.approx(flops, rel=0.006)
    assert exact.petaflop_days == pytest.approx(days, rel=0.006)


def test_row_31_gpt3_takes_3_14e23_flops():
    """Row 31: 3.14e23 FLOPs, about 3,640 petaflop/s-days of 8.64e19 each."""
    compute = training_compute(count("gpt3-175b"), 300 * 10**9)
    assert significant(compute.training_flops, 3) == pytest.approx(3.14e23)
    assert significant(compute.petaflop_days, 3) == 3640
    assert PETAFLOP_DAY == 8.64e19


def test_row_31_fifty_petaflop_days_are_those_of_gpt3_3b_and_roberta():
    """Row 31: the lecture's '50 petaflop/s-days' and its Figure 2.2: GPT-3 3B and RoBERTa-Large took about as much."""
    assert training_compute(count("gpt3-2.7b"), 300 * 10**9).petaflop_days == pytest.approx(50, rel=0.15)
    assert training_compute(355 * 10**6, 2 * 10**12).petaflop_days == pytest.approx(50, rel=0.15)


@pytest.mark.parametrize(
    ("flops", "months"),
    [(1.7e19, 1), (1.5e21, 100), (3.1e23, 10_000)],
)
def test_row_31_training_times_of_the_lecture(flops: float, months: int):
    """Row 31: 'network sizes and training costs', on a computer that trains GPT in a month; as orders of magnitude.

    That computer does 6.5 teraflop/s; the lecture writes peta.
    """
    computer = Machine("GPT in a month", 1.7e19 / MONTH, "", None)
    assert computer.flops_per_second == pytest.approx(6.5e12, rel=0.01)
    found = training_time(computer, flops, 0.0).seconds / MONTH
    assert months / 2 < found < 2 * months


@pytest.mark.parametrize(
    ("parameters", "tokens", "flops"),
    [
        (1.5e9, 10e9, 9e19),  # GPT-2
        (175e9, 300e9, 3.15e23),  # GPT-3
        (540e9, 780e9, 2.53e24),  # PaLM
        (70e9, 1.4e12, 5.88e23),  # Chinchilla
        (137e9, 1.56e12, 1.28e24),  # LaMDA
        (65e9, 1.4e12, 5.46e23),  # LLaMA
    ],
)
def test_row_31_how_large_are_language_models(parameters: float, tokens: float, flops: float):
    """Row 31: the lecture's table of parameters and tokens, and the FLOPs that follow."""
    assert significant(training_compute(int(parameters), int(tokens)).training_flops, 3) == pytest.approx(flops)
