"""Vectors of texts are the hidden states of the model, averaged by hand; batched = alone."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import chainrule
from chainrule import registry
from chainrule.errors import UserError
from chainrule.generation import embeddings
from chainrule.generation.embeddings import batch_places, embed_texts, encode_texts
from chainrule.interop.huggingface.read import read_huggingface
from chainrule.text.base import Tokenizer
from tests.contracts.runs import LEARNING
from tests.text.samples import train

TEXTS = [
    "the cow eats hay",
    "",
    "hay",
    "the old cow eats grass by the river and sings to the moon",
    " the cow ",
    "é\n\n語",
]
NEURAL = [name for name in LEARNING if name != "convolution"]  # which only the tests have


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train("bytes", TEXTS)


def build(name: str, tokenizer: Tokenizer) -> Any:
    """Of random weights, far from zero."""
    module = registry.find("chainrule.models", name, "model")
    torch.manual_seed(3)
    config = module.SIZES["tiny"]
    if name == "transformer":
        config = replace(config, context_length=64)
    model = module.Model(config, tokenizer.vocabulary_size, tokenizer.eos).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.3)
    return model


@torch.no_grad()
def by_hand(model: Any, tokenizer: Tokenizer, text: str) -> np.ndarray:
    """(tokens, width) The hidden states after each token of a text that is read alone, after an <eos>."""
    ids = torch.tensor([[tokenizer.eos, *tokenizer.encode(text).tolist()]])
    return model.read(ids, None)[0][0].numpy()


@pytest.mark.parametrize("name", NEURAL)
@pytest.mark.parametrize("at_once", [1, 40, 1024])
def test_vectors_are_the_models_own_hidden_states(
    name: str, at_once: int, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
):
    """Read together, in batches of some, or alone and in pieces of one token."""
    monkeypatch.setattr(embeddings, "READ_AT_ONCE", at_once)
    model = build(name, tokenizer)
    encoded = encode_texts(model, tokenizer, TEXTS)
    mean, last = (embed_texts(model, encoded, pooling) for pooling in ("mean", "last"))
    for text, averaged, latest in zip(TEXTS, mean, last, strict=True):
        states = by_hand(model, tokenizer, text)
        np.testing.assert_allclose(averaged, (states[1:] if text else states).mean(0), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(latest, states[-1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NEURAL)
def test_logits_are_made_of_hidden_states(name: str, tokenizer: Tokenizer):
    model = build(name, tokenizer)
    ids = torch.tensor([[tokenizer.eos, *tokenizer.encode(TEXTS[0]).tolist()]])
    hidden, _ = model.hidden_states(ids, model.start(1))
    with torch.no_grad():
        torch.testing.assert_close(model.output(hidden), model(ids))


def test_every_text_is_in_one_batch(tokenizer: Tokenizer):
    encoded = encode_texts(build("lstm", tokenizer), tokenizer, [f"{'cow ' * (i % 70)}" for i in range(300)])
    batches = list(batch_places(encoded))
    assert sorted(place for batch in batches for place in batch) == list(range(300))
    for batch in batches:
        assert len(batch) * max(len(encoded[place].ids) for place in batch) <= embeddings.READ_AT_ONCE


def test_those_of_an_imported_model_are_transformers(tmp_path: Path):
    transformers = pytest.importorskip("transformers")
    tokenizer = train("bpe", ["the cat sat on the mat", "the dog sat on the log"] * 4, size=300, min_count=1)
    config = transformers.LlamaConfig(
        vocab_size=tokenizer.vocabulary_size, bos_token_id=None, eos_token_id=tokenizer.eos, hidden_size=32,
        intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64,
    )  # fmt: skip
    torch.manual_seed(7)
    theirs = transformers.LlamaForCausalLM(config).eval()
    theirs.save_pretrained(tmp_path)
    tokenizer.save(tmp_path / "tokenizer.json")
    ours = read_huggingface(tmp_path)
    texts = ["the cat sat", "the dog sat on the mat"]
    encoded = encode_texts(ours.model, ours.tokenizer, texts)
    found = embed_texts(ours.model, encoded)
    for text, vector in zip(encoded, found, strict=True):
        with torch.no_grad():
            states = theirs.model(torch.from_numpy(text.ids)[None]).last_hidden_state[0]
        np.testing.assert_allclose(vector, states[text.begin :].mean(0).numpy(), rtol=1e-4, atol=1e-5)


def test_a_text_that_is_too_long_is_told_by_its_number(tokenizer: Tokenizer):
    model = build("transformer", tokenizer)
    encode_texts(model, tokenizer, ["x" * 64])
    with pytest.raises(UserError, match="^text 2 of 2 has 65 tokens but this model reads 64; shorten it$"):
        encode_texts(model, tokenizer, ["x", "x" * 65])


def test_weights_that_are_no_numbers_are_told(tokenizer: Tokenizer):
    model = build("transformer", tokenizer)
    with torch.no_grad():
        model.embedding.weight.fill_(torch.nan)
    with pytest.raises(UserError, match="not finite"):
        embed_texts(model, encode_texts(model, tokenizer, ["the cow"]))


def test_from_python(tmp_path: Path):
    (tmp_path / "cows.txt").write_text("the cow eats hay\n" * 50)
    settings: dict[str, Any] = {"tokenizer": "bytes", "size": "tiny", "steps": 2, "batch_size": 2}
    run = chainrule.train(tmp_path / "cows.txt", model="transformer", path=tmp_path / "run", **settings)
    both = run.embed(["the cow", "hay"])
    expected = [by_hand(run.model, run.tokenizer, text)[1:].mean(0) for text in ("the cow", "hay")]
    np.testing.assert_allclose(both, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(run.embed("hay"), both[1], rtol=1e-4, atol=1e-5)
    assert run.embed([]).size == 0
    with pytest.raises(UserError, match="unknown pooling 'max'"):
        run.embed("hay", pooling="max")
    counted = chainrule.train(tmp_path / "cows.txt", order=2, path=tmp_path / "counted")
    with pytest.raises(UserError, match="is of kind ngram, which has no hidden state to make vectors of"):
        counted.embed("hay")
