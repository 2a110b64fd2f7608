"""Conversations come out of every form as they were said, and what does not fit is refused or counted by its line."""

import csv
import gzip
import io
import json
from pathlib import Path

import pytest

from chainrule.data import conversations
from chainrule.data.conversations import Conversations, read_conversations
from chainrule.data.settings import Reading
from chainrule.errors import UserError
from tests.shared_data import FOLDER, requires

FIRST = [("user", "Who are you?"), ("assistant", 'I am a bot,\nand I like "quotes".')]
SECOND = [
    ("system", "Be brief."),
    ("user", "1 + 1?"),
    ("assistant", "2"),
    ("user", "Größer?"),
    ("assistant", "3 – no?"),
]
TALKS = [FIRST, SECOND]
SHORT = [FIRST, [("user", "1 + 1?"), ("assistant", "2")]]  # what question and answer can hold


def write(path: Path, text: str) -> str:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return str(path)


def said(found: Conversations) -> list[list[tuple[str, str]]]:
    return [[(each.role, each.text) for each in conversation.messages] for conversation in found.all]


def openai(talk: list[tuple[str, str]]) -> dict[str, object]:
    return {"messages": [{"role": role, "content": text} for role, text in talk]}


def parts(talk: list[tuple[str, str]]) -> dict[str, object]:
    """With the newest names: a list of parts, and the developer for the system."""
    names = {"system": "developer"}
    split = [(names.get(role, role), (text[:3], text[3:])) for role, text in talk]
    return {
        "messages": [
            {"role": role, "content": [{"type": "text", "text": each} for each in both]} for role, both in split
        ]
    }


def sharegpt(talk: list[tuple[str, str]]) -> dict[str, object]:
    names = {"user": "human", "assistant": "gpt", "system": "system"}
    return {"id": "7", "conversations": [{"from": names[role], "value": text} for role, text in talk]}


def sharegpt_with_system(talk: list[tuple[str, str]]) -> dict[str, object]:
    system = "".join(text for role, text in talk if role == "system")
    return {**sharegpt([each for each in talk if each[0] != "system"]), "system": system}


def trl(talk: list[tuple[str, str]]) -> dict[str, object]:
    """Prompts and completions that are messages."""
    messages = openai(talk)["messages"]
    return {"prompt": messages[:-1], "completion": messages[-1:]}  # type: ignore[index]


@pytest.mark.parametrize("form", [openai, parts, sharegpt, sharegpt_with_system, trl], ids=lambda form: form.__name__)
@pytest.mark.parametrize("name", ["chats.jsonl", "chats.json", "chats.jsonl.gz", "chats"])
@pytest.mark.parametrize("layout", ["lines", "array", "indented", "one after the other"])
def test_every_form_of_json(tmp_path: Path, form, name: str, layout: str):
    records = [form(talk) for talk in TALKS]
    texts = {
        "lines": "".join(json.dumps(each) + "\n\n" for each in records),
        "array": json.dumps(records, ensure_ascii=False),
        "indented": json.dumps(records, indent=2),
        "one after the other": " ".join(json.dumps(each, indent=1) for each in records),
    }
    found = read_conversations([write(tmp_path / name, texts[layout])])
    assert said(found) == TALKS and found.notes == []


def test_lists_of_messages_without_an_object_around_them(tmp_path: Path):
    lists = [openai(talk)["messages"] for talk in TALKS]
    lines = write(tmp_path / "lines.jsonl", "".join(json.dumps(each) + "\n" for each in lists))
    array = write(tmp_path / "array.json", json.dumps(lists))
    alone = write(tmp_path / "alone.json", json.dumps(lists[1]))
    assert said(read_conversations([lines])) == said(read_conversations([array])) == TALKS
    assert said(read_conversations([alone])) == [SECOND]
    assert said(read_conversations([lines, alone])) == [*TALKS, SECOND]


