// Tokens in a row, each with a tint: orange for its surprise, blue for and orange against, or any weight.

import { h, visible } from "/web/dom.js";

const MOST_BITS = 12;

/** From bits to a tint between 0 and 1. */
export function level(bits) {
  return bits == null ? 0 : Math.min(1, Math.max(0, bits) / MOST_BITS);
}

/** A token as it stands in the text: line ends are shown and kept; what is only part of a character becomes a dot. */
export function inText(text, name) {
  if (text === "") return name.startsWith("bytes:") ? "·" : visible(name);
  const shown = text.replaceAll("\n", "⏎\n").replaceAll("\t", "⇥\t");
  // eslint-disable-next-line no-control-regex -- these are what is made visible
  return shown.replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/g, (found) => visible(found));
}

/** The tokens of an explanation, tinted by `weights` (null: none); blue above zero, orange below. */
export function tinted(tokens, weights, separator = "", options = {}) {
  const most = Math.max(...weights.map((weight) => Math.abs(weight ?? 0)), 1e-9);
  return h(
    "p",
    { class: "tokens", ...options },
    tokens.flatMap((token, place) => [
      place && separator ? separator : null,
      h(
        "span",
        {
          class: (weights[place] ?? 0) < 0 ? "tint against" : "tint",
          style: { "--level": Math.abs((weights[place] ?? 0) / most).toFixed(3) },
          title: weights[place] == null ? null : `${visible(token)}: ${weights[place].toPrecision(3)}`,
          "data-place": place,
        },
        inText(token, token),
      ),
    ]),
  );
}

/** What the tint of a surprise means. */
export function legend() {
  return h(
    "div",
    { class: "bits-legend small faint", title: "Surprisal in bits: -log2 of the probability" },
    "expected",
    h("span", { class: "ramp" }),
    "a surprise of 12 bits",
  );
}
