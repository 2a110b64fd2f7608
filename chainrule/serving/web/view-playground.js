// Write, sample, and look: every token by its surprise, its die under the pointer, another one forced at a click.

import { Branches, readPath } from "/web/branches.js";
import { asCurl, asPython, copy } from "/web/copying.js";
import { dieOfLogprobs, dieRows } from "/web/die.js";
import { count, field, h, percent, replace, visible } from "/web/dom.js";
import { showEvidence } from "/web/evidence.js";
import { filterControls, filtersOf, writeFilters } from "/web/filters.js";
import { inText, level } from "/web/tokens.js";

const FACES = 10;
const LARGEST_SEED = 2 ** 32;

export function show(container, context) {
  const { api, models, params, state } = context;
  const kept = params.size ? null : state.playground;
  const tree = kept?.tree ?? new Branches();
  const infos = new Map();
  let settings = kept?.settings ?? settingsOf(params, models);
  let current = kept?.current ?? null;
  let running = null;
  let pinned = null;
  let again = 0;

  // What is on the page.
  const prompt = h("textarea", { id: "prompt", rows: 4, spellcheck: "false", oninput: () => (settings.prompt = prompt.value) });
  prompt.value = settings.prompt;
  const start = h("button", { class: "main", type: "button", title: "Ctrl+Enter", onclick: () => sample(true) }, "Sample");
  const stop = h("button", { type: "button", title: "Esc", disabled: true, onclick: halt }, "Stop");
  const keep = h("input", { type: "checkbox" });
  const seed = h("input", { type: "number", min: 0, max: Number.MAX_SAFE_INTEGER, value: settings.seed ?? "", placeholder: "new",
    class: "seed", oninput: () => (keep.checked = seed.value !== "") });
  const text = h("div", { class: "text card", role: "group", "aria-label": "Sampled text, token by token",
    "data-hint": "Nothing sampled yet: write something above, or let the model begin. Ctrl+Enter samples." });
  const status = h("p", { class: "status faint small number", role: "status" });
  const list = h("div", { class: "branches", role: "group", "aria-label": "Branches" });
  const die = h("section", { class: "card die-card", "aria-label": "The die of a token" });
  const why = h("section", { class: "why", "aria-label": "Why this token" });
  const warning = h("p", { class: "notice hidden" });
  const model = h("select", { onchange: () => change({ model: model.value }) },
    models.map(({ id, architecture, parameters }) => h("option", { value: id, title: architecture }, `${id} (${count(parameters)} parameters)`)));
  model.value = settings.model;
  const most = h("input", { type: "number", min: 1, max: 2000, value: settings.max_tokens,
    onchange: () => change({ max_tokens: Math.min(2000, Math.max(1, Math.round(Number(most.value)) || 100)) }) });
  const ends = h("input", { type: "text", value: settings.stop, placeholder: "none", onchange: () => change({ stop: ends.value }) });

  container.append(
    h("h1", { class: "unseen" }, "Playground"),
    warning,
    h("div", { class: "playground" },
      h("div", { class: "stack" },
        field("Your text; the model continues it", prompt),
        h("div", { class: "row spread" },
          h("div", { class: "row" }, start, stop,
            h("label", { class: "row small", title: "The random numbers. The same seed gives the same text." }, "Seed", seed),
            h("label", { class: "row small faint" }, keep, "keep it")),
          h("div", { class: "row" },
            copyButton("Copy link", () => location.href),
            copyButton("curl", () => asCurl(current.request)),
            copyButton("Python", () => asPython(current.request)))),
        text,
        h("div", { class: "row spread" }, status, legend()),
        list,
        why),
      h("div", { class: "stack side" },
        h("section", { class: "card stack settings", "aria-label": "Settings" },
          field("Model", model),
          filterControls(settings.filters, (filters) => change({ filters })),
          h("div", { class: "row pair" }, field("Most tokens", most), field("Stop at", ends))),
        die)),
  );

  function copyButton(label, make) {
    return h("button", { class: "quiet copy", type: "button", disabled: true, onclick: () =>
      copy(make()).then(() => context.say(`${label === "Copy link" ? "Link" : label} copied`), context.fail) }, label);
  }

  // Sampling.
  function change(some) {
    settings = { ...settings, ...some };
    if (!current) return;
    clearTimeout(again);
    again = setTimeout(() => sample(false), 200);
  }

  /** A new root; with a seed of its own unless one is to be kept. */
  function sample(isNew) {
    clearTimeout(again);
    const given = Math.round(Number(seed.value));
    const isGiven = seed.value !== "" && Number.isSafeInteger(given) && given >= 0;
    const wanted = isGiven && (keep.checked || !isNew) ? given : Math.floor(Math.random() * LARGEST_SEED);
    seed.value = String(wanted);
    settings = { ...settings, prompt: prompt.value, seed: wanted };
    return run(tree.addRoot({ ...settings })).catch(context.fail);
  }

  async function fork(parent, at, forced) {
    const found = tree.child(parent, { at, ids: forced.map(({ id }) => id) });
    if (found) return display(found);
    const texts = await textsOf(parent, at, forced);
    return run(tree.addBranch(parent, at, forced.map((each, place) => ({ ...each, text: texts[place] }))));
  }

  /** What forced tokens add to the text, which for words is a space as well. */
  async function textsOf(parent, at, forced) {
    const before = parent.tokens.slice(0, at).map(({ id }) => id).slice(-16);
    const longer = forced.map((_, place) => [...before, ...forced.slice(0, place + 1).map(({ id }) => id)]);
    const asked = [before, ...longer].map((tokens) => api.post("/detokenize", { model: parent.settings.model, tokens }));
    const found = (await Promise.all(asked)).map((each) => each.prompt.replace(/�+$/, ""));
    return forced.map((_, place) => found[place + 1].slice(found[place].length));
  }

  async function run(branch) {
    halt();
    const mine = (running = new AbortController());
    display(branch);
    start.textContent = "Sample";
    stop.disabled = false;
    try {
      branch.request = await requestOf(branch);
      for (const button of container.querySelectorAll(".copy")) button.disabled = false;
      const began = performance.now();
      let first = 0;
      await api.stream("/v1/completions", branch.request, (event) => {
        const choice = event.choices[0];
        if (!choice) return;
        first ||= performance.now();
        hear(branch, choice);
        if (current === branch) draw(branch);
      }, mine.signal);
      branch.seconds = (performance.now() - (first || began)) / 1000;
    } catch (error) {
      if (error.name !== "AbortError") branch.finish = "failed";
      else branch.finish ??= "stopped";
      if (error.name !== "AbortError") throw error;
    } finally {
      if (running === mine) {
        running = null;
        stop.disabled = true;
      }
      if (current === branch) draw(branch);
      drawList();
    }
  }

  async function requestOf(branch) {
    const { settings: wanted, parent } = branch;
    const request = {
      model: wanted.model, prompt: wanted.prompt, seed: wanted.seed, max_tokens: wanted.max_tokens, ...wanted.filters,
      stream: true, logprobs: FACES, echo: !parent, return_token_ids: true,
    };
    if (wanted.stop) request.stop = wanted.stop;
    if (parent) request.prompt = await idsBefore(branch, branch.tokens.length);
    return request;
  }

  /** The ids that the model has read before a token: the text begins after an <eos>. */
  async function idsBefore(branch, place) {
    const id = branch.settings.model;
    if (!infos.has(id)) infos.set(id, await api.get(`/tokenizer_info?model=${encodeURIComponent(id)}`));
    const { eos_token_id, model_max_length } = infos.get(id);
    const ids = [eos_token_id, ...branch.tokens.slice(0, place).map((token) => token.id)];
    return model_max_length ? ids.slice(-model_max_length) : ids;
  }

  function hear(branch, choice) {
    const { tokens: names, token_logprobs: logs, top_logprobs: tops } = choice.logprobs;
    const echoed = branch.request.echo && choice.prompt_token_ids ? choice.prompt_token_ids : [];
    const ids = [...echoed, ...choice.token_ids];
    const texts = promptTexts(branch.settings.prompt, names.slice(0, echoed.length));
    const rest = branch.request.echo && choice.prompt_token_ids ? choice.text.slice(branch.settings.prompt.length) : choice.text;
    ids.forEach((id, place) => {
      const isPrompt = place < echoed.length;
      const own = place === ids.length - 1 ? rest : "";
      branch.tokens.push({ id, name: names[place], text: isPrompt ? texts[place] : own, isPrompt, top: tops[place],
        bits: logs[place] == null ? null : -logs[place] / Math.LN2 });
    });
    branch.finish = choice.finish_reason ?? branch.finish;
  }

  function halt() {
    running?.abort();
    running = null;
    stop.disabled = true;
  }

  // Showing.
  function display(branch) {
    current = branch;
    state.playground = { tree, current, settings };
    pinned = null;
    replace(text);
    replace(why);
    draw(branch);
    drawList();
    drawDie(null);
    context.setParams(paramsOf(branch, tree, models));
  }

  /** Only what is new is added, so that nothing moves. */
  function draw(branch) {
    for (let place = text.childElementCount; place < branch.tokens.length; place++) {
      const token = branch.tokens[place];
      const classes = ["token", token.isPrompt && "given", token.isForced && "forced", token.text === "" && "silent"];
      text.append(h("span", {
        class: classes.filter(Boolean).join(" "), role: "button", tabindex: place ? -1 : 0, "data-place": place,
        style: { "--level": level(token.bits).toFixed(3) },
        "aria-label": `${visible(token.name)}${token.bits == null ? "" : `, ${token.bits.toFixed(1)} bits`}`,
      }, inText(token.text, token.name)));
    }
    const drawn = branch.tokens.filter(({ isPrompt }) => !isPrompt);
    const told = drawn.filter(({ bits }) => bits != null);
    const bits = told.reduce((sum, token) => sum + token.bits, 0) / Math.max(1, told.length);
    const parts = [`${drawn.length} tokens`, `${bits.toFixed(2)} bits each`, ending(branch, drawn.length)];
    status.textContent = drawn.length || branch.finish ? parts.filter(Boolean).join(" · ") : "…";
  }

  function ending({ finish, seconds }, length) {
    const said = { stop: "the text ended", length: "as many as wanted", stopped: "stopped", failed: "failed" }[finish];
    return said && (seconds > 0.05 && length > 5 ? `${said} · ${Math.round(length / seconds)} tokens/s` : said);
  }

  function drawList() {
    replace(list, tree.all.length < 2 ? [] : tree.all.map((branch) => {
      const forced = branch.fork && branch.tokens.slice(branch.fork.at, branch.fork.at + branch.fork.ids.length);
      const said = forced
        ? `at ${branch.fork.at}: ${visible(forced.map(({ name }) => name).join(""))}`
        : `${branch.settings.model}, seed ${branch.settings.seed}`;
      return h("button", {
        class: "branch", type: "button", "aria-current": String(branch === current), title: tail(branch),
        style: { marginLeft: `${Math.min(8, tree.depth(branch)) * 1.1}rem` }, onclick: () => display(branch),
      }, branch.parent ? "↳ " : "", said);
    }));
  }

  function tail({ tokens }) {
    return tokens.map((token) => token.text).join("").slice(-120);
  }

  function drawDie(place) {
    const token = place == null ? null : current?.tokens[place];
    text.querySelector(".shown")?.classList.remove("shown");
    if (!token) {
      replace(die, h("h2", null, "The die"),
        h("p", { class: "faint small" }, "Point at a token to see what else could have come there. Click it to force another and go on from there."));
      return;
    }
    text.children[place]?.classList.add("shown");
    const found = token.top ? dieOfLogprobs(token.top, token.name) : null;
    replace(die, dieHead(place, token),
      found ? dieRows(found) : h("p", { class: "faint small" }, token.isForced
        ? "This token was forced; click it for the die that it did not come from."
        : "Nothing was read before it; click it for its die."));
  }

  function dieHead(place, token) {
    const said = token.bits == null ? "" : `${percent(2 ** -token.bits)}, ${token.bits.toFixed(2)} bits`;
    return h("div", { class: "row spread die-head" }, h("h2", { class: "name" }, visible(token.name)),
      h("span", { class: "faint small number" }, said || `token ${place}`));
  }

  /** The die in full, with ids: every face can be forced. */
  async function pin(place, byKey) {
    const branch = current;
    const token = branch.tokens[place];
    pinned = place;
    try {
      const prefix = await idsBefore(branch, place);
      const asked = { columns: [{ model: branch.settings.model, prompt: prefix }], roll: 0, faces: 20, ...branch.settings.filters };
      const column = (await api.post("/dice", asked)).columns[0];
      if (pinned !== place || current !== branch) return;
      const drawn = column.faces.find((face) => face.id === token.id) ?? { id: token.id, token: token.name,
        probability: token.bits == null ? 0 : 2 ** -token.bits };
      const force = (face) => fork(branch, place, [{ id: face.id, name: face.token, top: null,
        bits: -Math.log2(Math.max(face.probability, 1e-300)) }]).catch(context.fail);
      const own = h("input", { type: "text", placeholder: "or write your own", "aria-label": "Force a text of your own" });
      replace(die, dieHead(place, token),
        h("p", { class: "faint small" }, "Choose what shall stand here instead:"),
        h("div", { class: "tall" }, dieRows({ ...column, drawn: { ...drawn, filtered: drawn.filtered ?? 0 } }, { pick: force, does: "force" })),
        h("form", { class: "row own-text", onsubmit: (event) => {
          event.preventDefault();
          forceText(branch, place, own.value).catch(context.fail);
        } }, own, h("button", { type: "submit" }, "Force")),
        h("div", { class: "row actions" },
          h("button", { class: "quiet", type: "button", onclick: () => explain(branch, place, token) }, "Why this token?"),
          h("button", { class: "quiet", type: "button", onclick: () => compare(branch, place) }, "Every model’s die here")));
      if (byKey) die.querySelector("button")?.focus();
    } catch (error) {
      context.fail(error);
    }
  }

  async function forceText(branch, place, written) {
    if (!written) return;
    const asked = { model: branch.settings.model, prompt: written, return_token_strs: true };
    const { tokens, token_strs } = await api.post("/tokenize", asked);
    await fork(branch, place, tokens.map((id, at) => ({ id, name: token_strs[at], bits: null, top: null })));
  }

  async function explain(branch, place, token) {
    const prefix = await idsBefore(branch, place);
    showEvidence(why, context, { model: branch.settings.model, prompt: prefix, token: token.id, ...branch.settings.filters });
    why.scrollIntoView({ behavior: "smooth", block: "nearest" });
  }

  function compare(branch, place) {
    const before = branch.tokens.slice(0, place).map((token) => token.text).join("");
    context.go("dice", new URLSearchParams({ prompt: before }));
  }

  // Pointing, and moving from token to token.
  const placeOf = (event) => {
    const found = event.target.closest?.("[data-place]");
    return found ? Number(found.dataset.place) : null;
  };
  text.addEventListener("pointerover", (event) => pinned == null && placeOf(event) != null && drawDie(placeOf(event)));
  text.addEventListener("focusin", (event) => pinned == null && placeOf(event) != null && drawDie(placeOf(event)));
  text.addEventListener("click", (event) => placeOf(event) != null && choose(placeOf(event), false));
  text.addEventListener("keydown", (event) => {
    const at = placeOf(event);
    if (at == null) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      choose(at, true);
      return;
    }
    const last = text.childElementCount - 1;
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: last }[event.key];
    if (to === undefined || !text.children[to]) return;
    event.preventDefault();
    focus(to);
  });

  function focus(place) {
    for (const each of text.querySelectorAll('[tabindex="0"]')) each.tabIndex = -1;
    text.children[place].tabIndex = 0;
    text.children[place].focus();
  }

  function choose(place, byKey) {
    pinned = null;
    drawDie(place);
    pin(place, byKey);
  }

  function release() {
    if (running) return halt();
    if (pinned == null) return;
    const place = pinned;
    pinned = null;
    drawDie(place);
    focus(place);
  }

  context.keys([
    { key: "Ctrl+Enter", does: "sample", run: () => sample(true) },
    { key: "Escape", does: "stop, or let go of a token", run: release },
  ]);

  // A link is followed; what was here before is shown again.
  drawDie(null);
  if (current) display(current);
  else if (settings.seed != null && models.some(({ id }) => id === settings.model)) follow().catch(context.fail);

  async function follow() {
    const loaded = models.find(({ id }) => id === settings.model);
    const hash = params.get("hash");
    if (hash && hash !== loaded.hash) {
      warning.textContent = `This link was made with other weights of ${loaded.id} (${hash}; here they are ${loaded.hash}), so what you see may differ.`;
      warning.classList.remove("hidden");
    }
    keep.checked = true;
    const forks = readPath(params.get("path"));
    let branch = tree.addRoot({ ...settings });
    await run(branch);
    for (const { at, ids } of forks) {
      if (at > branch.tokens.length) return;
      const names = (await Promise.all(ids.map((id) => nameOf(settings.model, id)))).map((name, place) => ({ id: ids[place], name, bits: null, top: null }));
      await fork(branch, at, await withBits(branch, at, names));
      branch = current;
    }
  }

  async function nameOf(model, id) {
    const found = await api.post("/detokenize", { model, tokens: [id] });
    return found.prompt || "<eos>";
  }

  /** The surprise of a forced token, as it was when it was forced: of one alone, not of a text of one's own. */
  async function withBits(branch, at, forced) {
    if (forced.length > 1) return forced;
    const prefix = await idsBefore(branch, at);
    const asked = { columns: [{ model: branch.settings.model, prompt: prefix }], roll: 0, faces: 20, ...branch.settings.filters };
    const face = (await api.post("/dice", asked)).columns[0].faces.find(({ id }) => id === forced[0].id);
    return face ? [{ ...forced[0], name: face.token, bits: -Math.log2(Math.max(face.probability, 1e-300)) }] : forced;
  }

  return halt;
}

