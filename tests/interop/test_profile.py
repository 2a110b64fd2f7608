"""Who may leave: GPT-2 and Llama to the letter; any other is told what to change."""

from typing import Any

import pytest

from chainrule.errors import UserError
from chainrule.interop._profile import profile_of
from chainrule.models import lstm
from chainrule.models.transformer import SIZES, Model
from tests.interop.models import PROFILES, bpe, transformer


@pytest.mark.parametrize("name", PROFILES)
def test_a_model_is_known_by_its_settings(name: str):
    assert profile_of(transformer(name, bpe())) == name.partition(",")[0]


@pytest.mark.parametrize(
    ("profile", "changes", "told"),
    [
        ("gpt2", {"activation": "relu"}, "to be a GPT-2 it needs activation=gelu-tanh (it has relu)"),
        ("gpt2", {"activation": "gelu"}, "activation=gelu-tanh (it has gelu)"),
        ("gpt2", {"norm": "rms"}, "norm=layer (it has rms)"),
        ("gpt2", {"bias": False}, "bias=true (it has false)"),
        ("gpt2", {"positions": "sinusoidal"}, "positions=learned (it has sinusoidal)"),
        ("gpt2", {"num_key_value_heads": 2}, "num_key_value_heads=4 (it has 2)"),
        ("gpt2", {"norm_placement": "post"}, "norm_placement=pre (it has post)"),
        ("gpt2", {"parallel": True}, "parallel=false (it has true)"),
        ("llama", {"activation": "gelu"}, "to be a Llama it needs activation=swiglu (it has gelu)"),
        ("llama", {"head_width": 16}, "head_width=8 (it has 16)"),
        ("llama", {"rotary_fraction": 0.5}, "rotary_fraction=1.0 (it has 0.5)"),
        ("llama", {"qk_norm": True}, "qk_norm=false (it has true)"),
        ("llama", {"bias": True}, "bias=false (it has true)"),
        ("llama", {"attention_bias": "queries"}, "attention_bias=as-bias (it has queries)"),
        ("llama", {"logit_cap": 30.0}, "logit_cap=0.0 (it has 30.0)"),
        ("llama", {"ngram_order": 2, "ngram_rows": 16}, "ngram_order=0 (it has 2)"),
        ("llama", {"embedding_norm": True}, "embedding_norm=false (it has true)"),
        ("llama", {"output_bias": True}, "output_bias=false (it has true)"),
    ],
)
def test_every_setting_that_others_compute_otherwise_is_refused(profile: str, changes: dict[str, Any], told: str):
    with pytest.raises(UserError) as refused:
        profile_of(transformer(profile, bpe(), **changes))
    assert told in str(refused.value)
    assert str(refused.value).count("(it has") == 1
    assert f"--size {profile}-tiny trains one that can be exported" in str(refused.value)


@pytest.mark.parametrize("size", ["gpt2-tiny", "llama-tiny"])
def test_the_sizes_that_refusals_name_can_leave(size: str):
    assert profile_of(Model(SIZES[size], 50, 49)) == size.partition("-")[0]


def test_other_kinds_of_models_are_told_where_they_can_go():
    with pytest.raises(UserError, match="other models that learn by gradient as onnx"):
        profile_of(lstm.Model(lstm.SIZES["tiny"], 50, 49))
