// A text of one's own, and what each piece of it costs every model, in bits: aligned, so that they can be compared.

import { count, field, h, replace, visible } from "/web/dom.js";
import { chips, pickModels, shortName } from "/web/models.js";
import { makeStrip } from "/web/strip.js";

const EXAMPLE = "To be, or not to be: that is the question.\nThe king has eaten seven purple helicopters.\n";
const MOST_IN_ADDRESS = 1500; // characters

export function show(container, context) {
  const { api, models, params, state } = context;
  let chosen = pickModels(params.get("models"), models, state.surprise?.chosen);
  let asking = null;
  let answer = null;
  let strip = null;
  let place = -1; // which of the disagreements

  const text = h("textarea", { rows: 4, maxlength: 20000, spellcheck: "false" });
  text.value = params.get("text") ?? state.surprise?.text ?? EXAMPLE;
  const result = h("div", { class: "stack", "aria-live": "polite" });

  container.append(
    h("h1", { class: "unseen" }, "Surprise"),
    h("div", { class: "stack" },
      field("How surprising is a text to each model?", text),
      chips(models, chosen, (found) => ((chosen = found), measure())),
      h("div", { class: "row" },
        h("button", { class: "main", type: "button", title: "Ctrl+Enter", onclick: measure }, "Measure"),
        h("button", { type: "button", title: "n", onclick: () => jump(1) }, "Next disagreement"),
        h("button", { type: "button", title: "p", onclick: () => jump(-1) }, "Previous"),
        h("span", { class: "faint small" }, "The more orange, the more surprising: full orange is six bits per character or more. Arrow keys move between pieces.")),
      result),
  );
  context.keys([
    { key: "Ctrl+Enter", does: "measure the text", run: measure },
    { key: "n", does: "the next largest disagreement", run: () => jump(1) },
    { key: "p", does: "the one before", run: () => jump(-1) },
    { key: "ArrowRight", does: "the next piece", run: () => strip?.move(1) },
    { key: "ArrowLeft", does: "the piece before", run: () => strip?.move(-1) },
  ]);

  async function measure() {
    asking?.abort();
    asking = new AbortController();
    state.surprise = { text: text.value, chosen };
    const found = new URLSearchParams({ models: chosen.join(",") });
    if (text.value.length <= MOST_IN_ADDRESS) found.set("text", text.value);
    context.setParams(found);
    if (!text.value || !chosen.length) {
      const what = text.value ? "Choose at least one model." : "Write or paste something.";
      replace(result, h("p", { class: "faint" }, what));
      return;
    }
    result.classList.add("waiting");
    try {
      answer = await api.post("/compare", { text: text.value, models: chosen }, asking.signal);
      result.classList.remove("waiting");
      draw();
    } catch (error) {
      if (error.name !== "AbortError") result.classList.remove("waiting");
      context.fail(error);
    }
  }

  function draw() {
    place = -1;
    strip?.leave();
    strip = makeStrip(answer, told);
    const card = h("div", { class: "card told-span" });
    replace(result, summary(answer), jumps(), strip.element, card);
    strip.card = card;
    if (answer.disagreements.length) jump(1, false);
    else strip.select(0, false);
  }

  function jumps() {
    if (!answer.disagreements.length) return null;
    return h("div", { class: "row jumps", role: "group", "aria-label": "Largest disagreements" },
      h("span", { class: "faint small" }, "They disagree most on"),
      answer.disagreements.map((span, number) =>
        h("button", { type: "button", class: "small", onclick: () => ((place = number - 1), jump(1)) },
          inWord(answer.spans, span))));
  }

  function jump(by, doesScroll = true) {
    const places = answer?.disagreements ?? [];
    if (!places.length) return;
    place = (place + by + places.length) % places.length;
    [...container.querySelectorAll(".jumps button")].forEach((each, number) =>
      each.setAttribute("aria-pressed", String(number === place)));
    strip.select(places[place], doesScroll);
  }

  function told(span) {
    const largest = Math.max(...span.bits.map((bits) => bits ?? 0), 1e-9);
    replace(strip.card ?? h("div"),
      h("h2", null, h("span", { class: "name" }, `“${visible(span.text)}”`), " costs"),
      h("table", null, h("tbody", null, span.bits.map((bits, number) =>
        h("tr", null,
          h("td", { title: answer.models[number].model }, shortName(answer.models[number].model)),
          h("td", { class: "right" }, bits == null ? "impossible" : `${bits.toFixed(2)} bits`),
          h("td", { class: "meter-cell" }, meter(bits == null ? 1 : bits / largest)),
          h("td", { class: "right faint small" }, bits == null ? "" : oneIn(bits)))))));
  }

  measure();
  return () => {
    asking?.abort();
    strip?.leave();
  };
}

/** A piece with what stands around it up to the next spaces, so that a single letter can be told. */
function inWord(spans, place) {
  const { text } = spans[place];
  const isInside = /\S$/.test(text) || /^\S/.test(text);
  const all = (from, to) => spans.slice(Math.max(0, from), to).map((span) => span.text).join("");
  const before = isInside && /^\S/.test(text) ? all(place - 15, place).match(/\S*$/)[0] : "";
  const after = isInside && /\S$/.test(text) ? all(place + 1, place + 16).match(/^\S*/)[0] : "";
  return h("span", { class: "name" }, before, h("b", null, visible(text).trim() || "␣"), after);
}

function summary(answer) {
  const best = Math.min(...answer.models.map((each) => each.bits ?? Infinity));
  return h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Totals" }, h("table", { class: "summary" },
    h("caption", { class: "unseen" }, "Surprisal of the whole text for each model"),
    h("thead", null, h("tr", null, ["Model", "Bits", "Bits per byte", "Tokens", ""].map((name, place) =>
      h("th", { scope: "col", class: place % 4 ? "right" : null }, name)))),
    h("tbody", null, answer.models.map(({ model, bits, bits_per_byte, tokens }) =>
      h("tr", { "data-model": model, "data-bits": bits },
        h("th", { scope: "row", title: model }, shortName(model)),
        h("td", { class: "right" }, bits == null ? "∞" : bits.toFixed(1)),
        h("td", { class: "right" }, bits_per_byte == null ? "–" : bits_per_byte.toFixed(3)),
        h("td", { class: "right" }, count(tokens.length)),
        h("td", { class: "meter-cell" }, meter(bits == null ? 1 : best / bits, bits === best)))))));
}

/** A bar from 0 to 1; it says nothing that the number beside it does not. */
function meter(share, isBest = false) {
  return h("span", { class: isBest ? "meter best" : "meter", "aria-hidden": "true" },
    h("span", { style: { width: `${(100 * share).toFixed(1)}%` } }));
}

/** 3 bits -> "1 in 8". */
function oneIn(bits) {
  const odds = 2 ** bits;
  return odds < 1000 ? `1 in ${odds < 10 ? odds.toFixed(1) : odds.toFixed(0)}` : `1 in ${count(odds)}`;
}
