"""onnxruntime as a reader of exported graphs."""

from pathlib import Path

import numpy as np


class OnnxRuntime:
    """A graph with a state is fed the text in two halves, one step each; any other the whole text."""

    def __init__(self, path: Path):
        import onnxruntime

        self.name = f"onnxruntime {onnxruntime.__version__}"
        self._session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def tokenize(self, text: str) -> list[int] | None:
        return None

    def logits(self, ids: list[int]) -> np.ndarray:
        parts = self._session.get_inputs()[1:]
        state = {part.name: np.zeros((1, part.shape[1]), np.float32) for part in parts}
        half = len(ids) // 2 if parts else 0
        found = []
        for piece in (ids[:half], ids[half:]):
            if piece:
                logits, *after = self._session.run(None, {"tokens": np.array([piece], np.int64), **state})
                state = dict(zip(state, after, strict=True))
                found.append(logits[0])
        return np.concatenate(found)
