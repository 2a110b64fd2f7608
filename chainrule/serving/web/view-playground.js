// Write, sample, and look: every token by its surprise, its die under the pointer, another one forced at a click.

import { Branches, readPath } from "/web/branches.js";
import { asCurl, asPython, copy } from "/web/copying.js";
import { choices, glance } from "/web/die-card.js";
import { count, field, h, replace, visible } from "/web/dom.js";
import { showEvidence } from "/web/evidence.js";
import { filterControls, filtersOf, writeFilters } from "/web/filters.js";
import { favourite } from "/web/models.js";
import { Sampler } from "/web/sampling.js";
import { TokenText } from "/web/token-text.js";
import { legend } from "/web/tokens.js";

const LARGEST_SEED = 2 ** 32;
const MOST_TOKENS = 2000;
const HINT = "Nothing sampled yet: write a prompt above, or leave it empty. Ctrl+Enter samples.";
const ENDINGS = { stop: "the text ended", length: "as many as wanted", stopped: "stopped", failed: "failed" };

export function show(container, context) {
  const { api, models, params, state } = context;
  const kept = params.size ? null : state.playground;
  const tree = kept?.tree ?? new Branches();
  const sampler = new Sampler(api);
  let settings = kept?.settings ?? settingsOf(params, models);
  let current = kept?.current ?? null;
  let running = null;
  let pinned = null;
  let again = 0;

  // What is on the page.
  const prompt = h("textarea", { id: "prompt", rows: 3, spellcheck: "false", value: settings.prompt });
  const press = () => sample(true);
  const start = h("button", { class: "main", type: "button", title: "Ctrl+Enter", onclick: press }, "Sample");
  const stop = h("button", { type: "button", title: "Esc", disabled: true, onclick: halt }, "Stop");
  const keep = h("input", { type: "checkbox" });
  const seed = h("input", {
    type: "number",
    class: "seed",
    min: 0,
    max: Number.MAX_SAFE_INTEGER,
    placeholder: "new",
    value: settings.seed ?? "",
    oninput: () => (keep.checked = seed.value !== ""),
  });
  const copies = [
    copyButton("Copy link", "Link", () => location.href),
    copyButton("curl", "curl", () => asCurl(current.request)),
    copyButton("Python", "Python", () => asPython(current.request)),
  ];
  const text = new TokenText(HINT, (place) => pinned == null && look(place), choose);
  const status = h("p", { class: "status faint small number", role: "status" });
  const list = h("div", { class: "branches", role: "group", "aria-label": "Branches" });
  const die = h("section", { class: "card die-card", "aria-label": "The die of a token" });
  const why = h("section", { class: "why", "aria-label": "Why this token" });
  const warning = h("p", { class: "notice hidden" });

  container.append(
    h("h1", { class: "unseen" }, "Playground"),
    warning,
    h(
      "div",
      { class: "playground" },
      h(
        "div",
        { class: "stack" },
        field("Your text; the model continues it", prompt),
        h(
          "div",
          { class: "row spread" },
          h(
            "div",
            { class: "row" },
            start,
            stop,
            h("label", { class: "row small", title: "The same seed gives the same text." }, "Seed", seed),
            h("label", { class: "row small faint" }, keep, "keep it"),
          ),
          h("div", { class: "row" }, copies),
        ),
        text.element,
        h("div", { class: "row spread" }, status, legend()),
        list,
        why,
      ),
      h("div", { class: "stack side" }, controls(models, settings, change), die),
    ),
  );

  function copyButton(label, what, make) {
    const onclick = () => copy(make()).then(() => context.say(`${what} copied`), context.fail);
    return h("button", { class: "quiet", type: "button", disabled: true, onclick }, label);
  }

  // Sampling.
  /** A control has moved: what is there is drawn again with the same numbers. */
  function change(some) {
    settings = { ...settings, ...some };
    clearTimeout(again);
    if (current) again = setTimeout(() => sample(false), 200);
  }

  /** A new root; with a seed of its own unless one is to be kept. */
  function sample(isNew) {
    clearTimeout(again);
    const given = seed.value === "" ? NaN : Number(seed.value);
    const isKept = Number.isSafeInteger(given) && given >= 0 && (keep.checked || !isNew);
    settings = { ...settings, prompt: prompt.value, seed: isKept ? given : Math.floor(Math.random() * LARGEST_SEED) };
    seed.value = String(settings.seed);
    run(tree.addRoot({ ...settings })).catch(context.fail);
  }

  /** Keep what stands before a token, put others in its place, and go on. */
  async function fork(parent, at, ids) {
    const known = tree.child(parent, { at, ids });
    if (known) display(known);
    else await run(tree.addBranch(parent, at, await sampler.forced(parent, at, ids)));
  }

  async function run(branch) {
    halt();
    const mine = (running = new AbortController());
    display(branch);
    stop.disabled = false;
    status.setAttribute("aria-busy", "true"); // it is read out once, at the end
    try {
      await sampler.run(branch, () => current === branch && draw(), mine.signal);
    } finally {
      if (running === mine) halt();
      draw();
      drawList();
    }
  }

  function halt() {
    running?.abort();
    running = null;
    stop.disabled = true;
    status.setAttribute("aria-busy", "false");
  }

  // Showing.
  function display(branch) {
    current = branch;
    state.playground = { tree, current, settings };
    pinned = null;
    text.clear();
    replace(why);
    draw();
    drawList();
    look(null);
    context.setParams(paramsOf(branch, tree, models));
  }

  function draw() {
    text.show(current.tokens);
    const drawn = current.tokens.filter(({ isPrompt }) => !isPrompt);
    const told = drawn.filter(({ bits }) => bits != null);
    const bits = told.reduce((sum, token) => sum + token.bits, 0) / Math.max(1, told.length);
    const rate = current.seconds > 0.05 && drawn.length > 5 && `${Math.round(drawn.length / current.seconds)} tokens/s`;
    const parts = [`${drawn.length} tokens`, `${bits.toFixed(2)} bits each`, ENDINGS[current.finish], rate];
    status.textContent = drawn.length || current.finish ? parts.filter(Boolean).join(" · ") : "…";
    for (const button of copies) button.disabled = !current.request;
  }

  function drawList() {
    replace(list, tree.all.length < 2 ? [] : tree.all.map(branchButton));
  }

  function branchButton(branch) {
    const { fork: forced, tokens, settings: wanted } = branch;
    const names = forced && tokens.slice(forced.at, forced.at + forced.ids.length).map(({ name }) => name);
    const said = forced ? `↳ at ${forced.at}: ${visible(names.join(""))}` : `${wanted.model}, seed ${wanted.seed}`;
    return h(
      "button",
      {
        class: "branch",
        type: "button",
        title: tokens.map((token) => token.text).join("").slice(-120),
        "aria-current": String(branch === current),
        style: { marginLeft: `${Math.min(8, tree.depth(branch)) * 1.1}rem` },
        onclick: () => display(branch),
      },
      said,
    );
  }

  function look(place) {
    text.ring(place);
    glance(die, place == null ? null : current.tokens[place]);
  }

  // Choosing a token.
  function choose(place, byKey) {
    look(place);
    pin(place, byKey).catch(context.fail);
  }

  async function pin(place, byKey) {
    const branch = current;
    const token = branch.tokens[place];
    pinned = place;
    const column = await sampler.dieAt(branch, place);
    if (pinned !== place || current !== branch) return;
    const told = (promise) => promise.catch(context.fail);
    choices(die, token, column, {
      force: (face) => told(fork(branch, place, [face.id])),
      forceText: (written) => told(sampler.idsOf(branch, written).then((ids) => fork(branch, place, ids))),
      why: () => told(explain(branch, place, token)),
      compare: () => {
        const before = branch.tokens.slice(0, place).map((each) => each.text).join("");
        context.go("dice", new URLSearchParams({ prompt: before }));
      },
    });
    if (byKey) die.querySelector("button")?.focus();
  }

  async function explain(branch, place, token) {
    const { model, filters } = branch.settings;
    const read = await sampler.idsBefore(branch, place);
    await showEvidence(why, context, { model, prompt: read, token: token.id, ...filters });
    why.scrollIntoView({ behavior: "smooth", block: "nearest" });
  }

  /** Stop what runs; or else let go of the token that was chosen. */
  function release() {
    if (running) {
      halt();
      return;
    }
    if (pinned == null) return;
    const place = pinned;
    pinned = null;
    look(place);
    text.focus(place);
  }

  context.keys([
    { key: "Ctrl+Enter", does: "sample", run: press },
    { key: "Escape", does: "stop, or release a token", run: release },
  ]);

  // What was here before is shown again, a link is followed.
  if (current) display(current);
  else glance(die);
  if (!current && settings.seed != null) follow().catch(context.fail);

  async function follow() {
    const loaded = models.find(({ id }) => id === settings.model);
    const [wanted, hash] = [params.get("model"), params.get("hash")];
    if (wanted && wanted !== loaded.id) warn(`The model ${wanted} is not served here; this is from ${loaded.id}.`);
    else if (hash && hash !== loaded.hash) {
      warn(`This link was made with different weights of ${loaded.id} (${hash}, not ${loaded.hash}); the text may differ.`);
    }
    keep.checked = true;
    await run(tree.addRoot({ ...settings }));
    for (const { at, ids } of readPath(params.get("path"))) {
      if (at > current.tokens.length) return;
      await fork(current, at, ids);
    }
  }

  function warn(sentence) {
    warning.textContent = sentence;
    warning.classList.remove("hidden");
  }

  return () => {
    halt();
    state.playground = { tree, current, settings: { ...settings, prompt: prompt.value } };
  };
}

