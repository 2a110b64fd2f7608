// Beside a conversation: who answers, what the system says, and how answers are drawn.

import { count, field, h } from "/web/dom.js";
import { filterControls } from "/web/filters.js";

const MOST_TOKENS = 2000;
const WIDE = "(min-width: 60.01rem)"; // where it stands beside the conversation, and is open

/**
 * @param {any[]} models those that can answer
 * @param {any} settings which is changed in place
 * @param {string} system
 * @param {{ models: () => void, system: (text: string) => void }} changed
 */
export function makeSettings(models, settings, system, changed) {
  const said = h("textarea", { rows: 3, value: system, oninput: () => changed.system(said.value), dir: "auto" });
  const choose = (slot, select) => {
    settings.models[slot] = select.value || null;
    hint();
    changed.models();
  };
  const hint = () => {
    const { chat } = models.find(({ id }) => id === settings.models[0]);
    said.placeholder = chat?.system ?? "none";
  };
  hint();
  const element = h(
    "details",
    { class: "card chat-settings", open: matchMedia(WIDE).matches },
    h("summary", null, h("h2", null, "Settings")),
    h(
      "div",
      { class: "stack" },
      field("Model", modelSelect(models, settings.models[0], (select) => choose(0, select))),
      models.length > 1 &&
        field("Beside it", modelSelect(models, settings.models[1], (select) => choose(1, select), "no second model")),
      field("System message", said, "What the model is told before the conversation. Empty: its own, if it has one."),
      filterControls(settings.filters, (filters) => (settings.filters = filters)),
      h("div", { class: "row pair" }, mostTokens(settings), seed(settings)),
    ),
  );
  const setSystem = (text) => (said.value = text);
  return { element, setSystem };
}

function modelSelect(models, chosen, changed, none = null) {
  const select = h("select", { onchange: () => changed(select) });
  const options = (some) =>
    some.map(({ id, architecture, parameters }) =>
      h("option", { value: id, title: architecture }, `${id} (${count(parameters)} parameters)`),
    );
  const [trained, others] = [models.filter(({ chat }) => chat), models.filter(({ chat }) => !chat)];
  const group = (label, some) => h("optgroup", { label }, options(some));
  const isMixed = trained.length && others.length;
  const groups = [group("Trained on conversations", trained), group("Trained on other text", others)];
  select.append(...(none ? [h("option", { value: "" }, none)] : []), ...(isMixed ? groups : options(models)));
  select.value = chosen ?? "";
  return select;
}

function mostTokens(settings) {
  const most = h("input", {
    type: "number",
    min: 1,
    max: MOST_TOKENS,
    value: settings.max_tokens,
    onchange: () => {
      settings.max_tokens = Math.min(MOST_TOKENS, Math.max(1, Math.round(Number(most.value)) || 1));
      most.value = String(settings.max_tokens);
    },
  });
  return field("Most tokens", most, "Where an answer is cut off; it can be continued from there.");
}

function seed(settings) {
  const given = h("input", {
    type: "number",
    min: 0,
    max: Number.MAX_SAFE_INTEGER,
    placeholder: "new",
    value: settings.seed ?? "",
    oninput: () => {
      const value = given.value === "" ? NaN : Number(given.value);
      settings.seed = Number.isSafeInteger(value) && value >= 0 ? value : null;
    },
  });
  return field("Seed", given, "The same seed gives the same answer; answers drawn again take the numbers after it.");
}
