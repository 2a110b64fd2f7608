// Where a model looks: the heads of a Transformer and what every layer would say; positions, and other figures by token.

import { h, percent, replace, visible } from "/web/dom.js";
import { part, stepper } from "/web/parts.js";
import { inText, tinted } from "/web/tokens.js";

const SHOWN = 64; // tokens, the latest
const LENS_COLUMNS = 6;

export function transformer({ attention, lens }, found) {
  return [heads(attention, found), lensTable(lens, found.tokens)];
}

/** The weights of one head from one token: the one pointed at, the one held, or else the latest. */
function heads(attention, { tokens: all, separator }) {
  const length = attention[0][0].length;
  const tokens = all.slice(-length);
  let from = length - 1;
  let isHeld = false;
  const layer = stepper("Layer", attention.length, attention.length - 1, draw);
  const head = stepper("Head", attention[0].length, 0, draw);
  const told = h("p", { class: "faint" });
  const lock = h("button", { type: "button", class: "quiet", onclick: () => hold(!isHeld) }, "Lock");
  const spans = tokens.map((token, place) =>
    h("span", { class: "tint", role: "button", "data-place": place }, inText(token, token)),
  );
  const text = h(
    "p",
    { class: "tokens attention", role: "group", "aria-label": "Tokens by attention" },
    spans.flatMap((each, place) => (place && separator ? [separator, each] : [each])),
  );

  function hold(value) {
    isHeld = value;
    lock.setAttribute("aria-pressed", String(isHeld));
    text.classList.toggle("locked", isHeld);
  }

  function look(place) {
    from = place;
    draw();
  }

  function draw() {
    const weights = attention[layer.value][head.value][from];
    spans.forEach((each, place) => {
      const share = place <= from ? percent(weights[place]) : "not seen yet";
      each.style.setProperty("--level", weights[place].toFixed(4));
      each.classList.toggle("query", place === from);
      each.tabIndex = place === from ? 0 : -1;
      each.title = share;
      each.setAttribute("aria-label", `${visible(tokens[place])}, ${share}`);
    });
    const best = [...weights.keys()].sort((a, b) => weights[b] - weights[a]).slice(0, Math.min(4, from + 1));
    const named = (place) => h("span", { class: "name" }, visible(tokens[place]));
    const looked = best.map((to, rank) => [rank ? ", " : "", named(to), ` ${percent(weights[to])}`]);
    replace(told, "from ", named(from), " to ", looked);
  }

  const on = (kind, run) =>
    text.addEventListener(kind, (event) => {
      const place = event.target.closest("[data-place]")?.dataset.place;
      if (place !== undefined) run(Number(place), event);
    });
  on("pointerover", (place) => isHeld || look(place));
  on("click", (place) => {
    hold(!(isHeld && place === from));
    look(place);
  });
  on("keydown", (place, event) => {
    const to = { ArrowLeft: place - 1, ArrowRight: place + 1, Home: 0, End: length - 1 }[event.key];
    if (event.key === "Enter") hold(!isHeld);
    else if (spans[to]) {
      look(to);
      spans[to].focus();
    } else return;
    event.preventDefault();
  });
  text.addEventListener("pointerleave", () => isHeld || look(length - 1));
  hold(false);
  draw();
  return part(
    "Attention",
    "What a head attends to from a token: point at one, click to keep it.",
    h("div", { class: "row" }, layer.element, head.element, lock),
    text,
    told,
  );
}

function lensTable(lens, tokens) {
  const from = Math.max(0, lens[0].length - LENS_COLUMNS);
  const latest = tokens.slice(-lens[0].length).slice(from);
  const cell = ({ token, probability, probability_of_token }) =>
    h(
      "td",
      {
        class: "tint name",
        style: { "--level": probability.toFixed(3) },
        title: `${visible(token)}: ${percent(probability)}; the one that came: ${percent(probability_of_token)}`,
      },
      visible(token),
    );
  const name = (token) => h("th", { class: "name" }, visible(token));
  const rows = lens.map((guesses, depth) =>
    h("tr", null, h("th", null, depth ? `layer ${depth}` : "input"), guesses.slice(from).map(cell)),
  );
  const table = h(
    "table",
    { class: "lens" },
    h("thead", null, h("tr", null, h("th", null, "after"), latest.map(name))),
    h("tbody", null, rows),
  );
  const scrolled = h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "Logit lens" }, table);
  requestAnimationFrame(() => (scrolled.scrollLeft = scrolled.scrollWidth)); // the latest token counts most
  return part("Logit lens", "Logit lens: the next token if the model ended at each layer; the bluer, the more certain.", scrolled);
}

/** Weights of an attention without layers, or shares that add up to a logit. */
export function positions({ weights, contributions, constant, logit }, { tokens, separator }) {
  const read = tokens.slice(-SHOWN);
  if (contributions) {
    return part(
      "What each position adds",
      `They add up to a logit of ${logit.toFixed(2)}, with a constant of ${constant.toFixed(2)}.`,
      tinted(read, contributions.slice(-SHOWN), separator),
    );
  }
  const shown = h("div");
  const head = stepper("Head", weights.length, 0, draw);
  function draw() {
    replace(shown, tinted(read, weights[head.value].slice(-SHOWN), separator));
  }
  draw();
  return part("Attention", "How much attention each token gets.", weights.length > 1 && head.element, shown);
}

/** Any figures with one for each token: a line of tinted text for each of them. */
export function series({ title, figures }, { tokens, separator }) {
  const read = tokens.slice(-SHOWN);
  const line = ([name, values]) =>
    h("div", null, h("p", { class: "faint" }, name), tinted(read, values.slice(-SHOWN), separator));
  return part(title, "Blue above zero, orange below.", Object.entries(figures).map(line));
}
