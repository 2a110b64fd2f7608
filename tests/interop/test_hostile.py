"""Files that are cut off, lie about their sizes, or hold what they should not: one sentence each, and nothing run."""

import json
import os
import pickle
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from chainrule.errors import UserError
from chainrule.interop.gguf.read import read_gguf
from chainrule.interop.gguf.write import write_gguf
from chainrule.interop.huggingface.read import read_huggingface
from chainrule.interop.huggingface.write import write_huggingface
from chainrule.storage import load_arrays
from tests.interop.models import bpe, transformer

MOST_MEMORY = 256 << 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tokenizer = bpe()
    write_huggingface(transformer("llama", tokenizer), tokenizer, tmp_path)
    return tmp_path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    pytest.importorskip("gguf")
    tokenizer = bpe()
    write_gguf(transformer("llama", tokenizer), tokenizer, tmp_path / "model.gguf", "f32", "model")
    return tmp_path / "model.gguf"


def refused(read: Callable[[], Any]) -> str:
    """The one sentence, for little memory."""
    tracemalloc.start()
    try:
        with pytest.raises(UserError) as told:
            read()
        assert tracemalloc.get_traced_memory()[1] < MOST_MEMORY
    finally:
        tracemalloc.stop()
    sentence = str(told.value)
    assert "\n" not in sentence
    assert 10 < len(sentence) < 400
    return sentence


def test_weights_cut_off_at_every_kilobyte(folder: Path):
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    for size in range(0, len(whole) - 1, 1024):
        path.write_bytes(whole[:size])
        assert "cut off" in refused(lambda: read_huggingface(folder))


def test_gguf_cut_off_at_every_kilobyte(file: Path):
    whole = file.read_bytes()
    for size in range(0, len(whole) - 1, 1024):
        file.write_bytes(whole[:size])
        sentence = refused(lambda: read_gguf(file))
        assert "cut off" in sentence or "lies beyond the file" in sentence


def test_a_header_of_so_many_bytes_that_no_machine_has_them(folder: Path):
    path = folder / "model.safetensors"
    path.write_bytes(struct.pack("<Q", 1 << 62) + path.read_bytes()[8:])
    assert "is not a safetensors file" in refused(lambda: read_huggingface(folder))


def rewritten(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])


def test_tensors_that_share_bytes(folder: Path):
    def overlap(header: dict[str, Any]) -> None:
        names = [name for name in header if name.endswith("layernorm.weight")]
        header[names[0]]["data_offsets"] = header[names[1]]["data_offsets"]

    rewritten(folder / "model.safetensors", overlap)
    assert "damaged safetensors header" in refused(lambda: read_huggingface(folder))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers(folder: Path, file: Path, value: float):
    for path, read in (
        (folder / "model.safetensors", lambda: read_huggingface(folder)),
        (file, lambda: read_gguf(file)),
    ):
        data = bytearray(path.read_bytes())
        data[-4:] = np.float32(value).tobytes()
        path.write_bytes(data)
        assert "has numbers that are not finite" in refused(read)


class Attack:
    def __reduce__(self) -> Any:
        return (os.mkdir, ("executed",))


def test_a_pickle_under_another_name_is_not_run(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder)
    for name in ("model.safetensors", "model.gguf", "config.json", "tokenizer.json"):
        kept = Path(name).read_bytes() if Path(name).exists() else None
        Path(name).write_bytes(pickle.dumps(Attack()))
        refused(lambda name=name: read_gguf(Path(name)) if name.endswith("gguf") else read_huggingface(folder))
        if kept is not None:
            Path(name).write_bytes(kept)
    assert not Path("executed").exists()


def test_a_tokenizer_that_makes_its_library_panic(folder: Path):
    path = folder / "tokenizer.json"
    settings = json.loads(path.read_text())
    settings["model"]["continuing_subword_prefix"] = "longer than any token, which makes the library panic"
    path.write_text(json.dumps(settings))
    assert "is not a tokenizer that can be read" in refused(lambda: read_huggingface(folder))


