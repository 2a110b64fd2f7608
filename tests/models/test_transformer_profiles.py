"""The Transformer's profiles equal GPT-2 and Llama as transformers has them: logits, losses, gradients, steps."""

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from chainrule.analysis.plan.parameters import count_parameters
from chainrule.models.contract import Batch
from chainrule.models.transformer import GPT2, LLAMA, SIZES, Config, Model

VOCABULARY, EOS = 50, 49


@pytest.fixture(scope="module")
def transformers() -> Any:
    return pytest.importorskip("transformers")


def their_gpt2(transformers: Any, config: Config) -> Any:
    settings = transformers.GPT2Config(
        n_embd=config.width, n_layer=config.num_layers, n_head=config.num_heads, n_positions=config.context_length,
        vocab_size=VOCABULARY, bos_token_id=EOS, eos_token_id=EOS,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(settings)


def their_llama(transformers: Any, config: Config) -> Any:
    settings = transformers.LlamaConfig(
        hidden_size=config.width, intermediate_size=config.width_of_feedforward, num_hidden_layers=config.num_layers,
        num_attention_heads=config.num_heads, num_key_value_heads=config.key_value_heads,
        rms_norm_eps=config.norm_epsilon, max_position_embeddings=config.context_length, tie_word_embeddings=False,
        rope_parameters={"rope_type": "default", "rope_theta": config.rotary_base},
        vocab_size=VOCABULARY, bos_token_id=EOS, eos_token_id=EOS,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(settings)


def from_gpt2(theirs: dict[str, Tensor], num_layers: int) -> dict[str, Tensor]:
    """Our names for their tensors; their matrices stand (in, out)."""
    named = {"embedding.weight": theirs["transformer.wte.weight"], "positions.weight": theirs["transformer.wpe.weight"]}
    parts = {
        "attention_norm": "ln_1", "feedforward_norm": "ln_2", "attention.query_key_value": "attn.c_attn",
        "attention.output": "attn.c_proj", "feedforward.input": "mlp.c_fc", "feedforward.output": "mlp.c_proj",
    }  # fmt: skip
    for kind in ("weight", "bias"):
        named[f"norm.{kind}"] = theirs[f"transformer.ln_f.{kind}"]
        for layer, (part, name) in product(range(num_layers), parts.items()):
            tensor = theirs[f"transformer.h.{layer}.{name}.{kind}"]
            named[f"blocks.{layer}.{part}.{kind}"] = tensor.T if tensor.ndim == 2 else tensor
    return named


def from_llama(theirs: dict[str, Tensor], num_layers: int) -> dict[str, Tensor]:
    """Our names for their tensors; what we multiply by in one go lies apart there."""
    named = {
        "embedding.weight": theirs["model.embed_tokens.weight"],
        "norm.weight": theirs["model.norm.weight"],
        "unembedding.weight": theirs["lm_head.weight"],
    }
    parts = {
        "attention_norm": ["input_layernorm"],
        "feedforward_norm": ["post_attention_layernorm"],
        "attention.query_key_value": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
        "attention.output": ["self_attn.o_proj"],
        "feedforward.input": ["mlp.gate_proj", "mlp.up_proj"],
        "feedforward.output": ["mlp.down_proj"],
    }
    for layer, (part, names) in product(range(num_layers), parts.items()):
        tensors = [theirs[f"model.layers.{layer}.{name}.weight"] for name in names]
        named[f"blocks.{layer}.{part}.weight"] = torch.cat(tensors)
    return named


PROFILES: dict[str, tuple[Config, Any, Any]] = {
    "gpt2-tiny": (SIZES["gpt2-tiny"], their_gpt2, from_gpt2),
    "gpt2, one head": (GPT2(width=24, num_layers=3, num_heads=1, context_length=64), their_gpt2, from_gpt2),
    "llama-tiny": (SIZES["llama-tiny"], their_llama, from_llama),
    "llama, one head of keys": (
        LLAMA(width=24, num_layers=3, num_heads=3, num_key_value_heads=1, context_length=64, rotary_base=500.0),
        their_llama,
        from_llama,
    ),
}


@pytest.fixture(scope="module", params=PROFILES)
def pair(request: pytest.FixtureRequest, transformers: Any) -> tuple[Model, Any, Any]:
    """Ours and theirs with the same random weights, and the renaming between them."""
    config, build, rename = PROFILES[request.param]
    torch.manual_seed(3)
    theirs = build(transformers, config).eval()
    for name, parameter in theirs.named_parameters():
        is_gain = parameter.ndim == 1 and not name.endswith("bias")
        torch.nn.init.normal_(parameter, float(is_gain), 0.2)
    ours = Model(config, VOCABULARY, EOS).eval()
    ours.load_state_dict(rename(dict(theirs.named_parameters()), config.num_layers))
    return ours, theirs, rename


def ids(time: int, batch: int = 3) -> Tensor:
    return torch.randint(VOCABULARY, (batch, time), generator=torch.Generator().manual_seed(time))


@torch.no_grad()
def test_profiles_have_the_logits_of_transformers(pair):
    ours, theirs, _ = pair
    for time in (1, 2, 13, ours.config.context_length):
        tokens = ids(time)
        found, expected = ours.step(tokens, ours.start(len(tokens)))[0], theirs(tokens).logits
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
        assert expected.std() > 0.5


@torch.no_grad()
def test_profiles_have_the_loss_of_transformers_token_by_token(pair):
    ours, theirs, _ = pair
    tokens = ids(40, batch=1)
    expected = -F.cross_entropy(theirs(tokens).logits[0, :-1], tokens[0, 1:], reduction="none")
    np.testing.assert_allclose(ours.score(tokens[0].numpy()), expected.numpy(), rtol=0, atol=1e-5)


def test_profiles_have_the_gradients_of_transformers(pair):
    ours, theirs, rename = pair
    tokens = ids(40)
    ours.zero_grad()
    theirs.zero_grad()
    loss, expected = ours.loss(Batch(tokens[:, :-1], tokens[:, 1:])).mean, theirs(tokens, labels=tokens).loss
    assert loss.item() == pytest.approx(expected.item(), abs=1e-5)
    loss.backward()
    expected.backward()
    gradients = {name: parameter.grad for name, parameter in theirs.named_parameters()}
    renamed = rename(gradients, ours.config.num_layers)
    found = {name: parameter.grad for name, parameter in ours.named_parameters()}
    assert found.keys() == renamed.keys()
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, renamed[name], rtol=0, atol=1e-5, msg=name)
        assert gradient.abs().max() > 1e-4, name


@torch.no_grad()
def test_profiles_step_through_a_text_as_transformers_do(pair):
    """With each library's own cache: a few tokens, then one at a time, then several at once."""
    ours, theirs, _ = pair
    tokens = ids(30)
    state, cache, first = ours.start(3), None, 0
    for size in (5, 1, 1, 1, 9, 1, 12):
        piece = tokens[:, first : first + size]
        logits, state = ours.step(piece, state)
        answer = theirs(piece, past_key_values=cache, use_cache=True)
        cache, first = answer.past_key_values, first + size
        torch.testing.assert_close(logits, answer.logits, rtol=1e-5, atol=1e-5)
    assert first == 30


def test_profiles_have_as_many_parameters_as_transformers_and_as_planned(pair):
    ours, theirs, _ = pair
    planned = count_parameters(ours.config, VOCABULARY).total
    assert ours.num_parameters == theirs.num_parameters() == planned
