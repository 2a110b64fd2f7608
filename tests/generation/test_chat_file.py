"""Conversations in files: OpenAI's messages, a line each, where nothing that was there is lost."""

import json
from pathlib import Path

import pytest

from chainrule.errors import UserError
from chainrule.generation.chat_file import ChatFiles, check_chat_file, load_chat, save_chat
from chainrule.generation.chat_history import PartialMessage
from chainrule.text.chat import Message
from tests.shared_data import FOLDER, requires

HI = [
    Message("system", "Be brief."),
    Message("user", 'Hi, "you"\n\nthere'),
    Message("assistant", "Hello 日本 \u2028 <|im_end|>"),
]
SEA = [Message("user", "What is the sea?"), Message("assistant", "Water.")]


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def test_what_is_loaded_is_what_was_saved(tmp_path: Path):
    path = tmp_path / "chats.jsonl"
    assert save_chat(path, HI).number == 1
    assert save_chat(path, SEA).number == 2
    assert [load_chat(path, number)[1] for number in (1, 2)] == [HI, SEA]
    assert load_chat(path)[1] == SEA
    assert [json.loads(line) for line in lines(path)] == [
        {"messages": [{"role": each.role, "content": each.text} for each in chat]} for chat in (HI, SEA)
    ]


def test_an_answer_that_did_not_end_has_no_weight(tmp_path: Path):
    path = tmp_path / "chats.jsonl"
    save_chat(path, [SEA[0], PartialMessage("assistant", "Wat", "stopped")])
    assert json.loads(lines(path)[0])["messages"][1] == {"role": "assistant", "content": "Wat", "weight": 0}
    assert load_chat(path)[1][1] == PartialMessage("assistant", "Wat", "unfinished")


def test_saving_again_replaces_the_conversation_and_leaves_the_others(tmp_path: Path):
    path = tmp_path / "chats.jsonl"
    save_chat(path, HI)
    files = ChatFiles()
    files.save(path, SEA[:1])
    save_chat(path, HI)
    saved = files.save(path, SEA)
    assert (saved.number, saved.count) == (2, 3)
    assert [load_chat(path, number)[1] for number in (1, 2, 3)] == [HI, SEA, HI]
    files.begin()
    assert files.save(path, SEA).number == 4


def test_a_conversation_that_was_loaded_goes_on_in_its_line(tmp_path: Path):
    path = tmp_path / "chats.jsonl"
    for each in (SEA, HI):
        save_chat(path, each)
    files = ChatFiles()
    messages = files.load(path, 1)[1]
    files.save(path, [*messages, *SEA])
    assert [load_chat(path, number)[1] for number in (1, 2)] == [[*SEA, *SEA], HI]
    assert files.save(tmp_path / "other.jsonl", messages).count == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("The sea is wide.\n", "conversation 1 of '{}' is not a JSON object; a conversation a line is expected"),
        ('{"text": "x"}\n', "conversation 1 of '{}' has no list of messages"),
        ('{"messages": []}\n', "conversation 1 of '{}' has no list of messages"),
        ('{"messages": [{"role": "cow", "content": "x"}]}\n', "must be system, user or assistant, got 'cow'"),
        ('{"messages": [{"role": "user", "content": null}]}\n', "the content of message 1 of conversation 1 of"),
        ("\n", "'{}' is empty"),
    ],
)
def test_a_file_of_something_else_is_neither_read_nor_written(tmp_path: Path, text: str, sentence: str):
    path = tmp_path / "poems.txt"
    path.write_text(text)
    with pytest.raises(UserError) as error:
        load_chat(path)
    assert sentence.format(path) in str(error.value)
    if text.strip():
        for attempt in (lambda: save_chat(path, SEA), lambda: check_chat_file(path)):
            with pytest.raises(UserError):
                attempt()
        assert path.read_text() == text


def test_files_that_are_not_there_are_told(tmp_path: Path):
    with pytest.raises(UserError, match="cannot read '.*absent.jsonl': No such file"):
        load_chat(tmp_path / "absent.jsonl")
    with pytest.raises(UserError, match="there is no folder"):
        check_chat_file(tmp_path / "absent" / "chats.jsonl")
    with pytest.raises(UserError, match="cannot write"):
        save_chat(tmp_path / "absent" / "chats.jsonl", SEA)
    save_chat(tmp_path / "chats.jsonl", SEA)
    with pytest.raises(UserError, match="has no conversation 2; they are numbered from 1 to 1"):
        load_chat(tmp_path / "chats.jsonl", 2)


def test_a_link_and_the_mode_of_a_file_stay(tmp_path: Path):
    own, link = tmp_path / "own.jsonl", tmp_path / "link.jsonl"
    save_chat(own, SEA)
    own.chmod(0o600)
    link.symlink_to(own)
    save_chat(link, HI)
    assert link.is_symlink() and own.stat().st_mode & 0o777 == 0o600 and len(lines(own)) == 2
    assert {each.name for each in tmp_path.iterdir()} == {"own.jsonl", "link.jsonl"}


@requires("conversations")
def test_files_of_conversations_from_elsewhere_are_read_and_written_as_they_were(tmp_path: Path):
    for source in sorted((FOLDER / "conversations").glob("*.jsonl")):
        text = source.read_text(encoding="utf-8")
        path = tmp_path / source.name
        path.write_text(text, encoding="utf-8")
        files = ChatFiles()
        saved, messages = files.load(path)
        assert saved.count == len(text.strip().split("\n"))
        files.save(path, messages)
        assert path.read_text(encoding="utf-8").strip() == text.strip()
