// The beam as a tree: a column for each step, the likeliest beginning on top, a line from each to what it makes longer.

import { nameOf } from "/web/alignment.js";
import { h, percent, svg } from "/web/dom.js";
import { part } from "/web/parts.js";

const STEP = 96; // pixels
const ROW = 24;
const LETTERS = 10;
const MOST = 600; // beginnings; a larger tree tells nothing

/** @param {{ token: string, total: number, parent: number | null, is_ended: boolean, is_best: boolean }[][]} steps */
export function beamTree(steps) {
  if (steps.flat().length > MOST) return null;
  const width = steps.length * STEP + 20;
  const height = Math.max(...steps.map((step) => step.length)) * ROW + 8;
  const picture = svg("svg", { class: "beam", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "The beam as a tree" },
    steps.map((step, number) => step.map((branch, place) => drawn(branch, number * STEP + 12, place * ROW + 18))));
  return part("The beam", "The hypotheses kept at every step, the most likely on top. ■ ends a text; the chosen one is bold.",
    h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "The beam" }, picture));
}

function drawn({ token, total, parent, is_ended, is_best }, x, y) {
  const kind = is_best ? "best" : null;
  const from = parent === null ? null : parent * ROW + 14;
  const name = nameOf(token);
  return [
    from !== null && svg("path", { class: kind, d: `M${x - 18} ${from} C${x - 8} ${from} ${x - 12} ${y - 4} ${x - 3} ${y - 4}` }),
    svg("text", { x, y, class: kind },
      svg("title", null, `${name}: all so far has ${percent(Math.exp(total))}`),
      name.length > LETTERS ? `${name.slice(0, LETTERS - 1)}…` : name, is_ended && " ■"),
  ];
}
