"""Reads Marian's translators: config.json, weights, source.spm, target.spm and vocab.json.

They are encoder and decoder of the original Transformer: norms after each part, biases, sinusoids. A target begins
after <pad>, which has probability zero.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from chainrule.errors import UserError
from chainrule.interop._layout import Part, Tensors, take_in
from chainrule.interop._sentencepiece import make_unigram_tokenizer, read_spm
from chainrule.interop._weights import Settings, fill, refuse_sizes, require, whole
from chainrule.interop.huggingface.folder import read_json, read_tensors
from chainrule.layers.positions import halved_sinusoids
from chainrule.models.conditional import Config, Model
from chainrule.text.base import Tokenizer

ACTIVATIONS = {"swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu", "gelu_new": "gelu-tanh"}
END, UNKNOWN, PAD = "</s>", "<unk>", "<pad>"
SPECIAL = [END, PAD]  # the last ids here, so that no text can spell them
SHARED, BIAS = "model.shared.weight", "final_logits_bias"
SOURCE, TARGET, OUTPUT = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"
ENCODER = {
    "attention.query_key_value": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "attention.output": ("self_attn.out_proj",),
    "attention_norm": ("self_attn_layer_norm",),
    "feedforward.input": ("fc1",),
    "feedforward.output": ("fc2",),
    "feedforward_norm": ("final_layer_norm",),
}
DECODER = ENCODER | {
    "cross_attention.query": ("encoder_attn.q_proj",),
    "cross_attention.key_value": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
    "cross_attention.output": ("encoder_attn.out_proj",),
    "cross_norm": ("encoder_attn_layer_norm",),
}


@dataclass(frozen=True)
class Translator:
    model: Model
    tokenizer: Tokenizer  # of the target
    source: Tokenizer
    notes: list[str]


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of one side: `names` by id, without special ones; `order` gives for each id of ours the one there."""

    names: list[str]
    order: np.ndarray

    @property
    def languages(self) -> list[str]:
        """The codes with which a source text asks for one of several languages: '>>fra<<'."""
        return [name for name in self.names if name.startswith(">>") and name.endswith("<<")]


def read_marian(folder: Path) -> Translator:
    """The model and both tokenizers of a folder."""
    settings = read_json(folder / "config.json")
    is_shared = settings.get("share_encoder_decoder_embeddings", True) is True
    source = _vocabulary(folder / "vocab.json", whole(settings, "vocab_size"))
    target = source
    if not is_shared:
        target = _vocabulary(folder / "target_vocab.json", whole(settings, "decoder_vocab_size"))
    config = _config(settings, target, None if is_shared else len(source.order))
    notes: list[str] = []
    tokenizer = _tokenizer(folder / "target.spm", target, [], notes)
    source_tokenizer = _tokenizer(folder / "source.spm", source, source.languages, notes)
    if source.languages:
        shown = ", ".join(source.languages[:6]) + (", ..." if len(source.languages) > 6 else "")
        notes.append(f"it writes several languages: begin each line with one of {shown}")
    return Translator(_model(config, read_tensors(folder), source, target), tokenizer, source_tokenizer, notes)


def _tokenizer(path: Path, vocabulary: Vocabulary, added: list[str], notes: list[str]) -> Tokenizer:
    pieces = read_spm(path)
    if unknown := len(pieces.scores.keys() - set(vocabulary.names)):
        notes.append(f"texts are cut without {unknown:,} of the pieces of {path.name}, which the vocabulary lacks")
    return make_unigram_tokenizer(pieces, vocabulary.names, SPECIAL, added, f"of '{path}'")


def _vocabulary(path: Path, size: int) -> Vocabulary:
    ids = read_json(path)
    by_id = {id: name for name, id in ids.items() if type(id) is int}
    if set(by_id) != set(range(len(ids))):
        raise UserError(f"'{path}' must give each of its {len(ids):,} tokens an id of its own, counted from 0")
    if missing := [name for name in (END, UNKNOWN, PAD) if name not in ids]:
        raise UserError(f"'{path}' lacks the tokens {', '.join(missing)}")
    if len(ids) != size:
        raise UserError(f"'{path}' has {len(ids):,} tokens but the model {size:,}; they do not belong together")
    names = [by_id[id] for id in range(len(ids)) if by_id[id] not in SPECIAL]
    return Vocabulary(names, np.array([ids[name] for name in [*names, *SPECIAL]]))


