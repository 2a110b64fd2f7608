"""A run of conversations is a language model: every command and every route that takes such a run takes it."""

import json
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

import chainrule
from chainrule.runs.folder import Run
from chainrule.serving.app import make_app
from tests.contracts.runs import STEPS, TEXT
from tests.contracts.test_commands import COMMANDS, Case, Command, assert_one_sentence, case  # noqa: F401
from tests.contracts.test_routes import ROUTES, ask
from tests.serving.toys import toy_service
from tests.tasks.chats import colours, talks, write

# What it cannot do: the text that it learned from is not stored as text, and `bigram` has no role tokens.
NOT_DONE = {"mix": "tokenizer", "/passages": "has no text of its own to take passages from"}
CHATTED = ("/v1/chat/completions", "/v1/responses")  # as a conversation, and not as a transcript


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "cows.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture(scope="module")
def run(text: Path) -> Path:
    """Its folder has the name of its architecture, as the checks of all runs want it; and it can be exported."""
    chats = write(text.parent / "chats.jsonl", colours(40))
    path = text.parent / "transformer"
    chainrule.train_dialogue(chats, size="llama-tiny", tokenizer="bpe", validated=4, path=path, **STEPS)
    return path


@pytest.mark.parametrize("name", COMMANDS)
def test_commands(case: Case, name: str):  # noqa: F811
    command: Command = COMMANDS[name]
    result = case(name, *command.arguments)
    if case.run.name in command.done_by and command.check and name not in NOT_DONE:
        assert result[0] == 0, result[2]
        command.check(case, json.loads(result[1]))
    else:
        assert_one_sentence(result)
        assert NOT_DONE.get(name, command.refusal.format(**case.names)) in result[2]


@pytest.mark.parametrize("format", ["huggingface", "gguf", "onnx"])
def test_exports(case: Case, format: str):  # noqa: F811
    code, printed, error = case("export", "{run}", "--to", format)
    assert code == 0, error
    assert Path(printed.strip()).exists()
    if format == "huggingface":
        assert "<|im_start|>" in (Path(printed.strip()) / "chat_template.jinja").read_text(encoding="utf-8")


def test_routes(run: Path):
    loaded = chainrule.load(run)
    with TestClient(make_app(toy_service([run])), base_url="http://localhost") as client:
        for path, route in ROUTES.items():
            answer = ask(client, path, route.asked, run.name)
            if run.name not in route.done_by or path in NOT_DONE:
                assert answer.status_code in (400, 404), (path, answer.text)
                assert NOT_DONE.get(path, "") in answer.text
                continue
            assert answer.status_code == 200, (path, answer.text)
            is_json = answer.headers["content-type"] == "application/json"
            if path not in CHATTED and path != "/detokenize":
                route.check(loaded, answer.json() if is_json else answer.text)


def test_it_is_measured_by_its_answers_and_by_text(case: Case):  # noqa: F811
    kept = case("evaluate", "{run}")
    assert kept[0] == 0 and kept[1].startswith("text     validation\nquality  answers that end by themselves ")
    chats = write(case.run.parent / "new.jsonl", colours(10, seed=5))
    assert case("evaluate", "{run}", str(chats), "--json")[1].count('"unit": "conversation"') == 1
    assert "bits per byte" in case("evaluate", "{run}", "{text}")[1]
    refused = case("evaluate", "{run}", "--documents")
    assert_one_sentence(refused)
    assert "--documents: only for text, and these are conversations" in refused[2]
    fields = write(case.run.parent / "text.jsonl", [])
    fields.write_text('{"body": "the cow eats hay"}\n' * 3)
    assert '"unit": "file"' in case("evaluate", "{run}", str(fields), "--field", "body", "--json")[1]


def test_the_server_answers_as_a_conversation_is_answered(run: Path):
    from chainrule.generation.answers import answer

    loaded = Run(run)
    [question] = [talk[:1] for talk in talks(colours(1))]
    expected = answer(loaded.model, loaded.tokenizer, [question], most_tokens=12)[0]
    asked = {"messages": [{"role": "user", "content": question[0].text}], "max_tokens": 12, "temperature": 0}
    with TestClient(make_app(toy_service([run])), base_url="http://localhost") as client:
        choice = client.post("/v1/chat/completions", json=asked).json()["choices"][0]
        [listed] = client.get("/v1/models").json()["data"]
    assert choice["message"]["content"] == expected.text
    assert (choice["finish_reason"] == "stop") is expected.ended
    assert listed["task"] == "language"  # what can be asked of it
