"""The commands of a chat, each as a person would type it."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from chainrule.cli.chat_commands import COMMANDS, OTHER_NAMES, ChatCommands, ExitChat
from chainrule.errors import UserError
from chainrule.generation.chat_file import ChatFiles
from chainrule.generation.chat_history import PartialMessage
from chainrule.generation.chat_session import ChatSession
from chainrule.generation.settings import OF_ANSWERS, Sampling
from chainrule.text.chat import Message
from tests.generation.chats import chat_tokenizer, talkative

Printed = Callable[[], str]


@pytest.fixture
def commands() -> ChatCommands:
    sampling = Sampling(seed=1, max_tokens=6)
    session = ChatSession(talkative(chat_tokenizer()), chat_tokenizer(), sampling)
    return ChatCommands(session, ChatFiles())


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    """What was printed since the last call, remarks among it, as one line."""
    return lambda: " ".join("".join(capsys.readouterr()).split())


def ask(commands: ChatCommands, *questions: str) -> list[Message]:
    for question in questions:
        "".join(commands.session.ask(question))
    return list(commands.session.history.messages)


def test_an_unknown_command_is_told_with_the_nearest_one(commands: ChatCommands):
    with pytest.raises(UserError) as error:
        commands.run("/udno")
    assert str(error.value) == "unknown command '/udno'; did you mean '/undo'? (/help lists the commands)"
    with pytest.raises(UserError, match=r"^unknown command '/usr/bin' \(/help"):
        commands.run("/usr/bin is what?")
    assert commands.session.history.messages == []


def test_the_help_names_every_command_in_80_columns(commands: ChatCommands, capsys: pytest.CaptureFixture[str]):
    commands.run("/help")
    out = capsys.readouterr().out
    assert all(f"\n{name}" in f"\n{out}" for name in COMMANDS) and '"""' in out and "Ctrl-C" in out
    assert max(map(len, out.splitlines())) <= 80
    assert set(OTHER_NAMES.values()) <= COMMANDS.keys()


@pytest.mark.parametrize("line", ["/exit", "/bye", "/quit"])
def test_exit_has_the_names_that_people_try(commands: ChatCommands, line: str):
    with pytest.raises(ExitChat):
        commands.run(line)


def test_undo_says_what_it_took_back(commands: ChatCommands, printed: Printed):
    kept = ask(commands, "the cat")
    ask(commands, "the \x1b[31mmat\nis red")
    commands.run("/undo")
    assert printed() == r"took back: the \x1b[31mmat is red"
    assert commands.session.history.messages == kept


def test_edit_takes_a_new_question_or_lets_the_old_one_be_changed(commands: ChatCommands):
    ask(commands, "the cat")
    answer = commands.run("/edit the dog")
    assert answer is not None
    "".join(answer)
    assert commands.session.history.messages[0].text == "the dog"
    with pytest.raises(UserError, match="type the new question after the command: /edit NEW TEXT"):
        commands.run("/edit")
    editing = ChatCommands(commands.session, commands.files, lambda line: f"{line}'s bone")
    answer = editing.run("/edit")
    assert answer is not None
    "".join(answer)
    assert [each.text for each in commands.session.history.messages[::2]] == ["the dog's bone"]
    assert ChatCommands(commands.session, commands.files, lambda line: " ").run("/edit") is None


def test_edit_and_retry_need_a_question(commands: ChatCommands):
    for line in ("/edit x", "/retry"):
        with pytest.raises(UserError, match="nothing has been asked yet; type a question first"):
            "".join(commands.run(line) or ())


def test_retry_at_temperature_zero_says_that_it_is_in_vain(commands: ChatCommands):
    commands.session.sampling = replace(commands.session.sampling, temperature=0.0)
    before = ask(commands, "the cat")
    with pytest.raises(UserError, match="at temperature 0 every answer is the same; /set temperature=0.8 first"):
        commands.run("/retry")
    assert commands.session.history.messages == before
    commands.run("/set temperature=0.8")
    assert "".join(commands.run("/retry") or ()) == commands.session.history.messages[-1].text


