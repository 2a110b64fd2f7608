"""The command line as a person meets it: every command run whole, in this process."""

import csv
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.cows import LINES

Result = tuple[int, str, str]
NGRAM = {"order": 5, "smoothing": "modified-kneser-ney", "k": 1.0, "alpha": 0.4, "discounts": [], "prune": []}


@pytest.fixture
def run(chainrule: Callable[..., Result], cows: Path) -> str:
    code, _, _ = chainrule("train", cows, "--order", 3)
    assert code == 0
    return "runs/cows"


def test_train_tells_what_it_made_and_what_to_do_next(chainrule, cows):
    code, out, err = chainrule("train", cows)
    assert code == 0
    for word in ("documents (line)", "modified-kneser-ney", "bits per byte", "runs/cows"):
        assert word in out
    assert "next: chainrule sample runs/cows" in err


def test_train_prints_json_that_says_everything(chainrule, cows):
    code, out, _ = chainrule(
        "train", cows, "--json", "--smoothing", "witten-bell", "--set", "order=2", "--as", "runs/w"
    )
    result = json.loads(out)
    assert code == 0
    assert result["run"] == "runs/w"
    assert result["config"]["model"] == NGRAM | {"order": 2, "smoothing": "witten-bell"}
    assert result["validation"]["bits_per_byte"] > 0
    assert json.loads((Path("runs/w") / "config.json").read_text()) == result["config"]


def test_settings_layer_defaults_size_file_flags_set(chainrule, cows, tmp_path):
    (tmp_path / "s.json").write_text('{"order": 2, "smoothing": "katz"}')
    base = ("train", cows, "--json", "--overwrite", "--as", "runs/x")

    def model(*more: str) -> dict:
        return json.loads(chainrule(*base, *more)[1])["config"]["model"]

    assert model()["order"] == 5
    assert model("--size", "large")["order"] == 7
    assert model("--size", "large", "--config", "s.json") == NGRAM | {"order": 2, "smoothing": "katz"}
    assert model("--config", "s.json", "--order", "4")["order"] == 4
    assert model("--config", "s.json", "--order", "4", "--set", "order=6")["order"] == 6
    assert model("--prune", "0 0 1")["prune"] == [0, 0, 1]


@pytest.mark.parametrize(
    ("smoothing", "assignment", "stored"),
    [
        ("stupid-backoff", "alpha=0.3", {"alpha": 0.3}),
        ("absolute", "discounts=0.75", {"discounts": [0.75]}),
        ("kneser-ney", "discounts=0.75", {"discounts": [0.75]}),
        ("modified-kneser-ney", "discounts=0.5 1 1.5", {"discounts": [0.5, 1.0, 1.5]}),
    ],
)
def test_the_numbers_of_a_smoothing_are_set_by_name(chainrule, cows, smoothing, assignment, stored):
    code, out, _ = chainrule("train", cows, "--json", "--smoothing", smoothing, "--set", assignment)
    assert code == 0
    assert json.loads(out)["config"]["model"].items() >= stored.items()
    name = assignment.partition("=")[0]
    assert name in chainrule("show", "runs/cows")[1]


@pytest.mark.parametrize(
    ("smoothing", "assignment", "sentence"),
    [
        ("stupid-backoff", "alpha=0", "alpha must be above 0 and at most 1, got 0"),
        ("katz", "alpha=0.3", "alpha is a setting of stupid-backoff, and the smoothing is katz; leave it out"),
        ("absolute", "discounts=1.2", "the discount of a count of 1 must be above 0 and at most 1, got 1.2"),
        ("absolute", "discounts=0.5 1 3.5", "the discount of a count of 3 must be above 0 and at most 3, got 3.5"),
        ("absolute", "discounts=0.5 1", "discounts are one number, or three"),
        ("witten-bell", "discounts=0.7", "absolute, and the smoothing is witten-bell; leave them out"),
    ],
)
def test_impossible_numbers_of_a_smoothing_are_refused(chainrule, cows, smoothing, assignment, sentence):
    code, _, err = chainrule("train", cows, "--smoothing", smoothing, "--set", assignment)
    assert code == 2
    assert sentence in " ".join(err.split())


