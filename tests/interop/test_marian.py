"""Translators that transformers made, read here: the same logits and the same translations; and what is refused."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from chainrule.api.pairs import load_pairs_run
from chainrule.errors import UserError
from chainrule.generation.beam import Beam
from chainrule.generation.search import search
from chainrule.interop.marian.read import Translator, read_marian
from chainrule.interop.read import read_model
from chainrule.models.contract import Batch, log_softmax
from chainrule.runs.write import store
from chainrule.tasks._batches import condition_of, training_batch
from chainrule.tasks._pair_files import pair_files
from tests.interop.spm_files import write_spm

transformers = pytest.importorskip("transformers")

WORDS = {"source": "ein mann hund schläft läuft auf der bank", "target": "a man dog sleeps runs on the bank"}
SENTENCES = ["ein mann schläft", "der hund läuft auf der bank", "hund", "mann läuft", "ein ein hund auf bank"]
SHAPE: dict[str, Any] = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 64,
}  # fmt: skip
KINDS: dict[str, dict[str, Any]] = {
    "as published": {"activation_function": "swish", "scale_embedding": True},
    "relu, not scaled": {"activation_function": "relu", "scale_embedding": False},
    "a vocabulary for each": {"activation_function": "swish", "share_encoder_decoder_embeddings": False},
}


def pieces_of(text: str) -> dict[str, float]:
    """Letters, and words of which those come first that are more likely."""
    letters = dict.fromkeys(sorted({*text.replace(" ", ""), "▁"}), -6.0)
    return letters | {f"▁{word}": -3.0 - 0.1 * place for place, word in enumerate(text.split())}


def make(folder: Path, **settings: Any) -> Any:
    """Their model of random weights, far from zero, saved with vocabularies as Marian's are."""
    is_shared = settings.get("share_encoder_decoder_embeddings", True)
    sides = {side: pieces_of(text) for side, text in WORDS.items()}
    for side, scores in sides.items():
        write_spm(folder / f"{side}.spm", scores)
    source, target = ([*sides[side]] for side in ("source", "target"))
    names = [["</s>", "<unk>", *dict.fromkeys(source + target), "<pad>"]]
    names = names if is_shared else [["</s>", "<unk>", *source, "<pad>"], ["</s>", "<unk>", *target, "<pad>"]]
    for file, each in zip(("vocab.json", "target_vocab.json"), names, strict=False):
        (folder / file).write_text(json.dumps({name: id for id, name in enumerate(each)}))
    pad = len(names[-1]) - 1
    config = transformers.MarianConfig(
        vocab_size=len(names[0]), decoder_vocab_size=len(names[-1]), eos_token_id=0, pad_token_id=pad,
        decoder_start_token_id=pad, **(SHAPE | settings),
    )  # fmt: skip
    torch.manual_seed(3)
    theirs = transformers.MarianMTModel(config).eval()
    for name, parameter in theirs.named_parameters():
        is_gain = parameter.ndim == 1 and not name.endswith("bias")
        if "embed_positions" not in name:
            torch.nn.init.normal_(parameter, float(is_gain), 0.3)
    theirs.final_logits_bias.normal_()
    theirs.final_logits_bias[0, 0] += 3  # so that texts may end
    theirs.save_pretrained(folder)
    return theirs


@pytest.fixture(scope="module", params=KINDS)
def pair(request, tmp_path_factory) -> tuple[Any, Path, Translator]:
    folder = tmp_path_factory.mktemp("marian")
    theirs = make(folder, **KINDS[request.param])
    return theirs, folder, read_marian(folder)


def their_ids(folder: Path, found: Translator, side: str) -> np.ndarray:
    """The id there of each id here, by name."""
    tokenizer = found.source if side == "source" else found.tokenizer
    is_own = side == "target" and (folder / "target_vocab.json").exists()
    known = json.loads((folder / ("target_vocab.json" if is_own else "vocab.json")).read_text())
    assert tokenizer.vocabulary_size == len(known)
    return np.array([known[tokenizer.backend.id_to_token(id)] for id in range(len(known))])


