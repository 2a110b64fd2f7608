"""Which of the two Transformers that every program knows a model is: GPT-2's or Llama's.

Elsewhere a model is computed as its kind always is, whatever it was trained as: a GPT-2 with ReLU loads, and is wrong
without a word. So what is neither is told what to change, and does not leave.
"""

from dataclasses import asdict
from typing import Any

from chainrule.errors import UserError
from chainrule.models.transformer import Config, Model

BOTH = {
    "norm_placement": "pre", "position_join": "add", "attention_bias": "as-bias", "parallel": False, "qk_norm": False,
    "logit_cap": 0.0, "ngram_order": 0, "embedding_norm": False, "output_bias": False,
}  # fmt: skip
PROFILES: dict[str, dict[str, Any]] = {
    "gpt2": BOTH | {"norm": "layer", "positions": "learned", "activation": "gelu-tanh", "bias": True},
    "llama": BOTH
    | {"norm": "rms", "positions": "rotary", "activation": "swiglu", "bias": False, "rotary_fraction": 1.0},
}
TITLES = {"gpt2": "GPT-2", "llama": "Llama"}


def profile_of(model: Any) -> str:
    """'gpt2' or 'llama'; what is neither is refused with the settings that keep it from the nearer one."""
    if not isinstance(model, Model):
        raise UserError(
            "only Transformers can leave in this format; n-grams go --to arpa, models that learn by gradient --to onnx"
        )
    wrong = {name: differences(model.config, name) for name in PROFILES}
    nearest = min(wrong, key=lambda name: len(wrong[name]))
    if wrong[nearest]:
        raise UserError(
            f"no other program computes this model: to be a {TITLES[nearest]} it needs {', '.join(wrong[nearest])}; "
            f"chainrule train --model transformer --size {nearest}-tiny makes one that can leave, "
            "and --to onnx takes this one as it is"
        )
    return nearest


def differences(config: Config, profile: str) -> list[str]:
    """'activation=gelu-tanh (it has relu)', for every setting that this profile has otherwise."""
    settings = asdict(config)
    wanted = PROFILES[profile] | {"head_width": config.width // config.num_heads}
    settings["head_width"] = config.width_of_head
    if profile == "gpt2":
        wanted["num_key_value_heads"], settings["num_key_value_heads"] = config.num_heads, config.key_value_heads
    return [
        f"{name}={_word(value)} (it has {_word(settings[name])})"
        for name, value in wanted.items()
        if settings[name] != value
    ]


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