@pytest.mark.parametrize(
    "names", ["prompt completion", "prompt response", "question answer", "Question Answer", "instruction output"]
)
@pytest.mark.parametrize("ending", ["jsonl", "csv", "tsv"])
def test_questions_and_answers(tmp_path: Path, names: str, ending: str):
    rows = [[talk[-2][1], talk[-1][1]] for talk in SHORT]
    if ending == "tsv":
        rows = [[cell.replace("\n", " ") for cell in row] for row in rows]
    path = tmp_path / f"pairs.{ending}"
    if ending == "jsonl":
        text = "".join(json.dumps(dict(zip(names.split(), row, strict=True))) + "\n" for row in rows)
    elif ending == "csv":
        text = table([names.split(), *rows])
    else:
        text = "".join("\t".join(row) + "\n" for row in [names.split(), *rows])
    assert [[text for _, text in talk] for talk in said(read_conversations([write(path, text)]))] == rows


def table(rows: list[list[str]], delimiter: str = ",") -> str:
    file = io.StringIO()
    csv.writer(file, delimiter=delimiter).writerows(rows)
    return file.getvalue()


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_tables_without_a_header_and_with_more_columns(tmp_path: Path, delimiter: str):
    rows = [[talk[-2][1], talk[-1][1]] for talk in SHORT]
    plain = write(tmp_path / "plain.csv", table(rows, delimiter))
    wide = [["id", "answer", "question"], *([str(i), row[1], row[0]] for i, row in enumerate(rows))]
    for path in (plain, write(tmp_path / "wide.csv", table(wide, delimiter))):
        assert said(read_conversations([path])) == SHORT
    assert said(read_conversations([plain], Reading(delimiter=delimiter))) == SHORT


def test_alpaca_with_and_without_an_input(tmp_path: Path):
    records = [
        {"instruction": "Add.", "input": "1 and 1", "output": "2"},
        {"instruction": "Greet.", "input": "", "output": "Hello!", "system": "Be brief."},
    ]
    expected = [
        [("user", "Add.\n\n1 and 1"), ("assistant", "2")],
        [("system", "Be brief."), ("user", "Greet."), ("assistant", "Hello!")],
    ]
    assert said(read_conversations([write(tmp_path / "a.json", json.dumps(records))])) == expected
    rows = [["instruction", "input", "output"], ["Add.", "1 and 1", "2"], ["Greet.", "", "Hello!"]]
    dolly = [["instruction", "context", "response"], *rows[1:]]
    for each in (rows, dolly):
        assert said(read_conversations([write(tmp_path / "a.csv", table(each))])) == [expected[0], expected[1][1:]]


LOGS = {
    "rules": "User: Who are you?\nAssistant: I am\na bot.\n\nReally.\n---\nUser: Hi\nAssistant: Yo\n",
    "blank lines": "User: Who are you?\nAssistant: I am\na bot.\n\nReally.\n\nUser: Hi\nAssistant: Yo\n",
    "two blank lines": "User: Who are you?\n\nAssistant: I am\na bot.\n\nReally.\n\n\nUser: Hi\n\nAssistant: Yo",
    "other names": "Human: Who are you?\nAI: I am\na bot.\n\nReally.\n\nQ: Hi\nA: Yo\n",
    "names in bold": "**User:** Who are you?\n**Bot:** I am\na bot.\n\nReally.\n\n***\n\n**User:** Hi\n**Bot:** Yo\n",
    "in capitals": "CUSTOMER: Who are you?\r\nAGENT: I am\r\na bot.\r\n\r\nReally.\r\n\r\nCUSTOMER: Hi\r\nAGENT: Yo",
    "on lines of their own": "User:\nWho are you?\nAssistant:\nI am\na bot.\n\nReally.\n\nUser:\nHi\nAssistant:\nYo\n",
}


@pytest.mark.parametrize("log", LOGS)
def test_logs(tmp_path: Path, log: str):
    found = read_conversations([write(tmp_path / "chats.txt", LOGS[log])])
    answer = "I am\na bot.\n\nReally."
    assert said(found) == [[("user", "Who are you?"), ("assistant", answer)], [("user", "Hi"), ("assistant", "Yo")]]
    second = 1 + next(n for n, line in enumerate(LOGS[log].splitlines()) if "Hi" in line)
    assert found.all[0].place == f"{tmp_path}/chats.txt:1"
    assert int(found.all[1].place.rpartition(":")[2]) in (second, second - 1)


