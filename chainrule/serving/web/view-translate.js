// One text from another: source and target, what else was found, and which word came from which.

import { alignment } from "/web/alignment.js";
import { beamTree } from "/web/beam-tree.js";
import { field, h, percent, replace } from "/web/dom.js";

const MOST_IN_ADDRESS = 1500; // characters
const SHOWN = 5; // texts, the best

export function show(container, context) {
  const { api, translators, params, state } = context;
  const kept = state.translate;
  let asking = null;
  let map = params.get("map") ?? kept?.map;

  const known = translators.some(({ id }) => id === params.get("model")) ? params.get("model") : kept?.model;
  const model = h("select", { onchange: translate }, translators.map(({ id, task }) =>
    h("option", { value: id, selected: id === known }, `${id} (${task})`)));
  const beam = h("input", { type: "number", min: 1, max: 64, step: 1, value: params.get("beam") ?? kept?.beam ?? 5, class: "beam-width", onchange: translate });
  const text = h("textarea", { rows: 3, maxlength: 20000, spellcheck: "false", id: "source", onkeydown: press });
  text.value = params.get("text") ?? kept?.text ?? "";
  const target = h("div", { class: "stack", "aria-live": "polite" });
  const inside = h("div", { class: "stack explained" });

  container.append(
    h("h1", { class: "unseen" }, "Translate"),
    h("div", { class: "stack" },
      h("div", { class: "row end" },
        field("Model", model),
        field("Beam", beam, "The width of the beam: how many hypotheses are kept; 1 is greedy.")),
      field("Source", text),
      h("div", { class: "row" },
        h("button", { class: "main", type: "button", title: "Enter", onclick: translate }, "Translate"),
        h("span", { class: "faint small" }, "Enter translates, Shift+Enter starts a new line.")),
      target,
      inside),
  );
  context.keys([{ key: "Ctrl+Enter", does: "translate the text", run: translate }]);

  function press(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    translate();
  }

  function remember() {
    state.translate = { model: model.value, beam: beam.value, text: text.value, map };
    const found = new URLSearchParams({ model: model.value, beam: beam.value });
    if (map) found.set("map", map);
    if (text.value.length <= MOST_IN_ADDRESS) found.set("text", text.value);
    context.setParams(found);
  }

  async function translate() {
    asking?.abort();
    const mine = (asking = new AbortController());
    remember();
    if (!text.value.trim()) {
      replace(inside);
      replace(target, h("p", { class: "faint" }, "Write a text to translate."));
      return;
    }
    const asked = { model: model.value, text: text.value, beam: Number(beam.value) };
    [target, inside].forEach((each) => each.classList.add("waiting"));
    try {
      const answer = await api.post("/v1/translate", { ...asked, n: Math.min(SHOWN, asked.beam) }, mine.signal);
      replace(target, best(answer.translations[0]), others(answer.translations[0]));
      target.classList.remove("waiting");
      const found = await api.post("/alignment", asked, mine.signal);
      replace(inside, alignment(found, map, (chosen) => ((map = chosen), remember())), beamTree(found.beam));
    } catch (error) {
      if (!mine.signal.aborted) replace(inside); // what is shown there belongs to another text
      context.fail(error);
    }
    if (!mine.signal.aborted) [target, inside].forEach((each) => each.classList.remove("waiting"));
  }

  translate();
  return () => asking?.abort();
}

/** A score is the mean log-probability of a token, if the length penalty is 1, as it is here. */
function best({ text, score, finish_reason }) {
  return h("div", { class: "card" },
    h("h2", { class: "unseen" }, "Target"),
    h("p", { class: "target", id: "target" }, text),
    h("p", { class: "faint small", "data-score": score },
      `${percent(Math.exp(score))} a token, score ${score.toFixed(4)}`,
      finish_reason === "length" && "; it was cut off where it became too long"));
}

function others({ others: targets }) {
  if (!targets.length) return null;
  const row = ({ text, score }) => h("tr", { "data-score": score },
    h("td", { class: "right" }, score.toFixed(4)),
    h("td", { class: "right" }, percent(Math.exp(score))),
    h("td", null, text));
  return h("details", { open: true },
    h("summary", null, "Other translations"),
    h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Other translations" },
      h("table", { class: "others" },
        h("thead", null, h("tr", null, ["Score", "A token", "Text"].map((name, place) =>
          h("th", { scope: "col", class: place < 2 ? "right" : null }, name)))),
        h("tbody", null, targets.map(row)))));
}