function controls(models, settings, change) {
  const model = h(
    "select",
    { onchange: () => change({ model: model.value }) },
    models.map(({ id, architecture, parameters }) =>
      h("option", { value: id, title: architecture }, `${id} (${count(parameters)} parameters)`),
    ),
  );
  model.value = settings.model;
  const most = h("input", {
    type: "number",
    min: 1,
    max: MOST_TOKENS,
    value: settings.max_tokens,
    onchange: () => change({ max_tokens: Math.min(MOST_TOKENS, Math.max(1, Math.round(Number(most.value)) || 1)) }),
  });
  const ends = h("input", {
    type: "text",
    value: settings.stop,
    placeholder: "none",
    onchange: () => change({ stop: ends.value }),
  });
  return h(
    "section",
    { class: "card stack settings", "aria-label": "Settings" },
    field("Model", model),
    filterControls(settings.filters, (filters) => change({ filters })),
    h("div", { class: "row pair" }, field("Most tokens", most), field("Stop at", ends)),
  );
}

/** The settings that an address asks for. */
function settingsOf(params, models) {
  const isKnown = models.some(({ id }) => id === params.get("model"));
  const seed = params.has("seed") ? Number(params.get("seed")) : NaN;
  const most = Math.round(Number(params.get("max_tokens") ?? 120));
  return {
    model: isKnown ? params.get("model") : favourite(models).id,
    prompt: params.get("prompt") ?? "",
    seed: Number.isSafeInteger(seed) && seed >= 0 ? seed : null,
    max_tokens: most >= 1 && most <= MOST_TOKENS ? most : 120,
    stop: params.get("stop") ?? "",
    filters: filtersOf(params),
  };
}

/** An address that gives the same view again. */
function paramsOf(branch, tree, models) {
  const { model, prompt, seed, max_tokens, stop, filters } = branch.settings;
  const { hash } = models.find(({ id }) => id === model);
  const params = new URLSearchParams({ model, hash, prompt, seed: String(seed), max_tokens: String(max_tokens) });
  if (stop) params.set("stop", stop);
  writeFilters(params, filters);
  const path = tree.path(branch);
  if (path) params.set("path", path);
  return params;
}
