"""What followed a context in the text that an n-gram model counted: counts and probabilities."""

from typing import TypedDict

import numpy as np

from chainrule.errors import UserError
from chainrule.generation.prompt import read_prompt
from chainrule.models.contract import LanguageModel
from chainrule.models.ngram import Model
from chainrule.text.base import Tokenizer


class Follower(TypedDict):
    """A token that followed the context so many times, and its probability after it."""

    token: str
    count: int
    probability: float


class Followers(TypedDict):
    """What followed a context, the most frequent first."""

    context: str  # the last words of the text that are looked at: at most n - 1 of them
    is_whole: bool  # whether these are all words of the text
    total: int  # how often anything followed
    followers: list[Follower]
    rest: float  # the probability of all other tokens together


def count_followers(model: LanguageModel, tokenizer: Tokenizer, text: str, kind: str) -> Followers:
    """The table of a text's last words, wherever in a document they stand."""
    if not isinstance(model, Model):
        raise UserError(f"only an n-gram model has counts of what followed a text, and this one is of kind {kind}")
    ids = read_prompt(model, tokenizer, text, truncate=True).ids
    words = ids[ids != tokenizer.eos]  # they may stand anywhere in a document
    context = words[len(words) - min(len(words), model.config.order - 1) :]
    tokens, counts = model.followers(context.tolist())
    probabilities = np.exp(model.distribution(context.tolist()).astype(np.float64))
    order = np.argsort(-counts, kind="stable")
    return {
        "context": tokenizer.decode(context),
        "is_whole": len(context) == len(words),
        "total": int(counts.sum()),
        "followers": [
            {
                "token": tokenizer.token_text(int(tokens[i])),
                "count": int(counts[i]),
                "probability": float(probabilities[tokens[i]]),
            }
            for i in order
        ],
        "rest": max(float(1 - probabilities[tokens].sum()), 0.0),
    }
