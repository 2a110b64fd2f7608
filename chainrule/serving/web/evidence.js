// Why a model expects a token, in the terms of its kind, and which tokens mattered.

import { positions, series, transformer } from "/web/attention.js";
import { h, percent, replace, visible } from "/web/dom.js";
import { corpus, ladder, mixture } from "/web/ladder.js";
import { part } from "/web/parts.js";
import { states } from "/web/states.js";
import { tinted } from "/web/tokens.js";

const KINDS = { ladder, gates: states, transformer, positions, mixture, series };
const SHOWN = 64; // tokens, the latest
const asking = new WeakMap();

/** Ask for an explanation and show it; a later question for the same place takes the place of an earlier one. */
export async function showEvidence(place, context, request) {
  asking.get(place)?.abort();
  const mine = new AbortController();
  asking.set(place, mine);
  if (!place.childElementCount) replace(place, h("p", { class: "faint small" }, "Looking inside…"));
  try {
    const found = await context.api.post("/explain", request, mine.signal);
    if (asking.get(place) === mine) replace(place, evidence(found));
  } catch (error) {
    if (error.name !== "AbortError") replace(place, h("p", { class: "notice small" }, error.message));
  }
}

/** @param {any} found what /explain answers */
function evidence(found) {
  return h(
    "div",
    { class: "evidence-parts stack small" },
    h("h3", null, "Why ", h("span", { class: "name" }, visible(found.token)), ` (${percent(found.probability)})`),
    KINDS[found.kind]?.(found.inside, found) ?? null,
    found.evidence && corpus(found.evidence),
    importance(found),
    found.notes.map((note) => h("p", { class: "faint" }, `Note: ${note}.`)),
  );
}

/** For any model: how much less likely the token is without each of the others. */
function importance({ importance: { left_out }, tokens, separator }) {
  if (!left_out.some((each) => each)) return null;
  return part(
    "What mattered",
    "Blue tokens made it likelier, orange ones less likely: each was left out in turn.",
    tinted(tokens.slice(1).slice(-SHOWN), left_out.slice(-SHOWN), separator),
  );
}
