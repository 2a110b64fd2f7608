// The next token as a die: a bar for each likely face, one for all others, together one.

import { h, percent, visible } from "/web/dom.js";

/**
 * @typedef {{ id?: number, token: string, probability: number, filtered?: number }} Face
 *   `probability` is the model's own, `filtered` what temperature and the rest make of it
 * @typedef {{ faces: Face[], others: { count?: number, probability: number, filtered?: number }, drawn?: Face }} Die
 */

/**
 * A row for each face. The one that was drawn is marked, and has a row at the end if it is not among the likeliest.
 * With `pick`, faces are buttons; `chosen` is the id of the one that is pressed.
 * @param {Die} die
 * @param {{ pick?: (face: Face) => void, chosen?: number, does?: string }} [options]
 */
export function dieRows(die, { pick, chosen, does = "choose" } = {}) {
  const { faces, others, drawn } = die;
  const largest = Math.max(...faces.map(reach), others.filtered ?? others.probability, 1e-9);
  const isAmong = drawn && faces.some((face) => isSame(face, drawn));
  const row = (face) => faceRow(face, largest, drawn && isSame(face, drawn), pick, chosen, does);
  return h(
    "div",
    { class: "die" },
    faces.map(row),
    drawn && !isAmong && row({ ...drawn, isOutside: true }),
    othersRow(others, drawn && !isAmong ? drawn : null, largest),
  );
}

function isSame(one, other) {
  return one.id === undefined || other.id === undefined ? one.token === other.token : one.id === other.id;
}

function reach(face) {
  return Math.max(face.probability, face.filtered ?? 0);
}

function faceRow(face, largest, isDrawn, pick, chosen, does) {
  const { token, probability, filtered = probability } = face;
  const isCut = filtered === 0 && probability > 0;
  const changed = Math.abs(filtered - probability) > 5e-7;
  const title = changed ? `${percent(probability)} to the model, ${percent(filtered)} after the filters` : null;
  return h(
    pick ? "button" : "div",
    {
      class: `face${isDrawn ? " drawn" : ""}${isCut ? " cut" : ""}${face.isOutside ? " outside" : ""}`,
      type: pick ? "button" : null,
      title,
      "data-probability": probability,
      "data-filtered": filtered,
      "data-id": face.id,
      "aria-pressed": pick && chosen !== undefined ? String(chosen === face.id) : null,
      "aria-label": pick ? `${does} ${visible(token)}, ${percent(filtered)}${isDrawn ? ", drawn" : ""}` : null,
      onclick: pick ? () => pick(face) : null,
    },
    h("span", { class: "name" }, visible(token)),
    bar(probability, filtered, largest),
    h("span", { class: "share number" }, percent(filtered)),
  );
}

/** All other tokens; one of them that has a row of its own is taken out. */
function othersRow(others, shown, largest) {
  const without = (all, own) => Math.max(0, all - (own ?? 0));
  const probability = without(others.probability, shown?.probability);
  const filtered = without(others.filtered ?? others.probability, shown?.filtered ?? shown?.probability);
  const number = others.count === undefined ? "" : `${(others.count - (shown ? 1 : 0)).toLocaleString("en")} `;
  return h(
    "div",
    { class: "face others", "data-probability": probability, "data-filtered": filtered },
    h("span", { class: "name" }, `${number}others`),
    bar(probability, filtered, largest),
    h("span", { class: "share number" }, percent(filtered)),
  );
}

/** A full bar for what is drawn from, a hollow one for what the model itself says. */
function bar(probability, filtered, largest) {
  const width = (value) => `${((100 * value) / largest).toFixed(3)}%`;
  return h(
    "span",
    { class: "bar" },
    h("span", { class: "own", style: { width: width(probability) } }),
    h("span", { class: "full", style: { width: width(filtered) } }),
  );
}

/** A die from OpenAI's top_logprobs, { name: log-probability }: what they leave over is the others'. */
export function dieOfLogprobs(top, drawnName) {
  const faces = Object.entries(top).map(([token, value]) => ({ token, probability: Math.exp(value) }));
  faces.sort((a, b) => b.probability - a.probability);
  const total = faces.reduce((sum, { probability }) => sum + probability, 0);
  return {
    faces,
    others: { probability: Math.max(0, 1 - total) },
    drawn: faces.find(({ token }) => token === drawnName),
  };
}
