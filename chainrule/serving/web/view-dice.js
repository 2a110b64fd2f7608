// The same text, every model's die, one random number: where it falls on each line is the word that each would say.

import { Columns } from "/web/columns.js";
import { DiceColumn } from "/web/dice-column.js";
import { count, field, h, replace } from "/web/dom.js";
import { filterControls, filtersOf, writeFilters } from "/web/filters.js";

const MOST_STEPS = 500;
const PAUSE = 650; // milliseconds between steps of auto-play
const EXAMPLE = "The ";

export function show(container, context) {
  const { api, models, params, state } = context;
  const kept = params.size ? null : state.dice;
  const wanted = kept ?? wantedOf(params, models);
  const columns = new Columns(api, wanted);
  const shown = new Map(models.map((model) => [model.id, new DiceColumn(context, model, setRoll, openEvidence)]));
  let hasEvidence = wanted.hasEvidence;
  let playing = 0;
  let isRolling = false;
  let isReplaying = false;

  // What is on the page.
  const text = h("textarea", {
    rows: 2,
    spellcheck: "false",
    value: wanted.prompt,
    oninput: later(() => restart({ prompt: text.value })),
  });
  const number = h("output", { class: "number roll-number", id: "roll-number" });
  const slider = h("input", {
    type: "range",
    min: 0,
    max: 0.9999,
    step: 0.0001,
    "aria-label": "The random number",
    oninput: () => setRoll(Number(slider.value)),
  });
  const seed = h("input", {
    type: "number",
    class: "seed",
    min: 0,
    max: Number.MAX_SAFE_INTEGER,
    value: wanted.seed,
    onchange: () => restart({ seed: Math.max(0, Math.round(Number(seed.value)) || 0) }),
  });
  const play = button("Play", "p", toggle);
  const evidence = button("Evidence", "e", toggleEvidence);
  const steps = h("span", { class: "faint small number" });
  const grid = h("div", { class: "dice", role: "group", "aria-label": "One column for each model" });
  const chips = h("div", { class: "row chips", role: "group", "aria-label": "Models" });

  container.append(
    h("h1", { class: "unseen" }, "Same prompt, every die"),
    h(
      "div",
      { class: "stack" },
      field("The same text for every model", text),
      chips,
      h(
        "details",
        { class: "small" },
        h("summary", null, "Temperature and other filters"),
        filterControls(wanted.filters, later((filters) => restart({ filters }))),
      ),
      h(
        "div",
        { class: "card roll" },
        h(
          "div",
          { class: "row" },
          button("Roll again", "r", () => setRoll(Math.random()), "main"),
          button("Step", "s", step),
          play,
          button("Back", "b", back),
          button("Start over", "0", () => restart({})),
          evidence,
          h("label", { class: "row small", title: "The seed of the random numbers, as in /v1/completions." }, "Seed", seed),
          steps,
        ),
        h("div", { class: "row slide" }, number, slider),
      ),
      grid,
    ),
  );

  function button(label, key, run, kind) {
    return h("button", { class: kind, type: "button", title: key, onclick: run }, label);
  }

  function drawChips() {
    const chip = (label, title, isOn, run) =>
      h("button", { class: "chip", type: "button", title, "aria-pressed": String(isOn), onclick: run }, label);
    const isAll = columns.models.length === models.length;
    const all = () => choose(isAll ? defaultModels(models) : models.map(({ id }) => id));
    replace(
      chips,
      models.map(({ id, architecture, parameters }) =>
        chip(id, `${architecture}, ${count(parameters)} parameters`, columns.models.includes(id), () => turn(id)),
      ),
      models.length > 3 && chip("all", "One column for each model", isAll, all),
    );
  }

  function turn(id) {
    const isOn = (each) => (each === id) !== columns.models.includes(each);
    const next = models.map((model) => model.id).filter(isOn);
    if (next.length) choose(next);
  }

  /** Other models, the same numbers. */
  function choose(next) {
    columns.models = next;
    drawChips();
    replay(columns.rolls);
  }

  // The number.
  /** The line moves at once; while an answer is awaited, only the latest number is asked for next. */
  async function setRoll(value) {
    columns.rolls = columns.rolls.with(-1, value);
    for (const each of shown.values()) each.wanted = null;
    drawRoll();
    if (isRolling) return;
    isRolling = true;
    try {
      for (let asked = NaN; asked !== columns.roll; ) {
        asked = columns.roll;
        await columns.ask();
      }
      draw();
    } catch (error) {
      context.fail(error);
    } finally {
      isRolling = false;
    }
  }

  async function restart(some) {
    pause();
    Object.assign(columns, some);
    await columns.numbers(1).then(([first]) => replay([first]), context.fail);
  }

  async function replay(rolls) {
    isReplaying = true;
    for (const each of shown.values()) each.wanted = null;
    try {
      await columns.replay(rolls);
    } catch (error) {
      context.fail(error);
    }
    isReplaying = false;
    draw();
  }

  async function step() {
    if (isReplaying || !columns.isReady) return;
    if (columns.isOver || columns.steps >= MOST_STEPS) {
      pause();
      return;
    }
    for (const each of shown.values()) each.wanted = null;
    try {
      await columns.step();
      draw();
    } catch (error) {
      pause();
      context.fail(error);
    }
  }

  function back() {
    pause();
    if (columns.steps) replay(columns.rolls.slice(0, -1));
  }

  function toggle() {
    if (playing) {
      pause();
      return;
    }
    play.textContent = "Pause";
    play.setAttribute("aria-pressed", "true");
    const next = async () => {
      const began = performance.now();
      await step();
      if (playing) playing = setTimeout(next, Math.max(60, PAUSE - (performance.now() - began)));
    };
    playing = setTimeout(next, 0);
  }

  function pause() {
    if (!playing) return;
    clearTimeout(playing);
    playing = 0;
    play.textContent = "Play";
    play.setAttribute("aria-pressed", "false");
    draw();
  }

  function openEvidence() {
    hasEvidence = true;
    draw();
  }

  function toggleEvidence() {
    hasEvidence = !hasEvidence;
    draw();
  }

  // Showing.
  function drawRoll() {
    slider.value = String(columns.roll);
    number.textContent = columns.roll.toFixed(4);
    steps.textContent = `step ${columns.steps}`;
    grid.style.setProperty("--roll", String(columns.roll));
  }

  function draw() {
    if (!columns.rolls.length) return;
    drawRoll();
    evidence.setAttribute("aria-pressed", String(hasEvidence));
    const chosen = columns.models.map((id) => shown.get(id));
    const elements = chosen.map(({ element }) => element);
    const there = [...grid.children];
    const isThere = elements.length === there.length && elements.every((each, at) => each === there[at]);
    if (!isThere) replace(grid, elements); // what is there keeps its focus
    for (const each of chosen) each.show(columns, { hasEvidence, isMoving: playing !== 0 });
    remember();
  }

  function remember() {
    const { models: chosen, prompt, filters, seed: drawnFrom, rolls } = columns;
    state.dice = { models: chosen, prompt, filters, seed: drawnFrom, rolls, hasEvidence };
    const found = new URLSearchParams({ models: chosen.join(","), prompt, seed: String(drawnFrom) });
    writeFilters(found, filters);
    found.set("rolls", columns.isSeeded ? String(rolls.length) : rolls.join("_"));
    if (hasEvidence) found.set("evidence", "1");
    context.setParams(found);
  }

  context.keys([
    { key: "r", does: "roll again", run: () => setRoll(Math.random()) },
    { key: "s", does: "step: every model draws its token", run: step },
    { key: "p", does: "play and pause", run: toggle },
    { key: "b", does: "one step back", run: back },
    { key: "0", does: "start over", run: () => restart({}) },
    { key: "e", does: "evidence on and off", run: toggleEvidence },
  ]);

  drawChips();
  const begun = wanted.rolls.length ? wanted.rolls : null;
  columns
    .numbers(wanted.count ?? wanted.rolls.length)
    .then((seeded) => replay(begun ?? seeded.slice(0, wanted.count)), context.fail);

  return () => {
    pause();
    columns.stop();
  };
}

