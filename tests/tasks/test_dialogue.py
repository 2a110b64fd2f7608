"""Dialogue: from conversations in a file to a run that answers, and every piece of it as if it stood alone."""

import json
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch

import chainrule
from chainrule import registry
from chainrule.errors import Stopped, UserError
from chainrule.generation.answers import Answer, answer, compare_answers
from chainrule.models.contract import IGNORE, Batch, cross_entropy
from chainrule.runs.folder import Run
from chainrule.tasks._conversation_rows import ConversationBatches, Rows, cut_at_turns, encode_conversations
from chainrule.tasks._dialogue_figures import ENDED, bytes_per_token, loss_of_rows, measure, questions_of
from chainrule.tasks.base import Material
from chainrule.tasks.dialogue import Settings, Task
from chainrule.text.base import Tokenizer
from chainrule.text.chat import Chat, Message
from chainrule.text.choice import Tokenization
from chainrule.text.rendering import render
from chainrule.text.role_tokens import with_roles
from chainrule.training.callbacks import Callback, Record
from chainrule.training.checkpoint import Checkpoints
from chainrule.training.context import Budget, TrainingContext
from chainrule.training.journal import events
from chainrule.training.learn import learn
from chainrule.training.pipeline import resume, train
from chainrule.training.recipe import Recipe
from chainrule.training.trainer import Trainer
from tests.tasks.chats import BY_HEART, COLOURS, colours, request, talks, write
from tests.text.samples import LINES
from tests.text.samples import train as train_tokenizer
from tests.training.trainings import FAMILIES, assert_same_events, assert_same_tensors

BYTES = with_roles(train_tokenizer("bytes", LINES))


def build(architecture: str) -> Any:
    """With weights that do not begin at zero anywhere."""
    module = registry.find("chainrule.models", architecture, "model")
    config = module.SIZES["tiny"]
    if hasattr(config, "context_length"):
        config = replace(config, context_length=256)
    torch.manual_seed(3)
    model = module.Model(config, BYTES.vocabulary_size, BYTES.eos)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def rows_of(said: Any = BY_HEART, learn_from: str = "assistant") -> Rows:
    return encode_conversations(BYTES, talks(said), learn_from, 256).rows


# What training reads


def test_a_batch_by_hand():
    rows = rows_of([[("user", "a"), ("assistant", "bc")], [("user", "d"), ("assistant", "e")]])
    begin, end = BYTES.special["<|im_start|>"], BYTES.answer_ends[0]
    head = [begin, *b"user\n"], [end, *b"\n", begin, *b"assistant\n"]
    batch = rows.batch([0, 1], BYTES.eos)
    first, second = [*head[0], *b"a", *head[1], *b"bc"], [*head[0], *b"d", *head[1], *b"e"]
    assert batch.inputs.tolist() == [first, [*second, BYTES.eos]]
    prompt = len(first) - 2
    assert batch.targets.tolist() == [
        [*[IGNORE] * (prompt - 1), *b"bc", end],
        [*[IGNORE] * (prompt - 1), *b"e", end, IGNORE],
    ]
    assert (rows.asked, rows.answer_bytes, rows.tokens) == (5, [3, 2], 2 * prompt + 3)


@pytest.mark.parametrize("architecture", FAMILIES)
def test_a_row_among_others_is_as_if_it_stood_alone(architecture: str):
    """Neither padding nor another conversation changes what is predicted; so of the loss of a batch."""
    model, rows = build(architecture), rows_of([*BY_HEART, *colours(5)])
    together = rows.batch(range(len(rows)), BYTES.eos)
    logits = model(together.inputs).detach()
    total = 0.0
    for row in range(len(rows)):
        alone = rows.batch([row], BYTES.eos)
        length = alone.inputs.shape[1]
        expected = model(alone.inputs).detach()
        torch.testing.assert_close(logits[row : row + 1, :length], expected, atol=2e-5, rtol=1e-4)
        total += float(cross_entropy(expected, torch.from_numpy(alone.targets)).total)
    found = model.loss(Batch(together.inputs, together.targets))
    assert (float(found.total.detach()), found.count) == (pytest.approx(total, rel=1e-4), rows.asked)
    assert loss_of_rows(model, rows, BYTES.eos) == pytest.approx(total / rows.asked, rel=1e-4)


