"""One file, one cutting, one measure: whatever run is evaluated on it."""

import json
from collections.abc import Callable
from math import log
from pathlib import Path

import numpy as np
import pytest

import chainrule
from chainrule.api.language import TrainedRun
from chainrule.errors import UserError
from chainrule.text.base import Tokenizer

BLOCKS = "\n\n".join(f"the red cow {i} eats hay\nand the old cow {i} sleeps" for i in range(60)) + "\n"


@pytest.fixture
def poems(tmp_path: Path) -> str:
    (tmp_path / "poems.txt").write_text(BLOCKS)
    return "poems.txt"


@pytest.fixture
def without_z(poems: str, tmp_path: Path) -> str:
    """A byte-level tokenizer that cannot spell the letter z."""
    return change_tokenizer(tmp_path / "without-z.json", _drop_z)


def change_tokenizer(path: Path, change: Callable[[dict], None]) -> str:
    settings = json.loads(chainrule.train("poems.txt", tokenizer="bytes", order=2).tokenizer.json)
    change(settings)
    path.write_text(json.dumps(settings))
    return str(path)


def _drop_z(settings: dict) -> None:
    vocabulary = settings["model"]["vocab"]
    last = vocabulary.pop("z")
    for symbol, id in vocabulary.items():
        vocabulary[symbol] = id - (id > last)
    settings["added_tokens"][0]["id"] -= 1


def _lowercase(settings: dict) -> None:
    settings["normalizer"] = {"type": "Lowercase"}


def test_runs_trained_on_lines_and_on_blocks_are_measured_on_the_same_documents(poems: str) -> None:
    lines = chainrule.train(poems, order=3, unit="line")
    blocks = chainrule.train(poems, order=3, unit="block")
    found = [run.evaluate(poems, documents=True) for run in (lines, blocks)]
    assert [each["documents"] for each in found] == [60, 60]
    assert [each["bytes"] for each in found] == [len(BLOCKS) + 1] * 2  # the last block ends as the others do
    places = [[(each["path"], each["line"]) for each in one["per_document"]] for one in found]
    assert places[0] == places[1] == [("poems.txt", 1 + 3 * i) for i in range(60)]
    against = lines.evaluate(poems, against=blocks)["against"]
    assert against["other_bits_per_byte"] == found[1]["bits_per_byte"]
    assert against["bits_per_byte"] == pytest.approx(found[0]["bits_per_byte"] - found[1]["bits_per_byte"])


def test_a_note_says_where_documents_are_not_those_of_training(poems: str) -> None:
    run = chainrule.train(poems, order=3, unit="line")
    notes = run.evaluate(poems)["notes"]
    assert "one document is a block here, but was a line in training; the unit line cuts as training did" in notes
    assert not any("in training;" in note for note in run.evaluate(poems, unit="line")["notes"])


def test_a_tokenizer_that_spells_this_text_gives_bits_per_byte(without_z: str, poems: str) -> None:
    """257 - 1 symbols spell everything but z, so the figures are those of all bytes, but for one symbol less."""
    run = chainrule.train(poems, order=3, tokenizer=without_z)
    assert not run.tokenizer.is_lossless
    found = run.evaluate(poems)
    assert found["changed_documents"] == 0
    assert found["bits_per_byte"] == pytest.approx(found["nats"] / log(2) / found["bytes"])
    whole = chainrule.train(poems, order=3, tokenizer="bytes").evaluate(poems)
    assert found["bits_per_byte"] == pytest.approx(whole["bits_per_byte"], abs=0.01)
    assert run.trained is not None and run.trained["validation"] is not None
    assert run.evaluate()["bits_per_byte"] == pytest.approx(run.trained["validation"]["bits_per_byte"])


def test_where_tokens_spell_some_documents_otherwise_their_number_is_told(without_z: str, poems: str) -> None:
    run = chainrule.train(poems, order=3, tokenizer=without_z)
    texts = chainrule.Texts(["the zebra eats", "the cow eats", "zzz"])
    found = run.evaluate(texts, documents=True)
    assert (found["bits_per_byte"], found["bits_per_character"], found["changed_documents"]) == (None, None, 2)
    assert [each["bits_per_byte"] is None for each in found["per_document"]] == [True, False, True]
    assert found["perplexity"] > 1
    other = chainrule.train(poems, order=2, tokenizer="bytes")
    for one, two in ((run, other), (other, run)):
        with pytest.raises(UserError, match="do not spell 2 of the 3 documents exactly"):
            one.evaluate(texts, against=two)
    assert run.evaluate(poems, against=other)["against"]["other_bits_per_byte"] is not None