@pytest.mark.parametrize("is_zip", [True, False])
def test_checkpoints_cut_off_at_every_kilobyte(folder: Path, is_zip: bool):
    as_checkpoint(folder)
    path = folder / "pytorch_model.bin"
    if not is_zip:  # as torch wrote them before
        torch.save(torch.load(path), path, _use_new_zipfile_serialization=False)
    assert read_huggingface(folder).model.config.width == 32
    whole = path.read_bytes()
    for size in range(0, len(whole) - 1, 1024):
        path.write_bytes(whole[:size])
        assert "is not a checkpoint of plain tensors" in refused(lambda: read_huggingface(folder))


def as_checkpoint(folder: Path, **changes: Any) -> None:
    """The folder's weights in torch's own file, some of them changed."""
    tensors: dict[str, Any] = {
        name: torch.from_numpy(array.copy()) for name, array in load_arrays(folder / "model.safetensors")[0].items()
    }
    (folder / "model.safetensors").unlink()
    torch.save(tensors | changes, folder / "pytorch_model.bin")


def test_parameters_are_weights_too(folder: Path):
    expected = read_huggingface(folder).model.state_dict()
    norm = torch.nn.Parameter(torch.ones(32, dtype=torch.float64))
    as_checkpoint(folder, **{"model.norm.weight": norm})
    found = read_huggingface(folder).model.state_dict()
    assert torch.equal(found.pop("norm.weight"), torch.ones(32))
    assert all(torch.equal(tensor, expected[name]) for name, tensor in found.items())


@pytest.mark.parametrize(
    ("norm", "told"),
    [
        (lambda: torch.ones(32).to_sparse(), "is stored in an unsupported way (sparse_coo, float32, cpu)"),
        (lambda: torch.ones(32, device="meta"), "is stored in an unsupported way (strided, float32, meta)"),
        (
            lambda: torch.quantize_per_tensor(torch.ones(32), 0.1, 0, torch.qint8),
            "an unsupported way (strided, qint8, cpu",
        ),
        (lambda: torch.ones(1).expand(1 << 40), "has more numbers than are stored for it"),
        (lambda: torch.ones(32, dtype=torch.int64), "is of type int64; weights must be floating-point numbers"),
        (lambda: torch.ones(32, dtype=torch.complex64), "is stored in an unsupported way (strided, complex64, cpu)"),
        (lambda: [1.0] * 32, "'model.norm.weight' in the checkpoint must be a tensor, found list"),
    ],
)
@pytest.mark.filterwarnings("ignore")  # torch has given up quantised tensors
def test_tensors_that_are_not_plain_are_refused_by_name(folder: Path, norm: Callable[[], Any], told: str):
    as_checkpoint(folder, **{"model.norm.weight": norm()})
    sentence = refused(lambda: read_huggingface(folder))
    assert told in sentence
    assert "model.norm.weight" in sentence


def test_many_tensors_of_one_memory_take_none(folder: Path):
    """Each is as large as what is stored, but a thousand of them would be a thousand times that when widened."""
    shared = torch.ones(1 << 20, dtype=torch.float16)
    as_checkpoint(folder, **{f"t{n}": shared for n in range(1000)})
    assert "have more numbers than the file holds" in refused(lambda: read_huggingface(folder))


