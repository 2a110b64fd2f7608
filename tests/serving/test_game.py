"""/passages: what is said to be real stands in the file, at that line."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

import chainrule
from chainrule.serving.app import make_app
from chainrule.serving.game import split_passage
from tests.serving.toys import LINES, toy_service


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("text") / "cows.txt"
    path.write_text("\n".join(LINES))
    return path


@pytest.fixture(scope="module")
def client(text: Path) -> Iterator[TestClient]:
    paths = []
    for name, tokenizer in (("words", "words"), ("pairs", "bpe")):
        path = text.parent / name
        chainrule.train(text, model="ngram", order=2, tokenizer=tokenizer, path=path)
        paths.append(path)
    chainrule.train(text, model="ngram", order=2, path=text.parent / "all", validation_fraction=0.0)
    with TestClient(make_app(toy_service([*paths, text.parent / "all"])), base_url="http://localhost") as found:
        yield found


@pytest.mark.parametrize("model", ["words", "pairs", "all"])
@pytest.mark.parametrize("seed", range(5))
def test_a_passage_stands_in_its_file_at_its_line(client, text, model, seed):
    found = client.get("/passages", params={"model": model, "seed": seed, "characters": 24}).json()
    assert found["path"] == str(text)
    whole = text.read_text()
    passage = found["prompt"] + found["continuation"]
    lines = whole.splitlines(keepends=True)
    assert "".join(lines[found["line"] - 1 :]).startswith(passage)
    assert found["split"] == ("train" if model == "all" else "validation")
    assert 8 <= len(found["prompt"]) <= 24
    assert 8 <= len(found["continuation"]) <= 24


def test_the_same_seed_gives_the_same_passage_and_others_others(client):
    answers = [client.get("/passages", params={"seed": seed}).json() for seed in (3, 3, 4, 5, 6)]
    assert answers[0] == answers[1]
    assert len({each["line"] for each in answers}) > 2


def test_texts_are_cut_before_spaces():
    assert split_passage("to be or not to be", 6) == ("to be", " or")
    assert split_passage("to be or not to be", 7) == ("to be", " or not"[:3] + " not")
    assert split_passage("abcdefgh", 3) == ("abc", "def")
    assert split_passage("ab", 100) == ("a", "b")
    assert split_passage("", 5) == ("", "")


def test_of_a_long_document_a_later_part_has_its_own_line(tmp_path):
    text = tmp_path / "long.txt"
    text.write_text("\n".join(f"word{i} stands in line number {i + 1} of the file" for i in range(4000)))
    run = chainrule.train(
        text, model="ngram", order=2, tokenizer="words", unit="file", validation_fraction=0.0, path=tmp_path / "long"
    )
    lines = text.read_text().splitlines(keepends=True)
    with TestClient(make_app(toy_service([run.path])), base_url="http://localhost") as client:
        found = [client.get("/passages", params={"seed": seed}).json() for seed in range(6)]
    assert len({each["line"] for each in found}) == 6
    for each in found:
        rest = "".join(lines[each["line"] - 1 : each["line"] + 20])
        assert each["prompt"] + each["continuation"] in rest
        begin = rest.index(each["prompt"] + each["continuation"])
        assert begin < len(lines[each["line"] - 1])


def test_a_run_without_text_says_so(text, tmp_path):
    path = tmp_path / "bare"
    shutil.copytree(text.parent / "words", path)
    shutil.rmtree(path / "tokens")
    manifest = json.loads((path / "manifest.json").read_text())
    kept = {name: entry for name, entry in manifest.items() if not name.startswith("tokens/")}
    (path / "manifest.json").write_text(json.dumps(kept))
    with TestClient(make_app(toy_service([path])), base_url="http://localhost") as client:
        answer = client.get("/passages")
    assert answer.status_code == 404
    assert answer.json()["error"]["message"] == "'bare' has no text of its own to take passages from"


def test_what_is_wrong_gets_a_sentence(client):
    for name, value in (("seed", "-1"), ("seed", "x"), ("characters", "7"), ("characters", "1001")):
        answer = client.get("/passages", params={name: value})
        assert answer.status_code == 400
        assert f"'{name}'" in answer.json()["error"]["message"]
    assert client.get("/passages", params={"model": "nobody"}).status_code == 404
