// A recurrent model: its state and gates as a strip, and how far back it remembers.

import { h, replace } from "/web/dom.js";
import { strip } from "/web/heat.js";
import { part, stepper } from "/web/parts.js";
import { tinted } from "/web/tokens.js";

const SHOWN = 64; // tokens, the latest

export function states({ layers, influence, half_within, most_within }, { tokens, separator }) {
  const names = [...Object.keys(layers[0].state), ...Object.keys(layers[0].gates)];
  const shown = h("div");
  const layer = stepper("Layer", layers.length, layers.length - 1, draw);
  const which = h(
    "select",
    { "aria-label": "State or gate", onchange: draw },
    names.map((name) => h("option", { value: name }, name in layers[0].state ? `state ${name}` : `gate ${name}`)),
  );
  function draw() {
    const { state, gates } = layers[layer.value];
    const values = state[which.value] ?? gates[which.value];
    replace(shown, strip(values, tokens.slice(-values.length), which.value));
  }
  draw();
  return [
    part(
      "The state, unit by unit",
      "One row per unit (the first ones), one column per token, the latest on the right.",
      h("div", { class: "row" }, layer.element, which),
      shown,
    ),
    part(
      "How far back it remembers",
      `Half of all influence lies within ${within(half_within)}, nine tenths within ${within(most_within)}.`,
      tinted(tokens.slice(-SHOWN), influence.slice(-SHOWN), separator),
    ),
  ];
}

function within(count) {
  return count === 1 ? "the latest token" : `${count} tokens`;
}
