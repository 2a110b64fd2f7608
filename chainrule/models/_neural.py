"""What every model that learns by gradient shares: a torch module that is a language model.

A new one writes `start` and `read` (tokens and a state in, hidden vectors and a state out), and has an `output`
that makes logits of hidden vectors. The training loop, scores and storage are here.
"""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chainrule.config import from_json
from chainrule.errors import UserError
from chainrule.kernels.int8 import round_to_int8
from chainrule.layers.linear import Linear
from chainrule.layers.roles import Role, declare, parameters_of, role_of
from chainrule.layers.softmax import Candidates, linear_cross_entropy, sampled_cross_entropy
from chainrule.models.contract import (
    IGNORE,
    SCORED_AT_ONCE,
    Array,
    Batch,
    LanguageModel,
    Loss,
    State,
    architecture_of,
    check_ids,
)
from chainrule.storage import load_arrays, save_arrays

LARGE_VOCABULARY = 1024
LOGITS_AT_ONCE = 1 << 24  # 64 MB, while a text is scored
Measure = Callable[[Tensor, Tensor], Tensor]  # of logits (..., vocabulary) and targets (...), one number for each


class NeuralModel(nn.Module, LanguageModel):
    """Sets `vocabulary_size`, `eos` and `config`; subclasses add layers, `start`, `read` and `output`."""

    learns_by_gradient: ClassVar[bool] = True
    carries_state = False  # whether training hands the state on from window to window (recurrent models)
    context_length: int | None = None  # the most tokens one state reads; None: any number

    def __init__(self, config: Any, vocabulary_size: int, eos: int):
        super().__init__()
        self.config, self.vocabulary_size, self.eos = config, vocabulary_size, eos

    def start(self, batch_size: int, condition: Any = None) -> State:
        raise NotImplementedError

    def read(self, tokens: Tensor, state: State | None) -> tuple[Tensor, State | None]:
        """(batch, time) -> hidden (batch, time, width) and the new state.

        A state of None is a fresh one whose successor is not wanted: training on separate windows.
        """
        raise NotImplementedError

    def output(self, hidden: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, tokens: Array, condition: Any = None) -> Tensor:
        """Logits (batch, time, vocabulary) of what follows each of the tokens (batch, time)."""
        return self.step(tokens, self.start(len(tokens), condition))[0]

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """As torch does; parameters that are replaced rather than filled (`assign`) keep their declared roles."""
        roles = {name: role_of(each) for name, each in self.named_parameters()}
        found = super().load_state_dict(state_dict, strict, assign)
        for name, each in self.named_parameters():
            declare(roles[name], each)
        return found

    def hidden_layer(self) -> tuple[nn.Linear, str] | None:
        """A layer whose nonlinearity the model applies itself, and which: 'tanh', or 'relu' for all that are flat below
        zero. The doctor looks for dead and saturated units there; nonlinearities that are modules it finds itself."""
        return None

    def token_table(self) -> Tensor:
        """The embedding of the tokens that it reads: (vocabulary or more, width)."""
        return next(iter(parameters_of(self, Role.TOKEN_TABLE).values()))

    def set_output_bias(self, counts: np.ndarray) -> None:
        """Start the output bias, where there is one, at the log frequencies of tokens that occur so often."""
        frequencies = torch.from_numpy(counts).float() + 1
        for bias in parameters_of(self, Role.OUTPUT_BIAS).values():
            bias.data.copy_((frequencies / frequencies.sum()).log())

    def step(self, tokens: Array, state: State) -> tuple[Tensor, State]:
        hidden, state = self.read(self._check(tokens), state)
        return self.output(hidden), state

    @torch.no_grad()
    def hidden_states(self, tokens: Array, state: State) -> tuple[Tensor, State]:
        """What `output` makes logits of, (batch, time, width), and the new state."""
        return self.read(self._check(tokens), state)

    def step_to_last(self, tokens: Array, state: State) -> tuple[Tensor, State]:
        """The same with logits for the last token alone, (batch, 1, vocabulary): all that reading a prompt is for."""
        hidden, state = self.read(self._check(tokens), state)
        return self.output(hidden[:, -1:]), state

    def loss(self, batch: Batch) -> Loss:
        return self.advance(batch, None)[0]

    def output_layer(self) -> tuple[Tensor, Tensor | None] | None:
        """The matrix and the bias, if any, of `output`, where that is all of it: large vocabularies train faster so."""
        return None

    def matrix_parts(self, name: str) -> int:
        """How many matrices are stacked in a parameter, for update rules that treat them one by one, as Muon does."""
        return 1

    def advance(
        self, batch: Batch, state: State | None, candidates: Candidates | None = None
    ) -> tuple[Loss, State | None]:
        """The loss of a batch that follows what `state` has read, or its condition, and the state after it."""
        inputs, targets = torch.as_tensor(batch.inputs), torch.as_tensor(batch.targets)
        if state is None and batch.condition is not None:
            state = self.start(len(inputs), batch.condition)
        hidden, state = self.read(inputs.long(), state)
        return self.loss_of(hidden, targets, candidates), state

    def loss_of(self, hidden: Tensor, targets: Tensor, candidates: Candidates | None = None) -> Loss:
        """The loss of predicting targets (batch, time) from hidden states (batch, time, width)."""
        hidden, targets = hidden.flatten(0, -2), targets.long().flatten()
        asked = targets != IGNORE
        if not bool(asked.all()):
            hidden, targets = hidden[asked], targets[asked]
        layer = self.output_layer()
        if layer is not None and candidates is not None:
            total = sampled_cross_entropy(hidden, targets, *layer, candidates)
        elif layer is not None and self.vocabulary_size >= LARGE_VOCABULARY and torch.is_grad_enabled():
            total = linear_cross_entropy(hidden, targets, *layer)
        else:
            total = F.cross_entropy(self.output(hidden), targets, reduction="sum")
        return Loss(total, len(targets))

    def matrices(self) -> list[Tensor]:
        """Those that products of a few rows read (layers/linear.py); one may come twice."""
        matrices = [module.weight for module in self.modules() if isinstance(module, Linear)]
        return [*matrices, *(self.output_layer() or ())[:1]]  # type: ignore[list-item]

    def round_to_int8(self) -> float:
        """These matrices become what eight bits can hold, and are read as that; the share of all weights they have.

        What is only looked up stays as it is, and so do recurrent cells, whose loops read 32 bits.
        """
        matrices = {id(each): each for each in self.matrices()}.values()
        for weight in matrices:
            round_to_int8(weight)
        return sum(each.numel() for each in matrices) / self.num_parameters

    def _check(self, tokens: Array) -> Tensor:
        ids = torch.as_tensor(np.asarray(tokens, np.int64) if isinstance(tokens, np.ndarray) else tokens).long()
        check_ids(ids.numpy(force=True), self.vocabulary_size)
        return ids.to(self.device)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def score(self, stream: np.ndarray) -> np.ndarray:
        """log p in nats of every token after the first of a stream, each document read after those before it.

        A model of limited context reads overlapping windows, so that every token but the first few has at least
        half of a context before it.
        """
        return self._sweep(stream, picked)

    def entropies(self, stream: np.ndarray) -> np.ndarray:
        """The entropy in nats of every prediction that `score` looks at."""
        return self._sweep(stream, lambda logits, targets: entropy(logits))

    @torch.no_grad()
    def _sweep(self, stream: np.ndarray, measure: Measure) -> np.ndarray:
        """A measure of every prediction along a stream."""
        check_ids(stream, self.vocabulary_size)
        was_training = self.training
        self.eval()
        ids = torch.from_numpy(np.asarray(stream, np.int64)).to(self.device)
        found = torch.empty(max(len(ids) - 1, 0))
        if self.context_length is None:
            self._sweep_on(ids, measure, found)
        else:
            self._sweep_windows(ids, measure, found, self.context_length)
        self.train(was_training)
        return found.numpy()

    def _sweep_on(self, ids: Tensor, measure: Measure, found: Tensor) -> None:
        """One state reads the whole stream, a piece at a time."""
        state = self.start(1)
        for begin in range(0, len(found), SCORED_AT_ONCE):
            piece = ids[begin : begin + SCORED_AT_ONCE + 1]
            hidden, state = self.read(piece[None, :-1], state)
            found[begin : begin + len(piece) - 1] = self._measure(measure, hidden[0], piece[1:])

    def _sweep_windows(self, ids: Tensor, measure: Measure, found: Tensor, context: int) -> None:
        """The first window counts whole; each next one starts `stride` later and counts what is new in it."""
        stride = max(context // 2, 1)
        first = min(context, len(found))
        hidden, _ = self.read(ids[None, :first], None)
        found[:first] = self._measure(measure, hidden[0], ids[1 : first + 1])
        ends = torch.arange(first, len(found) + 1, stride)[1:]
        for group in ends.split(max(1, SCORED_AT_ONCE // context)) if len(ends) else ():
            places = group[:, None] + torch.arange(-context, 1)  # (windows, context + 1)
            windows = ids[places]
            hidden, _ = self.read(windows[:, :-1], None)
            new = self._measure(measure, hidden[:, -stride:].flatten(0, 1), windows[:, -stride:].flatten())
            found[group[0] - stride : group[-1]] = new
        done = int(ends[-1]) if len(ends) else first
        if done < len(found):
            window = ids[-context - 1 :]
            hidden, _ = self.read(window[None, :-1], None)
            rest = len(found) - done
            found[done:] = self._measure(measure, hidden[0, -rest:], window[-rest:])

    def _measure(self, measure: Measure, hidden: Tensor, targets: Tensor) -> Tensor:
        """The measure at every row of hidden (rows, width); the logits of some rows at a time are held in memory."""
        rows = max(1, LOGITS_AT_ONCE // self.vocabulary_size)
        both = zip(hidden.split(rows), targets.split(rows), strict=True)
        return torch.cat([measure(self.output(some), wanted) for some, wanted in both])

    @property
    def num_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())

    def save(self, path: Path) -> None:
        arrays = {name: tensor.detach().cpu().numpy() for name, tensor in self.state_dict().items()}
        facts = {"vocabulary_size": self.vocabulary_size, "eos": self.eos, "config": asdict(self.config)}
        save_arrays(path, arrays, {"architecture": architecture_of(self), "model": json.dumps(facts)})

    @classmethod
    def load(cls, path: Path) -> Self:
        arrays, metadata = load_arrays(path)
        try:
            facts = json.loads(metadata["model"])
            vocabulary_size, eos = facts["vocabulary_size"], facts["eos"]
            if type(vocabulary_size) is not int or type(eos) is not int or not 0 <= eos < vocabulary_size:
                raise ValueError(f"eos {eos} is not of a vocabulary of {vocabulary_size}")
            config = from_json(sys.modules[cls.__module__].Config, facts["config"], "the file")
            layers, found = getattr(config, "num_layers", 1), {array.dtype for array in arrays.values()}
            if layers > len(arrays) or found != {np.dtype(np.float32)}:
                raise ValueError(f"{len(arrays)} arrays of {', '.join(map(str, found))} for {layers} layers")
            with torch.device("meta"):  # no memory, no random numbers: the weights come from the file
                model = cls(config, vocabulary_size, eos)
            tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
            model.load_state_dict(tensors, assign=True)
        except (KeyError, TypeError, ValueError, RuntimeError, UserError) as error:
            what = " ".join(str(error).split())[:200]
            raise UserError(f"'{path}' does not hold such a model ({what}); train it again") from None
        for parameter in model.parameters():
            parameter.requires_grad_(True)
        return model.eval()


def picked(logits: Tensor, targets: Tensor) -> Tensor:
    """log softmax(logits) at the targets."""
    return -F.cross_entropy(logits.flatten(0, -2), targets.flatten(), reduction="none").view(targets.shape)


def entropy(logits: Tensor) -> Tensor:
    """-Σ p log p of softmax(logits), in nats."""
    log_p = logits.log_softmax(-1)
    return -(log_p.exp() * log_p).sum(-1)