def sources(folder: Path, found: Translator) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """The sentences as a condition of ours, and as a padded batch of theirs."""
    condition = condition_of([found.source.encode(text).astype(np.int64) for text in SENTENCES], found.source.eos)
    ids = torch.from_numpy(their_ids(folder, found, "source")[condition["source"]])
    mask = torch.arange(ids.shape[1]) < torch.from_numpy(condition["lengths"])[:, None]
    return condition, {"input_ids": ids.masked_fill(~mask, 5), "attention_mask": mask.long()}


def targets(folder: Path, found: Translator) -> tuple[np.ndarray, torch.Tensor]:
    """What is read: after <eos> here, after <pad> there."""
    ours = np.random.default_rng(0).integers(0, found.tokenizer.eos, (len(SENTENCES), 9))
    ours[:, 0] = found.tokenizer.eos
    theirs = torch.from_numpy(their_ids(folder, found, "target")[ours])
    theirs[:, 0] = int(their_ids(folder, found, "target")[found.model.config.begin])
    return ours, theirs


@torch.no_grad()
def test_logits_are_theirs(pair):
    theirs, folder, found = pair
    condition, batch = sources(folder, found)
    read, read_there = targets(folder, found)
    expected = theirs(**batch, decoder_input_ids=read_there).logits.numpy()[..., their_ids(folder, found, "target")]
    logits = found.model.step(read, found.model.start(len(read), condition))[0].numpy()
    pad = found.model.config.begin
    assert np.abs(expected).max() > 3
    np.testing.assert_allclose(np.delete(logits, pad, -1), np.delete(expected, pad, -1), atol=1e-5, rtol=1e-5)
    assert (logits[..., pad] == -np.inf).all()


@torch.no_grad()
def test_one_token_at_a_time_is_all_at_once(pair):
    _, folder, found = pair
    model, (condition, _), (read, _) = found.model, sources(folder, found), targets(folder, found)
    expected = model.step(read, model.start(len(read), condition))[0]
    state, singles = model.start(len(read), condition), []
    for token in read.T:
        logits, state = model.step(token[:, None], state)
        singles.append(logits)
    torch.testing.assert_close(torch.cat(singles, 1), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("width", "penalty"), [(1, 0.0), (4, 0.0), (4, 1.0)])
def test_translations_are_theirs(pair, width: int, penalty: float):
    theirs, folder, found = pair
    condition, batch = sources(folder, found)
    order = their_ids(folder, found, "target")
    pad, eos = int(order[found.model.config.begin]), found.tokenizer.eos
    how = {"length_penalty": penalty, "early_stopping": "never"} if width > 1 else {}
    reasons, kept = set(), theirs.final_logits_bias.clone()
    for more in (0.0, 3.0):  # so that some texts end and others do not
        theirs.final_logits_bias[0, 0] = found.model.output_bias.data[eos] = kept[0, 0] + more
        expected = theirs.generate(
            **batch, num_beams=width, do_sample=False, max_new_tokens=10, bad_words_ids=[[pad]],
            forced_eos_token_id=None, renormalize_logits=True, **how,
        )  # fmt: skip
        ours = search(found.model, condition, eos, [Beam(width, penalty, max_tokens=10)] * len(SENTENCES))
        for each, row in zip(ours, expected.tolist(), strict=True):
            until = row.index(0) + 1 if 0 in row else len(row)
            assert order[list(each[0].ids)].tolist() == row[1:until]
            reasons.add(each[0].finish_reason)
    theirs.final_logits_bias[:], found.model.output_bias.data[eos] = kept, kept[0, 0]
    assert reasons == {"eos", "length"}