/** The settings that an address asks for. */
function settingsOf(params, models) {
  const known = models.some(({ id }) => id === params.get("model"));
  const seed = params.has("seed") ? Number(params.get("seed")) : NaN;
  const most = Math.round(Number(params.get("max_tokens") ?? 120));
  return {
    model: known ? params.get("model") : favourite(models).id,
    prompt: params.get("prompt") ?? "",
    seed: Number.isSafeInteger(seed) && seed >= 0 ? seed : null,
    max_tokens: most >= 1 && most <= 2000 ? most : 120,
    stop: params.get("stop") ?? "",
    filters: filtersOf(params),
  };
}

/** Of the kinds that speak best, the largest. */
function favourite(models) {
  const bySize = [...models].sort((a, b) => b.parameters - a.parameters);
  const kinds = ["mix", "transformer", "lstm"];
  return kinds.map((kind) => bySize.find(({ architecture }) => architecture === kind)).find(Boolean) ?? models[0];
}

/** An address that gives the same view again. */
function paramsOf(branch, tree, models) {
  const { model, prompt, seed, max_tokens, stop, filters } = branch.settings;
  const params = new URLSearchParams({ model, hash: models.find(({ id }) => id === model).hash, prompt, seed, max_tokens });
  if (stop) params.set("stop", stop);
  writeFilters(params, filters);
  const path = tree.path(branch);
  if (path) params.set("path", path);
  return params;
}

/** What each token of the prompt stands for in it: they follow one another, or have spaces between. */
function promptTexts(prompt, names) {
  if (!names.length) return [];
  if (prompt.startsWith(names.join(""))) {
    const texts = [...names];
    texts[texts.length - 1] += prompt.slice(names.join("").length);
    return texts;
  }
  return names.map((name, place) => (place ? " " : "") + name);
}

function legend() {
  return h("div", { class: "legend small faint", title: "Bits of surprise: -log2 of the probability" },
    "expected", h("span", { class: "ramp" }), "a surprise of 12 bits");
}
