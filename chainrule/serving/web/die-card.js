// The die of one token of a sample: at a glance from what came with it, in full when one wants to force another.

import { dieOfLogprobs, dieRows } from "/web/die.js";
import { h, percent, replace, visible } from "/web/dom.js";

const HINT = "Point at a token to see what else could have come there. Click it to force another and continue from there.";

/**
 * @param {HTMLElement} card
 * @param {import("/web/branches.js").Token} [token]
 */
export function glance(card, token) {
  if (!token) {
    replace(card, h("h2", null, "The die"), h("p", { class: "faint small" }, HINT));
    return;
  }
  const unknown = token.isForced ? "This token was forced; click it for its die." : "Click it for its die.";
  replace(
    card,
    head(token),
    token.top ? dieRows(dieOfLogprobs(token.top, token.name)) : h("p", { class: "faint small" }, unknown),
  );
}

/**
 * Every face is a button.
 * @param {any} column what /dice says of this place
 * @param {{ force: (face: any) => void, forceText: (text: string) => void, why: () => void, compare: () => void }} does
 */
export function choices(card, token, column, does) {
  const drawn = column.faces.find(({ id }) => id === token.id) ?? {
    id: token.id,
    token: token.name,
    probability: token.bits == null ? 0 : 2 ** -token.bits,
    filtered: 0,
  };
  const own = h("input", { type: "text", placeholder: "or write your own", "aria-label": "Force a text of your own" });
  const submit = (event) => {
    event.preventDefault();
    if (own.value) does.forceText(own.value);
  };
  const button = (label, run) => h("button", { class: "quiet", type: "button", onclick: run }, label);
  replace(
    card,
    head(token),
    h("p", { class: "faint small" }, "Choose another token for this place:"),
    h("div", { class: "tall" }, dieRows({ ...column, drawn }, { pick: does.force, does: "force" })),
    h("form", { class: "row own-text", onsubmit: submit }, own, h("button", { type: "submit" }, "Force")),
    h("p", { class: "row actions" }, button("Why this token?", does.why), button("Every model’s die", does.compare)),
  );
}

/** Its name, and what it costs. */
export function head(token) {
  const said = token.bits == null ? "" : `${percent(2 ** -token.bits)}, ${token.bits.toFixed(2)} bits`;
  return h(
    "div",
    { class: "row spread die-head" },
    h("h2", { class: "name" }, visible(token.name)),
    h("span", { class: "faint small number" }, said),
  );
}