def _config(settings: Settings, target: Vocabulary, source_vocabulary_size: int | None) -> Config:
    end, pad = (int(id) for id in target.order[-len(SPECIAL) :])
    for name, id in (("eos_token_id", end), ("pad_token_id", pad), ("decoder_start_token_id", pad)):
        require(settings, name, (id,))
    for name in ("normalize_before", "normalize_embedding", "add_final_layer_norm"):
        require(settings, name, (False,), False)
    for name in ("static_position_embeddings", "tie_word_embeddings", "is_encoder_decoder"):
        require(settings, name, (True,), True)
    require(settings, "scale_embedding", (True, False), False)
    require(settings, "activation_function", tuple(ACTIVATIONS), "gelu")
    for name in ("attention_heads", "ffn_dim"):
        require(settings, f"decoder_{name}", (whole(settings, f"encoder_{name}"),))
    return Config(
        width=whole(settings, "d_model"),
        encoder_layers=whole(settings, "encoder_layers"),
        decoder_layers=whole(settings, "decoder_layers"),
        num_heads=whole(settings, "encoder_attention_heads"),
        hidden_width=whole(settings, "encoder_ffn_dim"),
        activation=ACTIVATIONS[str(settings.get("activation_function", "gelu"))],
        norm="layer",
        norm_placement="post",
        qk_norm=False,
        bias=True,
        positions="sinusoidal",
        embedding_scale="root" if settings.get("scale_embedding") else "none",
        longest=whole(settings, "max_position_embeddings"),
        source_vocabulary_size=source_vocabulary_size,
        begin=len(target.order) - 1,
    )


def _model(config: Config, theirs: Tensors, source: Vocabulary, target: Vocabulary) -> Model:
    layers = config.encoder_layers + config.decoder_layers
    if layers > len(theirs):  # before memory is taken for them
        raise UserError(f"the settings ask for {layers:,} layers, but the files hold {len(theirs)} tensors")
    refuse_sizes(config.width, (len(source.order), len(target.order), config.width_of_feedforward), theirs)
    with torch.device("meta"):  # no memory: the weights come from the file
        model = Model(config, len(target.order), eos=len(target.names))
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    ours = take_in(_layout(config), _without_repeats(theirs, config), shapes)
    for name in ("embedding.weight", "output_bias"):
        ours[name] = ours[name][target.order]
    if "source_embedding.weight" in ours:
        ours["source_embedding.weight"] = ours["source_embedding.weight"][source.order]
    ours["output_bias"][config.begin] = -np.inf
    fill(model, ours)
    return model


def _layout(config: Config) -> list[Part]:
    is_shared = config.source_vocabulary_size is None
    parts = [Part("embedding.weight", (SHARED if is_shared else TARGET,)), Part("output_bias", (BIAS,), None, np.ravel)]
    if not is_shared:
        parts.append(Part("source_embedding.weight", (SOURCE,)))
    for side, layers, table in (
        ("encoder", config.encoder_layers, ENCODER),
        ("decoder", config.decoder_layers, DECODER),
    ):
        for layer in range(layers):
            for ours, theirs in table.items():
                rows = (config.width,) * len(theirs) if len(theirs) > 1 else None
                for kind in ("weight", "bias"):
                    names = tuple(f"model.{side}.layers.{layer}.{each}.{kind}" for each in theirs)
                    parts.append(Part(f"{side}.blocks.{layer}.{ours}.{kind}", names, rows))
    return parts


def _without_repeats(tensors: Tensors, config: Config) -> Tensors:
    """The tensors without copies of the embedding under other names and without the sinusoids; both are checked."""
    kept = dict(tensors)
    names = (SHARED, SOURCE, TARGET, OUTPUT) if config.source_vocabulary_size is None else (TARGET, OUTPUT)
    held = [name for name in names if name in kept]
    for name in held[1:]:
        if not np.array_equal(kept[name], kept[held[0]]):
            raise UserError(f"'{name}' and '{held[0]}' differ; the settings ask for one embedding for both")
        del kept[name]
    if held:
        kept[names[0]] = kept.pop(held[0])
    for side in ("encoder", "decoder"):
        table = kept.pop(f"model.{side}.embed_positions.weight", None)
        if table is not None and not _are_sinusoids(table, config.width):
            raise UserError(f"'model.{side}.embed_positions.weight' are not sinusoids; only those are supported")
    return kept


def _are_sinusoids(table: np.ndarray, width: int) -> bool:
    if table.ndim != 2 or table.shape[1] != width:
        return False
    waves = halved_sinusoids(0, len(table), width).numpy()
    return np.allclose(table, waves, atol=1e-3)  # they may be stored in 16 bits