def test_batches_depend_on_the_seed_and_the_step_alone():
    rows = rows_of(colours(40))
    one, same, other = (ConversationBatches(rows, BYTES.eos, 300, seed) for seed in (0, 0, 1))
    steps = [7, 0, 3, 7, 20]
    for step in steps:
        np.testing.assert_array_equal(one.batch(step).inputs, same.batch(step).inputs)
    assert any(one.batch(step).inputs.tolist() != other.batch(step).inputs.tolist() for step in range(5))
    assert all(one.batch(step).inputs.size <= 300 for step in range(30))
    per_epoch = round(one.tokens_per_epoch / one.tokens_per_step)
    asked = [one.batch(step).targets for step in range(per_epoch)]
    assert sum(int((each != IGNORE).sum()) for each in asked) == rows.asked
    assert one.epochs(2 * per_epoch) == [2.0]


@pytest.mark.parametrize("architecture", ["lstm", "transformer"])
def test_a_batch_in_pieces_or_by_several_processes_is_the_same_training(architecture: str):
    found = []
    for changes in ({}, {"micro_batches": 3}, {"workers": 2}):
        recipe = Recipe(optimizer="sgd", learning_rate=0.5, steps=4, clip=0.0, **changes)
        batches = ConversationBatches(rows_of(colours(20)), BYTES.eos, 400, 0)
        model = build(architecture)
        Trainer(model, recipe, TrainingContext(batches, Budget(steps=4)), Callback(), None).run()
        found.append(model.state_dict())
    for other in found[1:]:
        for name, tensor in found[0].items():
            torch.testing.assert_close(other[name], tensor, atol=1e-5, rtol=1e-4)


def test_long_conversations_are_cut_between_exchanges():
    turns = [turn for n in "123456" for turn in (("user", f"{n}?" * 5), ("assistant", n * 9))]
    [talk] = talks([[("system", "Hm."), *turns]])
    whole = len(render(BYTES, talk)[0].ids)
    most = whole // 2
    pieces, too_long = cut_at_turns(BYTES, talk, most)
    assert too_long == 0 and len(pieces) > 1
    assert all(piece[0] == talk[0] and piece[1].role == "user" and piece[-1].role == "assistant" for piece in pieces)
    assert [message for piece in pieces for message in piece[1:]] == talk[1:]
    encoded = encode_conversations(BYTES, [talk], "assistant", most)
    assert all(len(ids) <= most for ids in encoded.rows.ids) and len(encoded.rows) == len(pieces)
    assert encoded.rows.asked == render(BYTES, talk)[0].asked  # nothing is asked for twice, and nothing is lost
    assert encoded.notes("train", most) == [f"1 train conversations of more than {most} tokens were cut at turns"]
    last = encode_conversations(BYTES, [talk], "last", most)
    assert len(last.rows) == 1 and last.rows.asked == 10


def test_an_exchange_that_is_too_long_is_left_out_and_counted():
    talk = [
        ("user", "a"),
        ("assistant", "b"),
        ("user", "c" * 90),
        ("assistant", "d"),
        ("user", "e"),
        ("assistant", "f"),
    ]
    [asked] = talks([talk])
    pieces, too_long = cut_at_turns(BYTES, asked, 60)
    assert [[message.text for message in piece] for piece in pieces] == [["a", "b"], ["e", "f"]] and too_long == 1
    encoded = encode_conversations(BYTES, [asked, asked[:4]], "last", 60)
    assert encoded.kept == [0] and encoded.too_long == 2
    assert encoded.notes("", 60)[1] == "2 exchanges of more than 60 tokens were left out (see most_tokens)"


# A run


@pytest.fixture(scope="module")
def by_heart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dialogue")
    chats = write(folder / "chats.jsonl", BY_HEART)
    train(request(chats, folder / "heart", validation=(str(chats),), steps=150))
    return folder / "heart"


def test_three_conversations_are_known_by_heart(by_heart: Path):
    run = Run(by_heart)
    for talk in talks():
        for place, message in enumerate(talk):
            if message.role == "assistant":
                assert answer(run.model, run.tokenizer, [talk[:place]]) == [Answer(message.text, True)]
    questions = questions_of(talks(), 100)
    together = answer(run.model, run.tokenizer, questions)
    assert together == [answer(run.model, run.tokenizer, [each])[0] for each in questions]
    measured = run.trained["validation"]
    assert measured["figures"] == {ENDED: 100.0} and measured["loss"] < 0.1


