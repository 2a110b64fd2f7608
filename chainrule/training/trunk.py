"""A trunk that does not learn: what its blocks make of a text is computed once and kept on disk.

Of a model of 30 blocks whose top ten learn, a step after the first epoch costs a third. Rows are read one by one, so
that what is kept of a row does not depend on those that were read with it, and a resumed training finds the same.
"""

from hashlib import blake2b
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from chainrule.layers.softmax import Candidates
from chainrule.models._neural import NeuralModel
from chainrule.models.contract import Batch, HasTrunk, Loss, State

TRUNK = "trunk.bin"  # in the folder of the training
MOST_BYTES = 4 << 30  # on disk


class Trunk:
    """The lowest `blocks` of a model, which do not learn."""

    def __init__(self, model: NeuralModel, blocks: int, path: Path, most_bytes: int = MOST_BYTES):
        assert isinstance(model, HasTrunk)
        self.model, self.blocks, width = model, blocks, model.config.width
        self._most = most_bytes // (4 * width)  # tokens
        self._kept = np.memmap(path, np.float32, "w+", shape=(self._most, width))  # a sparse file: only what is written
        self._used = 0
        self._places: dict[bytes, int] = {}

    def advance(
        self, batch: Batch, state: State | None, candidates: Candidates | None = None
    ) -> tuple[Loss, State | None]:
        """As NeuralModel.advance, for separate texts."""
        return self.model.loss_of(self.hidden(batch.inputs), batch.targets, candidates), None

    def hidden(self, inputs: Tensor) -> Tensor:
        """As NeuralModel.read, for separate texts (batch, time): (batch, time, width)."""
        found: Tensor = self.model.read_on(self.read(inputs), self.blocks)  # type: ignore[attr-defined]
        return found

    def read(self, inputs: Tensor) -> Tensor:
        """What the trunk makes of each row of inputs (batch, time): (batch, time, width)."""
        return torch.stack([self._row(row) for row in inputs])

    @torch.no_grad()
    def _row(self, row: Tensor) -> Tensor:
        key = blake2b(row.numpy().tobytes(), digest_size=16).digest()
        place = self._places.get(key)
        if place is not None:
            return torch.from_numpy(self._kept[place : place + len(row)].copy())
        was_training = self.model.training
        self.model.eval()  # nothing drops out of what is kept
        found: Tensor = self.model.read_trunk(row[None], self.blocks)[0].float()  # type: ignore[attr-defined]
        self.model.train(was_training)
        if self._used + len(row) <= self._most:
            self._kept[self._used : self._used + len(row)] = found.numpy()
            self._places[key] = self._used
            self._used += len(row)
        return found