@torch.no_grad()
def test_the_loss_is_theirs_where_pad_cannot_be_said(pair):
    theirs, folder, found = pair
    model, order = found.model, their_ids(folder, found, "target")
    texts = ["a man sleeps", "the dog runs on the bank", "dog", "man runs", "a a dog on bank"]
    wanted = [found.tokenizer.encode(text).astype(np.int64) for text in texts]
    window = training_batch(wanted, wanted, (found.source.eos, found.tokenizer.eos))
    loss = model.loss(Batch(window.inputs, window.targets, sources(folder, found)[0]))
    total = 0.0
    for text, target in zip(SENTENCES, wanted, strict=True):
        ids = torch.from_numpy(their_ids(folder, found, "source")[[*found.source.encode(text), found.source.eos]])
        read = torch.from_numpy(order[[model.config.begin, *target]])
        logits = theirs(input_ids=ids[None], decoder_input_ids=read[None]).logits[0].double().numpy()
        logits[:, order[model.config.begin]] = -np.inf
        total -= log_softmax(logits)[np.arange(len(target) + 1), order[[*target, found.tokenizer.eos]]].sum()
    assert float(loss.total) == pytest.approx(total, rel=1e-5)
    assert loss.count == sum(len(each) + 1 for each in wanted)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    make(tmp_path / "model", **KINDS["as published"])
    return tmp_path / "model"


def test_a_run_of_it_translates_as_it_did(folder, tmp_path):
    found = read_model(folder)
    assert (found.architecture, found.task, found.format) == ("conditional", "translation", "huggingface")
    data = {"inputs": [str(folder)], "unit": "line"}
    path = tmp_path / "run"
    extra = pair_files(found.tokenizer, found.source)
    store(path, found.architecture, found.model, found.tokenizer, data, False, task=found.task, extra=extra)
    run = load_pairs_run(path)
    again, kept = run.model.state_dict(), found.model.state_dict()
    assert all(torch.equal(again[name], kept[name]) for name in kept)
    assert run.task.source_tokenizer.json == found.source.json != run.task.tokenizer.json
    beams = [Beam(5, max_tokens=min(200, 2 * len(found.source.encode(text)) + 20)) for text in SENTENCES]
    condition, _ = sources(folder, read_marian(folder))
    expected = [each[0].words for each in search(found.model, condition, found.tokenizer.eos, beams)]
    assert run.translate(SENTENCES) == [found.tokenizer.decode(ids).strip() for ids in expected]


