// The controls that reshape a die, and what they stand at: shared by all views that draw.

import { field, h } from "/web/dom.js";

export const DEFAULTS = { temperature: 0.8, top_k: 0, top_p: 1, min_p: 0, repetition_penalty: 1 };

const MOST = { temperature: 100, top_k: 1e6, top_p: 1, min_p: 1, repetition_penalty: 100 }; // that the server takes
const CONTROLS = [
  ["temperature", "Temperature", 0, 2, 0.05, "Below 1 sharpens the distribution, above 1 flattens it; 0 takes the most likely token."],
  ["top_p", "Top-p", 0, 1, 0.01, "Keep the most likely tokens that together have this probability; 1 keeps all."],
  ["top_k", "Top-k", 0, 100, 1, "Keep this many of the most likely tokens; 0 keeps all."],
  ["min_p", "Min-p", 0, 0.5, 0.01, "Keep tokens at least this likely relative to the most likely one; 0 keeps all."],
  ["repetition_penalty", "Repetition", 1, 2, 0.05, "Above 1, tokens that have already occurred become less likely."],
];

/** The filters in the address; what is not there or no number is the default. */
export function filtersOf(params) {
  const found = { ...DEFAULTS };
  for (const [name, , low] of CONTROLS) {
    const value = params.has(name) ? Number(params.get(name)) : NaN;
    if (value >= low && value <= MOST[name]) found[name] = name === "top_k" ? Math.round(value) : value;
  }
  return found;
}

/** Say in the address what differs from the defaults. */
export function writeFilters(params, filters) {
  for (const [name, value] of Object.entries(DEFAULTS)) {
    if (filters[name] !== value) params.set(name, filters[name]);
  }
}

/**
 * A slider for each; `changed` is called with the whole of them.
 * @returns {HTMLElement}
 */
export function filterControls(filters, changed) {
  const current = { ...filters };
  const sliders = CONTROLS.map(([name, label, low, high, step, hint]) => {
    const shown = h("output", { class: "number" }, String(current[name]));
    const slider = h("input", {
      type: "range",
      min: low,
      max: Math.max(high, current[name]),
      step,
      value: current[name],
      "aria-label": label,
      "data-name": name,
      oninput: () => {
        current[name] = Number(slider.value);
        shown.textContent = slider.value;
        changed({ ...current });
      },
    });
    return field(h("span", { class: "row spread" }, label, shown), slider, hint);
  });
  return h("div", { class: "filters" }, sliders);
}