def test_the_figures_of_a_run_can_be_found_again(by_heart: Path):
    run = Run(by_heart)
    measured, total, count = run.trained["validation"], 0.0, 0
    for talk in talks():
        [row] = render(run.tokenizer, talk)
        targets = np.where(row.is_asked, row.ids, IGNORE)
        loss = cross_entropy(run.model(row.ids[None, :-1]).detach(), torch.from_numpy(targets[None, 1:]))
        total, count = total + float(loss.total), count + loss.count
    said = [message.text for talk in talks() for message in talk if message.role == "assistant"]
    size = sum(len(text.encode()) + 1 for text in said)
    assert (measured["tokens"], measured["documents"], measured["bytes"]) == (count, 3, size)
    assert measured["loss"] == pytest.approx(total / count, rel=1e-3, abs=1e-6)
    assert measured["bits_per_byte"] == pytest.approx(total / np.log(2) / size, rel=1e-3, abs=1e-6)
    assert measured["per"] == "token of the answers, their ends counted"
    again = chainrule.load(by_heart).evaluate_conversations()
    assert again["loss"] == pytest.approx(measured["loss"], rel=1e-4) and again["figures"] == measured["figures"]
    file = by_heart / "tokens" / "validation.jsonl"
    assert chainrule.load(by_heart).evaluate_conversations(file)["loss"] == pytest.approx(measured["loss"], rel=1e-4)


def test_what_was_said_is_in_the_run(by_heart: Path):
    task, run = Task(by_heart), Run(by_heart)
    assert task.held_out == talks()
    assert task.tokenizer.chat == run.tokenizer.chat == Chat("chatml")
    assert task.tokenizer.fingerprint == run.tokenizer.fingerprint
    assert run.task == "dialogue" and run.is_language_model and run.config["data"]["unit"] == "conversation"
    card = (by_heart / "README.md").read_text()
    assert "[I am Max.<|im_end|>]\n<|im_start|>user\nBye!<|im_end|>" in card
    assert f"chainrule chat {by_heart.name}" in card and "answers that end by themselves 100.00" in card


def test_answers_of_two_models_side_by_side(by_heart: Path):
    run = Run(by_heart)
    torch.manual_seed(0)
    untrained = type(run.model)(run.model.config, BYTES.vocabulary_size, BYTES.eos).eval()
    question = [Message("user", "What is 1 + 1?")]
    [found] = compare_answers((untrained, BYTES), (run.model, run.tokenizer), [question], ["2"])
    assert (found.question, found.expected, found.after) == (tuple(question), "2", Answer("2", True))
    assert found.before == answer(untrained, BYTES, [question])[0] != found.after


def test_an_empty_answer_is_none(by_heart: Path):
    """As a model that has learned nothing but where answers end would give."""
    run = Run(by_heart)
    rows, end = rows_of(), run.tokenizer.answer_ends[0]

    class Ending(type(run.model)):  # type: ignore[misc]
        def output(self, hidden: torch.Tensor) -> torch.Tensor:
            return super().output(hidden) + 100.0 * (torch.arange(self.vocabulary_size) == end)

    model = Ending(run.model.config, run.model.vocabulary_size, run.model.eos).eval()
    assert answer(model, run.tokenizer, [talks()[2][:1]]) == [Answer("", True)]
    assert measure(model, run.tokenizer, rows, None, questions_of(talks(), 9))["figures"] == {ENDED: 0.0}


def test_an_answer_that_does_not_end_is_told(by_heart: Path):
    run = Run(by_heart)
    assert answer(run.model, run.tokenizer, [talks()[0][:2]], most_tokens=3) == [Answer("I a", False)]


def test_equal_conversations_never_part(tmp_path: Path):
    said = colours(60)
    train(request(write(tmp_path / "chats.jsonl", said * 2), tmp_path / "run", steps=2, validated=4))
    held_out = {tuple(talk) for talk in map(tuple, Task(tmp_path / "run").held_out)}
    parts = Run(tmp_path / "run").config["data"]["text"]
    assert 0 < parts["validation"]["documents"] < 60
    all_of_them = [tuple(talk) for talk in talks(said * 2)]
    assert parts["validation"]["documents"] == sum(talk in held_out for talk in all_of_them)
    assert parts["train"]["documents"] == sum(talk not in held_out for talk in all_of_them)


