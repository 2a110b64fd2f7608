"""lm-eval's `local-completions`, unmodified: what it measures over HTTP is what we measure ourselves."""

import json
from collections.abc import Callable, Iterator
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chainrule.api import TrainedRun
from chainrule.generation import Sampling, sample
from tests.serving.conftest import Live
from tests.serving.test_completions import expected

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:lm_eval", "ignore::DeprecationWarning:datasets")
QUESTIONS = [
    {"question": "on day 3 the old cow eats", "choices": [" hay", " grass", " cow"], "answer": 0},
    {"question": "on day 4 the", "choices": [" old", " red", " green cow"], "answer": 1},
    {"question": "on day", "choices": [" 12 the red", " 12 the old", " the"], "answer": 1},
    {"question": "the red cow ", "choices": ["eats", "is", "eats hay"], "answer": 0},
]
TEXTS = ["on day 7 the red cow eats hay", "on day 412 the blue cow is naïve", "hay hay"]
TASKS: dict[str, dict[str, Any]] = {
    "choice": {
        "output_type": "multiple_choice", "doc_to_text": "{{question}}", "doc_to_choice": "{{choices}}",
        "doc_to_target": "{{answer}}", "target_delimiter": "", "metric_list": [{"metric": "acc"}],
    },
    "rolling": {
        "output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": "{{text}}",
        "metric_list": [{"metric": "bits_per_byte"}],
    },
    "generate": {
        "output_type": "generate_until", "doc_to_text": "{{question}}", "doc_to_target": "{{choices[answer]}}",
        "generation_kwargs": {"until": ["ow"], "max_gen_toks": 9, "temperature": 0},
        "metric_list": [{"metric": "exact_match"}],
    },
}  # fmt: skip
Evaluate = Callable[..., Any]


@pytest.fixture(scope="module")
def words(serve: Callable[..., Any]) -> Iterator[Live]:
    """Two runs of one tokenizer, since lm-eval's remote tokenizer names no model."""
    with serve("cows", "lstm") as server:
        yield server


