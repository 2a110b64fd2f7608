"""Reads llama2.c's files: seven whole numbers, then a small Llama in float32; and its tokenizer, pieces with scores.

Rotary positions rotate queries and keys there in neighbouring pairs, (x₀, x₁), (x₂, x₃) ..., here in halves,
(x_i, x_{i + width/2}); their rows are reordered so that both compute the same.
"""

import struct
from pathlib import Path

import numpy as np

from chainrule.errors import Argument, UserError
from chainrule.interop import _layout as layout
from chainrule.interop._sentencepiece import make_bpe_tokenizer
from chainrule.interop._weights import LoadedTransformer, build
from chainrule.models.transformer import LLAMA, Config
from chainrule.text.base import SPACE, Tokenizer

TOKENIZER = Argument("tokenizer", "PATH")
HEADER = 7
FIRST_BYTE = 3  # the id of the piece for byte 0; before it are <unk>, <s> and </s>
EPSILON = 1e-5  # the only one that run.c has
LARGEST_TOKENIZER = 64 << 20  # bytes


def read_llama2c(path: Path, tokenizer_path: Path | None = None) -> LoadedTransformer:
    """The model of a file. Without a tokenizer's path, the tokenizer beside the model is read."""
    try:
        numbers = np.fromfile(path, np.int32, HEADER)
        size = path.stat().st_size
    except OSError as error:
        raise UserError(f"cannot read '{path}': {error.strerror}") from None
    if len(numbers) < HEADER:
        raise UserError(f"'{path}' is not a llama2.c file, or is cut off")
    width, hidden, layers, heads, shared, vocabulary, length = numbers.tolist()
    tied, vocabulary = vocabulary > 0, abs(vocabulary)
    if not all(0 < each < 1 << 24 for each in (width, hidden, layers, heads, shared, vocabulary, length)):
        raise UserError(f"'{path}' is not a llama2.c file: its header says {numbers.tolist()}")
    if width % heads or heads % shared:
        raise UserError(f"'{path}' is not a llama2.c file: its header says {numbers.tolist()}")
    config = LLAMA(
        width=width, hidden_width=hidden, num_layers=layers, num_heads=heads, num_key_value_heads=shared,
        context_length=length, norm_epsilon=EPSILON, tied=tied,
    )  # fmt: skip
    shapes = _shapes(config, vocabulary)
    wanted = 4 * (HEADER + sum(int(np.prod(shape, dtype=np.int64)) for shape in shapes.values()))
    if size != wanted:
        raise UserError(f"'{path}' has {size:,} bytes, but its header asks for {wanted:,}; download it again")
    tokenizer = read_tokenizer(tokenizer_path or _tokenizer_beside(path, vocabulary), vocabulary)
    return build(config, layout.llama, _tensors(path, config, shapes), tokenizer, vocabulary)


def _shapes(config: Config, vocabulary: int) -> dict[str, tuple[int, ...]]:
    """The arrays of the file, in its order."""
    layers, width, hidden = config.num_layers, config.width, config.width_of_feedforward
    keys, half = config.key_value_heads * config.width_of_head, config.width_of_head // 2
    shapes: dict[str, tuple[int, ...]] = {
        "embedding": (vocabulary, width), "attention_norm": (layers, width), "q": (layers, width, width),
        "k": (layers, keys, width), "v": (layers, keys, width), "o": (layers, width, width),
        "feedforward_norm": (layers, width), "gate": (layers, hidden, width), "down": (layers, width, hidden),
        "up": (layers, hidden, width), "norm": (width,), "cosines": (config.context_length, half),
        "sines": (config.context_length, half),
    }  # fmt: skip
    return shapes | ({} if config.tied else {"output": (vocabulary, width)})


