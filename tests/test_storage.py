import json
import struct

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from chainrule.errors import UserError
from chainrule.storage import load_arrays, save_arrays

ARRAYS = {
    "bytes": np.arange(5, dtype=np.uint8),
    "wide": np.arange(12, dtype=np.int64).reshape(3, 4),
    "floats": np.linspace(0, 1, 7, dtype=np.float32),
    "empty": np.zeros((0, 3), np.float64),
    "scalar": np.array(3.5),
}


def test_saved_equals_loaded(tmp_path):
    save_arrays(tmp_path / "a", ARRAYS, {"made": "here"})
    loaded, metadata = load_arrays(tmp_path / "a")
    assert metadata == {"made": "here"}
    assert loaded.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(loaded[name], array, strict=True)


def test_the_safetensors_library_reads_what_we_write_and_we_what_it_writes(tmp_path):
    save_arrays(tmp_path / "ours", ARRAYS)
    theirs = safetensors.numpy.load_file(tmp_path / "ours")
    safetensors.numpy.save_file(ARRAYS, tmp_path / "theirs")
    ours, _ = load_arrays(tmp_path / "theirs")
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(theirs[name], array)
        np.testing.assert_array_equal(ours[name], array)


def test_arrays_are_aligned_and_writing_to_them_leaves_the_file_alone(tmp_path):
    save_arrays(tmp_path / "a", ARRAYS)
    loaded, _ = load_arrays(tmp_path / "a")
    assert all(array.flags.aligned for array in loaded.values())
    loaded["wide"][:] = 0
    np.testing.assert_array_equal(load_arrays(tmp_path / "a")[0]["wide"], ARRAYS["wide"])


@given(length=st.integers(0, 400))
@settings(max_examples=60, deadline=None)
def test_a_file_cut_off_anywhere_is_refused(tmp_path_factory, length):
    folder = tmp_path_factory.mktemp("cut")
    save_arrays(folder / "a", ARRAYS)
    whole = (folder / "a").read_bytes()
    (folder / "b").write_bytes(whole[: min(length, len(whole) - 1)])
    with pytest.raises(UserError, match="cut off"):
        load_arrays(folder / "b")


@pytest.mark.parametrize(
    "header",
    [
        {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 2**62]}},
        {"a": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}},
        {"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}},
        {"a": {"dtype": "PICKLE", "shape": [2], "data_offsets": [0, 8]}},
        {"a": {"dtype": "F32", "shape": "2", "data_offsets": [0, 8]}},
        {"a": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 8]}},
        {"a": {"dtype": "F32", "shape": ["a", 10**15], "data_offsets": [0, 8]}},
        {"a": {"dtype": "F32", "shape": ["a", 8e8], "data_offsets": [0, 8]}},
        {"a": {"dtype": "F32", "shape": [2.0], "data_offsets": [0, 8]}},
        {"a": {"dtype": "F32", "shape": [True, 2], "data_offsets": [0, 8]}},
        {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0.0, 8.0]}},
        {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8, 8]}},
        {"a": {"dtype": "F32", "shape": [0, 2**62, 2**62], "data_offsets": [0, 0]}},
        {"a": {"dtype": "F32", "shape": [0, 10**30], "data_offsets": [0, 0]}},
        {"a": {"dtype": "F32", "shape": [1] * 200 + [2], "data_offsets": [0, 8]}},
        {"a": {"dtype": "F32", "shape": {}, "data_offsets": [0, 4]}},
        {"a": {"dtype": ["F32"], "shape": [2], "data_offsets": [0, 8]}},
        {"a": [1, 2]},
        {"__metadata__": 3},
        [1, 2],
    ],
)
def test_a_header_that_lies_is_refused(tmp_path, header):
    text = json.dumps(header).encode()
    (tmp_path / "a").write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))
    with pytest.raises(UserError, match="damaged"):
        load_arrays(tmp_path / "a")


def test_a_header_length_beyond_the_file_takes_no_memory(tmp_path):
    (tmp_path / "a").write_bytes(struct.pack("<Q", 2**62) + b"{}")
    with pytest.raises(UserError, match="not a safetensors file"):
        load_arrays(tmp_path / "a")


def test_bfloat16_becomes_float32(tmp_path):
    values = torch.tensor([[1.0, -2.5, 3e38], [0.1, 1e-30, 0.0]]).to(torch.bfloat16)
    safetensors.torch.save_file({"a": values, "b": torch.arange(3)}, tmp_path / "a")
    loaded, _ = load_arrays(tmp_path / "a")
    np.testing.assert_array_equal(loaded["a"], values.float().numpy(), strict=True)
    np.testing.assert_array_equal(loaded["b"], np.arange(3), strict=True)


def test_types_that_numpy_has_not_are_refused(tmp_path):
    safetensors.torch.save_file({"a": torch.ones(3).to(torch.float8_e4m3fn)}, tmp_path / "a")
    with pytest.raises(UserError, match="damaged"):
        load_arrays(tmp_path / "a")


def test_an_array_that_is_not_contiguous_is_saved_as_it_reads(tmp_path):
    array = np.arange(12).reshape(3, 4).T[::2]
    save_arrays(tmp_path / "a", {"a": array})
    np.testing.assert_array_equal(load_arrays(tmp_path / "a")[0]["a"], array)
