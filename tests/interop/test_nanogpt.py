"""nanoGPT's checkpoints: plain tensors in its own layout; nothing in a file is run."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from chainrule.errors import UserError
from chainrule.interop.nanogpt.read import read_nanogpt
from tests.interop.models import bpe

TURNED = ("c_attn.weight", "c_proj.weight", "c_fc.weight")
SHAPE = {"n_embd": 32, "n_layer": 2, "n_head": 4}


@pytest.fixture(scope="module")
def theirs() -> Any:
    """transformers' GPT-2 with nanoGPT's GELU, which is the exact one."""
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(vocab_size=280, n_positions=24, activation_function="gelu", **SHAPE)
    torch.manual_seed(3)
    model = transformers.GPT2LMHeadModel(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0.1, 0.2)
    return model


def save(model: Any, path: Path, **changes: Any) -> Path:
    state = {
        f"_orig_mod.{name}": tensor.T.contiguous() if name.endswith(TURNED) else tensor
        for name, tensor in model.state_dict().items()
    }
    settings = {**SHAPE, "block_size": 24, "vocab_size": 280, "bias": True, "dropout": 0.0, **changes}
    torch.save({"model": state, "model_args": settings, "iter_num": 5}, path)
    return path


def test_logits_are_those_of_gpt2_with_the_same_weights(theirs, tmp_path: Path):
    found = read_nanogpt(save(theirs, tmp_path / "ckpt.pt"), bpe())
    ids = torch.randint(280, (2, 24), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        np.testing.assert_allclose(
            found.model.step(ids, found.model.start(2))[0].numpy(), theirs(ids).logits.numpy(), atol=1e-4
        )


def test_a_checkpoint_needs_a_tokenizer_and_settings_that_fit(theirs, tmp_path: Path):
    path = save(theirs, tmp_path / "ckpt.pt")
    with pytest.raises(UserError, match="has no tokenizer; give a tokenizer.json"):
        read_nanogpt(path, None)
    with pytest.raises(UserError, match="12 tensors of this architecture are missing"):
        read_nanogpt(save(theirs, tmp_path / "ckpt.pt", n_layer=3), bpe())
    with pytest.raises(UserError, match="not of the architecture that the settings describe"):
        read_nanogpt(save(theirs, tmp_path / "ckpt.pt", bias=False), bpe())


class Attack:
    def __reduce__(self) -> Any:
        return (Path.touch, (Path("executed"),))


def test_nothing_in_a_checkpoint_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for path, save_to in ((Path("zip.pt"), torch.save), (Path("plain.pt"), lambda what, path: path.write_bytes(what))):
        save_to({"model": Attack()} if save_to is torch.save else pickle.dumps(Attack()), path)
        with pytest.raises(UserError, match="is not a checkpoint of plain tensors, and nothing else is read"):
            read_nanogpt(path, bpe())
    assert not Path("executed").exists()
    torch.save({"weights": torch.zeros(2)}, "other.pt")
    with pytest.raises(UserError, match="is not a checkpoint of nanoGPT"):
        read_nanogpt(Path("other.pt"), bpe())