def test_set_changes_how_answers_are_drawn(commands: ChatCommands, printed: Printed):
    commands.run("/set temperature=0.2 top-k=5")
    assert printed() == "temperature is 0.2, top_k is 5"
    commands.run("/set max_tokens = 7")
    commands.run("/set stop=the end")
    sampling = commands.session.sampling
    assert (sampling.temperature, sampling.top_k, sampling.max_tokens, sampling.stop) == (0.2, 5, 7, ("the end",))
    commands.run("/set")
    assert 'stop "the end" seed 1' in printed()
    commands.run(r'/set stop="\n" seed=none')
    assert (commands.session.sampling.stop, commands.session.sampling.seed) == (("\n",), None)
    commands.run("/set stop=none")
    assert commands.session.sampling.stop == ()


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("/set temprature=1", "unknown setting 'temprature'; did you mean 'temperature'? (/set lists the settings)"),
        ("/set samples=3", "unknown setting 'samples' (/set lists the settings)"),
        ("/set temperature=hot", "temperature in /set must be of type float, got 'hot'"),
        ("/set top_p=2", "top_p must be"),
        ("/set temperature 1", "a setting is given as name=value, got 'temperature 1'"),
    ],
)
def test_a_wrong_setting_changes_nothing(commands: ChatCommands, line: str, sentence: str):
    before = commands.session.sampling
    with pytest.raises(UserError) as error:
        commands.run(line)
    assert str(error.value).startswith(sentence)
    assert commands.session.sampling == before


def test_settings_are_those_of_one_answer():
    assert {"temperature", "top_p", "top_k", "max_tokens", "seed", "stop"} < set(OF_ANSWERS)
    assert not {"samples", "alternatives", "truncate", "first_sample"} & set(OF_ANSWERS)


def test_the_system_message_is_shown_changed_and_removed(commands: ChatCommands, printed: Printed):
    commands.run("/system")
    assert printed() == "system Be brief. (the model's own)"
    commands.run("/system Be kind, and slow.")
    assert commands.session.history.system == "Be kind, and slow."
    printed()
    commands.run("/system")
    assert printed() == "system Be kind, and slow."
    commands.run('/system ""')
    assert commands.session.history.system is None


def test_what_was_said_is_shown_and_cannot_steer_the_terminal(commands: ChatCommands, printed: Printed):
    commands.run("/history")
    assert printed() == "nothing has been said yet"
    history = commands.session.history
    history.answered([], "Hi \x1b[2J", PartialMessage("assistant", "Hel", "stopped"))
    history.refused(history.messages, "Why?")
    for line in ("/history", "/show"):
        commands.run(line)
        assert printed() == r"user Hi \x1b[2J assistant Hel (stopped) user Why? (not answered; /retry asks it again)"


def test_a_conversation_is_saved_cleared_and_loaded(commands: ChatCommands, printed: Printed, tmp_path: Path):
    path = tmp_path / "my chats 2"
    with pytest.raises(UserError, match="nothing has been said yet that could be saved"):
        commands.run(f"/save {path}")
    said = ask(commands, "the cat", "the mat")
    commands.run(f"/save {path}")
    assert printed() == f"saved as conversation 1 of 1 in {path}"
    commands.run("/clear")
    assert commands.session.history.messages == []
    other = ask(commands, "the dog")
    commands.run(f"/save {path}")
    printed()
    commands.run(f"/load {path} 1")
    assert printed() == f"loaded conversation 1 of 2 in {path}: 4 messages"
    assert [each.text for each in commands.session.history.messages] == [each.text for each in said]
    commands.run(f"/load {path}")
    assert [each.text for each in commands.session.history.messages] == [each.text for each in other]
    assert [len(json.loads(line)["messages"]) for line in path.read_text().splitlines()] == [4, 2]
    for line in ("/save", "/load"):
        with pytest.raises(UserError, match=f"name a file: {line} chats.jsonl"):
            commands.run(line)
