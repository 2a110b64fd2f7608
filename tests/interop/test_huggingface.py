"""Models that transformers made, read here: the same logits, for every family; and what is refused."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from chainrule.errors import UserError
from chainrule.generation import Beam, Sampling, beam_search, sample
from chainrule.interop.huggingface.read import read_huggingface
from chainrule.storage import load_arrays, save_arrays
from tests.text.samples import train

TEXT = ["the cat sat on the mat", "the dog sat on the log", "a cat and a dog sat down"] * 4
LLAMA = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-6,
}  # fmt: skip
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}),
    "llama": ("Llama", LLAMA),
    "llama, tied, biased, other base": (
        "Llama",
        LLAMA | {"tie_word_embeddings": True, "attention_bias": True, "rope_theta": 5000.0, "head_dim": 16},
    ),
    "qwen2": ("Qwen2", LLAMA),
    "qwen3": ("Qwen3", LLAMA | {"head_dim": 8}),
    "mistral": ("Mistral", LLAMA | {"sliding_window": None}),
    "neox": (
        "GPTNeoX",
        {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
         "max_position_embeddings": 64, "rotary_pct": 0.25},
    ),
    "neox, one after the other": (
        "GPTNeoX",
        {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
         "max_position_embeddings": 64, "use_parallel_residual": False},
    ),
}  # fmt: skip


@pytest.fixture(scope="session")
def tokenizer():
    return train("bpe", TEXT, size=300, min_count=1)


@pytest.fixture(scope="module", params=FAMILIES)
def pair(request, tokenizer, tmp_path_factory) -> tuple[Any, Path]:
    """Their model of random weights, and the folder that they saved it in."""
    transformers = pytest.importorskip("transformers")
    name, settings = FAMILIES[request.param]
    config = getattr(transformers, f"{name}Config")(
        vocab_size=tokenizer.vocabulary_size, bos_token_id=None, eos_token_id=tokenizer.eos, **settings
    )
    torch.manual_seed(7)
    kind = "LMHeadModel" if name == "GPT2" else "ForCausalLM"
    theirs = getattr(transformers, f"{name}{kind}")(config).eval()
    for name, parameter in theirs.named_parameters():
        is_gain = parameter.ndim == 1 and not name.endswith("bias")
        torch.nn.init.normal_(parameter, float(is_gain), 0.2)
    folder = tmp_path_factory.mktemp("model")
    theirs.save_pretrained(folder)
    tokenizer.save(folder / "tokenizer.json")
    return theirs, folder


def test_logits_are_theirs(pair):
    theirs, folder = pair
    model = read_huggingface(folder).model
    ids = torch.randint(model.vocabulary_size, (3, 20), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = theirs(ids).logits
        found, _ = model.step(ids, model.start(3))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_greedy_and_beam_are_theirs(pair):
    theirs, folder = pair
    found = read_huggingface(folder)
    tokenizer = found.tokenizer
    assert tokenizer.start is None
    prompt = "the cat"
    ids = torch.from_numpy(tokenizer.encode(prompt).astype(np.int64))[None]
    attention = torch.ones_like(ids)
    greedy = theirs.generate(ids, attention_mask=attention, max_new_tokens=12, do_sample=False, pad_token_id=0)
    ours = sample(found.model, tokenizer, prompt, Sampling(temperature=0, max_tokens=12))[0]
    assert list(ours.ids) == greedy[0, ids.shape[1] :].tolist()
    beams = theirs.generate(
        ids, attention_mask=attention, max_new_tokens=8, do_sample=False, num_beams=4, pad_token_id=0,
        length_penalty=0.0, early_stopping=False,
    )  # fmt: skip
    best = beam_search(found.model, tokenizer, prompt, Beam(width=4, max_tokens=8, length_penalty=0.0))[0]
    assert list(best.ids) == beams[0, ids.shape[1] :].tolist()


def test_every_tensor_of_another_shape_is_refused_by_name(pair, tmp_path):
    _, folder = pair
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    tensors, _ = load_arrays(folder / "model.safetensors")
    for name, tensor in tensors.items():
        for changed in (tensor[1:], np.float32(1), np.zeros((2**40, 0), np.float32)):
            save_arrays(tmp_path / "model.safetensors", tensors | {name: np.asarray(changed)})
            with pytest.raises(UserError, match=f"'{name}'"):
                read_huggingface(tmp_path)


@pytest.fixture
def folder(tokenizer, tmp_path) -> Path:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(vocab_size=tokenizer.vocabulary_size + 3, eos_token_id=tokenizer.eos, **LLAMA)
    torch.manual_seed(1)
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path / "model")
    tokenizer.save(tmp_path / "model" / "tokenizer.json")
    return tmp_path / "model"


def change(folder: Path, **settings: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))


def test_rows_that_stand_for_no_token_are_left_out(folder, tokenizer):
    found = read_huggingface(folder)
    assert found.model.vocabulary_size == tokenizer.vocabulary_size
    assert found.notes == ["3 of the model's 283 tokens are padding that no text has; they are left out"]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"model_type": "bert"}, "holds a model of type 'bert'; supported are gpt2"),
        ({"hidden_act": "gelu"}, "'hidden_act' is 'gelu' in the model's settings; only silu is supported"),
        ({"rope_parameters": {"rope_type": "llama3", "rope_theta": 1e4}}, "rotary positions are of type 'llama3'"),
        ({"num_hidden_layers": 3}, "9 tensors of this architecture are missing: model.layers.2.input_layernorm"),
        ({"num_hidden_layers": 1}, "9 tensors are not of the architecture that the settings describe"),
        ({"num_hidden_layers": "2"}, "'num_hidden_layers' in the model's settings must be a whole number above zero"),
        ({"num_hidden_layers": 10**9}, "the settings ask for 1,000,000,000 layers, but the files hold 21 tensors"),
        ({"intermediate_size": 40}, "the settings ask for 40 rows"),
        ({"vocab_size": 310}, "the settings ask for 310 x 32"),
        ({"vocab_size": 200}, "the tokenizer has 280 tokens but the model 200; they do not belong together"),
        ({"num_key_value_heads": 4}, "the settings ask for 32 rows"),
        ({"mlp_bias": True}, "'mlp_bias' is True"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "rotary positions are of type 'linear'"),
        ({"rope_scaling": [2]}, "the rotary settings of the model must be an object, got [2]"),
        ({"rope_parameters": ""}, "the rotary settings of the model must be an object, got ''"),
        ({"partial_rotary_factor": 0.5}, "'partial_rotary_factor' is 0.5"),
        ({"attention_bias": "yes"}, "'attention_bias' in the model's settings must be true or false, got 'yes'"),
        ({"tie_word_embeddings": 1}, "'tie_word_embeddings' in the model's settings must be true or false, got 1"),
        ({"eos_token_id": 5}, "the model's settings end texts with token 5, which the tokenizer in"),
        ({"eos_token_id": [5, 279]}, "the model's settings end texts with token 5, which the tokenizer in"),
        ({"eos_token_id": "</s>"}, "the model's settings end texts with token '</s>', which the tokenizer in"),
        ({"model_type": "mistral"}, "'sliding_window' is 4096 in the model's settings; only None is supported"),
        ({"head_dim": ""}, "'head_dim' in the model's settings must be a whole number above zero, got ''"),
        ({"head_dim": []}, "'head_dim' in the model's settings must be a whole number above zero, got []"),
        (
            {"head_dim": 2**30, "num_attention_heads": 2**30, "num_key_value_heads": 2**30},
            "the settings ask for 1,152,921,504,606,846,976 x 32 numbers, but the files hold",
        ),
        ({"intermediate_size": 2**31 - 1}, "the settings ask for 2,147,483,647 x 32 numbers, but the files hold"),
    ],
)
def test_what_does_not_fit_is_refused(folder, settings, sentence):
    change(folder, **settings)
    with pytest.raises(UserError, match=".*") as told:
        read_huggingface(folder)
    assert sentence in str(told.value)


def test_files_that_are_missing_are_told(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(UserError, match="is not a checkpoint of plain tensors, and nothing else is read"):
        read_huggingface(folder)
    (folder / "pytorch_model.bin").unlink()
    with pytest.raises(UserError, match="has neither model.safetensors nor pytorch_model.bin"):
        read_huggingface(folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(UserError, match="has no tokenizer"):
        read_huggingface(folder)
    with pytest.raises(UserError, match="cannot read"):
        read_huggingface(folder / "nowhere")


def test_torchs_own_file_holds_the_same_weights(folder):
    from safetensors.torch import load_file

    expected = read_huggingface(folder).model.state_dict()
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    found = read_huggingface(folder).model.state_dict()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_gpt2s_two_files_are_a_tokenizer_too(folder, tokenizer, tmp_path):
    model = json.loads(tokenizer.json)["model"]
    known = model["vocab"] | {"<|endoftext|>": tokenizer.eos}
    merges = "\n".join(" ".join(pair) for pair in model["merges"])
    (folder / "vocab.json").write_text(json.dumps(known))
    (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}\n")
    (folder / "tokenizer.json").unlink()
    found = read_huggingface(folder).tokenizer
    assert found.encode("the cat sat").tolist() == tokenizer.encode("the cat sat").tolist()
    assert found.eos == tokenizer.eos


def test_weights_in_several_files_and_in_bfloat16(folder, tmp_path):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    parts = tmp_path / "parts"
    theirs.save_pretrained(parts, max_shard_size="20KB")
    shutil.copy(folder / "tokenizer.json", parts)
    assert len(list(parts.glob("*.safetensors"))) > 1
    found = read_huggingface(parts).model
    for name, tensor in read_huggingface(folder).model.state_dict().items():
        torch.testing.assert_close(found.state_dict()[name], tensor.bfloat16().float(), rtol=0, atol=0)