@pytest.mark.parametrize("learn_from", ["assistant", "last", "all"])
def test_what_is_learned_from_is_a_setting(tmp_path: Path, learn_from: str):
    chats = write(tmp_path / "chats.jsonl", BY_HEART)
    train(request(chats, tmp_path / "run", steps=2, learn_from=learn_from, validation=(str(chats),), validated=2))
    task = Task(tmp_path / "run")
    expected = rows_of(learn_from=learn_from)
    assert [each.tolist() for each in task.rows.is_asked] == [each.tolist() for each in expected.is_asked]
    assert task.held_out_rows.asked == rows_of().asked  # the figures are of the answers, whatever was learned
    assert task.counts.tolist() == expected.counts(BYTES.vocabulary_size).tolist()


@pytest.mark.parametrize("kind", ["characters", "words", "bpe"])
@pytest.mark.parametrize("model", ["lstm", "attention"])
def test_other_models_of_other_tokens(tmp_path: Path, kind: str, model: str):
    chats = write(tmp_path / "chats.jsonl", colours(40))
    steps = {"steps": 5, "validated": 3, "model": model, "tokenizer": kind}
    run = train(request(chats, tmp_path / "run", **steps))
    assert run.config["architecture"] == model and run.config["tokenizer"]["chat"]["style"] == "chatml"
    opened = Run(run.path)
    assert opened.model.vocabulary_size == opened.tokenizer.vocabulary_size
    assert isinstance(chainrule.load(run.path).sample("What", max_tokens=3), str)


def test_longer_conversations_than_a_model_would_read_make_it_read_more(tmp_path: Path):
    long = [[("user", "a" * 300), ("assistant", "b" * 300)]]
    chats = write(tmp_path / "chats.jsonl", long * 2 + colours(20))
    run = train(request(chats, tmp_path / "run", steps=1, model="attention", validated=1))
    assert Run(run.path).model.context_length == 620
    with pytest.raises(UserError, match="every exchange of the train part has more than 10 tokens; raise most_tokens"):
        train(request(chats, tmp_path / "other", steps=1, most_tokens=10))


def test_a_tokenizer_that_is_given_is_taken_and_rows_fit_what_its_model_reads(tmp_path: Path):
    chats = write(tmp_path / "chats.jsonl", colours(30))
    base = train_tokenizer("bpe", LINES)
    material = Material((str(chats),), tokenizer=base, context_length=100)
    folder = tmp_path / "run"
    folder.mkdir()
    data = Task.open_data(material, Settings())
    notes = Task.prepare(material, Settings(), data, folder).notes
    task = Task(folder)
    assert task.tokenizer.vocabulary_size == base.vocabulary_size + 2
    assert task.tokenizer.encode("the cat").tolist() == base.encode("the cat").tolist()
    assert max(task.rows.longest, task.held_out_rows.longest) <= 100
    assert any("train conversations of more than 100 tokens were cut at turns" in note for note in notes)
    config = SimpleNamespace(context_length=100)
    assert task.complete(config) is config


def test_a_run_of_text_goes_on_with_conversations_and_then_with_more(tmp_path: Path):
    """The vocabulary grows by the role tokens alone, and the second time not at all."""
    text = tmp_path / "text.txt"
    text.write_text("\n".join(f"The {name} is {colour}." for name, colour in COLOURS.items()) * 20)
    before = chainrule.train(text, model="transformer", size="tiny", steps=5, path=tmp_path / "text")
    chats = write(tmp_path / "chats.jsonl", colours(40))
    asked = request(chats, tmp_path / "first", steps=3, validated=2)
    asked = replace(asked, size=None, tokenization=Tokenization(), start=before.path)
    first = Run(train(asked).path)
    second = Run(train(replace(asked, path=tmp_path / "second", start=first.path)).path)
    sizes = [run.tokenizer.vocabulary_size for run in (before, first, second)]
    assert sizes == [sizes[0], sizes[0] + 2, sizes[0] + 2] and first.model.vocabulary_size == sizes[1]
    for run in (first, second):
        assert run.tokenizer.encode("The sky").tolist() == before.tokenizer.encode("The sky").tolist()
        assert run.tokenizer.eos == before.tokenizer.eos and run.tokenizer.chat == Chat("chatml")


