"""Tokens that tell who speaks, for a vocabulary that has none: added at its end, so that all others keep their ids.

Conversations are then written in the style ChatML: <|im_start|>user, what is said, <|im_end|>.
"""

import tokenizers

from chainrule.errors import UserError
from chainrule.text.base import Tokenizer
from chainrule.text.chat import STYLES, Chat

STYLE = "chatml"
ROLE_TOKENS = ("<|im_start|>", "<|im_end|>")
ROLES = ("system", "user", "assistant")


def has_roles(tokenizer: Tokenizer) -> bool:
    """Whether its conversations have special tokens that tell who speaks and where an answer ends."""
    if tokenizer.chat is None or tokenizer.chat.written.is_plain:
        return False
    return all(name in tokenizer.special for name in STYLES[tokenizer.chat.style].ends)


def with_roles(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer, with role tokens and a chat style where it has none."""
    if has_roles(tokenizer):
        return tokenizer
    backend = tokenizers.Tokenizer.from_str(tokenizer.json)
    backend.add_special_tokens([*ROLE_TOKENS, *_unknown_roles(tokenizer)])
    grown = Tokenizer(backend, tokenizer.end)
    _check_grown(tokenizer, grown)
    grown.start = tokenizer.start
    grown.chat = Chat(STYLE)
    return grown


def _unknown_roles(tokenizer: Tokenizer) -> list[str]:
    """Names of roles that a closed vocabulary does not know, so that it could not tell one from the other."""
    return [role for role in ROLES if tokenizer.is_closed and tokenizer.unknown in tokenizer.encode(role)]


def _check_grown(old: Tokenizer, new: Tokenizer) -> None:
    """Refuse a vocabulary whose tokens did not all keep their ids, or that does not tell the new ones from text."""
    before, after = (each.backend.get_vocab(with_added_tokens=True) for each in (old, new))
    keeps = all(after.get(name) == id for name, id in before.items()) and new.eos == old.eos
    if not keeps or not all(name in new.special for name in ROLE_TOKENS):
        raise UserError(
            f"the vocabulary of {old.vocabulary_size:,} tokens cannot be given {' and '.join(ROLE_TOKENS)}, which tell "
            "who speaks in a conversation; train on text instead, or choose another tokenizer"
        )
