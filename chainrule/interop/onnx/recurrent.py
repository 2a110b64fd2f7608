"""Builds the ONNX graph of a recurrent model node by node: tokens and a state in, logits and the new state out.

ONNX has operators for Elman networks, GRUs and LSTMs, with another order of gates. A UGRNN is a loop (Scan). A graph
takes any number of rows and of steps.
"""

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from chainrule.interop._layout import arrays_of
from chainrule.models import elman
from chainrule.models._recurrent import RecurrentConfig, RecurrentModel

OPSET = 17
OPERATORS = {"elman": "RNN", "gru": "GRU", "lstm": "LSTM"}
GATES = {"gru": (1, 0, 2), "lstm": (0, 3, 1, 2)}  # theirs in ours: z r n of r z n, i o f g of i f g o
SQUASH = {"logistic": "Sigmoid", "tanh": "Tanh", "relu": "Relu"}


class _Graph:
    """The nodes of a graph and the arrays that they read."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.arrays: list[onnx.TensorProto] = []

    def array(self, name: str, values: np.ndarray | np.generic) -> str:
        self.arrays.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def node(self, kind: str, inputs: list[str], outputs: list[str], **settings: object) -> str:
        self.nodes.append(helper.make_node(kind, inputs, outputs, None, None, None, None, **settings))
        return outputs[0]


def recurrent_graph(model: RecurrentModel, architecture: str) -> onnx.ModelProto:
    """Inputs tokens (batch, time) and, of each layer, h0 (batch, width) and c0; outputs logits, h0_next and so on."""
    graph = _Graph()
    arrays = arrays_of(model)
    embedding = graph.array("embedding", arrays["embedding.weight"])
    x = graph.node("Gather", [embedding, "tokens"], ["embedded"])
    x = graph.node("Transpose", [x], ["by_time"], perm=[1, 0, 2])  # (time, batch, width)
    if model.config.input_scale != 1:
        x = graph.node("Mul", [x, graph.array("scale", np.float32(model.config.input_scale))], ["scaled"])
    if architecture != "ugrnn":
        graph.array("axis_0", np.array([0], np.int64))
        graph.array("axis_1", np.array([1], np.int64))
    for layer in range(model.config.num_layers):
        stem = f"recurrent.cells.{layer}."
        weights = {name.removeprefix(stem): array for name, array in arrays.items() if name.startswith(stem)}
        y = _cell(graph, architecture, layer, x, weights, model.config)
        x = graph.node("Add", [x, y], [f"joined{layer}"]) if model.config.residual and layer else y
    output = embedding if model.unembedding is None else graph.array("unembedding", arrays["unembedding"])
    x = graph.node("Transpose", [x], ["by_row"], perm=[1, 0, 2])
    x = graph.node("MatMul", [x, graph.node("Transpose", [output], ["output_weight"], perm=[1, 0])], ["scores"])
    graph.node("Add", [x, graph.array("output_bias", arrays["output_bias"])], ["logits"])
    return _model(graph, model, "hc"[: 2 if architecture == "lstm" else 1])


def _cell(graph: _Graph, kind: str, layer: int, x: str, weights: dict[str, np.ndarray], config: RecurrentConfig) -> str:
    """One layer; its outputs are (time, batch, width)."""
    if kind == "ugrnn":
        return _ugrnn(graph, layer, x, weights, config.width)
    gates = GATES.get(kind, (0,))
    inward, onward = (_reorder(weights[name], gates) for name in ("input_weight", "recurrent_weight"))
    second = np.zeros_like(weights["bias"])
    if kind == "gru":
        second[2 * config.width :] = weights["recurrent_bias"]
    biases = np.concatenate([_reorder(weights["bias"], gates), _reorder(second, gates)])
    inputs = [
        x,
        graph.array(f"inward{layer}", inward[None]),
        graph.array(f"onward{layer}", onward[None]),
        graph.array(f"biases{layer}", biases[None]),
        "",
    ]
    parts = "hc" if kind == "lstm" else "h"
    inputs += [graph.node("Unsqueeze", [f"{part}{layer}", "axis_0"], [f"{part}{layer}_deep"]) for part in parts]
    settings: dict[str, int | list[str]] = {"linear_before_reset": 1} if kind == "gru" else {}
    if isinstance(config, elman.Config):
        settings["activations"] = [SQUASH[config.nonlinearity]]
    after = [f"{part}{layer}_after" for part in parts]
    graph.node(OPERATORS[kind], inputs, [f"all{layer}", *after], hidden_size=config.width, **settings)
    for part in parts:
        graph.node("Squeeze", [f"{part}{layer}_after", "axis_0"], [f"{part}{layer}_next"])
    return graph.node("Squeeze", [f"all{layer}", "axis_1"], [f"y{layer}"])  # without the axis of directions


def _reorder(array: np.ndarray, gates: tuple[int, ...]) -> np.ndarray:
    """The rows of each gate in ONNX's order."""
    parts = np.split(array, len(gates))
    return np.concatenate([parts[gate] for gate in gates])


def _ugrnn(graph: _Graph, layer: int, x: str, weights: dict[str, np.ndarray], width: int) -> str:
    """R = tanh(first half), G = σ(second half), h_t = R + G ⊙ (h_{t-1} - R), a step at a time."""
    inward = graph.array(f"inward{layer}", weights["input_weight"].T)
    projected = graph.node("MatMul", [x, inward], [f"inputs{layer}"])
    bias = graph.array(f"bias{layer}", weights["bias"])
    projected = graph.node("Add", [projected, bias], [f"projected{layer}"])
    body = _Graph()
    onward = body.array(f"onward{layer}", weights["recurrent_weight"].T)
    recalled = body.node("MatMul", ["before", onward], ["recalled"])
    both = body.node("Add", ["step", recalled], ["both"])
    body.node("Split", [both], ["r", "g"], axis=-1)
    candidate, update = body.node("Tanh", ["r"], ["candidate"]), body.node("Sigmoid", ["g"], ["update"])
    gap = body.node("Sub", ["before", candidate], ["gap"])
    kept = body.node("Mul", [update, gap], ["kept"])
    body.node("Add", [candidate, kept], ["after"])
    body.node("Identity", ["after"], ["shown"])
    pieces = [_info("before", ["batch", width]), _info("step", ["batch", 2 * width])]
    results = [_info("after", ["batch", width]), _info("shown", ["batch", width])]
    inner = helper.make_graph(body.nodes, f"cell{layer}", pieces, results, body.arrays)
    graph.node("Scan", [f"h{layer}", projected], [f"h{layer}_next", f"y{layer}"], body=inner, num_scan_inputs=1)
    return f"y{layer}"


def _info(name: str, shape: Sequence[str | int], kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def _model(graph: _Graph, model: RecurrentModel, parts: str) -> onnx.ModelProto:
    width = model.config.width
    names = [f"{part}{layer}" for layer in range(model.config.num_layers) for part in parts]
    inputs = [_info("tokens", ["batch", "time"], TensorProto.INT64)]
    outputs = [_info("logits", ["batch", "time", model.vocabulary_size])]
    inputs += [_info(name, ["batch", width]) for name in names]
    outputs += [_info(f"{name}_next", ["batch", width]) for name in names]
    whole = helper.make_graph(graph.nodes, "step", inputs, outputs, graph.arrays)
    made = helper.make_model(whole, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
    onnx.checker.check_model(made, full_check=True)
    return made