def test_bits_per_byte_are_told_where_the_answers_come_back_from_their_tokens():
    rows, some = rows_of(), talks()
    assert bytes_per_token(BYTES, rows, some) == sum(rows.answer_bytes) / rows.asked
    lossy = json.loads(BYTES.json)
    lossy["model"]["vocab"]["unused"] = lossy["model"]["vocab"].pop("Ġ")  # a space has no token of its own
    tokenizer = Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(lossy)))
    assert bytes_per_token(tokenizer, rows, some) is None
    assert bytes_per_token(tokenizer, rows, talks(BY_HEART[2:])) is not None  # says nothing but "2"
    assert bytes_per_token(with_roles(train_tokenizer("closed words", LINES)), rows, some) is None


@pytest.mark.parametrize("model", ["transformer", "gru"])
def test_a_resumed_training_equals_one_without_interruption(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    chats = write(tmp_path / "chats.jsonl", colours(40))
    settings = {"model": model, "steps": 12, "ema": 0.9, "evaluations": 4, "checkpoint_seconds": 0.0, "validated": 3}
    whole = train(request(chats, tmp_path / "whole", **settings))

    class StopAtFive(Callback):
        def step(self, record: Record) -> None:
            if record["step"] == 5:
                signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(
        "chainrule.training.learn.learn",
        lambda folder, job, task, callbacks: learn(folder, job, task, (StopAtFive(),)),
    )
    with pytest.raises(Stopped, match="chainrule train --resume"):
        train(request(chats, tmp_path / "pieces", **settings))
    monkeypatch.undo()
    assert Checkpoints(tmp_path / ".pieces.unfinished").steps()[-1] == 5
    pieces = resume(tmp_path / "pieces", {"task": "dialogue"})
    assert_same_tensors(whole.model.state_dict(), pieces.model.state_dict())
    assert_same_events(*(list(events(run.path / "metrics.jsonl"))[:-1] for run in (whole, pieces)))
    cards = [(run.path / "README.md").read_text().partition("An example")[2] for run in (whole, pieces)]
    assert cards[0] == cards[1] != ""


def test_minutes_leave_time_for_the_answers(tmp_path: Path):
    chats = write(tmp_path / "chats.jsonl", colours(100))
    run = train(replace(request(chats, tmp_path / "run"), settings={"minutes": 0.05}, size=None))
    assert ENDED in run.trained["validation"]["figures"]
    assert run.trained["seconds"] < 30


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"model": "ngram", "steps": 1},
            "ngram counts all that it reads, so it cannot learn the answers alone; choose",
        ),
        ({"model": "tagger", "steps": 1}, "tagger is a model for tagging, not for conversations"),
        ({"learn_from": "user", "steps": 1}, "learn_from must be one of assistant, last, all, got 'user'"),
        ({"most_tokens": 0, "steps": 1}, "most_tokens must be at least 1"),
    ],
)
def test_what_cannot_be_done_is_refused(tmp_path: Path, settings: dict[str, object], sentence: str):
    with pytest.raises(UserError, match=sentence):
        train(request(write(tmp_path / "chats.jsonl", BY_HEART), tmp_path / "run", **settings))
    assert not (tmp_path / "run").exists()


def test_from_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    chats = write(tmp_path / "chats.jsonl", colours(30))
    run = chainrule.train_dialogue(
        chats, size="tiny", steps=3, tokenizer="characters", validated=2, path=tmp_path / "run"
    )
    assert run.evaluate_conversations()["documents"] == len(Task(run.path).held_out)
    shown = capsys.readouterr().err
    assert "an example, with what is learned in brackets:\n<|im_start|>user\nWhat colour is the " in shown
    assert any(f"[The {name} is {colour}.<|im_end|>]" in shown for name, colour in COLOURS.items())
    with pytest.raises(UserError, match="names none of"):
        run.evaluate_conversations(write_table(tmp_path / "wide.csv"))
    config = json.loads((run.path / "config.json").read_text())
    again = chainrule.train_dialogue(chats, config=run.path / "config.json", path=tmp_path / "again")
    assert again.config["data"] == config["data"]
    assert isinstance(again.tokenizer, Tokenizer)


def write_table(path: Path) -> Path:
    path.write_text("a,b,c\n1,2,3\n")
    return path
