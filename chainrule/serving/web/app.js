// The shell: one tab for each view, the address (#/view?settings) as the only truth of what is shown, and the keys.
//
// A view is a module view-NAME.js that exports show(container, context). It fills the container and may return a
// function that is called when the view is left. The context has
//   models      the language models of /v1/models
//   translators those that write one text from another
//   api         get, post and stream of api.js
//   state       an object that lives as long as the page, for what a view wants to find again
//   params      URLSearchParams of the address
//   setParams   (params) => void: say in the address what is shown, without showing it anew
//   go          (view, params) => void: show another view
//   keys        ([{ key, does, run }]) => void: keys of the view, listed under "?"; "Ctrl+Enter" works in fields too
//   say         (sentence) => void: a note that goes away
//   fail        (error) => void: the same for what went wrong; aborted requests are no failure

import * as api from "/web/api.js";
import { h, nothing, replace } from "/web/dom.js";

const VIEWS = [
  ["playground", "Playground"],
  ["chat", "Chat"],
  ["dice", "Dice"],
  ["surprise", "Surprise"],
  ["training", "Training"],
  ["leaderboard", "Leaderboard"],
  ["graph", "Graph"],
  ["game", "Game"],
];
const TRANSLATE = ["translate", "Translate"]; // where something is served that does
const OF_LANGUAGE = ["playground", "chat", "dice", "surprise", "game"]; // views that need a language model

const container = document.getElementById("view");
const toast = document.getElementById("toast");
const dialog = /** @type {HTMLDialogElement} */ (document.getElementById("shortcuts"));
const tabs = new Map();
const state = {};
let models = [];
let translators = [];
let leave = () => {};
let keys = [];
let shown = 0;
let fading = 0;

function say(sentence, isFailure = false) {
  toast.textContent = sentence;
  toast.classList.toggle("failure", isFailure);
  toast.classList.add("shown");
  clearTimeout(fading);
  fading = setTimeout(() => toast.classList.remove("shown"), isFailure ? 8000 : 2500);
}

function fail(error) {
  if (error.name === "AbortError") return;
  if (!(error instanceof api.ApiError)) console.error(error);
  say(error.message[0].toUpperCase() + error.message.slice(1), true);
}

/** "#/dice?roll=0.5" -> ["dice", params]. */
function address() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const isKnown = VIEWS.some(([id]) => id === path);
  return /** @type {[string, URLSearchParams]} */ ([isKnown ? path : home(), new URLSearchParams(query ?? "")]);
}

/** Where one begins: with a model that was trained on conversations, by talking to it. */
function home() {
  return models.some(({ chat }) => chat) ? "chat" : VIEWS[0][0];
}

function write(view, params) {
  const query = params?.toString();
  return `#/${view}${query ? `?${query}` : ""}`;
}

async function show() {
  const number = ++shown;
  const [id, params] = address();
  leave();
  leave = () => {};
  keys = [];
  mark(id);
  if (OF_LANGUAGE.includes(id) && !models.length) {
    missing(id);
    return;
  }
  const view = await import(`/web/view-${id}.js`);
  if (number !== shown) return;
  replace(container);
  const left = view.show(container, {
    models,
    translators,
    api,
    state,
    params,
    setParams: (found) => history.replaceState(null, "", write(id, found)),
    go: (other, found) => (location.hash = write(other, found)),
    keys: (more) => (keys = [...keys, ...more]),
    say,
    fail,
  });
  leave = typeof left === "function" ? left : () => {};
}

function missing(id) {
  const sentence = "This view is for language models, and none is served here; start chainrule serve with one.";
  replace(container, h("h1", { class: "unseen" }, titleOf(id)), nothing(sentence, "chainrule serve RUN ..."));
}

function titleOf(view) {
  return VIEWS.find(([id]) => id === view)[1];
}

function mark(current) {
  const title = titleOf(current);
  document.title = `${title} · Chainrule`;
  container.setAttribute("aria-labelledby", `tab-${current}`);
  for (const [id, tab] of tabs) {
    tab.setAttribute("aria-selected", String(id === current));
    tab.tabIndex = id === current ? 0 : -1;
  }
  tabs.get(current).scrollIntoView({ block: "nearest", inline: "nearest" });
}

function makeTabs() {
  const list = document.getElementById("tabs");
  for (const [id, title] of VIEWS) {
    const tab = h("a", { role: "tab", id: `tab-${id}`, href: `#/${id}`, "aria-controls": "view" }, title);
    tabs.set(id, tab);
    list.append(tab);
  }
  list.addEventListener("keydown", (event) => {
    const at = VIEWS.findIndex(([id]) => id === address()[0]);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: VIEWS.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const [id] = VIEWS[(to + VIEWS.length) % VIEWS.length];
    location.hash = write(id);
    tabs.get(id).focus();
  });
}

function named(event) {
  return `${event.ctrlKey || event.metaKey ? "Ctrl+" : ""}${event.key}`;
}

function press(event) {
  if (dialog.open || event.altKey || event.defaultPrevented) return;
  const isWriting = event.target.matches?.("input:not([type=range], [type=checkbox], [type=radio]), textarea, select");
  const name = named(event);
  if (isWriting && !name.startsWith("Ctrl+") && name !== "Escape") return;
  const found = allKeys().find(({ key }) => key === name);
  if (!found) return;
  event.preventDefault();
  found.run();
}

function allKeys() {
  const places = VIEWS.map(([id, title], place) => ({
    key: String(place + 1),
    does: title,
    run: () => (location.hash = write(id)),
  }));
  return [...keys, ...places, { key: "?", does: "this list", run: help }];
}

function help() {
  const rows = allKeys().map(({ key, does }) => h("tr", null, h("td", null, h("kbd", null, key)), h("td", null, does)));
  replace(
    dialog,
    h("h2", { id: "shortcuts-title" }, "Keyboard"),
    h("table", { class: "plain" }, h("tbody", null, rows)),
    h("p", { class: "faint" }, "Tab moves between controls, arrow keys between tabs."),
    h("form", { method: "dialog" }, h("button", { type: "submit" }, "Close")),
  );
  dialog.showModal();
}

async function begin() {
  document.getElementById("help").addEventListener("click", help);
  document.addEventListener("keydown", press);
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    container.focus();
  });
  try {
    const served = (await api.get("/v1/models")).data;
    models = served.filter(({ task }) => task === "language");
    translators = served.filter(({ task }) => task !== "language");
  } catch (error) {
    replace(container, h("p", { class: "notice" }, error.message));
    return;
  }
  const place = models.length ? VIEWS.findIndex(([id]) => id === "training") : 0;
  if (translators.length) VIEWS.splice(place, 0, TRANSLATE);
  makeTabs();
  addEventListener("hashchange", () => show().catch(fail));
  await show().catch(fail);
}

begin();
