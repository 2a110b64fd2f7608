"""The moving average of the weights, often better than the weights: kept beside the model, swapped in to measure."""

from torch import Tensor, nn


def copy_weights(parameters: dict[str, nn.Parameter]) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in parameters.items()}


class Swapped:
    """A context in which the model has the averaged weights, if an average is kept."""

    def __init__(self, parameters: dict[str, nn.Parameter], average: dict[str, Tensor] | None):
        self._parameters, self._average = parameters, average

    def _swap(self) -> None:
        for name, parameter in self._parameters.items() if self._average is not None else ():
            parameter.data, self._average[name] = self._average[name], parameter.data  # type: ignore[index]

    def __enter__(self) -> None:
        self._swap()

    def __exit__(self, *problem: object) -> None:
        self._swap()
