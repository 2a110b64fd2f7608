// Which word came from which: source and target as tokens that light each other up, and the map of all pairs.

import { h, percent, replace, visible } from "/web/dom.js";
import { part } from "/web/parts.js";

const MAPS = {
  attention: "Attention: the bluer a square, the more its target word attends to its source word.",
  attribution: "Attribution in nats: blue makes the target word more likely, orange less.",
};
const TOLD = 3; // words, the strongest

/**
 * @param {{ source: string[], target: string[], probabilities: number[], attention: number[][] | null,
 *   attribution: number[][] }} found of /alignment
 * @param {string | undefined} wanted the map that is shown first
 * @param {(map: string) => void} chose hears which is shown
 */
export function alignment(found, wanted, chose) {
  const { source, target, probabilities } = found;
  const names = { source: source.map(nameOf), target: target.map(nameOf) };
  let map = found.attention && wanted !== "attribution" ? "attention" : "attribution";
  let at = null; // { side, place }: the token that is looked at

  const sides = { source: side("source"), target: side("target") };
  const said = h("p", { class: "faint" });
  const told = h("p", { class: "told number", "aria-live": "polite" });
  const frame = h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Map of source and target" });
  const buttons = Object.keys(MAPS).map((name) =>
    h("button", { type: "button", class: "chip", disabled: !found[name], onclick: () => choose(name) },
      name === "attention" ? "Attention" : "Attribution"));

  function side(name) {
    const element = h("p", { class: "tokens linked", role: "group", "aria-label": `Tokens of the ${name}` },
      names[name].flatMap((token, place) => [place ? " " : null,
        h("span", { class: "tint", role: "button", tabindex: place ? -1 : 0, "data-place": place }, token)]));
    const on = (kind, run) =>
      element.addEventListener(kind, (event) => {
        const token = event.target.closest("[data-place]");
        if (token) run(Number(token.dataset.place), event);
      });
    on("pointerover", (place) => look(name, place));
    on("focusin", (place) => look(name, place));
    on("click", (place) => look(name, place));
    on("keydown", (place, event) => {
      const last = names[name].length - 1;
      const to = { ArrowLeft: place - 1, ArrowRight: place + 1, Home: 0, End: last }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      const next = /** @type {HTMLElement} */ (element.children[Math.min(Math.max(to, 0), last)]);
      next.focus();
    });
    return element;
  }

  function choose(name) {
    map = name;
    chose(map);
    draw();
  }

  function look(name, place) {
    at = { side: name, place };
    light();
  }

  /** How a token of one side and all of the other belong together. */
  function weightsOf({ side: from, place }) {
    return from === "target" ? found[map][place] : found[map].map((row) => row[place]);
  }

  function draw() {
    buttons.forEach((button, place) => button.setAttribute("aria-pressed", String(Object.keys(MAPS)[place] === map)));
    said.textContent = found.attention ? MAPS[map] : `${MAPS[map]} This model has no attention: all it knows of the source is one context vector.`;
    replace(frame, table(names, found[map], map, look));
    light();
  }

  function light() {
    const other = at?.side === "source" ? "target" : "source";
    const weights = at ? weightsOf(at) : [];
    const most = mostOf(found[map], map);
    for (const name of ["source", "target"]) {
      [...sides[name].children].forEach((token, place) => {
        const weight = at && name === other ? weights[place] : 0;
        token.style.setProperty("--level", Math.abs(weight / most).toFixed(4));
        token.classList.toggle("against", weight < 0);
        token.classList.toggle("query", at?.side === name && at.place === place);
        if (at?.side === name) token.tabIndex = at.place === place ? 0 : -1;
      });
    }
    for (const cell of frame.querySelectorAll("[data-row]")) {
      cell.classList.toggle("lit", at?.side === "target" && Number(cell.dataset.row) === at.place);
    }
    for (const cell of frame.querySelectorAll("[data-column]")) {
      cell.classList.toggle("lit", at?.side === "source" && Number(cell.dataset.column) === at.place);
    }
    replace(told, at ? sentence(at, weights, other) : "Point at a token, or walk through them with arrow keys.");
  }

  function sentence({ side: from, place }, weights, other) {
    const strongest = [...weights.keys()].sort((a, b) => Math.abs(weights[b]) - Math.abs(weights[a])).slice(0, TOLD);
    const chance = from === "target" ? ` (${percent(probabilities[place])})` : "";
    const verb = { attention: from === "target" ? " looked at " : " was looked at by ", attribution: from === "target" ? " owes " : " gave " }[map];
    const each = (to, rank) => map === "attention"
      ? [rank ? ", " : "", word(names[other][to]), ` ${percent(weights[to])}`]
      : [rank ? ", " : "", `${signed(weights[to])} to `, word(names[other][to])];
    return [word(names[from][place]), chance, verb, strongest.map(each)];
  }

  draw();
  const whole = probabilities.reduce((all, each) => all * each, 1);
  return part("Alignment", `The whole target has a probability of ${percent(whole)}. Point at a token on one side to highlight those it belongs to on the other.`,
    h("div", { class: "row", role: "group", "aria-label": "What the map shows" }, buttons),
    h("div", { class: "sides" }, h("span", { class: "faint small" }, "Source"), sides.source, h("span", { class: "faint small" }, "Target"), sides.target),
    told, said, frame);
}

function table({ source, target }, values, map, look) {
  const most = mostOf(values, map);
  const cell = (value, row, column) =>
    h("td", {
      class: value < 0 ? "square against" : "square",
      style: { "--level": Math.min(Math.abs(value) / most, 1).toFixed(4) },
      title: `${target[row]} ← ${source[column]}: ${map === "attention" ? percent(value) : signed(value)}`,
      "data-value": value,
    });
  const head = source.map((token, column) => h("th", { scope: "col", "data-column": column }, h("span", null, token)));
  const rows = values.map((row, place) =>
    h("tr", { "data-row": place }, h("th", { scope: "row" }, target[place]), row.map((value, column) => cell(value, place, column))));
  const found = h("table", { class: "map" }, h("caption", { class: "unseen" }, `${map} of target tokens (rows) and source tokens (columns)`),
    h("thead", null, h("tr", null, h("td"), head)), h("tbody", null, rows));
  found.addEventListener("pointerover", (event) => {
    const row = event.target.closest("[data-row]");
    const column = event.target.closest("[data-column]");
    if (row) look("target", Number(row.dataset.row));
    else if (column) look("source", Number(column.dataset.column));
  });
  return found;
}

/** What is as dark as it gets. */
function mostOf(values, map) {
  return map === "attention" ? 1 : Math.max(...values.map((row) => Math.max(...row.map(Math.abs))), 1e-9);
}

/** Without the space that begins a word. */
export function nameOf(token) {
  return visible(token.trim() || token);
}

function word(name) {
  return h("span", { class: "name" }, name);
}

function signed(value) {
  return `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
}
