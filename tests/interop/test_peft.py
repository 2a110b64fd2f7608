"""Adapters of PEFT: what is exported computes in peft what it does here, and what peft made is imported exactly."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from chainrule.cli.main import main
from chainrule.errors import UserError
from chainrule.interop._adapter import give_out, take_in
from chainrule.interop.export import export_run
from chainrule.interop.huggingface.write import write_huggingface
from chainrule.interop.importing import import_run
from chainrule.interop.peft.read import pairs_of, read_tensors
from chainrule.layers.lora import MATRICES, LoRA, add_lora, fold_lora, load_lora, lora_parameters
from chainrule.models.contract import Batch
from chainrule.models.transformer import FAST, Model
from chainrule.runs.adapter import ADAPTER, Adapter, Base, adapter_of, load_adapter, save_adapter
from chainrule.runs.folder import Run
from chainrule.runs.write import store
from chainrule.storage import load_arrays, save_arrays
from chainrule.text.role_tokens import with_roles
from tests.interop.models import SHAPE, bpe, random_model, transformer

peft = pytest.importorskip("peft")
transformers = pytest.importorskip("transformers")

IDS = torch.randint(200, (2, 40), generator=torch.Generator().manual_seed(1))
TARGETS = {
    "gpt2": ["c_attn", "attn.c_proj", "c_fc", "mlp.c_proj"],
    "llama": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
}


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def base_run(profile: str = "llama", **changes: Any) -> Run:
    """runs/base, a small Transformer."""
    tokenizer = bpe()
    model = transformer(profile, tokenizer, **changes)
    return store(Path("runs/base"), "transformer", model, tokenizer, {"inputs": ["a.txt"], "unit": "line"}, False)


def tuned_run(base: Run, settings: LoRA, seed: int = 3) -> Run:
    """runs/tuned, as training with LoRA leaves it, with updates that say something."""
    model = type(base.model).load(base.path / "model.safetensors")
    add_lora(model, settings)
    torch.manual_seed(seed)
    for each in lora_parameters(model).values():
        torch.nn.init.normal_(each, std=0.2)
    save_adapter(Path("kept.safetensors"), model, settings, Base.of(base))
    fold_lora(model)
    return store(
        Path("runs/tuned"), "transformer", model, base.tokenizer, {"inputs": ["b.txt"], "unit": "line"}, False,
        extra=lambda folder: load_adapter(Path("kept.safetensors")).save(folder / ADAPTER),
    )  # fmt: skip


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        found = model(IDS)
    return getattr(found, "logits", found)


def made_by_peft(base: Run, folder: Path, **settings: Any) -> Any:
    """An adapter of random numbers that peft has written, and its model."""
    Path("their-base").mkdir()
    write_huggingface(base.model, base.tokenizer, Path("their-base"))
    theirs = transformers.AutoModelForCausalLM.from_pretrained("their-base")
    config = peft.LoraConfig(
        **(
            {"r": 4, "lora_alpha": 8, "task_type": "CAUSAL_LM", "fan_in_fan_out": theirs.config.model_type == "gpt2"}
            | settings
        )
    )
    theirs = peft.get_peft_model(theirs, config).eval()
    torch.manual_seed(5)
    for name, each in theirs.named_parameters():
        if ".lora_" in name:
            torch.nn.init.normal_(each, std=0.2)
    theirs.save_pretrained(folder)
    return theirs


@pytest.mark.parametrize(
    ("profile", "settings"),
    [
        ("llama", LoRA(rank=4, alpha=8.0)),
        ("llama", LoRA(rank=3, alpha=8.0, matrices=("query", "value"))),
        ("llama", LoRA(rank=4, alpha=8.0, layers=1)),
        ("llama, tied, other base", LoRA(rank=2, alpha=2.0, matrices=("gate", "down"))),
        ("gpt2", LoRA(rank=4, alpha=8.0)),
        ("gpt2", LoRA(rank=4, alpha=6.0, matrices=("key", "up"), layers=1)),
        ("gpt2, untied", LoRA(rank=2, alpha=4.0, matrices=("attention-output", "down"))),
    ],
)
def test_peft_computes_what_the_run_does(profile: str, settings: LoRA):
    base = base_run(profile)
    run = tuned_run(base, settings)
    assert (logits(run.model) - logits(base.model)).abs().max() > 0.1
    found = export_run(run, "peft")
    assert [each["reader"].split()[0] for each in found["checks"]] == ["chainrule", "peft"]
    assert all(each["agrees"] and each["same_tokens"] for each in found["checks"])
    Path("there").mkdir()
    write_huggingface(base.model, base.tokenizer, Path("there"))
    theirs = peft.PeftModel.from_pretrained(transformers.AutoModelForCausalLM.from_pretrained("there"), "tuned-peft")
    torch.testing.assert_close(logits(theirs.eval()), logits(run.model), rtol=0, atol=1e-4)
    settings_there = json.loads(Path("tuned-peft/adapter_config.json").read_text())
    assert settings_there["base_model_name_or_path"] == "base"


def test_an_adapter_of_all_layers_names_its_targets_as_peft_does():
    run = tuned_run(base_run(), LoRA(rank=4, alpha=8.0))
    export_run(run, "peft")
    settings = json.loads(Path("tuned-peft/adapter_config.json").read_text())
    assert (settings["r"], settings["lora_alpha"], settings["rank_pattern"]) == (4, 8, {})
    names = [each.rpartition(".")[2] for each in settings["target_modules"]]
    assert sorted(names) == sorted(TARGETS["llama"])
    arrays, _ = load_arrays(Path("tuned-peft/adapter_model.safetensors"))
    ours = adapter_of(run)
    assert ours is not None and len(arrays) == len(ours.arrays) == 2 * 2 * 7
    there = "base_model.model.model.layers.1.self_attn.k_proj.lora_B.weight"
    np.testing.assert_array_equal(arrays[there], ours.arrays["blocks.1.attention.query_key_value.lora.key.B"])


def test_queries_keys_and_values_of_gpt2_become_one_matrix_of_three_times_the_rank():
    """ΔW is the same: B A of the whole has B_q A_q, B_k A_k and B_v A_v below each other."""
    run = tuned_run(base_run("gpt2"), LoRA(rank=4, alpha=8.0, matrices=("query", "key", "value")))
    export_run(run, "peft")
    settings = json.loads(Path("tuned-peft/adapter_config.json").read_text())
    name = "transformer.h.0.attn.c_attn"
    assert (settings["rank_pattern"][name], settings["alpha_pattern"][name], settings["fan_in_fan_out"]) == (
        12,
        24,
        True,
    )
    there, _ = load_arrays(Path("tuned-peft/adapter_model.safetensors"))
    down, up = (there[f"base_model.model.{name}.lora_{which}.weight"] for which in "AB")
    ours = adapter_of(run).arrays
    stem = "blocks.0.attention.query_key_value.lora"
    expected = np.concatenate(
        [ours[f"{stem}.{each}.B"] @ ours[f"{stem}.{each}.A"] for each in ("query", "key", "value")]
    )
    np.testing.assert_allclose(up @ down, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("profile", "settings"),
    [
        ("llama", {"target_modules": TARGETS["llama"]}),
        ("llama", {"target_modules": ["q_proj", "v_proj"], "use_rslora": True}),
        ("llama", {"target_modules": "all-linear"}),
        ("llama", {"target_modules": ["q_proj", "up_proj"], "layers_to_transform": [1]}),
        ("llama", {"target_modules": TARGETS["llama"], "rank_pattern": {"q_proj": 2, "mlp.up_proj": 6}}),
        ("llama", {"target_modules": TARGETS["llama"], "alpha_pattern": {"k_proj": 3}}),
        ("gpt2", {"target_modules": TARGETS["gpt2"]}),
        ("gpt2", {"target_modules": ["c_attn"], "lora_dropout": 0.1}),
    ],
)  # fmt: skip
def test_what_peft_made_computes_here_what_it_does_there(profile: str, settings: dict[str, Any]):
    base = base_run(profile)
    theirs = made_by_peft(base, Path("adapter"), **settings)
    found = import_run(Path("adapter"), Path("runs/tuned"), base=base.path)
    assert (logits(theirs) - logits(base.model)).abs().max() > 0.1
    torch.testing.assert_close(logits(found.run.model), logits(theirs), rtol=0, atol=1e-4)
    kept = adapter_of(found.run)
    assert kept is not None and kept.base == Base.of(base)
    again = export_run(found.run, "peft")  # and back: A's and B's are what they were, where all have one scale
    assert all(each["agrees"] for each in again["checks"])
    there, back = (load_arrays(Path(each) / "adapter_model.safetensors")[0] for each in ("adapter", "tuned-peft"))
    assert there.keys() == back.keys()
    if not {"rank_pattern", "alpha_pattern"} & settings.keys():
        for name, array in there.items():
            np.testing.assert_allclose(back[name], array, rtol=1e-6)


def test_an_adapter_of_pythia_is_imported(tmp_path: Path):
    """GPT-NeoX has queries, keys and values head by head; ours are apart."""
    torch.manual_seed(0)
    config = transformers.GPTNeoXConfig(
        vocab_size=300, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=48, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    theirs = transformers.GPTNeoXForCausalLM(config)
    tokenizer = bpe()
    write_huggingface(transformer("llama", tokenizer), tokenizer, tmp_path)
    theirs.resize_token_embeddings(tokenizer.vocabulary_size)
    theirs.config.eos_token_id = tokenizer.eos
    theirs.save_pretrained(tmp_path)
    base = import_run(tmp_path, Path("runs/base")).run
    adapted = peft.get_peft_model(theirs, peft.LoraConfig(r=3, lora_alpha=6, target_modules=["query_key_value"])).eval()
    for name, each in adapted.named_parameters():
        if ".lora_" in name:
            torch.nn.init.normal_(each, std=0.2)
    adapted.save_pretrained("adapter")
    found = import_run(Path("adapter"), Path("runs/tuned"), base=base.path).run
    assert (logits(found.model) - logits(base.model)).abs().max() > 1e-3
    torch.testing.assert_close(logits(found.model), logits(adapted), rtol=0, atol=1e-4)


def test_the_base_is_the_run_that_the_adapter_names():
    base = base_run()
    theirs = made_by_peft(base, Path("adapter"), target_modules=["q_proj"])
    path = Path("adapter/adapter_config.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"base_model_name_or_path": "someone/base"}))
    found = import_run(Path("adapter")).run
    assert str(found.path) == "runs/adapter"
    torch.testing.assert_close(logits(found.model), logits(theirs), rtol=0, atol=1e-4)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"base_model_name_or_path": "someone/else"}))
    with pytest.raises(UserError, match=r"an adapter for 'someone/else', and no run in runs/ has that name; import"):
        import_run(Path("adapter"), Path("runs/other"))


def test_a_base_that_is_gone_is_told_from_the_run():
    base = base_run()
    run = tuned_run(base, LoRA(rank=4, alpha=8.0))
    base.path.rename("elsewhere")
    found = export_run(run, "peft")
    note = "'base', is not in runs/ as it was, so the weights of its base were computed from its own"
    assert note in found["checks"][0]["note"]
    assert all(each["agrees"] for each in found["checks"])


def test_tokens_that_training_added_leave_with_the_adapter():
    """peft stores the embeddings of a larger vocabulary, and loads them onto a base that was given as many rows."""
    base = base_run("llama")
    tokenizer = with_roles(base.tokenizer)
    added = tokenizer.vocabulary_size - base.tokenizer.vocabulary_size
    assert added > 0
    larger = transformer("llama", tokenizer)
    ours = base.model.state_dict()
    for name, each in larger.state_dict().items():
        each[: len(ours[name])] = ours[name]
    settings = LoRA(rank=4, alpha=8.0)
    add_lora(larger, settings)
    for each in lora_parameters(larger).values():
        torch.nn.init.normal_(each, std=0.2)
    save_adapter(Path("kept.safetensors"), larger, settings, Base.of(base))
    fold_lora(larger)
    run = store(
        Path("runs/tuned"), "transformer", larger, tokenizer, {"inputs": ["b"], "unit": "line"}, False,
        extra=lambda folder: load_adapter(Path("kept.safetensors")).save(folder / ADAPTER),
    )  # fmt: skip
    found = export_run(run, "peft")
    assert all(each["agrees"] and each["same_tokens"] for each in found["checks"])
    assert f"training added {added} tokens" in found["notes"][1]
    Path("there").mkdir()
    write_huggingface(base.model, base.tokenizer, Path("there"))
    theirs = transformers.AutoModelForCausalLM.from_pretrained("there")
    theirs.resize_token_embeddings(tokenizer.vocabulary_size)
    theirs = peft.PeftModel.from_pretrained(theirs, "tuned-peft").eval()
    torch.testing.assert_close(logits(theirs), logits(run.model), rtol=0, atol=1e-4)
    with pytest.raises(
        UserError, match="the adapter has an embedding of its own, of .* tokens, and 'runs/base' one of"
    ):
        import_run(Path("tuned-peft"), Path("runs/back"), base=base.path)
    assert "export all of the run with --to gguf" in export_run(run, "gguf-adapter")["notes"][0]


@pytest.mark.parametrize("profile", ["llama", "gpt2"])
def test_gradients_are_those_of_peft(profile: str):
    """Of every A and B, from the loss of the same text; GPT-2's c_attn is left out, whose three A's are one there."""
    base = base_run(profile)
    theirs = made_by_peft(base, Path("adapter"), target_modules=[name for name in TARGETS[profile] if name != "c_attn"])
    pairs, scale = pairs_of(read_tensors(Path("adapter")), {"r": 4, "lora_alpha": 8})
    model = type(base.model).load(base.path / "model.safetensors")
    arrays = take_in(model, pairs)
    names = tuple(each for each in MATRICES if any(f".lora.{each}." in name for name in arrays))
    add_lora(model, LoRA(rank=4, alpha=4 * scale, matrices=names))
    load_lora(model, arrays)
    torch.testing.assert_close(logits(model), logits(theirs), rtol=0, atol=1e-4)  # unfolded, on both sides
    model.loss(Batch(IDS[:, :-1], IDS[:, 1:])).mean.backward()
    theirs(IDS, labels=IDS).loss.backward()
    found = {name: each.grad.numpy() for name, each in lora_parameters(model).items()}
    expected = {name: each.grad for name, each in theirs.named_parameters() if ".lora_" in name}
    compared = 0
    for name, (down, up) in give_out(model, found).items():
        for which, ours in (("A", down), ("B", up)):
            there = expected[f"base_model.model.{name}.lora_{which}.default.weight"]
            np.testing.assert_allclose(ours, there.numpy(), rtol=1e-3, atol=1e-5)
            compared += 1
    assert compared == len(expected) == len(found)


def change(**changes: Any) -> Callable[[Path], None]:
    def do(folder: Path) -> None:
        path = folder / "adapter_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return do


def put(name: str, array: np.ndarray | None) -> Callable[[Path], None]:
    """Replace a tensor, add one, or take it away."""

    def do(folder: Path) -> None:
        path = folder / "adapter_model.safetensors"
        arrays = {each: np.array(found) for each, found in load_arrays(path)[0].items() if each != name}
        save_arrays(path, arrays if array is None else arrays | {name: array})

    return do


def rename(old: str, new: str) -> Callable[[Path], None]:
    def do(folder: Path) -> None:
        path = folder / "adapter_model.safetensors"
        save_arrays(path, {each.replace(old, new): np.array(found) for each, found in load_arrays(path)[0].items()})

    return do


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


STEM = "base_model.model.model.layers.0"
Q_A, Q_B = (f"{STEM}.self_attn.q_proj.lora_{which}.weight" for which in "AB")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (change(bias="all"), "'bias' is 'all' in the adapter's settings, which is not supported"),
        (change(use_dora=True), "'use_dora' is True in the adapter's settings"),
        (change(modules_to_save=["lm_head"]), r"'modules_to_save' is \['lm_head'\] in the adapter's settings"),
        (change(peft_type="IA3"), "'peft_type' is 'IA3'"),
        (change(init_lora_weights="pissa"), "'init_lora_weights' is 'pissa'"),
        (change(layer_replication=[[0, 1]]), r"'layer_replication' is \[\[0, 1\]\]"),
        (change(a_new_kind={"x": 1}), r"'a_new_kind' is \{'x': 1\}"),
        (change(rank_pattern={"(q|k)_proj": 4}), "'rank_pattern' in the adapter's settings must give numbers by the"),
        (change(r=8), r"give 'model\.layers\.0\.self_attn\.q_proj' the rank 8, but its A has 4 rows"),
        (change(lora_alpha=0), "'lora_alpha' in the model's settings must be a number above zero, got 0"),
        (put(f"{STEM}.input_layernorm.weight", zeros(32)), "which is no A or B of a matrix"),
        (put(Q_B, None), f"the adapter lacks '{Q_B}'"),
        (put(Q_A, zeros(4, 32) + np.nan), "must be finite floating-point numbers"),
        (put(Q_A, np.zeros((4, 32), np.int64)), "must be finite floating-point numbers"),
        (put(Q_A, zeros(4, 64)), "the adapter is for a model of width 64, and this run has 32"),
        (put(Q_B, zeros(48, 4)), "has 48 outputs there and 32 here"),
        (put(Q_B, zeros(32, 5)), "are 4 x 32 and 32 x 5, which do not fit"),
        (put(Q_B, zeros(32)), "are 4 x 32 and 32, which do not fit"),
        (rename("layers.0.", "layers.7."), "but this run has 2 layers"),
        (rename("q_proj", "wq"), r"is no matrix of this run that can have an update \(self_attn.q_proj"),
        (lambda folder: (folder / "adapter_model.safetensors").unlink(), "has neither adapter_model.safetensors nor"),
        (lambda folder: (folder / "adapter_config.json").write_text("{"), "is not valid JSON"),
    ],
)  # fmt: skip
def test_what_would_compute_something_else_is_refused(spoil: Callable[[Path], None], reason: str):
    base = base_run()
    made_by_peft(base, Path("adapter"), target_modules=["q_proj"])
    spoil(Path("adapter"))
    with pytest.raises(UserError, match=reason):
        import_run(Path("adapter"), Path("runs/tuned"), base=base.path)
    assert not Path("runs/tuned").exists()


def test_an_adapter_in_torchs_own_file_is_read_as_plain_tensors():
    base = base_run()
    theirs = made_by_peft(base, Path("adapter"), target_modules=["q_proj"])
    arrays, _ = load_arrays(Path("adapter/adapter_model.safetensors"))
    torch.save({name: torch.from_numpy(np.array(each)) for name, each in arrays.items()}, "adapter/adapter_model.bin")
    Path("adapter/adapter_model.safetensors").unlink()
    found = import_run(Path("adapter"), Path("runs/tuned"), base=base.path).run
    torch.testing.assert_close(logits(found.model), logits(theirs), rtol=0, atol=1e-4)


def test_runs_that_have_no_adapter_or_no_counterpart_are_refused():
    base = base_run()
    with pytest.raises(
        UserError, match="'runs/base' has no adapter, as it was not trained with --lora; huggingface and"
    ):
        export_run(base, "peft")
    with pytest.raises(UserError, match="no other program can run this model"):
        export_run(fast_run(), "peft")
    made_by_peft(base, Path("adapter"), target_modules=["q_proj"])
    with pytest.raises(UserError, match="no other program has a model as 'runs/fast' is one"):
        import_run(Path("adapter"), base=Path("runs/fast"))
    with pytest.raises(UserError, match="'their-base' is a model by itself"):
        import_run(Path("their-base"), Path("runs/x"), base=base.path)


def fast_run() -> Run:
    tokenizer = bpe()
    model = random_model(Model(FAST(**SHAPE), tokenizer.vocabulary_size, tokenizer.eos))
    return store(Path("runs/fast"), "transformer", model, tokenizer, {"inputs": ["a.txt"], "unit": "line"}, False)


def test_what_is_stored_is_what_is_loaded():
    base = base_run()
    settings = LoRA(rank=2, alpha=3.0, matrices=("query", "down"), layers=1, dropout=0.1)
    run = tuned_run(base, settings)
    found, kept = adapter_of(run), load_adapter(Path("kept.safetensors"))
    assert isinstance(found, Adapter) and (found.settings, found.base) == (settings, Base.of(base))
    assert found.arrays.keys() == kept.arrays.keys() and len(found.arrays) == 4
    assert all(np.array_equal(each, kept.arrays[name]) for name, each in found.arrays.items())
    assert "adapter.safetensors" in run.manifest and adapter_of(base) is None
    save_arrays(Path("kept.safetensors"), dict(kept.arrays), {"adapter": '{"settings": {"rank": -1}}'})
    with pytest.raises(UserError, match="is damaged"):
        load_adapter(Path("kept.safetensors"))


def test_the_command_line_exports_and_imports(monkeypatch, capsys):
    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["chainrule", *arguments])
        with pytest.raises(SystemExit) as exit:
            main()
        return int(exit.value.code or 0), *capsys.readouterr()

    run = tuned_run(base_run(), LoRA(rank=4, alpha=8.0))
    code, out, err = call("export", "runs/tuned", "--to", "peft", "-o", "adapter")
    assert (code, out) == (0, "adapter\n") and "checked with peft" in err
    assert "it is for the model 'base'" in err
    code, out, err = call("import", "adapter", "--base", "runs/base", "--as", "runs/back")
    assert (code, out) == (0, "runs/back\n"), err
    assert "a LoRA adapter of rank 4 was added to 'runs/base'" in err
    torch.testing.assert_close(logits(Run("runs/back").model), logits(run.model), rtol=0, atol=1e-5)