/** Once it has been still for a moment. */
function later(run) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => run(...given), 250);
  };
}

/** What an address asks for; `rolls` are its numbers, or else `count` of the seed's. */
function wantedOf(params, models) {
  const named = (params.get("models") ?? "").split(",").filter((id) => models.some((each) => each.id === id));
  const seed = Number(params.get("seed") ?? 1);
  const text = params.get("rolls") ?? "1";
  const isCount = /^\d+$/.test(text);
  const rolls = isCount ? [] : text.split("_").map(Number).filter((each) => each >= 0 && each < 1);
  return {
    models: named.length ? named : defaultModels(models),
    prompt: params.get("prompt") ?? EXAMPLE,
    filters: filtersOf(params),
    seed: Number.isSafeInteger(seed) && seed >= 0 ? seed : 1,
    rolls: rolls.slice(0, MOST_STEPS),
    count: isCount ? Math.min(Math.max(1, Number(text)), MOST_STEPS) : 1,
    hasEvidence: params.has("evidence"),
  };
}

/** One of each of the best known kinds, the largest; or else the first few. */
function defaultModels(models) {
  const bySize = [...models].sort((a, b) => b.parameters - a.parameters);
  const kinds = ["ngram", "lstm", "transformer", "mix"];
  const known = kinds.map((kind) => bySize.find(({ architecture }) => architecture === kind)).filter(Boolean);
  const some = known.length > 1 ? known : models.slice(0, 4);
  return models.filter((model) => some.includes(model)).map(({ id }) => id);
}