def with_tensors(folder: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file({name: tensor.clone() for name, tensor in tensors.items()}, folder / "model.safetensors")


def state_of(folder: Path) -> dict[str, torch.Tensor]:
    return read_marian(folder).model.state_dict()


def test_torchs_own_file_with_every_name_and_the_sinusoids_is_the_same_model(folder):
    expected = state_of(folder)
    theirs = transformers.MarianMTModel.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    names = theirs.state_dict()
    assert {"model.encoder.embed_positions.weight", "lm_head.weight", "model.shared.weight"} <= set(names)
    for is_zip in (True, False):
        torch.save(names, folder / "pytorch_model.bin", _use_new_zipfile_serialization=is_zip)
        found = state_of(folder)
        assert all(torch.equal(found[name], expected[name]) for name in expected)


class Attack:
    def __reduce__(self) -> Any:
        return (os.mkdir, ("executed",))


def test_nothing_in_torchs_file_is_run(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "model.safetensors").unlink()
    for found, sentence in (
        ({"model.shared.weight": Attack()}, "is not a checkpoint of plain tensors, and nothing else is read"),
        ([torch.zeros(2)], "must hold tensors by their names, found list"),
    ):
        torch.save(found, folder / "pytorch_model.bin")
        with pytest.raises(UserError, match=sentence):
            read_marian(folder)
    assert not Path("executed").exists()


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        (
            "model.decoder.layers.2.fc1.bias",
            None,
            "1 tensor of this architecture is missing: model.decoder.layers.2.fc1",
        ),
        ("final_logits_bias", None, "1 tensor of this architecture is missing: final_logits_bias"),
        ("model.shared.weight", None, "1 tensor of this architecture is missing: model.shared.weight"),
        ("model.encoder.layer_norm.weight", lambda _: torch.ones(32), "1 tensor is not of the architecture"),
        ("model.encoder.layers.0.fc2.weight", lambda x: x[:, 1:], "are 32 x 47 together; the settings ask for 32 x 48"),
        ("model.encoder.layers.0.self_attn.k_proj.bias", lambda x: x[1:], "the settings ask for 32 rows"),
        ("final_logits_bias", lambda x: x[:, 1:], "'final_logits_bias' is 1 x"),
        ("model.shared.weight", lambda x: x[1:], "'model.shared.weight' are"),
        ("model.shared.weight", lambda x: x * float("nan"), "has numbers that are not finite"),
        ("lm_head.weight", lambda _: torch.zeros(39, 32), "'lm_head.weight' and 'model.shared.weight' differ"),
        ("model.decoder.embed_positions.weight", lambda _: torch.zeros(64, 32), "are not sinusoids"),
        ("model.decoder.embed_positions.weight", lambda _: torch.zeros(3), "are not sinusoids"),
        ("model.decoder.embed_positions.weight", lambda _: torch.tensor(3.0), "are not sinusoids"),
        ("model.decoder.embed_positions.weight", lambda _: torch.zeros(10**12, 0), "are not sinusoids"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(folder, name, change, sentence):
    def apply(tensors: dict[str, torch.Tensor]) -> None:
        before = tensors.pop(name, None)
        if change is not None:
            tensors[name] = change(before)

    with_tensors(folder, apply)
    with pytest.raises(UserError) as told:
        read_marian(folder)
    assert sentence in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"activation_function": "mish"},
            "'activation_function' is 'mish' in the model's settings; only swish or silu",
        ),
        ({"normalize_before": True}, "'normalize_before' is True in the model's settings; only False is supported"),
        ({"normalize_embedding": True}, "'normalize_embedding' is True"),
        ({"add_final_layer_norm": True}, "'add_final_layer_norm' is True"),
        ({"static_position_embeddings": False}, "'static_position_embeddings' is False"),
        ({"tie_word_embeddings": False}, "'tie_word_embeddings' is False"),
        ({"scale_embedding": "yes"}, "'scale_embedding' is 'yes'"),
        ({"decoder_ffn_dim": 40}, "'decoder_ffn_dim' is 40 in the model's settings; only 48 is supported"),
        ({"decoder_attention_heads": 2}, "'decoder_attention_heads' is 2"),
        ({"encoder_attention_heads": 5, "decoder_attention_heads": 5}, "an even multiple of num_heads, got 32 and 5"),
        ({"decoder_start_token_id": 0}, "'decoder_start_token_id' is 0"),
        ({"eos_token_id": 2}, "'eos_token_id' is 2 in the model's settings; only 0 is supported"),
        ({"pad_token_id": None}, "'pad_token_id' is None"),
        ({"vocab_size": 10}, "tokens but the model 10; they do not belong together"),
        ({"encoder_layers": 1}, "16 tensors are not of the architecture that the settings describe"),
        ({"decoder_layers": 4}, "26 tensors of this architecture are missing: model.decoder.layers.3.self_attn.q_proj"),
        ({"encoder_layers": 10**9}, "the settings ask for 1,000,000,003 layers, but the files hold"),
        (
            {"d_model": 2**31 - 8, "encoder_ffn_dim": 2**31 - 1, "decoder_ffn_dim": 2**31 - 1},
            "the settings ask for 2,147,483,647 x 2,147,483,640 numbers, but the files hold",
        ),
        ({"d_model": "32"}, "'d_model' in the model's settings must be a whole number above zero"),
    ],
)
def test_settings_that_do_not_fit_are_refused(folder, settings, sentence):
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))
    with pytest.raises(UserError) as told:
        read_marian(folder)
    assert sentence in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda ids: ids.pop("<pad>"), "lacks the tokens <pad>"),
        (lambda ids: ids.update(more=0), "must give each of its 40 tokens an id of its own"),
        (lambda ids: ids.update(more=99), "must give each of its 40 tokens an id of its own"),
        (lambda ids: ids.update({"<pad>": "38"}), "must give each of its 39 tokens an id of its own"),
        (lambda ids: ids.update(more=39), "has 40 tokens but the model 39; they do not belong together"),
    ],
)
def test_vocabularies_that_do_not_fit_are_refused(folder, change, sentence):
    ids = json.loads((folder / "vocab.json").read_text())
    assert len(ids) == 39
    change(ids)
    (folder / "vocab.json").write_text(json.dumps(ids))
    with pytest.raises(UserError) as told:
        read_marian(folder)
    assert sentence in str(told.value)


