"""Which models other programs can compute: those that learn by gradient, Transformers, and GPT-2's or Llama's.

Other programs compute every GPT-2 or Llama in the same way, whatever settings it was trained with: a GPT-2 with ReLU
loads without a warning and computes something else. So a Transformer that is neither is refused, with what to change.
"""

from dataclasses import asdict

from chainrule.errors import UserError
from chainrule.models._neural import NeuralModel
from chainrule.models.contract import LanguageModel, learns
from chainrule.models.transformer import Config, Model
from chainrule.runs.folder import Run

BOTH: dict[str, object] = {
    "norm_placement": "pre", "position_join": "add", "attention_bias": "as-bias", "parallel": False, "qk_norm": False,
    "logit_cap": 0.0, "ngram_order": 0, "embedding_norm": False, "output_bias": False,
}  # fmt: skip
PROFILES: dict[str, dict[str, object]] = {
    "gpt2": BOTH | {"norm": "layer", "positions": "learned", "activation": "gelu-tanh", "bias": True},
    "llama": BOTH
    | {"norm": "rms", "positions": "rotary", "activation": "swiglu", "bias": False, "rotary_fraction": 1.0},
}
TITLES = {"gpt2": "GPT-2", "llama": "Llama"}


def require_gradient(run: Run, format: str) -> None:
    """Refuse a run whose model does not learn by gradient."""
    if not learns(run.model):
        what = f"'{run.path}' is a model of kind {run.architecture}"
        raise UserError(
            f"{what}; only models that learn by gradient are exported as {format}, n-grams are exported as arpa"
        )


def require_neural(model: LanguageModel) -> NeuralModel:
    """The model, if it is a torch module of ours."""
    if not isinstance(model, NeuralModel):
        raise UserError("only models that learn by gradient are exported in this format; n-grams are exported as arpa")
    return model


def require_transformer(model: LanguageModel) -> Model:
    """The model, if it is a Transformer."""
    if not isinstance(model, Model):
        raise UserError(
            "only Transformers are exported in this format; n-grams are exported as arpa, "
            "other models that learn by gradient as onnx"
        )
    return model


def profile_of(model: LanguageModel) -> str:
    """'gpt2' or 'llama'; a model that is neither is refused with the settings in which it differs from the nearer."""
    model = require_transformer(model)
    wrong = {name: differences(model.config, name) for name in PROFILES}
    nearest = min(wrong, key=lambda name: len(wrong[name]))
    if wrong[nearest]:
        raise UserError(
            f"no other program can run this model: to be a {TITLES[nearest]} it needs {', '.join(wrong[nearest])}; "
            f"chainrule train --model transformer --size {nearest}-tiny trains one that can be exported, "
            "and onnx takes this one as it is"
        )
    return nearest


def differences(config: Config, profile: str) -> list[str]:
    """'activation=gelu-tanh (it has relu)', for every setting in which the model differs from this profile."""
    settings: dict[str, object] = asdict(config)
    wanted = PROFILES[profile] | {"head_width": config.width // config.num_heads}
    settings["head_width"] = config.width_of_head
    if profile == "gpt2":
        wanted["num_key_value_heads"], settings["num_key_value_heads"] = config.num_heads, config.key_value_heads
    return [
        f"{name}={_word(value)} (it has {_word(settings[name])})"
        for name, value in wanted.items()
        if settings[name] != value
    ]


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