def _tensors(path: Path, config: Config, shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """The weights, by their names in Hugging Face's Llama."""
    numbers = np.fromfile(path, np.float32, offset=4 * HEADER)
    ends = np.cumsum([np.prod(shape, dtype=np.int64) for shape in shapes.values()])
    pieces = np.split(numbers, ends[:-1])
    found = {name: piece.reshape(shape) for (name, shape), piece in zip(shapes.items(), pieces, strict=True)}
    tensors = {"model.embed_tokens.weight": found["embedding"], "model.norm.weight": found["norm"]}
    if not config.tied:
        tensors["lm_head.weight"] = found["output"]
    for layer in range(config.num_layers):
        stem = f"model.layers.{layer}"
        tensors |= {
            f"{stem}.input_layernorm.weight": found["attention_norm"][layer],
            f"{stem}.post_attention_layernorm.weight": found["feedforward_norm"][layer],
            f"{stem}.self_attn.q_proj.weight": layout.halves(found["q"][layer], config.num_heads),
            f"{stem}.self_attn.k_proj.weight": layout.halves(found["k"][layer], config.key_value_heads),
            f"{stem}.self_attn.v_proj.weight": found["v"][layer],
            f"{stem}.self_attn.o_proj.weight": found["o"][layer],
            f"{stem}.mlp.gate_proj.weight": found["gate"][layer],
            f"{stem}.mlp.up_proj.weight": found["up"][layer],
            f"{stem}.mlp.down_proj.weight": found["down"][layer],
        }
    return tensors


def read_tokenizer(path: Path, vocabulary: int) -> Tokenizer:
    """A SentencePiece BPE tokenizer: of all neighbours, those are merged first whose piece has the highest score."""
    pieces = _pieces(path, vocabulary)
    if pieces is None:
        raise UserError(f"the tokenizer '{path}' has not exactly the {vocabulary} pieces of the model, or is cut off")
    words = [piece.decode("utf-8", "replace").replace(" ", SPACE) for _, piece in pieces]
    if _has_raw_bytes([piece for _, piece in pieces]):
        words[FIRST_BYTE : FIRST_BYTE + 256] = [f"<0x{byte:02X}>" for byte in range(256)]
    return make_bpe_tokenizer(words, [score for score, _ in pieces], f"'{path}'")


def _has_raw_bytes(pieces: list[bytes]) -> bool:
    """Whether pieces 3 to 258 are the bytes themselves, or the characters of these numbers, as older files have them in
    place of <0x00> to <0xFF>. The byte 'A' is then spelled as the letter is, and is another piece."""
    own = pieces[FIRST_BYTE : FIRST_BYTE + 256]
    return len(own) == 256 and all(piece in (bytes([b]), chr(b).encode()) for b, piece in enumerate(own))


def _tokenizer_beside(path: Path, vocabulary: int) -> Path:
    """The tokenizer in the model's folder, such as tok512.bin; of several, the one with as many pieces as the model."""
    found = sorted(each for each in path.parent.glob("tok*.bin") if each != path)
    if not found:
        raise UserError(f"there is no tok*.bin beside '{path}'; put the tokenizer there", TOKENIZER)
    fitting = found if len(found) == 1 else [each for each in found if _pieces(each, vocabulary) is not None]
    if len(fitting) != 1:
        which = f"{len(fitting) or 'none'} of the {len(found)} tok*.bin beside '{path}'"
        raise UserError(f"{which} have the {vocabulary} pieces of the model; keep only the right one there", TOKENIZER)
    return fitting[0]


def _pieces(path: Path, count: int) -> list[tuple[float, bytes]] | None:
    """The `count` scores and pieces of a file; None where it has more or fewer."""
    try:
        data = path.read_bytes() if path.stat().st_size <= LARGEST_TOKENIZER else b""
    except OSError as error:
        raise UserError(f"cannot read the tokenizer '{path}': {error.strerror}; it lies beside the model") from None
    found: list[tuple[float, bytes]] = []
    place = 4
    while len(found) < count and place + 8 <= len(data):
        score, length = struct.unpack_from("<fi", data, place)
        place += 8
        if not 0 <= length <= len(data) - place:
            return None
        found.append((score, data[place : place + length]))
        place += length
    return found if len(found) == count and place == len(data) else None
