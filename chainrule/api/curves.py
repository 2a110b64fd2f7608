"""The curves of a training as figures, for notebooks and files."""

from typing import TYPE_CHECKING, Any, cast

from chainrule.checks import require_choice
from chainrule.errors import UserError
from chainrule.runs.folder import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = ("loss", "gradients")


def plot_training(run: Run, kind: str = "loss") -> "Figure":
    """Training and validation loss against tokens seen, or the norm of the gradient against the step.

    A figure of matplotlib: a notebook shows it, and `figure.savefig("loss.png")` writes it.
    """
    from chainrule.plotting import styled
    from chainrule.training.report import draw_gradients, draw_loss

    require_choice("kind", kind, KINDS)
    events = cast("list[dict[str, Any]]", run.metrics)
    steps = [event for event in events if event["event"] == "step"]
    if not steps:
        raise UserError(f"'{run.path}' was not trained by gradient, so it has no training curves")
    with styled():
        if kind == "loss":
            return draw_loss(steps, [event for event in events if event["event"] == "evaluation"])
        recipe = run.config["training"]["recipe"] if "training" in run.config else {}
        return draw_gradients(steps, float(str(recipe.get("clip", 0.0))))
