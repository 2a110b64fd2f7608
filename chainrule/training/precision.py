"""Half precision only where the processor computes in it: elsewhere bfloat16 is a hundred times slower than float32.

In bfloat16 are the products of matrices: of linear layers, of the LSTM, of attention to up to 512 tokens with its
softmax, and those by which Muon makes its updates orthogonal; between them, activations. Weights, gradients, the state
of optimizers, norms, attention to more tokens and the loss stay in float32, and so does every score of a validation
text.
"""

from chainrule.errors import UserError
from chainrule.kernels.machine import bfloat16_speedup

WORTH_ROUNDING = 1.15  # how much faster a training in bfloat16 must be
SLOW = 0.5  # beside float32: no processor that has instructions for bfloat16 is that slow


def is_worth_trying() -> bool:
    """Whether bfloat16 may pay here: whether a small product of matrices is faster in it."""
    return bfloat16_speedup() > 1


def check_precision(precision: str) -> None:
    """Refuse to begin a training in bfloat16 that this processor would take very long for."""
    if precision == "bfloat16" and (slowness := _describe_slowness()):
        raise UserError(f"{slowness}; leave precision at float32")


def note_on_precision(precision: str) -> str | None:
    """A sentence on a training that was begun in this precision elsewhere, where it is slow here."""
    slowness = _describe_slowness() if precision == "bfloat16" else None
    return f"{slowness}; this training was begun in it on another one and goes on in it" if slowness else None


def _describe_slowness() -> str | None:
    speedup = bfloat16_speedup()
    return f"bfloat16 is {1 / speedup:,.0f} times slower than float32 on this processor" if speedup < SLOW else None
