"""Adapters in GGUF files: named, laid out and scaled as llama.cpp reads them."""

from pathlib import Path

import numpy as np
import pytest

from chainrule.errors import UserError
from chainrule.interop.export import export_run
from chainrule.interop.gguf.read import read_gguf
from chainrule.layers.lora import LoRA
from chainrule.runs.folder import Run
from tests.interop.test_peft import base_run, in_an_empty_folder, tuned_run

gguf = pytest.importorskip("gguf")

__all__ = ["in_an_empty_folder"]


def tensors(path: Path) -> dict[str, np.ndarray]:
    return {each.name: np.array(each.data) for each in gguf.GGUFReader(path).tensors}


@pytest.mark.parametrize(
    ("profile", "settings"),
    [
        ("llama", LoRA(rank=4, alpha=8.0)),
        ("llama, tied, other base", LoRA(rank=3, alpha=8.0, matrices=("query", "value"), layers=1)),
        ("gpt2", LoRA(rank=4, alpha=6.0)),
        ("gpt2", LoRA(rank=4, alpha=6.0, matrices=("key", "down"))),
    ],
)
def test_the_weights_of_the_base_and_what_the_file_adds_are_those_of_the_run(profile: str, settings: LoRA):
    """As llama.cpp adds it: W of GGUF += alpha / rank B A, all in GGUF's own layout, written by another exporter."""
    base = base_run(profile)
    run = tuned_run(base, settings)
    export_run(base, "gguf")
    export_run(run, "gguf")
    found = export_run(run, "gguf-adapter")
    assert found["path"] == "tuned-adapter.gguf"
    assert [each["reader"] for each in found["checks"]] == ["the gguf package"] and found["checks"][0]["agrees"]
    before, after, added = (tensors(Path(name)) for name in ("base.gguf", "tuned.gguf", "tuned-adapter.gguf"))
    fields = gguf.GGUFReader("tuned-adapter.gguf").fields
    kinds = {name: fields[name].contents() for name in ("general.type", "adapter.type", "general.architecture")}
    assert kinds == {
        "general.type": "adapter",
        "adapter.type": "lora",
        "general.architecture": "gpt2" if profile == "gpt2" else "llama",
    }
    alpha = fields["adapter.lora.alpha"].contents()
    assert alpha == settings.alpha
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    assert {name.removesuffix(".lora_a") for name in added if name.endswith("a")} == changed
    for name in changed:
        down, up = added[f"{name}.lora_a"], added[f"{name}.lora_b"]
        np.testing.assert_allclose(before[name] + alpha / len(down) * up @ down, after[name], atol=1e-5)


def test_as_a_model_it_is_refused():
    run = tuned_run(base_run(), LoRA(rank=4, alpha=8.0))
    export_run(run, "gguf-adapter", Path("a.gguf"))
    with pytest.raises(UserError, match="'a.gguf' is an adapter and no model; adapters are read from folders of PEFT"):
        read_gguf(Path("a.gguf"))
    with pytest.raises(UserError, match="'runs/base' has no adapter"):
        export_run(Run("runs/base"), "gguf-adapter")


def test_what_differs_is_refused_and_removed(monkeypatch: pytest.MonkeyPatch):
    run = tuned_run(base_run(), LoRA(rank=4, alpha=8.0))
    monkeypatch.setattr(LoRA, "scale", 3.0)  # as if it had been another while training
    with pytest.raises(UserError, match="the exported files were removed, as they do not compute the same"):
        export_run(run, "gguf-adapter")
    assert not Path("tuned-adapter.gguf").exists()