def test_names_in_a_file_cannot_steer_a_terminal(folder: Path, file: Path):
    def rename(header: dict[str, Any]) -> None:
        header["\x1b[2J\nall is well"] = header.pop("model.norm.weight")

    rewritten(folder / "model.safetensors", rename)
    assert refused(lambda: read_huggingface(folder)).isprintable()
    file.write_bytes(file.read_bytes().replace(b"output_norm.weight", b"\x1b]0;a\x07\nnorm.weight"))
    sentence = refused(lambda: read_gguf(file))
    assert sentence.isprintable()
    assert r"\x1b]0;a\x07" in sentence


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a": ' * 50_000, "{", "[]", "\x00", '{"model_type": ["llama"]}'])
def test_settings_that_are_not_settings(folder: Path, text: str):
    (folder / "config.json").write_text(text)
    refused(lambda: read_huggingface(folder))


def gguf_bytes(tensors: int = 0, settings: int = 0, rest: bytes = b"", version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, settings) + rest


def named(name: bytes) -> bytes:
    return struct.pack("<Q", len(name)) + name


@pytest.mark.parametrize(
    "data",
    [
        gguf_bytes(tensors=1 << 62),
        gguf_bytes(settings=1 << 62),
        gguf_bytes(settings=1, rest=struct.pack("<Q", 1 << 62)),  # a name
        gguf_bytes(settings=1, rest=named(b"a") + struct.pack("<IQ", 8, 1 << 62)),  # a text
        gguf_bytes(settings=1, rest=named(b"a") + struct.pack("<IIQ", 9, 4, 1 << 62)),  # a list of numbers
        gguf_bytes(settings=1, rest=named(b"a") + struct.pack("<IIQ", 9, 8, 1 << 40)),  # a list of texts
        gguf_bytes(settings=1, rest=named(b"a") + struct.pack("<IIQ", 9, 9, 3) + struct.pack("<IQ", 9, 1) * 9),
        gguf_bytes(settings=1, rest=named(b"a") + struct.pack("<I", 99)),
        gguf_bytes(tensors=1, rest=named(b"t") + struct.pack("<IQIQ", 1, 1 << 60, 0, 0)),  # larger than the file
        gguf_bytes(tensors=1, rest=named(b"t") + struct.pack("<IQIQ", 1, 8, 0, 1 << 50)),  # beyond it
        gguf_bytes(tensors=1, rest=named(b"t") + struct.pack("<I", 1 << 30)),  # dimensions
        gguf_bytes(tensors=1, rest=named(b"t") + struct.pack("<IQIQ", 1, 8, 999, 0) + bytes(64)),  # type
        gguf_bytes(tensors=2, rest=(named(b"t") + struct.pack("<IQIQ", 1, 8, 0, 0)) * 2 + bytes(64)),  # over each other
        gguf_bytes(version=77) + bytes(32),
        b"GGUF",
        b"",
    ],
)
def test_gguf_files_that_declare_what_they_do_not_hold(tmp_path: Path, data: bytes):
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    refused(lambda: read_gguf(path))


@pytest.mark.parametrize(
    ("name", "sizes", "told"),
    [
        (b"token_embd.weight", (1 << 62, 0), "'token_embd.weight' has no numbers"),
        (b"token_embd.weight", (0, 1 << 63), "'token_embd.weight' has no numbers"),
        (b"blk.0.attn_q.weight", (256, 4), "has 4 rows, which are no pairs of 4 heads"),
        (b"blk.0.attn_v.weight", (256, 2), "the settings ask for 16 rows"),
    ],
)
def test_gguf_tensors_of_another_shape_are_refused(file: Path, name: bytes, sizes: tuple[int, int], told: str):
    data = bytearray(file.read_bytes())
    place = data.index(name) + len(name) + 4  # after the number of dimensions
    struct.pack_into("<QQ", data, place, *sizes)
    file.write_bytes(data)
    assert told in refused(lambda: read_gguf(file))


def test_settings_of_more_numbers_than_can_be_counted(tmp_path: Path):
    tokenizer = bpe()
    write_huggingface(transformer("gpt2", tokenizer), tokenizer, tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(settings | {"n_positions": 2**31 - 1, "n_embd": 2**31 - 4}))
    sentence = refused(lambda: read_huggingface(tmp_path))
    assert "the settings ask for" in sentence
    assert "numbers, but the files hold" in sentence


def test_gguf_with_any_byte_of_its_header_changed_is_refused_or_a_model(file: Path):
    """Never anything but a sentence, whatever is damaged."""
    whole = file.read_bytes()
    places = np.random.default_rng(5).integers(0, 3000, 60)
    for place in places:
        for value in (0, 255):
            data = bytearray(whole)
            data[place] = value
            file.write_bytes(data)
            try:
                read_gguf(file)
            except UserError as error:
                assert "\n" not in str(error)  # noqa: PT017


def test_a_tokenizer_that_cannot_cut_the_first_letter(folder: Path):
    """What it does not know becomes a token that it does not have."""
    path = folder / "tokenizer.json"
    settings = json.loads(path.read_text())
    known = settings["model"]["vocab"]
    known["another"] = known.pop("a")
    settings["model"] |= {"merges": [], "unk_token": "<none>"}
    path.write_text(json.dumps(settings))
    assert "cannot cut a text" in refused(lambda: read_huggingface(folder))
