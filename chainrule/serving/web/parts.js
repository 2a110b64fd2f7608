// What explanations are made of: a part with its title, a bar with its share, a stepper.

import { h, percent } from "/web/dom.js";

export function part(title, said, ...children) {
  return h("section", { class: "part" }, h("h4", null, title), h("p", { class: "faint" }, said), children);
}

/** A bar as long as its share of the largest. */
export function adds(value, largest) {
  const width = `${((60 * value) / Math.max(largest, 1e-12)).toFixed(2)}%`;
  return h("span", { class: "adds" }, h("span", { class: "full", style: { width } }), h("span", null, percent(value)));
}

/** ‹ Layer 2 of 4 ›; `value` counts from 0. */
export function stepper(label, length, value, changed) {
  const shown = h("span", { class: "number" });
  const go = (to) => {
    found.value = (to + length) % length;
    shown.textContent = `${label} ${found.value + 1} of ${length}`;
  };
  const button = (sign, by, name) => {
    const run = () => {
      go(found.value + by);
      changed();
    };
    const told = { "aria-label": `${name} ${label.toLowerCase()}`, disabled: length < 2 };
    return h("button", { type: "button", class: "quiet", onclick: run, ...told }, sign);
  };
  const element = h("span", { class: "stepper" }, button("‹", -1, "Previous"), shown, button("›", 1, "Next"));
  const found = { value, element };
  go(value);
  return found;
}
