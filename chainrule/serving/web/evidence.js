// Why a model expects a token, in the terms of its kind: ladder and corpus lines, states, attention and lens, parts.

import { h, percent, replace, visible } from "/web/dom.js";
import { strip } from "/web/heat.js";
import { tinted } from "/web/tokens.js";

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
    if (error.name === "AbortError") return;
    replace(place, h("p", { class: "notice small" }, error.message));
  }
}

/** @param {any} found what /explain answers */
export function evidence(found) {
  const shows = { ladder, gates, transformer, positions, mixture };
  return h("div", { class: "evidence-parts stack small" },
    h("h3", null, "Why ", h("span", { class: "name" }, visible(found.token)), ` (${percent(found.probability)})`),
    found.kind && shows[found.kind](found.inside, found),
    found.evidence && corpus(found.evidence),
    importance(found),
    found.notes.map((note) => h("p", { class: "faint" }, `Note: ${note}.`)));
}

// An n-gram: the ladder, and the lines of the text it was trained on.

function ladder({ rungs, smoothing, probability }) {
  const largest = Math.max(...rungs.map(({ contribution }) => contribution), 1e-12);
  return part(`The back-off ladder (${smoothing})`, "Every order adds its own part times what the longer ones have left over.",
    h("table", { class: "ladder" },
      h("thead", null, h("tr", null, h("th", null, "context"), h("th", { class: "right" }, "seen"), h("th", null, "adds"))),
      h("tbody", null, rungs.map((rung) => h("tr", { class: rung.contribution ? "" : "faint" },
        h("td", { class: "context" }, rung.order === 0 ? h("i", null, "any token") : rung.context.length
          ? h("span", { class: "name" }, rung.context.map(visible).join("·")) : h("i", null, "no context")),
        h("td", { class: "right" }, rung.count == null ? "" : `${rung.count.toLocaleString("en")} of ${rung.total.toLocaleString("en")}`),
        h("td", null, meter(rung.contribution, largest)))),
        h("tr", { class: "sum" }, h("td", null, "together"), h("td"), h("td", null, percent(probability)))))
  );
}

function corpus({ context, count, followed, sightings }) {
  return part("In the training text", `“${visible(context)}” stands there ${times(count)}, with this token after it ${times(followed)}.`,
    h("ul", { class: "sightings" }, sightings.map(({ path, line, before, found, after }) => h("li", null,
      h("span", { class: "faint" }, `${path.split("/").at(-1)}:${line} `), `${before}`, h("mark", null, found), `${after}`))));
}

function times(number) {
  return number === 1 ? "once" : `${number.toLocaleString("en")} times`;
}

// A recurrent model: its state and gates as a strip, and how far back it remembers.

function gates(inside, found) {
  const { layers, influence, half_within, most_within } = inside;
  const tokens = found.tokens.slice(-layers[0].state.h.length);
  const names = [...Object.keys(layers[0].state), ...Object.keys(layers[0].gates)];
  const shown = h("div");
  const layer = stepper("Layer", layers.length, layers.length - 1, draw);
  const which = h("select", { "aria-label": "State or gate", onchange: () => draw() },
    names.map((name) => h("option", { value: name }, name.length === 1 ? `state ${name}` : `gate ${name}`)));
  function draw() {
    const { state, gates: open } = layers[layer.value];
    replace(shown, strip(state[which.value] ?? open[which.value], tokens, which.value));
  }
  draw();
  return [
    part("The state, unit by unit", "A row for each of the first units, a column for each token, the latest at the right.",
      h("div", { class: "row" }, layer.element, which), shown),
    part("What it remembers", `Half of all influence lies within ${half_within} tokens, nine tenths within ${most_within}.`,
      tinted(found.tokens.slice(-64), influence.slice(-64), found.separator)),
  ];
}

// A Transformer: where each head looks from a token, and what each layer would say.

