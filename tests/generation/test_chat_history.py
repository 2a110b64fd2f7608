"""What was said is taken back, asked again and loaded, and nothing of it is lost on the way."""

import pytest

from chainrule.errors import UserError
from chainrule.generation.chat_history import ChatHistory, PartialMessage
from chainrule.text.chat import Message

HI = [Message("user", "Hi"), Message("assistant", "Hello!")]
SEA = [Message("user", "What is the sea?"), Message("assistant", "Water.")]


def told(*pairs: list[Message], system: str | None = None) -> ChatHistory:
    return ChatHistory(system, [message for pair in pairs for message in pair])


def test_undo_takes_back_the_last_exchange_and_no_more():
    history = told(HI, SEA, system="Be brief.")
    assert history.undo() == "What is the sea?"
    assert history.conversation == [Message("system", "Be brief."), *HI]
    assert history.undo() == "Hi"
    with pytest.raises(UserError, match="nothing to take back"):
        history.undo()
    assert history.system == "Be brief."


def test_the_last_question_is_split_from_what_was_said_before_it():
    assert told(HI, SEA).split() == (HI, "What is the sea?")
    with pytest.raises(UserError, match="nothing has been asked yet"):
        told().split()


def test_a_refused_question_waits_while_room_is_made_for_it():
    history = told(HI, SEA)
    history.refused(history.messages, "And the sky?")
    assert history.messages == [*HI, *SEA]
    assert history.conversation == [*HI, *SEA, Message("user", "And the sky?")]
    history.undo()
    assert history.split() == (HI, "And the sky?")
    history.answered(*history.split(), Message("assistant", "Air."))
    assert history.conversation == [*HI, Message("user", "And the sky?"), Message("assistant", "Air.")]
    assert history.unanswered is None


def test_a_refused_question_that_is_all_there_is_can_be_taken_back():
    history = told()
    history.refused([], "How long may this be?")
    assert history.undo() == "How long may this be?"
    assert history.conversation == []


def test_a_refused_edit_leaves_the_question_that_it_was_to_replace():
    history = told(HI, SEA)
    before, _ = history.split()
    history.refused(before, "a longer question")
    assert history.conversation == [*HI, *SEA]
    assert history.split() == (HI, "a longer question")


def test_a_conversation_that_is_loaded_begins_with_its_system_and_may_end_with_a_question():
    history = told(HI)
    history.load([Message("system", "Be kind."), *SEA, Message("user", "Why?")])
    assert (history.system, history.messages, history.unanswered) == ("Be kind.", SEA, "Why?")
    assert history.split() == (SEA, "Why?")
    history.load(HI)
    assert (history.system, history.messages, history.unanswered) == (None, HI, None)


def test_the_model_reads_all_that_was_said_before_a_question():
    history = told(HI, system="Be brief.")
    assert history.before(history.messages, "Why?") == [Message("system", "Be brief."), *HI, Message("user", "Why?")]


def test_a_stopped_answer_is_marked():
    history = told(HI)
    history.answered(HI, "Count", PartialMessage("assistant", "1, 2, ", "stopped"))
    assert history.messages[-1].text == "1, 2, " and history.messages[-1] != Message("assistant", "1, 2, ")


def test_clear_keeps_the_system_message():
    history = told(HI, system="Be brief.")
    history.refused(HI, "Why?")
    history.clear()
    assert history.conversation == [Message("system", "Be brief.")] and history.unanswered is None
