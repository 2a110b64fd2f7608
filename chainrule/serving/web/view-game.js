// Which is the real one? A passage of one's own text, and how models would have gone on.

import { field, h, replace } from "/web/dom.js";
import { chips, pickModels, shortName } from "/web/models.js";

const KEPT = "chainrule.game"; // in localStorage
const SAMPLES = 6; // drawn of each model, so that one is likely to be long enough
const FEWEST = 24; // characters that are worth a guess
const TRIES = 5; // passages, where models have nothing to add
const LONG = 0.6; // of the real one
const LETTERS = "abcdefgh";
const MOST_RIVALS = 3;

export function show(container, context) {
  const { api, models, params, state } = context;
  let rivals = pickModels(params.get("models"), models, state.game?.rivals, MOST_RIVALS);
  let seed = Number(params.get("seed")) || Math.floor(Math.random() * 1e6);
  let characters = Number(params.get("characters")) || 120;
  let asking = null;
  let round = null; // { passage, options, guessed }

  const score = h("p", { class: "score number", role: "status" });
  const body = h("div", { class: "stack" });
  const lengths = h("select", { onchange: () => ((characters = Number(lengths.value)), deal()) },
    [60, 120, 240].map((each) => h("option", { value: each, selected: each === characters }, `${each} characters`)));
  container.append(
    h("h1", { class: "unseen" }, "Which is the real one?"),
    h("div", { class: "stack game" },
      h("div", { class: "row spread end" },
        h("div", null, h("h2", null, "Which is the real one?"), score),
        h("div", { class: "row end" }, field("Length", lengths), h("button", { type: "button", title: "n", onclick: next }, "Next passage"))),
      models.length > 1 && chips(models, rivals, (found) => ((rivals = found), deal())),
      body));
  context.keys([
    { key: "n", does: "the next passage", run: next },
    ...[...LETTERS].slice(0, 4).map((key, place) => ({ key, does: `guess ${key.toUpperCase()}`, run: () => guess(place) })),
  ]);

  function next() {
    seed = after(seed);
    deal();
  }

  async function deal(tries = TRIES) {
    asking?.abort();
    asking = new AbortController();
    state.game = { rivals };
    tell();
    context.setParams(new URLSearchParams({ seed: String(seed), characters: String(characters), models: rivals.join(",") }));
    if (!rivals.length) {
      replace(body, h("p", { class: "faint" }, "Choose at least one model to play against."));
      return;
    }
    round = null;
    body.classList.add("waiting");
    if (!body.firstChild) replace(body, h("p", { class: "faint" }, "The models are writing…"));
    try {
      const query = new URLSearchParams({ model: rivals[0], seed: String(seed), characters: String(characters) });
      const passage = await api.get(`/passages?${query}`, asking.signal);
      const drawn = await Promise.all(rivals.map((model) => draw(model, passage)));
      const length = Math.min(...[passage.continuation, ...drawn].map((text) => [...text].length));
      if (length < Math.min(FEWEST, passage.continuation.length) && tries > 1) {
        seed = after(seed);
        await deal(tries - 1);
        return;
      }
      const cut = (text) => [...text].slice(0, length).join("").trimEnd();
      const options = [{ model: null, text: cut(passage.continuation) }, ...drawn.map((text, place) => ({ model: rivals[place], text: cut(text) }))];
      round = { passage, options: shuffle(options, seed), guessed: null };
      play();
    } catch (error) {
      if (error.name === "AbortError") return;
      replace(body, h("p", { class: "notice" }, error.message));
    } finally {
      body.classList.remove("waiting");
    }
  }

  /** The first sample that is long enough, else the longest. A model of short context reads the end of the prompt. */
  async function draw(model, { prompt: text, continuation }) {
    const tokenize = (prompt) => api.post("/tokenize", { model, prompt, add_special_tokens: true }, asking.signal);
    const [{ tokens, max_model_len: reads }, real] = await Promise.all([tokenize(text), tokenize(continuation)]);
    const prompt = reads === null ? tokens : tokens.slice(-reads);
    const wanted = { model, prompt, seed, n: SAMPLES, max_tokens: Math.ceil(real.count * 1.25), temperature: 1 };
    const { choices } = await api.post("/v1/completions", wanted, asking.signal);
    const texts = choices.map((choice) => choice.text.trimEnd()).filter((each) => differs(each, continuation));
    const enough = texts.find((each) => each.length >= LONG * continuation.length);
    return enough ?? texts.sort((a, b) => b.length - a.length)[0] ?? "";
  }

  function play() {
    replace(body,
      h("p", { class: "passage" }, round.passage.prompt, h("span", { class: "faint" }, " …")),
      h("div", { class: "options", role: "group", "aria-label": "How it goes on" }, round.options.map(option)),
      h("div", { class: "reveal", "aria-live": "polite" }));
  }

  function option({ text }, place) {
    return h("button", { type: "button", class: "option", title: LETTERS[place], onclick: () => guess(place) },
      h("span", { class: "letter" }, LETTERS[place].toUpperCase()),
      h("span", { class: "passage" }, text.trim(), h("span", { class: "faint" }, "…")),
      h("span", { class: "who small" }));
  }

  async function guess(place) {
    if (!round || round.guessed !== null || place >= round.options.length) return;
    round.guessed = place;
    const isRight = round.options[place].model === null;
    keep(isRight);
    tell();
    const { path, line, split } = round.passage;
    [...body.querySelectorAll(".option")].forEach((each, number) => {
      const { model } = round.options[number];
      each.classList.add(model === null ? "real" : number === place ? "wrong" : "other");
      each.disabled = true;
      each.querySelector(".who").textContent = model === null ? `real${number === place ? " – you found it" : ""}` : `${shortName(model)}${number === place ? " fooled you" : ""}`;
    });
    const bits = h("div", null, h("p", { class: "faint small" }, "Measuring…"));
    replace(body.querySelector(".reveal"),
      h("p", null, isRight ? "Right. " : "No. ", "The real one is in ", h("span", { class: "mono", title: path }, `${path.split("/").at(-1)}:${line}`),
        split === "validation" ? `, kept aside when ${shortName(rivals[0])} was trained.` : `, which ${shortName(rivals[0])} was trained on.`),
      bits, h("button", { class: "main", type: "button", onclick: next }, "Next passage"));
    body.querySelector(".reveal button").focus({ preventScroll: true });
    replace(bits, await weigh(round).catch((error) => h("p", { class: "faint small" }, error.message)));
  }

  /** What each way to go on costs each model, in bits: models like their own. */
  async function weigh({ passage, options }) {
    const begin = [...passage.prompt].length;
    const answers = await Promise.all(options.map(({ text }) => api.post("/compare", { text: passage.prompt + text, models: rivals }, asking.signal)));
    const cost = ({ tokens }) => tokens.filter((token) => token.end > begin).reduce((sum, { bits }) => sum + (bits ?? Infinity), 0);
    const rows = rivals.map((model, number) => [model, answers.map((answer) => cost(answer.models[number]))]);
    return h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Bits" }, h("table", { class: "weighed" },
      h("caption", { class: "faint small" }, "Surprisal of each for each model, in bits: the fewer, the more expected"),
      h("thead", null, h("tr", null, h("th", { scope: "col" }, "to"), options.map(({ model }, place) =>
        h("th", { scope: "col", class: "right" }, `${LETTERS[place].toUpperCase()} (${shortName(model ?? "real")})`)))),
      h("tbody", null, rows.map(([model, costs]) => h("tr", null, h("th", { scope: "row", title: model }, shortName(model)),
        costs.map((each) => h("td", { class: each === Math.min(...costs) ? "right least" : "right" }, Number.isFinite(each) ? each.toFixed(1) : "∞")))))));
  }

  function tell() {
    const { rounds, right, streak, best } = kept();
    const by = rounds ? `${right} of ${rounds} found (${Math.round((100 * right) / rounds)}%; by chance ${Math.round(100 / (rivals.length + 1))}%) · streak ${streak}, longest ${best}` : "One of these is from the text; the others were written by models. Guess with A, B, C or D.";
    score.textContent = by;
  }

  deal();
  return () => asking?.abort();
}

