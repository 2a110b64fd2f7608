// Which models a view looks at: chips that can be pressed, and a choice to begin with.

import { count, h } from "/web/dom.js";

const FIRST = 4;

/** Those named, else those kept, else the largest of each kind, four at the most, in the server's order. */
export function pickModels(named, models, kept, most = FIRST) {
  const known = new Set(models.map(({ id }) => id));
  const wanted = (named?.split(",") ?? kept ?? []).filter((id) => known.has(id));
  if (wanted.length) return wanted;
  const largest = new Map();
  for (const model of models) {
    const before = largest.get(model.architecture);
    if (!before || model.parameters > before.parameters) largest.set(model.architecture, model);
  }
  const liked = ["ngram", "lstm", "transformer", "elman", "attention", "mlp", "gru"];
  const kinds = [...largest.keys()].sort((a, b) => rank(liked, a) - rank(liked, b)).slice(0, most);
  const ids = new Set(kinds.map((kind) => largest.get(kind).id));
  return models.map(({ id }) => id).filter((id) => ids.has(id));
}

/** Of the kinds that speak best, the largest. */
export function favourite(models) {
  const bySize = [...models].sort((a, b) => b.parameters - a.parameters);
  const kinds = ["mix", "transformer", "lstm"];
  return kinds.map((kind) => bySize.find(({ architecture }) => architecture === kind)).find(Boolean) ?? models[0];
}

function rank(liked, kind) {
  return liked.includes(kind) ? liked.indexOf(kind) : liked.length;
}

/** A name that fits: of a path, its last two folders. */
export function shortName(id) {
  return id.split("/").slice(-2).join("/");
}

/** A button for each model; `changed` hears the ids of those that are pressed. */
export function chips(models, chosen, changed) {
  const pressed = new Set(chosen);
  const press = (event, id) => {
    pressed.has(id) ? pressed.delete(id) : pressed.add(id);
    event.currentTarget.setAttribute("aria-pressed", String(pressed.has(id)));
    changed(models.map((model) => model.id).filter((each) => pressed.has(each)));
  };
  return h("div", { class: "row chips", role: "group", "aria-label": "Models" }, models.map(({ id, architecture, parameters }) =>
    h("button", {
      type: "button",
      class: "chip",
      title: `${id}: ${architecture}, ${count(parameters)} parameters`,
      "aria-pressed": String(pressed.has(id)),
      onclick: (event) => press(event, id),
    }, shortName(id))));
}
