// A question in a conversation, as it was asked or while it is edited; and the small controls below every message.

import { h } from "/web/dom.js";

/** @typedef {import("/web/conversation.js").Turn} Turn */

/** A quiet button; `key` finds it again when all is drawn anew. */
export function tool(label, key, onclick, more = {}) {
  return h("button", { type: "button", class: "quiet small", "data-key": key, onclick, ...more }, label);
}

/** ‹ 2 of 3 ›, where there is more than one. */
export function arrows(what, branches, shown, show, key) {
  if (branches.length < 2) return null;
  const at = branches.indexOf(shown);
  const arrow = (sign, name, to) =>
    tool(sign, `${key} ${name}`, () => show(branches[to]), { disabled: !branches[to], "aria-label": `${name} ${what}` });
  return h(
    "span",
    { class: "arrows", role: "group", "aria-label": `Versions of the ${what}` },
    arrow("‹", "Previous", at - 1),
    h("span", { class: "small faint number" }, `${at + 1} of ${branches.length}`),
    arrow("›", "Next", at + 1),
  );
}

/**
 * @param {Turn} turn
 * @param {Turn[]} versions of its question
 * @param {{ show: (other: Turn) => void, edit: () => void, copy: () => void, remove: () => void }} does
 */
export function questionElement(turn, versions, key, does) {
  return h(
    "article",
    { class: "question", "aria-label": "You" },
    h("p", { class: "message", dir: "auto" }, turn.question),
    h(
      "span",
      { class: "tools" },
      arrows("message", versions, turn, does.show, key),
      tool("Edit", `${key} edit`, does.edit),
      tool("Copy", `${key} copy`, does.copy),
      tool("Delete", `${key} delete`, does.remove, { title: "Delete this message and what follows it" }),
    ),
  );
}

/**
 * What is written is kept in the turn's `draft` until it is sent or given up.
 * @param {Turn} turn
 * @param {{ send: (question: string) => void, cancel: () => void }} does
 */
export function questionEditor(turn, key, does) {
  const field = h("textarea", { rows: 3, dir: "auto", "aria-label": "Edit your message", "data-key": `${key} edit`, value: turn.draft });
  const send = () => field.value.trim() && does.send(field.value.trim());
  field.addEventListener("input", () => (turn.draft = field.value));
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.preventDefault();
    does.cancel();
  });
  sendsBy(field, send);
  return h(
    "div",
    { class: "question editing" },
    field,
    h(
      "div",
      { class: "row" },
      h("button", { class: "main", type: "button", onclick: send }, "Send"),
      h("button", { type: "button", onclick: does.cancel }, "Cancel"),
    ),
  );
}

/** Enter sends, unless it chooses a word of an input method; Shift+Enter is a new line. */
export function sendsBy(field, send) {
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  });
}
