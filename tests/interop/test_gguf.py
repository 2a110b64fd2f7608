"""GGUF: the way there and back keeps every bit; llama.cpp, transformers and the gguf package read the same numbers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from chainrule.errors import UserError
from chainrule.interop.gguf import write as gguf_write
from chainrule.interop.gguf.file import TYPES, read_file
from chainrule.interop.gguf.read import find_smollm2, read_gguf
from chainrule.interop.gguf.tokenizer import read_tokenizer
from chainrule.interop.gguf.verify import LlamaCpp
from chainrule.interop.gguf.write import write_gguf
from chainrule.interop.llama2c.read import read_llama2c
from chainrule.text.chat import Chat, Message
from tests.evaluation.toys import as_lines
from tests.interop.models import PROFILES, TEXT, bpe, transformer
from tests.interop.test_llama2c import STORIES, needs_stories
from tests.text.samples import train
from tests.text.test_chat import TEMPLATES

gguf = pytest.importorskip("gguf")
TEXTS = ("the cat sat", "It's 12,345 and we'll\n\n  see naïve 日本 😀", "say <eos> and </s>", " \t x")


def written(profile: str, folder: Path, dtype: str = "f32", tokenizer: Any = None) -> tuple[Any, Any, Path]:
    tokenizer = tokenizer or bpe()
    model = transformer(profile, tokenizer)
    path = folder / "model.gguf"
    write_gguf(model, tokenizer, path, dtype, "model")
    return model, tokenizer, path


@torch.no_grad()
def logits(model: Any, ids: list[int]) -> np.ndarray:
    return model.step(torch.tensor([ids]), model.start(1))[0][0].numpy()


def some_ids(model: Any, count: int = 40) -> list[int]:
    return np.random.default_rng(3).integers(0, model.vocabulary_size, count).tolist()


@pytest.mark.parametrize("profile", PROFILES)
def test_the_way_there_and_back_keeps_every_bit(profile: str, tmp_path: Path):
    model, tokenizer, path = written(profile, tmp_path)
    found = read_gguf(path)
    ours, theirs = model.state_dict(), found.model.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert found.tokenizer.json == tokenizer.json
    assert found.tokenizer.start == tokenizer.start
    assert found.model.config.rotary_base == model.config.rotary_base
    assert found.model.config.norm_epsilon == model.config.norm_epsilon


@pytest.mark.parametrize("dtype", ["f32", "f16", "q8_0"])
def test_the_packages_own_reader_finds_what_ours_finds(dtype: str, tmp_path: Path):
    _, _, path = written("llama", tmp_path, dtype)
    theirs = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    settings, ours = read_file(path)
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        expected = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        np.testing.assert_array_equal(ours[name].numbers(), expected.reshape(ours[name].shape))
    kinds = {"f32": 0, "f16": 1, "q8_0": 7}
    assert settings["general.file_type"] == kinds[dtype]


def test_eight_bits_are_whole_multiples_of_a_scale_for_every_32_numbers(tmp_path: Path):
    """Q8_0 by hand: scale = largest / 127, in 16 bits; numbers rounded to multiples of it."""
    model, _, path = written("llama", tmp_path, "q8_0")
    down = model.state_dict()["blocks.0.feedforward.output.weight"].numpy()
    blocks = down.reshape(-1, 32)
    scale = np.abs(blocks).max(1, keepdims=True) / 127
    expected = np.rint(blocks / scale) * scale.astype(np.float16).astype(np.float32)
    found = read_gguf(path).model.state_dict()["blocks.0.feedforward.output.weight"].numpy().reshape(-1, 32)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert 0 < np.abs(found - blocks).max() <= scale.max() * 0.51
    norms = [name for name in model.state_dict() if "norm" in name]
    stored = read_gguf(path).model.state_dict()
    assert all(torch.equal(stored[name], model.state_dict()[name]) for name in norms)


def half(number: float) -> bytes:
    return np.float16(number).tobytes()


def blocks(kind: str) -> np.ndarray:
    """Three rows of 512 numbers: as the package quantises them, or of any bytes with scales of moderate size."""
    rng = np.random.default_rng(11)
    type = gguf.GGMLQuantizationType[kind]
    if kind not in ("Q4_K", "Q6_K"):
        return gguf.quants.quantize(rng.normal(size=(3, 512)).astype(np.float32), type)
    found = rng.integers(0, 256, (6, gguf.GGML_QUANT_SIZES[type][1]), np.uint8)
    scales = slice(0, 4) if kind == "Q4_K" else slice(-2, None)
    found[:, scales] = np.frombuffer(half(0.01) * 2, np.uint8)[: len(found[0, scales])]
    return found.reshape(3, -1)


def stored(folder: Path, data: np.ndarray, kind: str) -> np.ndarray:
    """What we read of a file in which the package has put a tensor."""
    writer = gguf.GGUFWriter(folder / "one.gguf", "llama")
    writer.add_tensor("one", data, raw_dtype=gguf.GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found = read_file(folder / "one.gguf")[1]["one"]
    assert found.kind == kind
    return found.numbers()


@pytest.mark.parametrize("kind", [kind for kind, _, _ in TYPES.values()])
def test_blocks_of_every_type_are_read_as_the_package_reads_them(kind: str, tmp_path: Path):
    data = blocks(kind)
    found = stored(tmp_path, data, kind)
    assert (found.shape, found.dtype) == ((3, 512), np.float32)
    expected = gguf.quants.dequantize(data, gguf.GGMLQuantizationType[kind])
    np.testing.assert_array_equal(found, expected)
    assert found.std() > 0.01


@pytest.mark.parametrize(
    ("kind", "block", "numbers"),
    [
        # 1.5 x 2^1, -1 x 2^-2: the upper halves of their 32 bits
        ("BF16", bytes([0x40, 0x40, 0x80, 0xBE]), [3.0, -0.25]),
        # scale x (q - 8): the lower four bits of 16 bytes, then the upper ones
        ("Q4_0", half(0.5) + bytes([0x1F] + [0x80] * 15), [3.5] + [-4.0] * 15 + [-3.5] + [0.0] * 15),
        # scale x q + least
        ("Q4_1", half(0.5) + half(-2) + bytes([0x1F] + [0x80] * 15), [5.5] + [-2.0] * 15 + [-1.5] + [2.0] * 15),
        # of 32 numbers each: scale x 2 x q - least x 4 in the first half, scale x 1 x q - least x 3 in the second
        (
            "Q4_K",
            half(0.5) + half(0.25) + bytes([2] * 4 + [4] * 4 + [0x31] * 4) + bytes([0x97] * 128),
            ([6.0] * 32 + [8.0] * 32) * 2 + ([2.75] * 32 + [3.75] * 32) * 2,
        ),
        # scale x 2 x (q - 32): four lower bits here, two upper ones there
        (
            "Q6_K",
            bytes([0x21] * 128) + bytes([0b00_01_10_11] * 64) + bytes([2] * 16) + half(0.5),
            ([17.0] * 32 + [1.0] * 32 + [-14.0] * 32 + [-30.0] * 32) * 2,
        ),
    ],
)
def test_a_block_worked_out_by_hand(kind: str, block: bytes, numbers: list[float], tmp_path: Path):
    assert stored(tmp_path, np.frombuffer(block, np.uint8)[None], kind).tolist() == [numbers]


def test_rows_that_no_block_fits_are_told(tmp_path: Path):
    tokenizer = bpe()
    model = transformer("llama", tokenizer, hidden_width=40)
    notes = write_gguf(model, tokenizer, tmp_path / "m.gguf", "q8_0", "m")
    assert notes == [f"blk.{n}.ffn_down.weight has rows of 40, not a multiple of 32: stored as F16" for n in (0, 1)]
    assert read_file(tmp_path / "m.gguf")[1]["blk.0.ffn_down.weight"].kind == "F16"


@pytest.mark.parametrize("dtype", ["f32", "q8_0"])
@pytest.mark.parametrize("profile", ["gpt2", "llama", "llama, tied, other base"])
def test_transformers_reads_the_same_model(profile: str, dtype: str, tmp_path: Path):
    transformers = pytest.importorskip("transformers")
    _, _, path = written(profile, tmp_path, dtype)
    model = read_gguf(path).model
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file=path.name, dtype=torch.float32)
    ids = some_ids(model)
    with torch.no_grad():
        found = theirs(torch.tensor([ids])).logits[0].numpy()
    np.testing.assert_allclose(found, logits(model, ids), atol=1e-4)


@pytest.mark.parametrize("profile", PROFILES)
def test_llama_cpp_computes_the_same_logits(profile: str, tmp_path: Path):
    """Its GELU is a table of 16-bit numbers: with such a GELU of our own, GPT-2 comes far nearer."""
    pytest.importorskip("llama_cpp")
    model, _, path = written(profile, tmp_path)
    ids = some_ids(model)
    found = LlamaCpp(path, 48).logits(ids)
    plain = np.abs(found - logits(model, ids))
    if profile.startswith("llama"):
        assert plain.max() < 1e-4
        return
    assert plain.max() < 5e-3
    for block in model.blocks:
        block.feedforward.forward = looked_up(block.feedforward)
    assert np.abs(found - logits(model, ids)).mean() < 0.2 * plain.mean()


def looked_up(feedforward: Any) -> Any:
    def forward(x: torch.Tensor) -> torch.Tensor:
        inner = feedforward.input(x)
        rounded = F.gelu(inner.half().float(), approximate="tanh").half().float()
        gelu = torch.where(inner <= -10, 0.0, torch.where(inner >= 10, inner, rounded))
        return feedforward.output(gelu)

    return forward


def test_llama_cpp_cuts_text_as_we_do(tmp_path: Path):
    pytest.importorskip("llama_cpp")
    _, tokenizer, path = written("llama", tmp_path)
    reader = LlamaCpp(path, 48)
    for text in TEXTS:
        assert reader.tokenize(text) == [tokenizer.start, *tokenizer.encode(text).tolist()]
    back = read_gguf(path).tokenizer
    assert all(back.encode(text).tolist() == tokenizer.encode(text).tolist() for text in TEXTS)


@pytest.mark.parametrize("kind", ["bytes", "characters", "words", "closed words"])
def test_tokenizers_that_llama_cpp_cannot_follow_are_refused(kind: str, tmp_path: Path):
    with pytest.raises(UserError, match="llama.cpp cannot tokenize text as this run does; train with the token"):
        written("llama", tmp_path, tokenizer=train(kind, [*TEXT, "日本"]))


@needs_stories
def test_stories_keep_their_pieces_and_scores(tmp_path: Path):
    stories = read_llama2c(STORIES / "stories260K.bin", STORIES / "tok512.bin")
    path = tmp_path / "stories.gguf"
    write_gguf(stories.model, stories.tokenizer, path, "f32", "stories")
    found = read_gguf(path)
    assert found.tokenizer.json == stories.tokenizer.json
    assert found.tokenizer.start == 1
    ids = some_ids(stories.model)
    np.testing.assert_array_equal(logits(found.model, ids), logits(stories.model, ids))
    pytest.importorskip("llama_cpp")
    reader = LlamaCpp(path, 48)
    np.testing.assert_allclose(reader.logits(ids), logits(stories.model, ids), atol=1e-4)
    for text in ("Once upon a time, there was", "naïve 日本\n", "</s>"):
        assert reader.tokenize(text) == [1, *stories.tokenizer.encode(text).tolist()]


PIECES = {
    "<unk>": 2, "<s>": 3, "</s>": 3, "[INST]": 3, "[/INST]": 3, "cat dog": 4, "▁": 1, "[": 1, "I": 1, "N": 1, "S": 1,
    "T": 1, "]": 1, "/": 1, "a": 1, "[I": 1, "NST]": 1, "[INS": 1, "T]": 1, "<0x41>": 6, "[PAD]": 5,
}  # fmt: skip


def pieces(**changes: Any) -> dict[str, Any]:
    """SentencePiece's settings in a GGUF file, as Mistral's third version has them."""
    own = {
        "model": "llama", "tokens": list(PIECES), "token_type": list(PIECES.values()), "eos_token_id": 2,
        "bos_token_id": 1, "scores": [-float(id) for id in range(len(PIECES))], **changes,
    }  # fmt: skip
    return {f"tokenizer.ggml.{name}": value for name, value in own.items()} | {
        "tokenizer.chat_template": TEMPLATES["mistral-v3"]
    }


def test_control_tokens_of_sentencepiece_mark_turns_and_those_of_a_user_stay_whole():
    tokenizer = read_tokenizer(pieces(), Path("a.gguf"))
    assert tokenizer.chat == Chat("mistral-v3")
    ids = tokenizer.encode_pieces(tokenizer.chat.pieces([Message("user", "a[INST]")])).tolist()
    assert (ids[:2], ids[-1], ids.count(3)) == ([1, 3], 4, 1)  # what the user says begins no turn
    assert tokenizer.encode("acat doga").tolist() == [6, 14, 5, 6, 14]
    assert list(tokenizer.special) == ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"]


def test_kinds_of_pieces_survive_the_way_there_and_back(tmp_path: Path):
    known = {f"<0x{byte:02X}>": 6 for byte in range(256)}
    words = [name for name in PIECES if name not in ("[PAD]", "<0x41>")]
    kinds = [*(PIECES[name] for name in words), *known.values()]
    tokenizer = read_tokenizer(
        pieces(tokens=[*words, *known], token_type=kinds, scores=[-float(id) for id in range(len(kinds))]), Path("a")
    )
    _, _, path = written("llama", tmp_path, tokenizer=tokenizer)
    assert read_file(path)[0]["tokenizer.ggml.token_type"] == kinds
    assert read_gguf(path).tokenizer.json == tokenizer.json


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"token_type": [*[*PIECES.values()][:-1], 7]}, "has kinds of tokens that are not supported"),
        ({"token_type": [*[*PIECES.values()][:-1], [1]]}, "has kinds of tokens that are not supported"),
        ({"token_type": [1, 2]}, "has kinds of tokens that are not supported"),
        (
            {"token_type": [*[*PIECES.values()][:-1], 2]},
            "is not SentencePiece's usual BPE, and nothing else is supported",
        ),
        ({"bos_token_id": 3}, "is not SentencePiece's usual BPE, and nothing else is supported"),
        ({"tokens": [*[*PIECES][:-1], "a" * 600]}, "has a piece of more than 512 characters"),
    ],
)
def test_pieces_that_are_not_known_are_refused(changes: dict[str, Any], told: str):
    with pytest.raises(UserError, match=told):
        read_tokenizer(pieces(**changes), Path("a.gguf"))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"pre": None}, r"cuts text in an unsupported way \('default'\)"),
        ({"pre": "default"}, r"cuts text in an unsupported way \('default'\)"),
        ({"tokens": ["a", "b", "ab", "<x>", "<x>", "</s>"]}, "has a token twice"),
        ({"tokens": ["a", "b", "ab", "a", "<x>", "</s>"], "token_type": [1, 1, 1, 1, 3, 3]}, "has a token twice"),
        ({"tokens": ["a", "b", "ab", "<w>", "</s>", "</s>"]}, "has a token twice"),
    ],
)
def test_byte_level_vocabularies_that_leave_a_guess_are_refused(changes: dict[str, Any], told: str):
    own = {
        "model": "gpt2", "pre": "gpt-2", "tokens": ["a", "b", "ab", "<w>", "<x>", "</s>"], "merges": ["a b"],
        "token_type": [1, 1, 1, 3, 3, 3], "eos_token_id": 5,
    }  # fmt: skip
    known = read_tokenizer({f"tokenizer.ggml.{name}": value for name, value in own.items()}, Path("a.gguf"))
    assert [known.backend.token_to_id(name) for name in ("ab", "<x>", "</s>")] == [2, 4, 5]
    settings = {f"tokenizer.ggml.{name}": value for name, value in (own | changes).items() if value is not None}
    with pytest.raises(UserError, match=told):
        read_tokenizer(settings, Path("a.gguf"))


@pytest.mark.parametrize(
    ("settings", "is_plain"),
    [
        ({"scale_linear": 1.0, "scaling.type": "none", "scaling.factor": 1.0, "scaling.finetuned": False}, True),
        ({"scaling.original_context_length": 48}, True),
        ({"scale_linear": 2.0}, False),
        ({"scaling.factor": 4.0}, False),
        ({"scaling.type": "yarn"}, False),
        ({"scaling.attn_factor": 0.5}, False),
    ],
)
def test_rotary_positions_that_are_stretched_are_refused(tmp_path: Path, monkeypatch, settings, is_plain: bool):
    def add(writer: Any, *arguments: Any) -> None:
        original(writer, *arguments)
        for name, value in settings.items():
            kinds = {bool: writer.add_bool, float: writer.add_float32, int: writer.add_uint32, str: writer.add_string}
            kinds[type(value)](f"llama.rope.{name}", value)

    original = gguf_write._write_settings
    monkeypatch.setattr(gguf_write, "_write_settings", add)
    _, _, path = written("llama", tmp_path)
    if is_plain:
        assert read_gguf(path).model.config.rotary_base == 10000.0
        return
    with pytest.raises(UserError, match="rotary positions are stretched"):
        read_gguf(path)


def smollm2() -> Path:
    try:
        return find_smollm2()
    except UserError as error:
        pytest.skip(str(error))


@pytest.mark.slow
def test_smollm2_knows_the_capital_of_france_and_says_what_transformers_makes_it_say():
    transformers = pytest.importorskip("transformers")
    path = smollm2()
    found = read_gguf(path)
    ids = found.tokenizer.encode("The capital of France is").astype(np.int64)
    assert found.tokenizer.start is None
    theirs = transformers.AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    prompt = torch.from_numpy(ids)[None]
    expected = theirs.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=20, do_sample=False, repetition_penalty=1.0
    )[0, len(ids) :].tolist()
    state, fed, said = found.model.start(1), prompt, []
    with torch.no_grad():
        for _ in range(20):
            scores, state = found.model.step(fed, state)
            fed = scores[:, -1:].argmax(-1)
            said.append(int(fed))
    assert said == expected
    assert found.tokenizer.decode([*ids, *said]).startswith("The capital of France is Paris.")


def test_smollm2_lacks_bytes_but_spells_ordinary_text():
    """So bits per byte can be given of such text, though not of any text at all."""
    path = smollm2()
    tokenizer = read_tokenizer(read_file(path)[0], path)
    assert not tokenizer.is_lossless
    documents = as_lines(["The lamp — lit in 1923 — is out.", "naïve café 中 😀", "a\x04b"])
    changed = tokenizer.find_changed(documents, tokenizer.encode_documents(documents))
    assert changed.tolist() == [False, False, True]