def test_turns_of_a_log_that_stand_apart_are_one_conversation(tmp_path: Path):
    text = "System: Be brief.\n\nUser: Hi\n\nAssistant: Yo\n\nUser: See http://a.b\nNote: later\n\n"
    text += "Assistant: Bye\n---\n* fin\n"
    [talk] = said(read_conversations([write(tmp_path / "chat.log", text)]))
    assert [role for role, _ in talk] == ["system", "user", "assistant", "user", "assistant"]
    assert talk[3][1] == "See http://a.b\nNote: later" and talk[4][1] == "Bye\n---\n* fin"


MIXED = [
    [],
    [("user", "a"), ("assistant", "b"), ("user", "c")],
    [("assistant", "Welcome!"), ("user", "a"), ("assistant", "b")],
    [("user", "a"), ("user", "b"), ("assistant", "c")],
    [("user", "a")],
    [("user", "a"), ("assistant", " \n")],
    [("user", "a"), ("assistant", "b"), ("system", "c"), ("user", "d"), ("assistant", "e")],
    [("user", "a"), ("tool", "b"), ("assistant", "c")],
    [("user", "a"), ("user", "b"), ("assistant", "c")],
    [("system", "a")],
]


def test_what_cannot_be_learned_is_left_out_and_counted(tmp_path: Path):
    name = write(tmp_path / "chats.jsonl", "".join(json.dumps(openai(talk)) + "\n" for talk in MIXED))
    with_picture = [{"role": "user", "content": [{"type": "image_url"}]}, {"role": "assistant", "content": "A cat."}]
    picture = write(tmp_path / "picture.json", json.dumps({"messages": with_picture}))
    found = read_conversations([name, picture])
    assert said(found) == [[("user", "a"), ("assistant", "b")]] * 2
    assert found.notes == [
        f"1 conversation without any message left out, the first at {name}:1",
        f"1 last message of a user, which nobody answers, left out, the first at {name}:2",
        f"1 first message of an assistant, before any question, left out, the first at {name}:3",
        f"2 conversations in which somebody speaks twice in a row left out, the first at {name}:4",
        f"2 conversations in which no assistant answers a user left out, the first at {name}:5",
        f"1 conversation with an empty message left out, the first at {name}:6",
        f"1 conversation with a system message that does not come first left out, the first at {name}:7",
        f"1 conversation with calls of tools left out, the first at {name}:8",
        f"1 conversation with pictures or other parts that are not text left out, the first at {picture}:1",
    ]


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        (
            "a.jsonl",
            '{"messages": []}\n',
            "has no conversation to learn from: 1 conversation without any message left out",
        ),
        ("a.jsonl", "", "has no conversation to learn from; write one object of JSON a line"),
        (
            "a.jsonl",
            '{"messages": [{"role": "asistant", "content": "a"}]}',
            "a.jsonl:1, message 1, has the unknown role 'asistant'; did you mean 'assistant'?",
        ),
        (
            "a.jsonl",
            '\n{"messages": [{"role": "Kunde", "content": "a"}]}',
            "a.jsonl:2, message 1, has the unknown role 'Kunde' .roles are system, developer, user",
        ),
        ("a.jsonl", '{"messages": [{"content": "a"}]}', "a.jsonl:1, message 1, does not say who speaks"),
        (
            "a.jsonl",
            '{"messages": [{"role": "user", "content": 3}]}',
            "a.jsonl:1, message 1, has 3 where a text is needed",
        ),
        ("a.jsonl", '{"messages": "Hello"}', "a.jsonl:1 has 'Hello' where a list of messages is needed"),
        (
            "a.jsonl",
            '{"mesages": []}',
            "a.jsonl:1 is no conversation: its fields are 'mesages'; did you mean 'messages'?",
        ),
        ("a.jsonl", '{"text": "a"}', "a.jsonl:1 is no conversation: its fields are 'text'; write an object such as"),
        (
            "a.jsonl",
            '{"prompt": "a", "chosen": "b", "rejected": "c"}',
            "has a chosen and a rejected answer, which are for learning preferences",
        ),
        (
            "a.jsonl",
            '{"prompt": "a", "answer": "b"}\n{"prompt": "a",\n',
            "a.jsonl:3 is not JSON .Expecting property name",
        ),
        ("a.jsonl", '{"prompt": "a", "answer": "b\n"}', "a.jsonl:1 is not JSON .Invalid control character"),
        ("a.json", '[{"prompt": "a", "answer": "b"}\n{}]', "a.json:2 is not JSON .a comma or ] is missing"),
        ("a.jsonl", '"Hello"\n', "a.jsonl:1 is no conversation but 'Hello'"),
        ("a.jsonl", '{"prompt": "a \\ud800", "answer": "b"}', "a.jsonl:1 has half a surrogate pair"),
        ("a.csv", "a,b,c\nd,e,f\n", "has 3 columns, and the first row names none of prompt, instruction"),
        ("a.csv", "a,b\nc\n", "a.csv:2 has 1 columns, but the first row has 2"),
        (
            "a.txt",
            "Usr: hello\n",
            "a.txt:1 is no message of a conversation: it begins with 'Usr:'; did you mean 'User'?",
        ),
        (
            "a.txt",
            "\nOnce upon a time\n",
            "a.txt:2 is no message of a conversation: it begins with 'Once upon a time' .messages begin with User:",
        ),
        ("a.parquet", "PAR1", "is not a file of conversations; write them as .jsonl, .csv or .txt"),
    ],
)
def test_what_is_no_conversation_is_refused_by_its_line(tmp_path: Path, name: str, text: str, sentence: str):
    with pytest.raises(UserError, match=sentence):
        read_conversations([write(tmp_path / name, text)])