/** A model may know the text by heart; then there is nothing to guess. */
function differs(text, real) {
  const [one, other] = [text.trim(), real.trim()];
  return !one.startsWith(other) && !other.startsWith(one);
}

function after(seed) {
  return (seed * 48271 + 11) % 2147483647;
}

function kept() {
  const none = { rounds: 0, right: 0, streak: 0, best: 0 };
  try {
    return { ...none, ...JSON.parse(localStorage.getItem(KEPT) ?? "{}") };
  } catch {
    return none; // storage is off, or holds something else
  }
}

function keep(isRight) {
  const { rounds, right, streak, best } = kept();
  const now = isRight ? streak + 1 : 0;
  try {
    localStorage.setItem(KEPT, JSON.stringify({ rounds: rounds + 1, right: right + isRight, streak: now, best: Math.max(best, now) }));
  } catch {
    // then the score is not kept
  }
}

/** The same order for the same seed (Fisher and Yates, with Lehmer's numbers). */
function shuffle(items, seed) {
  const found = [...items];
  let number = (seed % 2147483646) + 1;
  for (let last = found.length - 1; last > 0; last--) {
    for (let turn = 0; turn < 3; turn++) number = (number * 48271) % 2147483647;
    const place = number % (last + 1);
    [found[last], found[place]] = [found[place], found[last]];
  }
  return found;
}
