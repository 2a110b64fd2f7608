"""What is stored as a run: how its texts begin and end, its model card, and what its task adds."""

from pathlib import Path
from typing import Any

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


def store_bigrams(path: Path, **more: Any) -> Run:
    tokenizer = trained("bpe")
    stream = [tokenizer.eos, *tokenizer.encode("the cat").tolist(), tokenizer.eos]
    model = ngram.Model(ngram.Config(order=2), tokenizer.vocabulary_size, tokenizer.eos).fit([stream])
    return store(path, "ngram", model, tokenizer, {"inputs": ["x"], "unit": "line"}, False, **more)


def test_the_card_of_a_language_model_says_how_to_sample_and_to_evaluate(tmp_path: Path):
    run = store_bigrams(tmp_path / "cats")
    card = (run.path / "README.md").read_text()
    assert "A language model of kind `ngram`" in card
    assert (
        "```\nchainrule sample cats --prompt 'The'\nchainrule evaluate cats other.txt\nchainrule show cats\n```" in card
    )
    assert run.task == "language" and "task" not in run.config


def test_a_task_gives_its_own_commands_and_files(tmp_path: Path):
    def extra(folder: Path) -> None:
        (folder / "labels.json").write_text("[]")

    run = store_bigrams(tmp_path / "cats", task="naming", uses=["chainrule name cats"], extra=extra)
    card = (run.path / "README.md").read_text()
    assert "A model for naming of kind `ngram`" in card
    assert "```\nchainrule name cats\nchainrule show cats\n```" in card
    assert run.task == "naming"
    assert "labels.json" in run.manifest and run.verify() == []


def test_the_last_event_of_a_run_says_what_it_is(tmp_path: Path):
    run = store_bigrams(tmp_path / "cats")
    assert run.trained == {"event": "trained", "validation": None, "parameters": run.model.num_parameters}
    assert run.metrics == [run.trained]
