"""A run remembers how its texts begin and end, where that is not as usual."""

from pathlib import Path

import pytest
import tokenizers

from chainrule.models import ngram
from chainrule.runs.folder import Run
from chainrule.runs.write import store
from chainrule.text.base import Tokenizer
from tests.text.samples import trained


@pytest.mark.parametrize("start", [None, 5, "end"])
@pytest.mark.parametrize("end", ["<eos>", "<|turn|>"])
def test_the_tokens_that_begin_and_end_texts_are_kept(start: int | str | None, end: str, tmp_path: Path):
    backend = tokenizers.Tokenizer.from_str(trained("bpe").json)
    backend.add_special_tokens(["<|turn|>"])
    tokenizer = Tokenizer(backend, end)
    tokenizer.start = tokenizer.eos if start == "end" else start  # type: ignore[assignment]
    stream = [tokenizer.eos, *tokenizer.encode("the cat").tolist(), tokenizer.eos]
    model = ngram.Model(ngram.Config(order=2), tokenizer.vocabulary_size, tokenizer.eos).fit([stream])
    store(tmp_path / "run", "ngram", model, tokenizer, {"inputs": ["x"], "unit": "line"}, False)
    found = Run(tmp_path / "run").tokenizer
    assert (found.start, found.eos, found.end) == (tokenizer.start, tokenizer.eos, end)
