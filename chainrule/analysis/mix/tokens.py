"""Whether runs can be mixed token by token: their tokenizers must give the same ids for every text.

Models of different tokens cannot be mixed exactly: the probability of a BPE token includes texts that go on within the
same word, so no sum over tokens gives the probability of a byte or of a word.
"""

from collections.abc import Sequence

from chainrule.errors import UserError
from chainrule.runs.folder import Run
from chainrule.text.base import Tokenizer


def have_same_tokens(first: Tokenizer, second: Tokenizer) -> bool:
    """Whether they are the same, or one of bytes and one of characters that all have one byte."""
    if first.fingerprint == second.fingerprint:
        return True
    are_bytes = all(each.kind in ("bytes", "characters") and each.is_lossless for each in (first, second))
    return are_bytes and first.eos == second.eos and first.token_bytes == second.token_bytes


def check_same_tokens(runs: Sequence[Run]) -> None:
    """Refuse runs whose tokenizers differ."""
    for run in runs[1:]:
        if not have_same_tokens(runs[0].tokenizer, run.tokenizer):
            kinds = f"{runs[0].tokenizer.kind} and {run.tokenizer.kind}"
            raise UserError(
                f"'{runs[0].path}' and '{run.path}' cut text into different tokens ({kinds}), and the probability of a "
                "token is that of all texts that begin with it, so they cannot be mixed exactly; train one with "
                f"--tokenizer {runs[0].path}"
            )