def test_files_that_are_missing_or_cut_off_are_told(folder):
    for name in ("vocab.json", "source.spm", "target.spm", "model.safetensors"):
        whole = (folder / name).read_bytes()
        for size in range(0, len(whole) - 1, 4096 if name.startswith("model") else 97):
            (folder / name).write_bytes(whole[:size])
            with pytest.raises(UserError, match="cut off|is not valid JSON"):
                read_marian(folder)
        (folder / name).unlink()
        with pytest.raises(UserError, match="cannot read|has neither model.safetensors nor pytorch_model.bin"):
            read_marian(folder)
        (folder / name).write_bytes(whole)
    assert state_of(folder)


def test_what_is_said_of_languages_and_of_pieces_without_a_row(folder):
    ids = json.loads((folder / "vocab.json").read_text())
    ids[">>fra<<"] = ids.pop("▁hund")
    (folder / "vocab.json").write_text(json.dumps(ids))
    found = read_marian(folder)
    assert found.notes == [
        "texts are cut without 1 of the pieces of source.spm, which the vocabulary lacks",
        "it writes several languages: begin each line with one of >>fra<<",
    ]
    cut = [found.source.backend.id_to_token(int(id)) for id in found.source.encode(" >>fra<< der hund")]
    assert cut == [">>fra<<", "▁der", "▁", *"hund"]


def test_other_encoder_decoders_are_refused_by_their_name(folder):
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"model_type": "t5"}))
    with pytest.raises(UserError, match="holds a model of type 't5'; supported are gpt2, .*, marian"):
        read_model(folder)


@pytest.mark.filterwarnings("ignore:Recommended")
def test_ids_are_those_of_their_tokenizer(folder):
    """But for special tokens in a text, which are text here, and several unknown characters of the other language."""
    pytest.importorskip("sentencepiece")
    theirs, found = transformers.MarianTokenizer.from_pretrained(folder), read_marian(folder)
    order = their_ids(folder, found, "source")
    odd = [
        "",
        "  der   hund ",
        "man läuft",
        "unbekannt?",
        "\tbank\n",
        "HUND hund",
        "bänk",
        "a b c",
        "▁the▁man",
        "xyz 1",
    ]
    for side, tokenizer, texts in (
        ("text", found.source, SENTENCES),
        ("text_target", found.tokenizer, ["a man sleeps", "the dog runs on the bank"]),
    ):
        for text in [*texts, *odd]:
            expected = theirs(**{side: text})["input_ids"]
            assert [*order[tokenizer.encode(text)], order[tokenizer.eos]] == expected, (side, text)


def test_begin_must_be_a_token():
    from chainrule.models.conditional import SIZES, Model

    with pytest.raises(UserError, match="begin must be a whole number from 0 to 6, got 7"):
        Model(replace(SIZES["tiny"], begin=7), 7, 0)
