"""The shapes of GPT, GPT-2 and GPT-3 as published: plain data, for the Transformer and for plans on paper.

Radford et al. 2018 and 2019; Brown et al. 2020, Table 2.1 and Appendix D. GPT-3 says that every other layer attends
to a band only; here all attend to everything, which changes no parameter.
"""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Preset:
    settings: dict[str, Any]  # fields of models.transformer.Config
    vocabulary_size: int
    batch_tokens: int
    learning_rate: float | None  # None: not published
    published_parameters: int  # as rounded where it was published
    source: str
    training_tokens: int | None = None  # None: not published
    printed: dict[str, int] = field(default_factory=dict)  # settings that the paper prints otherwise; see `note`
    note: str = ""


def _settings(num_layers: int, width: int, num_heads: int, head_width: int, **others: Any) -> dict[str, Any]:
    common = {
        "num_key_value_heads": None, "hidden_width": None, "norm": "layer", "norm_placement": "pre",
        "activation": "gelu-tanh", "positions": "learned", "position_join": "add", "tied": True, "bias": True,
        "qk_norm": False, "logit_cap": 0.0, "dropout": 0.0, "initialisation": "normal", "ngram_order": 0,
        "embedding_norm": False,
    }  # fmt: skip
    shape = {"width": width, "num_layers": num_layers, "num_heads": num_heads, "head_width": head_width}
    return {**shape, **common, **others}


def _gpt2(size: str, num_layers: int, width: int, published: int) -> Preset:
    return Preset(
        _settings(num_layers, width, width // 64, 64, context_length=1024, dropout=0.1, attention_dropout=0.1),
        vocabulary_size=50_257,
        batch_tokens=512 * 1024,
        learning_rate=None,
        published_parameters=published,
        source=f"GPT-2 {size} (Radford et al., 2019)",
        note=f"the paper's {published // 10**6:,}M is what GPT's vocabulary of 40,478 gives; GPT-2's has 50,257 tokens",
    )


def _gpt3(
    size: str,
    shape: tuple[int, int, int, int],
    batch_tokens: int,
    learning_rate: float,
    published: int,
    printed: dict[str, int] | None = None,
    note: str = "",
) -> Preset:
    return Preset(
        _settings(*shape, context_length=2048),
        vocabulary_size=50_257,
        batch_tokens=batch_tokens,
        learning_rate=learning_rate,
        published_parameters=published,
        source=f"GPT-3 {size} (Brown et al., 2020)",
        training_tokens=300 * 10**9,
        printed=printed or {},
        note=note,
    )


GPT = Preset(
    # The released weights use the tanh form of GELU, like those of GPT-2.
    _settings(12, 768, 12, 64, context_length=512, norm_placement="post", dropout=0.1, attention_dropout=0.1),
    vocabulary_size=40_478,
    batch_tokens=64 * 512,
    learning_rate=2.5e-4,
    published_parameters=117 * 10**6,
    source="GPT (Radford et al., 2018)",
)
XL = (
    {"num_heads": 24},
    "the paper prints 24 heads of 128, but its count and its width are those of 16 heads of 128",
)
THIRTEEN = ({"width": 5140}, "the paper prints a width of 5,140, but its count is that of 5,120")

PUBLISHED: dict[str, Preset] = {
    "gpt": GPT,
    "gpt2": _gpt2("small", 12, 768, 117 * 10**6),
    "gpt2-medium": _gpt2("medium", 24, 1024, 345 * 10**6),
    "gpt2-large": _gpt2("large", 36, 1280, 762 * 10**6),
    "gpt2-xl": _gpt2("XL", 48, 1600, 1542 * 10**6),
    # size, (layers, width, heads, head width), batch in tokens, learning rate, parameters (Appendix D)
    "gpt3-small": _gpt3("Small", (12, 768, 12, 64), 500_000, 6.0e-4, 125 * 10**6),
    "gpt3-medium": _gpt3("Medium", (24, 1024, 16, 64), 500_000, 3.0e-4, 356 * 10**6),
    "gpt3-large": _gpt3("Large", (24, 1536, 16, 96), 500_000, 2.5e-4, 760 * 10**6),
    "gpt3-xl": _gpt3("XL", (24, 2048, 16, 128), 1_000_000, 2.0e-4, 1_320 * 10**6, *XL),
    "gpt3-2.7b": _gpt3("2.7B", (32, 2560, 32, 80), 1_000_000, 1.6e-4, 2_650 * 10**6),
    "gpt3-6.7b": _gpt3("6.7B", (32, 4096, 32, 128), 2_000_000, 1.2e-4, 6_660 * 10**6),
    "gpt3-13b": _gpt3("13B", (40, 5120, 40, 128), 2_000_000, 1.0e-4, 12_850 * 10**6, *THIRTEEN),
    "gpt3-175b": _gpt3("175B", (96, 12_288, 96, 128), 3_200_000, 0.6e-4, 174_600 * 10**6),
}
