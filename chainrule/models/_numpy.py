"""Any model from NumPy's side: ids become the arrays that it wants, and its logits NumPy's.

torch is never imported here, so a model that counts starts without it.
"""

import sys

import numpy as np

from chainrule.models.contract import Array, State, Steps


def start(model: Steps, batch_size: int, condition: object = None) -> State:
    """`model.start`; what a torch module remembers of a condition has no gradient graph."""
    torch = sys.modules.get("torch")
    if torch is None:
        return model.start(batch_size, condition)
    with torch.no_grad():
        return model.start(batch_size, condition)


def step(model: Steps, ids: np.ndarray, state: State, to_last: bool = False) -> tuple[Array, State]:
    """`model.step` on NumPy ids; a torch module gets a tensor on its own device, and no gradient graph.

    `to_last`: the last of the logits are enough, where that saves something.
    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(model, torch.nn.Module):
        return model.step(ids, state)
    device = next((parameter.device for parameter in model.parameters()), None)
    with torch.no_grad():
        tokens = torch.as_tensor(ids, device=device)
        read = getattr(model, "step_to_last", model.step) if to_last else model.step
        result: tuple[Array, State] = read(tokens, state)
    return result


def to_numpy(array: Array) -> np.ndarray:
    """A NumPy array, or a torch tensor of any device, as NumPy floats of at least 32 bits."""
    if hasattr(array, "detach"):
        array = array.detach().cpu()
        # NumPy has no bfloat16, and half precision is too coarse to add up a vocabulary in.
        array = array.float() if array.element_size() < 4 else array
    logits: np.ndarray = np.asarray(array)
    return logits if logits.dtype in (np.float32, np.float64) else logits.astype(np.float32)
