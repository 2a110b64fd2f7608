"""Model files that lie: kernels do not check where they read, so loading must."""

import json
from pathlib import Path

import numpy as np
import pytest

from chainrule.errors import UserError
from chainrule.models import infinigram, ngram
from chainrule.storage import load_arrays, save_arrays

IDS = np.array([5, 0, 1, 2, 5, 3, 1, 2, 4, 5, 0, 1, 5], np.uint32)


def saved(module, folder: Path) -> Path:
    model = module.Model(module.SIZES["tiny"], 6, 5).fit([IDS])
    model.save(folder / "model.safetensors")
    return folder / "model.safetensors"


def change(path: Path, name: str, index: int, value: int) -> None:
    arrays, metadata = load_arrays(path)
    arrays = {key: array.copy() for key, array in arrays.items()}
    arrays[name][index] = value
    save_arrays(path, arrays, metadata)


@pytest.mark.parametrize("name", ["word", "first_child", "suffix", "level_starts"])
@pytest.mark.parametrize("value", [0, 3, 40, 2**31, 2**32 - 1])
def test_an_index_that_leads_astray_is_refused_or_harmless(tmp_path, name, value):
    """Every single entry in turn: either loading refuses, or the model still only reads its own arrays."""
    size = len(load_arrays(saved(ngram, tmp_path))[0][name])
    refused = 0
    for index in range(size):
        path = saved(ngram, tmp_path)
        before = int(load_arrays(path)[0][name][index])
        change(path, name, index, value)
        try:
            model = ngram.Model.load(path)
        except UserError:
            refused += 1
            continue
        trie = model.trie
        assert trie.word.max() < 6
        assert trie.suffix.max() < len(trie.word)
        assert trie.first_child.max() <= len(trie.word)
        assert before == value or name in ("word", "suffix", "first_child")
        assert np.isfinite(model.score(IDS)).all()
    assert refused > 0


@pytest.mark.parametrize(
    "name", ["word", "first_child", "suffix", "count", "log_probability", "backoff", "level_starts"]
)
def test_an_array_that_is_too_short_or_missing_or_of_another_type_is_refused(tmp_path, name):
    arrays, metadata = load_arrays(saved(ngram, tmp_path))
    for changed in (arrays[name][:-1], arrays[name].astype(np.float64), arrays[name][None], None):
        others = {key: array for key, array in arrays.items() if key != name}
        save_arrays(tmp_path / "bad", others if changed is None else others | {name: changed}, metadata)
        with pytest.raises(UserError, match="does not hold an n-gram model"):
            ngram.Model.load(tmp_path / "bad")


@pytest.mark.parametrize(
    "facts",
    [
        {"vocabulary_size": 7},
        {"vocabulary_size": -1},
        {"eos": 6},
        {"eos": -1},
        {"vocabulary_size": "6"},
        {"config": {}},
        {"config": {"order": 2, "prune": []}},
    ],
)
def test_facts_that_contradict_the_arrays_are_refused(tmp_path, facts):
    arrays, metadata = load_arrays(saved(ngram, tmp_path))
    changed = json.loads(metadata["model"]) | facts
    save_arrays(tmp_path / "bad", arrays, {"model": json.dumps(changed)})
    with pytest.raises(UserError):
        ngram.Model.load(tmp_path / "bad")


@pytest.mark.parametrize(("name", "value"), [("ids", 6), ("ids", 2**32 - 1), ("suffixes", 12), ("suffixes", 2**32 - 1)])
def test_an_infinigram_with_indices_beyond_its_text_is_refused(tmp_path, name, value):
    path = saved(infinigram, tmp_path)
    change(path, name, 3, value)
    with pytest.raises(UserError, match="does not hold an infinity-gram"):
        infinigram.Model.load(path)


def test_an_infinigram_whose_suffixes_are_out_of_order_still_reads_only_its_text(tmp_path):
    path = saved(infinigram, tmp_path)
    for index in range(len(IDS) - 1):
        change(path, "suffixes", index, len(IDS) - 2)
    model = infinigram.Model.load(path)
    assert len(model.score(IDS)) == len(IDS) - 1
    assert model.step(IDS[None], model.start(1))[0].shape == (1, len(IDS), 6)
