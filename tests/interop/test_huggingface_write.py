"""Folders for transformers: it computes, cuts, begins and ends as we do; and the way back gives the same bits."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from chainrule.generation import Sampling, sample
from chainrule.interop.huggingface.read import read_huggingface
from chainrule.interop.huggingface.write import write_huggingface
from chainrule.interop.llama2c.read import read_llama2c
from tests.interop.models import PROFILES, TEXT, bpe, transformer
from tests.interop.test_llama2c import STORIES, needs_stories
from tests.text.samples import train

TEXTS = ("the cat sat", "", "It's 2024\n\n naïve 日本", "say <eos> and </s>", "  two")


def both(folder: Path) -> tuple[Any, Any]:
    transformers = pytest.importorskip("transformers")
    return (
        transformers.AutoModelForCausalLM.from_pretrained(folder),
        transformers.AutoTokenizer.from_pretrained(folder),
    )


@pytest.mark.parametrize("profile", PROFILES)
def test_the_way_there_and_back_keeps_every_bit(profile: str, tmp_path: Path):
    tokenizer = bpe()
    model = transformer(profile, tokenizer)
    write_huggingface(model, tokenizer, tmp_path)
    found = read_huggingface(tmp_path)
    assert found.tokenizer.json == tokenizer.json
    assert (found.tokenizer.start, found.tokenizer.eos) == (tokenizer.start, tokenizer.eos)
    assert found.notes == []
    ours, theirs = model.state_dict(), found.model.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    for name in ("norm_epsilon", "rotary_base", "tied", "context_length", "activation"):
        assert getattr(found.model.config, name) == getattr(model.config, name)


@pytest.mark.parametrize("profile", PROFILES)
def test_transformers_computes_the_same_logits(profile: str, tmp_path: Path):
    tokenizer = bpe()
    model = transformer(profile, tokenizer)
    write_huggingface(model, tokenizer, tmp_path)
    theirs, _ = both(tmp_path)
    ids = torch.randint(model.vocabulary_size, (2, 48), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        torch.testing.assert_close(theirs(ids).logits, model.step(ids, model.start(2))[0], atol=1e-4, rtol=0)


@pytest.mark.parametrize("kind", ["bytes", "characters", "words", "bpe", "closed words"])
def test_transformers_cuts_and_joins_text_as_we_do(kind: str, tmp_path: Path):
    tokenizer = train(kind, TEXT)
    write_huggingface(transformer("llama", tokenizer), tokenizer, tmp_path)
    _, theirs = both(tmp_path)
    for text in TEXTS:
        ids = [tokenizer.start, *tokenizer.encode(text).tolist()]
        assert theirs(text)["input_ids"] == ids
        if not tokenizer.is_closed:
            assert theirs.decode(ids, skip_special_tokens=True) == text
    assert (theirs.bos_token_id, theirs.eos_token_id) == (tokenizer.start, tokenizer.eos)


def test_generation_begins_and_ends_there_as_it_does_here(tmp_path: Path):
    tokenizer = bpe()
    model = transformer("gpt2", tokenizer)
    prompt = torch.from_numpy(np.append(tokenizer.start, tokenizer.encode("the cat")).astype(np.int64))
    with torch.no_grad():  # after a few tokens of its own, the end is what it predicts
        ids = prompt
        for _ in range(3):
            hidden, _ = model.read(ids[None], None)
            ids = torch.cat([ids, model.output(hidden)[0, -1:].argmax(-1)])
        hidden, _ = model.read(ids[None], None)
        model.embedding.weight[tokenizer.eos] = 3 * hidden[0, -1]
    write_huggingface(model, tokenizer, tmp_path)
    theirs, their_tokenizer = both(tmp_path)
    for prompt in ("the cat", "", "a dog"):
        ours = sample(model, tokenizer, prompt, Sampling(temperature=0, max_tokens=20))[0]
        given = their_tokenizer(prompt, return_tensors="pt")
        found = theirs.generate(**given, max_new_tokens=20, do_sample=False)[0, given["input_ids"].shape[1] :].tolist()
        assert [id for id in found if id != tokenizer.eos] == [id for id in ours.ids if id != tokenizer.eos]
        assert len(found) < 20 or tokenizer.eos not in found


def test_a_text_that_begins_with_nothing_or_with_another_token(tmp_path: Path):
    tokenizer = bpe()
    for start in (None, 5):
        tokenizer.start = start
        folder = tmp_path / str(start)
        folder.mkdir()
        write_huggingface(transformer("llama", tokenizer), tokenizer, folder)
        _, theirs = both(folder)
        assert theirs("the cat")["input_ids"] == [*([] if start is None else [5]), *tokenizer.encode("the cat")]
        assert read_huggingface(folder).tokenizer.start == start
        assert json.loads((folder / "config.json").read_text())["bos_token_id"] == start


@needs_stories
def test_stories_tell_the_same_in_transformers(tmp_path: Path):
    stories = read_llama2c(STORIES / "stories260K.bin", STORIES / "tok512.bin")
    write_huggingface(stories.model, stories.tokenizer, tmp_path)
    theirs, tokenizer = both(tmp_path)
    given = tokenizer("", return_tensors="pt", return_token_type_ids=False)
    assert given["input_ids"].tolist() == [[1]]
    found = theirs.generate(**given, max_new_tokens=200, do_sample=False)
    assert tokenizer.decode(found[0], skip_special_tokens=True) == (STORIES / "expected_greedy_200.txt").read_text()
