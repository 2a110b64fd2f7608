// The same text, every model's die, one random number: where it falls on each line is the word that each would say.

import { dieRows } from "/web/die.js";
import { count, field, h, percent, replace, visible } from "/web/dom.js";
import { showEvidence } from "/web/evidence.js";
import { filterControls, filtersOf, writeFilters } from "/web/filters.js";
import { line } from "/web/line.js";
import { inText, level } from "/web/tokens.js";

const FACES = 8;
const MOST_STEPS = 500;
const PAUSE = 650; // milliseconds between steps of auto-play
const EXAMPLE = "The ";

export function show(container, context) {
  const { api, models, params, state } = context;
  const kept = params.size ? null : state.dice;
  let prompt = kept?.prompt ?? params.get("prompt") ?? EXAMPLE;
  let filters = kept?.filters ?? filtersOf(params);
  let seed = kept?.seed ?? seedOf(params);
  let chosen = kept?.chosen ?? modelsOf(params, models);
  let rolls = kept?.rolls ?? readRolls(params.get("rolls")); // those used, the latest last; what is missing comes from the seed
  let ofSeed = [];
  let columns = new Map(); // by model: { ids, tokens, answer, why }
  let asking = null;
  let playing = 0;
  let isRolling = false;
  let hasEvidence = kept?.hasEvidence ?? params.has("evidence");

  const text = h("textarea", { rows: 2, spellcheck: "false", oninput: later(() => restart({ prompt: text.value })) });
  text.value = prompt;
  const number = h("output", { class: "number roll-number", id: "roll-number" });
  const slider = h("input", { type: "range", min: 0, max: 0.9999, step: 0.0001, "aria-label": "The random number",
    oninput: () => setRoll(Number(slider.value)) });
  const play = h("button", { type: "button", title: "p", "aria-pressed": "false", onclick: toggle }, "Play");
  const seedField = h("input", { type: "number", class: "seed", min: 0, max: Number.MAX_SAFE_INTEGER, value: seed,
    onchange: () => restart({ seed: Math.max(0, Math.round(Number(seedField.value)) || 0) }) });
  const grid = h("div", { class: "dice", role: "group", "aria-label": "One column for each model" });
  const steps = h("span", { class: "faint small number" });
  const evidence = h("button", { type: "button", title: "e", "aria-pressed": String(hasEvidence), onclick: toggleEvidence }, "Evidence");

  container.append(
    h("h1", { class: "unseen" }, "Same prompt, every die"),
    h("div", { class: "stack" },
      field("The same text for every model", text),
      h("div", { class: "row chips", role: "group", "aria-label": "Models" }, models.map(chip)),
      h("details", { class: "small" }, h("summary", null, "Temperature and other filters"),
        filterControls(filters, later((found) => restart({ filters: found })))),
      h("div", { class: "card roll" },
        h("div", { class: "row" },
          h("button", { class: "main", type: "button", title: "r", onclick: () => setRoll(Math.random()) }, "Roll again"),
          h("button", { type: "button", title: "s", onclick: () => step().catch(context.fail) }, "Step"), play,
          h("button", { type: "button", title: "b", onclick: () => back() }, "Back"),
          h("button", { type: "button", title: "0", onclick: () => restart({}) }, "Start over"), evidence,
          h("label", { class: "row small", title: "Steps take their numbers from it, as /v1/completions does." }, "Seed", seedField), steps),
        h("div", { class: "row slide" }, number, slider)),
      grid),
  );

  function chip({ id, architecture, parameters }) {
    const button = h("button", { type: "button", class: "chip", "aria-pressed": String(chosen.includes(id)),
      title: `${architecture}, ${count(parameters)} parameters`, onclick: () => {
        const next = chosen.includes(id) ? chosen.filter((each) => each !== id) : models.map((each) => each.id).filter((each) => each === id || chosen.includes(each));
        if (!next.length) return;
        chosen = next;
        button.setAttribute("aria-pressed", String(chosen.includes(id)));
        replay().catch(context.fail);
      } }, id);
    return button;
  }

  // The numbers.
  const used = () => rolls.length; // the latest is the one that is shown
  const roll = () => rolls.at(-1);

  async function numbers(length) {
    if (ofSeed.seed !== seed || ofSeed.length < length) {
      const found = await api.get(`/rolls?seed=${seed}&count=${Math.max(64, 2 * length)}`);
      ofSeed = Object.assign(found.rolls, { seed });
    }
    return ofSeed;
  }

  /** While an answer is awaited, only the latest number is asked for next. */
  async function setRoll(value) {
    rolls[rolls.length - 1] = value;
    for (const column of columns.values()) column.why = null;
    drawRoll();
    if (isRolling) return;
    isRolling = true;
    try {
      for (let asked = NaN; asked !== roll(); ) {
        asked = roll();
        await ask();
      }
    } catch (error) {
      context.fail(error);
    } finally {
      isRolling = false;
    }
  }

  // Asking. A column keeps its own ids: what was drawn for it is what it reads next.
  async function ask() {
    asking?.abort();
    const mine = (asking = new AbortController());
    remember();
    drawRoll();
    const wanted = chosen.map((model) => ({ model, column: columns.get(model) })).filter(({ column }) => !column.isOver);
    if (!wanted.length) return;
    const asked = wanted.map(({ model, column }) => ({ model, prompt: column.ids ?? prompt }));
    const found = await api.post("/dice", { columns: asked, roll: roll(), faces: FACES, ...filters }, mine.signal);
    if (mine !== asking) throw new DOMException("another was asked", "AbortError");
    wanted.forEach(({ column }, place) => (column.answer = found.columns[place]));
    drawColumns();
  }

  async function restart(some) {
    pause();
    ({ prompt = prompt, filters = filters, seed = seed } = some);
    rolls = [(await numbers(1))[0]];
    columns = fresh();
    await ask().catch(context.fail);
  }

  const fresh = () => new Map(chosen.map((model) => [model, { ids: null, tokens: [], answer: null, isOver: false, why: null }]));

  /** Take what was drawn, and roll the next number. */
  async function step() {
    if (used() >= MOST_STEPS || [...columns.values()].every(({ isOver }) => isOver)) return pause();
    if ([...columns.values()].some(({ answer, isOver }) => !answer && !isOver)) return;
    const next = (await numbers(used() + 1))[used()];
    take();
    rolls = [...rolls, next];
    await ask();
  }

  function take() {
    for (const column of columns.values()) {
      if (column.isOver) continue;
      const { ids, drawn } = column.answer;
      column.ids = [...ids, drawn.id];
      column.tokens = [...column.tokens, drawn];
      column.isOver = drawn.is_end;
      column.why = null;
    }
  }

  /** From the beginning with the numbers that were used, one after the other. */
  async function replay() {
    const wanted = rolls;
    columns = fresh();
    rolls = [];
    for (const each of wanted) {
      if (rolls.length) take();
      rolls = [...rolls, each];
      await ask();
    }
  }

  function back() {
    pause();
    if (used() < 2) return;
    rolls = rolls.slice(0, -1);
    replay().catch(context.fail);
  }

  function toggle() {
    if (playing) return pause();
    play.textContent = "Pause";
    play.setAttribute("aria-pressed", "true");
    const turn = async () => {
      const began = performance.now();
      try {
        await step();
      } catch (error) {
        pause();
        context.fail(error);
      }
      if (playing) playing = setTimeout(turn, Math.max(60, PAUSE - (performance.now() - began)));
    };
    playing = setTimeout(turn, 0);
  }

  function pause() {
    clearTimeout(playing);
    playing = 0;
    play.textContent = "Play";
    play.setAttribute("aria-pressed", "false");
  }

  function toggleEvidence() {
    hasEvidence = !hasEvidence;
    evidence.setAttribute("aria-pressed", String(hasEvidence));
    remember();
    drawColumns();
  }

  // Showing.
  function drawRoll() {
    slider.value = String(roll());
    number.textContent = roll().toFixed(4);
    steps.textContent = `step ${used() - 1}`;
    grid.style.setProperty("--roll", String(roll()));
  }

  function drawColumns() {
    const found = new Map([...grid.children].map((each) => [each.dataset.model, each]));
    replace(grid, chosen.map((id) => {
      const element = found.get(id) ?? frame(id);
      fillColumn(element, id, columns.get(id));
      return element;
    }));
  }

  function frame(id) {
    const { architecture, parameters } = models.find((each) => each.id === id);
    return h("section", { class: "column", "data-model": id, "aria-label": id },
      h("header", { class: "row spread" }, h("h2", { class: "name" }, id),
        h("span", { class: "faint small" }, `${architecture}, ${count(parameters)}`)),
      h("p", { class: "said" }), h("div", { class: "lines" }), h("p", { class: "drawn-word" }), h("div", { class: "bars" }),
      h("div", { class: "evidence" }));
  }

  function fillColumn(element, id, column) {
    const [, said, lines, word, bars, below] = element.children;
    const { answer } = column;
    if (!answer) return;
    replace(said, h("span", { class: "faint" }, `${prompt.length > 160 ? "…" : ""}${prompt.slice(-160)}`), column.tokens.map(spoken));
    said.scrollTop = said.scrollHeight;
    if (column.isOver) {
      replace(lines, h("p", { class: "faint small over" }, "The text has ended here."));
      replace(word);
      replace(bars);
      replace(below);
      return;
    }
    replace(lines, line(answer, roll(), setRoll));
    replace(word, "→ ", h("b", { class: "name" }, visible(answer.drawn.token)),
      h("span", { class: "faint small number" }, ` ${percent(answer.drawn.filtered)} · die of ${answer.entropy_bits.toFixed(2)} bits`));
    replace(bars, dieRows(answer, { does: "explain", chosen: column.why ?? answer.drawn.id, pick: (face) => {
      column.why = face.id;
      if (!hasEvidence) toggleEvidence();
      else fillColumn(element, id, column);
    } }));
    const asked = JSON.stringify([answer.ids, column.why ?? answer.drawn.id, filters]);
    if (!hasEvidence) {
      replace(below);
      below.dataset.asked = "";
    } else if (below.dataset.asked !== asked) {
      below.dataset.asked = asked;
      showEvidence(below, context, { model: id, prompt: column.ids ?? prompt, token: column.why ?? answer.drawn.id, ...filters });
    }
  }

  function spoken(token) {
    return h("span", { class: "token", style: { "--level": level(-Math.log2(Math.max(token.probability, 1e-12))).toFixed(3) },
      title: `${visible(token.token)}: ${percent(token.probability)}` }, token.is_end ? "⏹" : inText(token.text, token.token));
  }

  function remember() {
    state.dice = { prompt, filters, seed, chosen, rolls, hasEvidence };
    const found = new URLSearchParams({ models: chosen.join(","), prompt, seed: String(seed) });
    writeFilters(found, filters);
    found.set("rolls", rolls.every((each, place) => each === ofSeed[place]) ? String(rolls.length) : rolls.join("_"));
    if (hasEvidence) found.set("evidence", "1");
    context.setParams(found);
  }

  function later(run) {
    let timer = 0;
    return (...given) => {
      clearTimeout(timer);
      timer = setTimeout(() => run(...given), 250);
    };
  }

  context.keys([
    { key: "r", does: "roll again", run: () => setRoll(Math.random()) },
    { key: "s", does: "step: every model takes its word", run: () => step().catch(context.fail) },
    { key: "p", does: "play and pause", run: toggle },
    { key: "b", does: "one step back", run: back },
    { key: "0", does: "start over", run: () => restart({}) },
    { key: "e", does: "evidence on and off", run: toggleEvidence },
  ]);

  (async () => {
    const wanted = typeof rolls === "number" ? rolls : Math.max(1, rolls.length);
    const seeded = await numbers(wanted);
    if (typeof rolls === "number" || !rolls.length) rolls = seeded.slice(0, wanted);
    await replay();
  })().catch(context.fail);

  return () => {
    pause();
    asking?.abort();
  };
}

function seedOf(params) {
  const found = Number(params.get("seed") ?? 1);
  return Number.isSafeInteger(found) && found >= 0 ? found : 1;
}

/** How many numbers of the seed, or the numbers themselves. */
function readRolls(text) {
  if (!text) return 1;
  if (/^\d+$/.test(text)) return Math.min(Math.max(1, Number(text)), MOST_STEPS);
  const found = text.split("_").map(Number).filter((each) => each >= 0 && each < 1);
  return found.length ? found.slice(0, MOST_STEPS) : 1;
}

/** Those of the address, or one of each of the best known kinds. */
function modelsOf(params, models) {
  const named = (params.get("models") ?? "").split(",").filter((id) => models.some((each) => each.id === id));
  if (named.length) return named;
  const kinds = ["ngram", "lstm", "transformer", "mix"];
  const found = kinds.map((kind) => models.filter(({ architecture }) => architecture === kind).sort((a, b) => b.parameters - a.parameters)[0]);
  const some = found.filter(Boolean).map(({ id }) => id);
  return models.map(({ id }) => id).filter((id, place) => some.includes(id) || (some.length < 3 && place < 4)).slice(0, 6);
}