function transformer(inside, found) {
  const { attention, lens } = inside;
  const [layers, heads, length] = [attention.length, attention[0].length, attention[0][0].length];
  const tokens = found.tokens.slice(-length);
  let at = length - 1;
  let isLocked = false;
  const layer = stepper("Layer", layers, layers - 1, draw);
  const head = stepper("Head", heads, 0, draw);
  const shown = h("div");
  const lock = h("button", { type: "button", class: "quiet", "aria-pressed": "false", onclick: () => setLock(!isLocked) }, "Lock");
  const texts = tokens.map((token, place) => h("span", { class: "tint", role: "button", tabindex: place === at ? 0 : -1, "data-place": place },
    token.replaceAll("\n", "⏎\n")));
  const text = h("p", { class: "tokens attention", role: "group", "aria-label": "Tokens by how much is looked at them" },
    texts.flatMap((each, place) => (place && found.separator ? [found.separator, each] : [each])));

  function setLock(value) {
    isLocked = value;
    lock.setAttribute("aria-pressed", String(isLocked));
    text.classList.toggle("locked", isLocked);
  }

  function look(place) {
    at = place;
    draw();
  }

  function draw() {
    const weights = attention[layer.value][head.value][at];
    texts.forEach((each, place) => {
      each.style.setProperty("--level", (weights[place] ?? 0).toFixed(3));
      each.classList.toggle("query", place === at);
      each.tabIndex = place === at ? 0 : -1;
      each.title = place <= at ? `${visible(tokens[place])}: ${percent(weights[place])}` : "";
      each.setAttribute("aria-label", place <= at ? `${visible(tokens[place])}, ${percent(weights[place])}` : visible(tokens[place]));
    });
    const best = weights.map((weight, place) => [weight, place]).slice(0, at + 1).sort(([a], [b]) => b - a).slice(0, 4);
    replace(shown, h("p", { class: "faint" }, "from ", h("b", { class: "name" }, visible(tokens[at])), " to ",
      best.map(([weight, place], rank) => [rank ? ", " : "", h("span", { class: "name" }, visible(tokens[place])), ` ${percent(weight)}`])));
  }

  const placeOf = (event) => event.target.closest("[data-place]")?.dataset.place;
  text.addEventListener("pointerover", (event) => !isLocked && placeOf(event) && look(Number(placeOf(event))));
  text.addEventListener("pointerleave", () => !isLocked && look(length - 1));
  text.addEventListener("click", (event) => {
    if (!placeOf(event)) return;
    const isSame = isLocked && Number(placeOf(event)) === at;
    look(Number(placeOf(event)));
    setLock(!isSame);
  });
  text.addEventListener("keydown", (event) => {
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: length - 1 }[event.key];
    if (to === undefined || !texts[to]) return;
    event.preventDefault();
    look(to);
    texts[to].focus();
  });
  draw();
  return [
    part("Attention", "Where a head looks from a token: point at one, click to hold it. The first is the start of the text.",
      h("div", { class: "row" }, layer.element, head.element, lock), text, shown),
    part("Logit lens", "What every depth would say comes next, were it the last: its likeliest token, the bluer the surer.", lensTable(lens, found)),
  ];
}

function lensTable(lens, found) {
  const length = lens[0].length;
  const latest = found.tokens.slice(-length);
  const from = Math.max(0, length - 6);
  return h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "Logit lens" }, h("table", { class: "lens" },
    h("thead", null, h("tr", null, h("th", null, "after"), latest.slice(from).map((token) => h("th", { class: "name" }, visible(token))))),
    h("tbody", null, lens.map((row, depth) => h("tr", null, h("th", { class: "right" }, depth ? `layer ${depth}` : "input"),
      row.slice(from).map((guess) => h("td", { class: "tint name", style: { "--level": guess.probability.toFixed(3) },
        title: `${visible(guess.token)}: ${percent(guess.probability)}; the one that came: ${percent(guess.probability_of_token)}` },
        visible(guess.token)))))),
  ));
}

// Models of places: attention weights, or shares that add up to the logit.

function positions(inside, found) {
  const { weights, contributions, constant, logit } = inside;
  if (contributions) {
    return part("What each place adds", `To a logit of ${logit.toFixed(2)}, of which ${constant.toFixed(2)} come without any of them.`,
      tinted(found.tokens.slice(-64), contributions.slice(-64), found.separator));
  }
  const shown = h("div");
  const head = stepper("Head", weights.length, 0, draw);
  function draw() {
    replace(shown, tinted(found.tokens.slice(-64), weights[head.value].slice(-64), found.separator));
  }
  draw();
  return part("Attention", "How much each token is looked at.", weights.length > 1 && head.element, shown);
}

function mixture({ shares, by, probability }) {
  const largest = Math.max(...shares.map(({ contribution }) => contribution), 1e-12);
  return part("The parts of the mix", `Weighed by ${by}.`, h("table", null,
    h("thead", null, h("tr", null, ["part", "weight", "says", "adds"].map((name) => h("th", null, name)))),
    h("tbody", null, shares.map((share) => h("tr", null, h("td", null, share.part), h("td", null, percent(share.weight)),
      h("td", null, percent(share.probability)), h("td", null, meter(share.contribution, largest)))),
      h("tr", { class: "sum" }, h("td", null, "together"), h("td"), h("td"), h("td", null, percent(probability))))));
}

// Any model: which tokens mattered.

function importance({ importance: { left_out }, tokens, separator }) {
  if (!left_out.some((each) => each)) return null;
  return part("What mattered", "Blue tokens made it likelier, orange ones less likely: each was left out in turn.",
    tinted(tokens.slice(1).slice(-64), left_out.slice(-64), separator));
}

// Pieces.

function part(title, said, ...children) {
  return h("section", { class: "part" }, h("h4", null, title), h("p", { class: "faint" }, said), children);
}

function meter(value, largest) {
  return h("span", { class: "meter" },
    h("span", { class: "full", style: { width: `${((60 * value) / largest).toFixed(2)}%` } }), h("span", { class: "number" }, percent(value)));
}

/** ‹ Layer 2 of 4 ›, by buttons or arrow keys; `value` counts from 0. */
function stepper(label, length, value, changed) {
  const shown = h("span", { class: "number" });
  const go = (to) => {
    found.value = (to + length) % length;
    shown.textContent = `${label} ${found.value + 1} of ${length}`;
  };
  const button = (sign, by, name) => h("button", { type: "button", class: "quiet", "aria-label": `${name} ${label.toLowerCase()}`, disabled: length < 2,
    onclick: () => {
      go(found.value + by);
      changed();
    } }, sign);
  const found = { value, element: h("span", { class: "stepper" }, button("‹", -1, "Previous"), shown, button("›", 1, "Next")) };
  go(value);
  return found;
}
