"""How good the answers of a model are: the loss of those in some conversations, and whether its own come to an end."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.data.buckets import group_by_size
from chainrule.evaluation.figures import Evaluation, loss_figures
from chainrule.generation.answers import answer
from chainrule.models.contract import Batch
from chainrule.tasks._conversation_rows import Rows, Talk
from chainrule.text.base import Tokenizer
from chainrule.text.rendering import encode_prompt

ENDED = "answers that end by themselves"  # a figure, in per cent
PER = "token of the answers, their ends counted"
LOSS_TOKENS = 4096  # of one batch whose loss is measured
FIRST_ANSWERS = 8  # that are written before it is known how long answering takes


def questions_of(talks: Sequence[Talk], most: int) -> list[Talk]:
    """The conversations up to each answer, in an order that says nothing, and no more than `most` of them."""
    found = [talk[:place] for talk in talks for place, each in enumerate(talk) if each.role == "assistant"]
    return [found[place] for place in np.random.default_rng(0).permutation(len(found))[:most]]


def fits(tokenizer: Tokenizer, question: Talk, reads: int | None) -> bool:
    """Whether a model that reads so many tokens can be asked this."""
    return reads is None or len(encode_prompt(tokenizer, question)) <= reads


def loss_of_rows(model: Any, rows: Rows, padding: int) -> float:
    """Nats per token that is asked for."""
    import torch

    was_training = model.training
    model.eval()
    total, count = 0.0, 0
    with torch.no_grad():
        for places in group_by_size([len(each) for each in rows.ids], LOSS_TOKENS):
            batch = rows.batch(places, padding)
            loss = model.loss(Batch(batch.inputs, batch.targets))
            total, count = total + float(loss.total), count + loss.count
    model.train(was_training)
    return total / max(count, 1)


def bytes_per_token(tokenizer: Tokenizer, rows: Rows, talks: Sequence[Talk]) -> float | None:
    """Of the answers in some conversations, with a byte for the end of each; None where a token hides what is said."""
    if tokenizer.is_closed or not rows.asked:
        return None
    said = (message.text for talk in talks for message in talk if message.role == "assistant")
    is_spelled = tokenizer.keeps_every_text or all(
        tokenizer.spell(tokenizer.encode(text)) == text.encode() for text in said
    )
    return sum(rows.answer_bytes) / rows.asked if is_spelled else None


def measure(
    model: Any,
    tokenizer: Tokenizer,
    rows: Rows,
    per_token: float | None,
    questions: Sequence[Talk],
    seconds: float | None = None,
) -> Evaluation:
    """The loss of the answers in some conversations, and how many of the model's own end; in a limited time, of as many
    questions as can be answered in it. `per_token` is the bytes of a token, for bits per byte."""
    loss = loss_figures(loss_of_rows(model, rows, tokenizer.eos), per_token)
    ended = _share_that_ends(model, tokenizer, questions, seconds)
    return {
        "loss": loss["loss"],
        "perplexity": loss["perplexity"],
        "bits_per_byte": loss["bits_per_byte"],
        "impossible_tokens": 0,
        "tokens": rows.asked,
        "documents": len(rows),
        "bytes": sum(rows.answer_bytes),
        "per": PER,
        "figures": {} if ended is None else {ENDED: 100 * ended},
    }


def _share_that_ends(
    model: Any, tokenizer: Tokenizer, questions: Sequence[Talk], seconds: float | None
) -> float | None:
    """Of the answers, those that say something and end; None where no question can be asked."""
    reads = getattr(model, "context_length", None)
    asked = [each for each in questions if fits(tokenizer, each, reads)]
    if not asked:
        return None
    started_at = time.perf_counter()
    answers = answer(model, tokenizer, asked[:FIRST_ANSWERS])
    taken = time.perf_counter() - started_at
    affordable = len(asked) if seconds is None else int(len(answers) * seconds / max(taken, 1e-9))
    answers += answer(model, tokenizer, asked[FIRST_ANSWERS : max(affordable, FIRST_ANSWERS)])
    return sum(each.ended and bool(each.text.strip()) for each in answers) / len(answers)
