"""The same curves and samples for TensorBoard: tensorboard --logdir runs/poems/tensorboard"""

from pathlib import Path
from typing import Any

from chainrule.errors import UserError
from chainrule.training.callbacks import Callback, Record

STEP = {
    "loss": "train/loss",
    "bits_per_byte": "train/bits_per_byte",
    "learning_rate": "learning_rate",
    "gradient_norm": "gradient_norm",
    "tokens_per_second": "tokens_per_second",
    "memory_bytes": "memory_bytes",
}
EVALUATION = {
    "loss": "validation/loss",
    "bits_per_byte": "validation/bits_per_byte",
    "perplexity": "validation/perplexity",
}
EPOCH = {"loss": "train/epoch_loss"}
FLUSH_SECONDS = 10


class TensorBoard(Callback):
    """Writes events for TensorBoard. A missing package is noticed when this is made, before training begins."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._make_writer = import_writer()
        self._writer: Any = None

    def begin(self, record: Record) -> None:
        resumed_at = record.get("resumed_at_step")
        purge_step = resumed_at + 1 if resumed_at else None  # hides what a killed run did after its last checkpoint
        self._writer = self._make_writer(str(self.folder), purge_step=purge_step, flush_secs=FLUSH_SECONDS)

    def step(self, record: Record) -> None:
        self._add(STEP, record)

    def epoch(self, record: Record) -> None:
        self._add(EPOCH, record)

    def evaluation(self, record: Record) -> None:
        self._add(EVALUATION, record)

    def sample(self, record: Record) -> None:
        indented = "\n".join(f"    {line}" for line in record["text"].split("\n"))  # a code block: shown as it is
        self._writer.add_text("sample", indented, record["step"])

    def end(self, record: Record) -> None:
        self.close()

    def close(self) -> None:
        if self._writer:
            self._writer.close()
        self._writer = None

    def _add(self, tags: dict[str, str], record: Record) -> None:
        for name, tag in tags.items():
            if record.get(name) is not None:
                self._writer.add_scalar(tag, record[name], record["step"])


def import_writer() -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UserError("--tensorboard needs a package that is not installed: pip install tensorboard") from None
    return SummaryWriter