def test_what_is_not_text_is_refused_by_its_line(tmp_path: Path):
    (tmp_path / "a.jsonl").write_bytes('{"prompt": "ä", "answer": "b"}\n'.encode() + b'{"prompt": "\xff\xfe"}\n')
    with pytest.raises(UserError, match=r"a.jsonl' is not UTF-8 at byte 44 \(line 2\)"):
        read_conversations([str(tmp_path / "a.jsonl")])
    with pytest.raises(UserError, match="'nothing.jsonl' not found"):
        read_conversations(["nothing.jsonl"])


def test_windows_text_is_recognised_and_noted(tmp_path: Path):
    (tmp_path / "a.txt").write_bytes("User: Größer?\r\nAssistant: “Nein”, café.\r\n".encode("cp1252"))
    found = read_conversations([str(tmp_path / "a.txt")])
    assert said(found) == [[("user", "Größer?"), ("assistant", "“Nein”, café.")]]
    assert found.notes == [f"{tmp_path}/a.txt: 5 characters read as Windows-1252, since the file is not UTF-8"]


def test_a_message_of_many_megabytes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(conversations, "MOST_BYTES", 100_000)
    name = write(tmp_path / "a.jsonl", json.dumps({"prompt": "a", "answer": "b" * 2_300_000}) + "\n")
    with pytest.raises(UserError, match=r"a.jsonl:1 has a message of 2.3 MB, and at most 0.1 MB are read as one"):
        read_conversations([name])


@requires("conversations")
def test_real_conversations():
    path = FOLDER / "conversations" / "coffee.validation.jsonl"
    found = read_conversations([str(path)])
    assert len(found.all) == 382 - sum(int(note.split()[0]) for note in found.notes if " conversation" in note)
    assert all(each.messages[-1].role == "assistant" for each in found.all)
    with path.open(encoding="utf-8") as lines:
        first = json.loads(next(lines))["messages"]
    assert said(found)[0] == [(each["role"], each["content"]) for each in first]