def test_text_kept_aside_in_changed_form_is_not_taken_for_the_text(poems: str, tmp_path: Path) -> None:
    """Its tokens spell the lower-case text that they are decoded to, but that is not what was in the file."""
    lower = change_tokenizer(tmp_path / "lower.json", _lowercase)
    (tmp_path / "capital.txt").write_text("\n".join(f"The cow {i} eats" for i in range(100)))
    run = chainrule.train("capital.txt", order=2, tokenizer=lower)
    assert run.trained is not None and run.trained["validation"] is not None
    aside = run.evaluate()
    assert aside["documents"] == aside["changed_documents"] == run.trained["validation"]["documents"]
    assert (aside["bits_per_byte"], run.trained["validation"]["bits_per_byte"]) == (None, None)
    assert run.evaluate(poems)["bits_per_byte"] > 0  # nothing is a capital there


def test_a_closed_vocabulary_has_no_bits_per_byte_even_where_it_knows_every_word(poems: str) -> None:
    run = chainrule.train(poems, order=2, tokenizer="words", closed_vocabulary=True)
    found = run.evaluate(chainrule.Texts(["the red cow", "the old cow sleeps"]))
    assert (found["unknown_tokens"], found["changed_documents"], found["bits_per_byte"]) == (0, 2, None)


def test_sentencepiece_is_lossless_but_for_its_own_sign() -> None:
    """Its sign for a space comes back as a space."""
    from tokenizers import Tokenizer as Backend
    from tokenizers import decoders, models, normalizers

    from tests.evaluation.toys import as_lines

    vocabulary = {name: id for id, name in enumerate(["▁", "a", "▁a", *(f"<0x{byte:02X}>" for byte in range(256))])}
    backend = Backend(models.BPE(vocabulary, [("▁", "a")], byte_fallback=True))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    backend.add_special_tokens(["</s>"])
    tokenizer = Tokenizer(backend)
    documents = as_lines(["a a", " a  a", "é 中", "a▁a"])
    changed = tokenizer.find_changed(documents, tokenizer.encode_documents(documents))
    assert changed.tolist() == [False, False, False, True]
    assert [tokenizer.decode(tokenizer.encode(text)) for text in ("a a", " a  a")] == ["a a", " a  a"]
    assert np.array_equal(
        changed, [tokenizer.decode(tokenizer.encode(documents.text(i))) != documents.text(i) for i in range(4)]
    )


# Whether a run was trained on the text


def seen(run: TrainedRun, text: object, **reading: object) -> tuple[int, int, str]:
    found = run.evaluate(text, **reading)["seen"]
    return found["documents"], found["of"], found["unit"]


def test_a_run_says_how_many_documents_of_a_text_it_was_trained_on(poems: str, tmp_path: Path) -> None:
    run = chainrule.train(poems, order=2)
    trained = run.config["data"]["text"]["train"]["documents"]
    assert 40 < trained < 60
    assert seen(run, poems) == (trained, 60, "block")
    (tmp_path / "copy.txt").write_text(BLOCKS)
    assert seen(run, "copy.txt") == (trained, 60, "block")
    (tmp_path / "new.txt").write_text(BLOCKS.replace("cow", "horse"))
    assert seen(run, "new.txt") == (0, 60, "block")
    aside = run.evaluate()["seen"]
    assert (aside["documents"], aside["of"]) == (0, 60 - trained)


def test_the_text_of_training_is_known_again_however_it_is_cut(poems: str, tmp_path: Path) -> None:
    trained = chainrule.train(poems, order=2).config["data"]["text"]["train"]["documents"]
    run = chainrule.train(poems, order=2)
    assert seen(run, poems, unit="line") == (trained, 60, "block")
    assert seen(run, poems, unit="file") == (trained, 60, "block")
    whole = chainrule.train(poems, order=2, unit="file")  # one document, of which the last tenth is kept aside
    assert seen(whole, poems) == (1, 1, "file")
    (tmp_path / "new.txt").write_text(BLOCKS.replace("cow", "horse"))
    assert seen(whole, "new.txt")[0] == 0


def test_the_other_run_of_a_comparison_says_it_too(poems: str, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text(BLOCKS.replace("cow", "horse"))
    one, two = chainrule.train(poems, order=2), chainrule.train("other.txt", order=2)
    found = two.evaluate(poems, against=one)
    assert found["seen"]["documents"] == 0
    assert found["against"]["other_seen"]["documents"] == one.config["data"]["text"]["train"]["documents"]
    elsewhere = chainrule.train(poems, order=3, split_seed=1)
    shared = one.evaluate(against=elsewhere)  # what one kept aside, the other may have read
    assert shared["seen"]["documents"] == 0 < shared["against"]["other_seen"]["documents"]


def test_of_an_imported_model_it_is_not_known(poems: str) -> None:
    chainrule.train(poems, order=2, path="runs/mine").export("arpa", "mine.arpa")
    assert chainrule.import_model("mine.arpa", path="runs/theirs").evaluate(poems)["seen"] is None