@pytest.fixture
def evaluate(live: Live, words: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Evaluate:
    """evaluate(["choice"], model="cows", ...): the figures of tasks and, of each, what was asked and answered."""
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.setenv(name, "1")
    lm_eval = pytest.importorskip("lm_eval")
    from lm_eval.models.openai_completions import LocalCompletionsAPI
    from lm_eval.tasks import TaskManager

    for name, task in TASKS.items():
        rows = [{"text": text} for text in TEXTS] if name == "rolling" else QUESTIONS
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        files = {"data_files": {"test": str(tmp_path / f"{name}.jsonl")}, "cache_dir": str(tmp_path / "cache")}
        whole = {"task": name, "dataset_path": "json", "dataset_kwargs": files, "test_split": "test", **task}
        (tmp_path / f"{name}.yaml").write_text(json.dumps(whole))

    def run(tasks: list[str], **settings: Any) -> Any:
        server = words if settings["model"] in ("cows", "lstm") else live
        model = LocalCompletionsAPI(base_url=f"{server.url}/v1/completions", **settings)
        manager = TaskManager(include_path=str(tmp_path), include_defaults=False)
        return lm_eval.simple_evaluate(model, tasks=tasks, task_manager=manager, bootstrap_iters=0)

    return run


def responses(found: Any, task: str) -> list[Any]:
    samples = sorted(found["samples"][task], key=lambda each: each["doc_id"])
    return [each["filtered_resps"] for each in samples]


def of_choices(run: TrainedRun, has_end: bool) -> list[list[tuple[float, bool]]]:
    """log p of each choice after its question and whether it is the likeliest, a token at a time."""
    found = []
    for row in QUESTIONS:
        found.append([])
        for choice in row["choices"]:  # type: ignore[attr-defined]
            context = run.tokenizer.encode(str(row["question"]).rstrip()).tolist()
            ids = run.tokenizer.encode(f"{row['question']}{choice}").tolist()
            before = [run.tokenizer.eos] * has_end
            table = expected(run, [*before, *ids])[len(before) + len(context) - 1 : -1]
            asked = ids[len(context) :]
            total = float(sum(row[id] for row, id in zip(table, asked, strict=True)))
            found[-1].append((total, bool((table.argmax(-1) == asked).all())))
    return found


def check_choices(found: Any, run: TrainedRun, has_end: bool = False) -> None:
    own = of_choices(run, has_end)
    for theirs, ours in zip(responses(found, "choice"), own, strict=True):
        assert [each[0] for each in theirs] == pytest.approx([each[0] for each in ours], abs=1e-4)
        assert [each[1] for each in theirs] == [each[1] for each in ours]
    right = [
        int(np.argmax([each[0] for each in ours])) == row["answer"] for ours, row in zip(own, QUESTIONS, strict=True)
    ]
    assert found["results"]["choice"]["acc,none"] == pytest.approx(np.mean(right))


def check_rolling(found: Any, run: TrainedRun, tmp_path: Path) -> None:
    """Each text is a file of its own, to be read alone. Our figures count its end too, those of lm-eval do not."""
    nats, size = [], 0
    for number, text in enumerate(TEXTS):
        path = tmp_path / f"{number}.txt"
        path.write_text(text)
        figures = run.evaluate(path, unit="file")
        size += len(text.encode())
        nats.append(figures["tokens"] * log(figures["perplexity_without_eos"]))
    assert [each[0] for each in responses(found, "rolling")] == pytest.approx([-each for each in nats], abs=1e-4)
    assert found["results"]["rolling"]["bits_per_byte,none"] == pytest.approx(sum(nats) / log(2) / size, abs=1e-4)


def check_generated(found: Any, run: TrainedRun) -> None:
    for theirs, row in zip(responses(found, "generate"), QUESTIONS, strict=True):
        settings = Sampling(temperature=0, max_tokens=9, stop=("ow", "<eos>"))
        [own] = sample(run.model, run.tokenizer, str(row["question"]), settings)
        assert theirs == [own.text]


@pytest.mark.parametrize(("kind", "concurrent", "batch"), [("cows", 1, 1), ("lstm", 4, 1), ("lstm", 1, 3)])
def test_by_ids_through_our_tokenizer(
    evaluate: Evaluate, runs: dict[str, TrainedRun], tmp_path: Path, kind: str, concurrent: int, batch: int
):
    found = evaluate(["choice", "rolling"], model=kind, num_concurrent=concurrent, batch_size=batch)
    check_choices(found, runs[kind])
    check_rolling(found, runs[kind], tmp_path)


def test_by_ids_through_a_tokenizer_of_transformers(
    evaluate: Evaluate, runs: dict[str, TrainedRun], folders: dict[str, Path], tmp_path: Path
):
    from transformers import PreTrainedTokenizerFast

    theirs = PreTrainedTokenizerFast(tokenizer_file=str(folders["transformer"] / "tokenizer.json"), eos_token="<eos>")
    theirs.save_pretrained(tmp_path / "tokenizer")
    settings = {"tokenizer_backend": "huggingface", "tokenizer": str(tmp_path / "tokenizer"), "max_length": 64}
    found = evaluate(["choice", "rolling"], model="transformer", **settings)
    check_choices(found, runs["transformer"])
    check_rolling(found, runs["transformer"], tmp_path)


def test_by_text(evaluate: Evaluate, runs: dict[str, TrainedRun]):
    """Texts are read after an end token, as by `chainrule sample`."""
    found = evaluate(["choice", "generate"], model="lstm", tokenized_requests=False)
    check_choices(found, runs["lstm"], has_end=True)
    check_generated(found, runs["lstm"])


def test_a_server_of_several_tokenizers_is_refused_rather_than_measured_by_the_wrong_one(evaluate: Evaluate):
    with pytest.raises(RuntimeError, match="tokenizer_info failed .* 400"):
        evaluate(["choice"], model="transformer", tokenizer_backend="remote")
