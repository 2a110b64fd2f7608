"""The computation graph of a tape: as data, as Graphviz text, or drawn as an SVG."""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

import numpy as np

from chainrule.tape.tape import Array, Parameter, Tape, Value

BOX = (140, 38)  # width and height of a node in the picture
GAP = (14, 34)
FAINT = ' opacity="0.35"'  # of long lines, as from a parameter that is used at every step
COLOURS = {"input": "#7aa2d6", "parameter": "#d6a77a", "module": "#8f8f99"}


@dataclass(frozen=True)
class Node:
    number: int
    kind: str  # input, parameter or module
    name: str  # of the parameter, or of the module's class
    value: Array
    gradient: Array | None  # after Tape.backward(..., keep=True)
    inputs: tuple[int, ...]  # numbers of the nodes it reads

    def as_dict(self) -> dict[str, object]:
        norm = None if self.gradient is None else float(np.linalg.norm(self.gradient))
        return {
            "number": self.number, "kind": self.kind, "name": self.name, "shape": list(self.value.shape),
            "inputs": list(self.inputs), "gradient_norm": norm,
        }  # fmt: skip


def graph(tape: Tape, names: Mapping[str, Value] | None = None) -> list[Node]:
    """A node for every value on the tape, inputs before what is computed from them; `names` are names of parameters."""
    called = {id(value): name for name, value in (names or {}).items()}
    numbers: dict[int, int] = {}
    nodes: list[Node] = []

    def add(value: Value, kind: str, name: str, inputs: tuple[int, ...] = ()) -> None:
        numbers[id(value)] = len(nodes)
        nodes.append(Node(len(nodes), kind, name, value.array, value.gradient, inputs))

    for module in tape.nodes:
        for each in module.inputs:
            if id(each) not in numbers:
                kind = "parameter" if isinstance(each, Parameter) else "input"
                add(each, kind, called.get(id(each), kind))
        add(module.output, "module", type(module).__name__, tuple(numbers[id(each)] for each in module.inputs))
    return nodes


def to_dot(nodes: list[Node]) -> str:
    """The graph in Graphviz's language, for: dot -Tpdf."""
    lines = ["digraph {", "  rankdir=BT; node [shape=box, style=rounded];"]
    for node in nodes:
        lines.append(f'  {node.number} [label="{node.name}\\n{_shape(node)}", color="{COLOURS[node.kind]}"];')
        lines += [f"  {each} -> {node.number};" for each in node.inputs]
    return "\n".join([*lines, "}"]) + "\n"


def to_svg(nodes: list[Node]) -> str:
    """A drawing with inputs at the bottom and the last result at the top; every node is above all that it reads."""
    places = arrange(nodes)
    width = max(x for x, _ in places) + BOX[0] + GAP[0]
    height = max(y for _, y in places) + BOX[1] + GAP[1]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" font-family="system-ui, sans-serif" font-size="11" text-anchor="middle">',
        "<style>.box { fill: #fff; } text { fill: #222; } path { stroke: #999; fill: none; }"
        " @media (prefers-color-scheme: dark) { .box { fill: #1c1c22; } text { fill: #ddd; } }</style>",
    ]
    for node in nodes:
        x, y = places[node.number]
        for each in node.inputs:
            fx, fy = places[each]
            middle = (fy + y + BOX[1]) / 2
            start, end = f"{fx + BOX[0] / 2:.1f} {fy:.1f}", f"{x + BOX[0] / 2:.1f} {y + BOX[1]:.1f}"
            bend = f"{fx + BOX[0] / 2:.1f} {middle:.1f} {x + BOX[0] / 2:.1f} {middle:.1f}"
            is_far = fy - y > 3 * (BOX[1] + GAP[1])
            lines.append(f'<path d="M {start} C {bend} {end}"{FAINT if is_far else ""}/>')
    for node in nodes:
        x, y = places[node.number]
        lines.append(
            f'<g transform="translate({x:.1f} {y:.1f})"><title>{escape(_tooltip(node))}</title><rect class="box" '
            f'width="{BOX[0]}" height="{BOX[1]}" rx="7" stroke="{COLOURS[node.kind]}" stroke-width="1.5"/>'
            f'<text x="{BOX[0] / 2}" y="16">{escape(_short(node.name))}</text>'
            f'<text x="{BOX[0] / 2}" y="30" opacity="0.65">{_shape(node)}</text></g>'
        )
    return "\n".join([*lines, "</svg>"]) + "\n"


def arrange(nodes: list[Node]) -> list[tuple[float, float]]:
    """The upper left corner of each node. Nodes are in layers, each in the one above its inputs; but inputs, parameters
    and what depends on these alone are in the one below the first node that reads them. Within its layer, a node is as
    near as possible to the middle of its inputs."""
    depths = [0] * len(nodes)
    for node in nodes:
        depths[node.number] = 1 + max((depths[each] for each in node.inputs), default=-1)
    layers = list(depths)
    for node in reversed(nodes):  # readers come after what they read, so theirs are settled
        found = [layers[other.number] for other in nodes[node.number + 1 :] if node.number in other.inputs]
        if depths[node.number] < 2 and found:
            layers[node.number] = min(found) - 1
    rows: dict[int, list[int]] = {}
    for node in nodes:
        rows.setdefault(layers[node.number], []).append(node.number)
    x: dict[int, float] = {}
    for layer in sorted(rows):
        wished = {
            each: np.mean([x[i] for i in nodes[each].inputs]) if nodes[each].inputs else -1.0 for each in rows[layer]
        }
        at = float(GAP[0])
        for each in sorted(rows[layer], key=lambda number: (wished[number], number)):
            x[each] = max(at, float(wished[each]))
            at = x[each] + BOX[0] + GAP[0]
    top = max(rows)
    return [(x[node.number], GAP[1] / 2 + (top - layers[node.number]) * (BOX[1] + GAP[1])) for node in nodes]


def _shape(node: Node) -> str:
    return " × ".join(map(str, node.value.shape)) or "a number"


def _short(name: str, most: int = 19) -> str:
    return name if len(name) <= most else "…" + name[-most + 1 :]


def _tooltip(node: Node) -> str:
    parts = [f"{node.kind} {node.name}", f"shape {_shape(node)}"]
    if node.value.size:
        parts.append(f"values {float(node.value.min()):.4g} to {float(node.value.max()):.4g}")
    if node.gradient is not None:
        parts.append(f"gradient's norm {float(np.linalg.norm(node.gradient)):.4g}")
    return "\n".join(parts)