def test_train_reads_standard_input(cows):
    command = [sys.executable, "-m", "chainrule", "train", "-", "--json"]
    done = subprocess.run(command, input=cows.read_text(), capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["run"] == "runs/stdin"


def test_sample_is_repeatable_and_streams_what_it_returns(chainrule, run):
    _, streamed, _ = chainrule("sample", run, "--prompt", "on day", "--seed", 7)
    _, again, _ = chainrule("sample", run, "--prompt", "on day", "--seed", 7)
    _, out, _ = chainrule("sample", run, "--prompt", "on day", "--seed", 7, "--json", "--logprobs", 3)
    result = json.loads(out)
    assert streamed == again == "on day" + result["samples"][0]["text"] + "\n"
    token = result["samples"][0]["tokens"][0]
    assert len(token["alternatives"]) == 3
    assert token["log_probability"] <= 0
    assert result["seed"] == 7


def test_sample_several_greedy_beam_and_stop(chainrule, run):
    _, out, _ = chainrule("sample", run, "-n", 3, "--seed", 1)
    assert out.count("-" * 20) == 2
    greedy = chainrule("sample", run, "--greedy", "--prompt", "on")[1]
    assert greedy == chainrule("sample", run, "--temperature", 0, "--prompt", "on")[1]
    assert greedy == chainrule("sample", run, "--beam", 1, "--prompt", "on")[1]
    found = json.loads(chainrule("sample", run, "--beam", 4, "-n", 2, "--json")[1])["samples"]
    assert found[0]["score"] >= found[1]["score"]
    assert "cow" not in chainrule("sample", run, "--prompt", "the red", "--stop", "cow", "--greedy")[1]


def test_evaluate_reports_the_same_in_words_and_json(chainrule, run, cows):
    code, out, _ = chainrule("evaluate", run, cows)
    result = json.loads(chainrule("evaluate", run, cows, "--json", "--documents")[1])
    assert code == 0
    assert f"{result['bits_per_byte']:.4f}" in out
    assert f"{result['perplexity']:.2f} per token with <eos>" in " ".join(out.split())
    assert "cows.txt:" in out
    assert len(result["per_document"]) == 200
    assert chainrule("evaluate", run, cows, "--documents")[1].count("bits per byte, ") == 200
    assert sum(each["nats"] for each in result["per_document"]) == pytest.approx(result["nats"])


def test_evaluate_writes_the_figures_of_documents_as_a_table(chainrule, run, cows):
    figures = json.loads(chainrule("evaluate", run, cows, "--json", "--documents", "--csv", "figures.csv")[1])
    rows = list(csv.DictReader(Path("figures.csv").read_text().splitlines()))
    assert [{**row, "nats": float(row["nats"])} for row in rows] == [
        {name: value if name == "nats" else str(value) for name, value in each.items()}
        for each in figures["per_document"]
    ]
    assert len(rows) == 200
    code, out, _ = chainrule("evaluate", run, cows, "--csv", "-")
    assert code == 0
    assert out == Path("figures.csv").read_text()
    assert "cannot write 'none/a.csv'" in chainrule("evaluate", run, cows, "--csv", "none/a.csv")[2]


def test_evaluate_against_another_run_says_whether_the_difference_is_real(chainrule, run, cows):
    chainrule("train", cows, "--order", 1, "--as", "runs/one")
    _, out, _ = chainrule("evaluate", run, cows, "--against", "runs/one")
    assert "better than runs/one: significant (95 % interval" in out
    _, out, _ = chainrule("evaluate", run, cows, "--against", run)
    assert "no significant difference from runs/cows (+0.0000 bits per byte" in out
    chainrule("train", cows, "--smoothing", "stupid-backoff", "--as", "runs/stupid")
    code, _, err = chainrule("evaluate", run, cows, "--against", "runs/stupid")
    assert code == 2
    assert "do not sum to one" in err


def test_evaluate_without_a_text_measures_what_was_kept_aside(chainrule, run):
    trained = json.loads(chainrule("show", run, "--json")[1])["metrics"]["validation"]
    again = json.loads(chainrule("evaluate", run, "--json")[1])
    for name in ("bits_per_byte", "perplexity", "documents", "bytes"):
        assert again[name] == pytest.approx(trained[name])
    assert all(LINES[passage["line"] - 1] for passage in again["worst_passages"])


def test_scores_that_do_not_sum_to_one_have_no_perplexity_anywhere(chainrule, cows):
    result = json.loads(chainrule("train", cows, "--smoothing", "stupid-backoff", "--as", "runs/s", "--json")[1])
    assert result["validation"]["perplexity"] is None
    assert json.loads(chainrule("evaluate", "runs/s", cows, "--json")[1])["perplexity"] is None
    assert "do not sum to one" in " ".join(chainrule("show", "runs/s")[1].split())


def test_export_replaces_nothing_by_accident(chainrule, run, tmp_path):
    (tmp_path / "thesis.arpa").write_text("years of work")
    for name, word in (("thesis.arpa", "exists already"), ("x.arpa.zst", "only .gz is compressed")):
        code, _, err = chainrule("export", run, "--to", "arpa", "-o", name)
        assert code == 2
        assert word in err
    code, _, err = chainrule("export", run, "--to", "arpa", "-o", "thesis.arpa", "--overwrite")
    assert code == 2 and "'thesis.arpa' is not in the format arpa, so it is not overwritten" in err
    assert (tmp_path / "thesis.arpa").read_text() == "years of work"


def test_export_replaces_an_earlier_export_where_that_is_wanted(chainrule, run, tmp_path):
    for name in ("cows.arpa", "cows.arpa.gz"):
        assert chainrule("export", run, "--to", "arpa", "-o", name)[0] == 0
        earlier = (tmp_path / name).stat().st_ino
        assert chainrule("export", run, "--to", "arpa", "-o", name, "--overwrite")[0] == 0
        assert (tmp_path / name).stat().st_ino != earlier
    command = [sys.executable, "-m", "chainrule", "export", run, "--to", "arpa", "-o", "-"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == (tmp_path / "cows.arpa").read_text()


def test_show_lists_runs_in_folders_and_damaged_ones(chainrule, run, cows):
    chainrule("train", cows, "--as", "runs/a/b")
    chainrule("train", cows, "--as", "runs/broken")
    Path("runs/broken/config.json").write_text("{")
    code, out, _ = chainrule("show")
    assert code == 0
    listed = dict(line.split(maxsplit=1) for line in out.splitlines() if line.startswith("runs/"))
    assert listed["runs/broken"].strip() == "(damaged)"
    assert {"runs/a/b", "runs/cows", "runs/broken"} == set(listed)


def test_a_prompt_of_a_megabyte_costs_no_more_than_a_short_one(chainrule, run):
    """An n-gram remembers a few words: no distributions are made for the rest."""
    long = "the cow " * 100_000 + "on day"
    command = [sys.executable, "-m", "chainrule", "sample", run, "--prompt", "-", "--greedy", "--json"]
    done = subprocess.run(command, input=long, capture_output=True, text=True, check=True)
    short = json.loads(chainrule("sample", run, "--prompt", "the cow on day", "--greedy", "--json")[1])
    assert json.loads(done.stdout)["samples"] == short["samples"]


def test_closed_vocabulary_says_what_is_outside(chainrule, cows, tmp_path):
    chainrule("train", cows, "--tokenizer", "words", "--closed-vocabulary", "--as", "runs/closed")
    (tmp_path / "new.txt").write_text("the blue cow sings the old hay\n" * 3)
    _, out, _ = chainrule("evaluate", "runs/closed", "new.txt")
    text = " ".join(out.split())
    assert "6 tokens (28.6%) are <unk>" in text
    assert "a closed vocabulary loses spelling" in text


def test_impossible_text_has_infinite_perplexity_and_null_in_json(chainrule, cows, tmp_path):
    chainrule("train", cows, "--smoothing", "maximum-likelihood", "--as", "runs/ml")
    (tmp_path / "new.txt").write_text("pigs fly\nsheep swim\n")
    assert "infinite" in chainrule("evaluate", "runs/ml", "new.txt")[1]
    result = json.loads(chainrule("evaluate", "runs/ml", "new.txt", "--json")[1])
    assert result["perplexity"] is None
    assert result["impossible_tokens"] > 0


def test_show_tells_where_a_context_was_seen(chainrule, cows):
    chainrule("train", cows, "--model", "infinigram", "--unit", "line", "--validation-fraction", 0, "--as", "runs/inf")
    code, out, err = chainrule("show", "runs/inf", "--context", "the old cow eats grass")
    assert code == 0
    assert "occurs" in err
    first = next(i for i, line in enumerate(LINES) if "the old cow eats grass" in line)
    assert out.splitlines()[0].endswith(f"cows.txt:{first + 1}")


def test_show_tells_and_lists_and_verifies(chainrule, run):
    _, out, _ = chainrule("show", run)
    assert "3-grams" in out
    assert "discounts" in out
    assert "runs/cows" in chainrule("show")[1]
    assert chainrule("show", run, "--verify")[2].endswith("all files are unchanged\n")
    facts = json.loads(chainrule("show", run, "--json")[1])
    assert facts["model"]["1-grams"] > 10
    assert facts["damaged"] == []


def test_export_writes_what_import_reads(chainrule, run, cows):
    assert chainrule("export", run, "--to", "arpa", "-o", "cows.arpa.gz")[0] == 0
    assert gzip.decompress(Path("cows.arpa.gz").read_bytes()).startswith(b"\\data\\")
    code, out, _ = chainrule("import", "cows.arpa.gz", "--as", "runs/back")
    assert code == 0
    assert out.strip() == "runs/back"
    assert chainrule("sample", "runs/back", "--seed", 1)[0] == 0


def test_merge_and_forget_equal_training_on_the_whole_and_on_the_rest(chainrule, cows, tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(LINES[:120]))
    (tmp_path / "b.txt").write_text("\n".join(LINES[120:]))
    common = ("--validation-fraction", 0, "--unit", "line", "--tokenizer")
    chainrule("train", cows, *common, "words", "--as", "runs/whole")
    for part in "ab":
        assert chainrule("train", f"{part}.txt", *common, "runs/whole", "--as", f"runs/{part}")[0] == 0
    assert chainrule("merge", "runs/a", "runs/b", "--as", "runs/merged")[0] == 0
    assert chainrule("forget", "runs/whole", "b.txt", "--as", "runs/without")[0] == 0

    def figures(name: str) -> float:
        return json.loads(chainrule("evaluate", f"runs/{name}", cows, "--json")[1])["nats"]

    assert figures("merged") == figures("whole")
    assert figures("without") == figures("a")
    assert figures("whole") != figures("a")


def test_only_documents_that_were_counted_are_taken_out(chainrule, cows, tmp_path):
    """Whole documents, not n-grams: a new sentence of known words stays unknown; and forgetting can go on."""
    chainrule("train", cows, "--unit", "line", "--as", "runs/all")
    (tmp_path / "new.txt").write_text("on day 1 the red cow\n")
    code, _, err = chainrule("forget", "runs/all", "new.txt")
    assert code == 2
    assert "none of these documents was trained on" in err
    (tmp_path / "some.txt").write_text("\n".join(LINES[:40]) + "\non day 1 the red cow\n")
    (tmp_path / "more.txt").write_text("\n".join(LINES[30:80]))
    first = json.loads(chainrule("forget", "runs/all", "some.txt", "--as", "runs/less", "--json")[1])
    second = json.loads(chainrule("forget", "runs/less", "more.txt", "--as", "runs/least", "--json")[1])
    aside = json.loads(chainrule("evaluate", "runs/all", "--json", "--documents")[1])["per_document"]
    kept = {document["line"] for document in aside}
    assert first["documents"] == len(set(range(1, 41)) - kept)
    assert second["documents"] == len(set(range(41, 81)) - kept)
    assert second["never_counted"] == 50 - second["documents"]


def test_merging_needs_equal_settings_and_weights_that_can_be_had(chainrule, cows):
    for name, smoothing in (("a", "katz"), ("b", "witten-bell"), ("c", "jelinek-mercer")):
        chainrule("train", cows, "--tokenizer", "words", "--smoothing", smoothing, "--as", f"runs/{name}")
    assert "equal settings" in chainrule("merge", "runs/a", "runs/b")[2]
    assert "held-out text that is not here" in chainrule("merge", "runs/c", "runs/c")[2]


def test_text_kept_aside_is_measured_as_in_training_whatever_its_unit(chainrule, cows, tmp_path):
    (tmp_path / "blocks.txt").write_text("\n\n".join(LINES[:60]))
    result = json.loads(chainrule("train", cows, "--validation", "blocks.txt", "--as", "runs/v", "--json")[1])
    again = json.loads(chainrule("evaluate", "runs/v", "--json")[1])
    assert (again["bytes"], again["bits_per_byte"]) == pytest.approx(
        (result["validation"]["bytes"], result["validation"]["bits_per_byte"])
    )


def test_forgetting_what_was_never_read_changes_nothing(chainrule, run, tmp_path):
    (tmp_path / "pigs.txt").write_text("pigs fly over the moon\n")
    code, _, err = chainrule("forget", run, "pigs.txt")
    assert code == 2
    assert "none of these documents was trained on" in err
    assert os.listdir("runs") == ["cows"]


def test_files_in_a_folder_a_glob_and_several_formats(chainrule, tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_text("\n".join(LINES[:100]))
    (folder / "b.jsonl").write_text("\n".join(json.dumps({"text": line}) for line in LINES[100:150]))
    with gzip.open(folder / "c.csv.gz", "wt") as file:
        file.write("text,other\n" + "".join(f'"{line}",1\n' for line in LINES[150:]))
    result = json.loads(chainrule("train", folder, "--json", "--unit", "line", "--validation-fraction", "0")[1])
    assert result["config"]["data"]["text"]["train"]["documents"] == 200
    assert chainrule("train", "texts/*.txt", "--as", "runs/glob")[0] == 0


def test_evaluate_says_of_how_many_documents_tokens_hide_a_part(chainrule, cows, tmp_path):
    chainrule("train", cows, "--tokenizer", "bytes", "--as", "runs/bytes")
    settings = json.loads(Path("runs/bytes/tokenizer.json").read_text())
    settings["normalizer"] = {"type": "Lowercase"}
    (tmp_path / "lower.json").write_text(json.dumps(settings))
    chainrule("train", cows, "--tokenizer", "lower.json", "--as", "runs/lower")
    assert "(per character)" not in chainrule("evaluate", "runs/lower", cows)[1]
    assert "not defined" not in chainrule("evaluate", "runs/lower", cows)[1]
    (tmp_path / "some.txt").write_text("the cow\nThe Cow\nthe hay\n")
    code, out, _ = chainrule("evaluate", "runs/lower", "some.txt", "--documents")
    assert code == 0
    assert "not defined: tokens do not spell 1 of the 3 documents exactly" in " ".join(out.split())
    assert (out.count(" bits per byte, "), out.count(" bits per token, ")) == (2, 1)


def test_evaluate_says_that_a_run_was_trained_on_the_text(chainrule, run, cows):
    chainrule("train", cows, "--order", 1, "--as", "runs/one")
    trained = json.loads(Path("runs/one/config.json").read_text())["data"]["text"]["train"]["documents"]
    out = " ".join(chainrule("evaluate", run, cows, "--against", "runs/one")[1].split())
    assert "better than runs/one: significant" in out
    assert f"; but {run} and runs/one learned from this text, so this is no test" in " ".join(out.split())
    said = f"was trained on {trained} of these 200 documents (line), so its figures say little about new text"
    assert f"{run} {said}" in out
    assert f"runs/one {said}" in out
    Path("new.txt").write_text("".join(f"in week {i} the cow eats corn\n" for i in range(200)))
    chainrule("train", "new.txt", "--order", 1, "--as", "runs/other")
    out = chainrule("evaluate", run, "new.txt", "--against", "runs/other")[1]
    assert "; but runs/other learned from this text, so this is no test" in out
    kept = chainrule("evaluate", run, "--against", "runs/one")[1]
    assert "was trained on" not in kept
    assert "no test" not in kept
