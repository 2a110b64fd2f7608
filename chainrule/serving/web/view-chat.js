// A conversation with a model, or with two side by side: answers as they come, and every way that it could have gone.

import { draw } from "/web/answering.js";
import { AnswerCard } from "/web/chat-answer.js";
import { questionEditor, questionElement, sendsBy, tool } from "/web/chat-question.js";
import { makeSettings } from "/web/chat-settings.js";
import { Conversation, fromLines } from "/web/conversation.js";
import { copy } from "/web/copying.js";
import { h, replace } from "/web/dom.js";
import { DEFAULTS } from "/web/filters.js";
import { favourite, shortName } from "/web/models.js";
import { legend } from "/web/tokens.js";

/** @typedef {import("/web/conversation.js").Answer} Answer */
/** @typedef {import("/web/conversation.js").Turn} Turn */

const SEEDS = 1e6;
const NEAR = 120; // pixels from the end of the page, where one follows what comes
const FILE = "chat.jsonl";
const ANSWERING = "Still answering: Esc stops it.";

export function show(container, context) {
  const { api, models, params, state } = context;
  const chat = (state.chat ??= {
    conversation: new Conversation(),
    settings: { models: [first(models), null], filters: { ...DEFAULTS }, max_tokens: 256, seed: null },
    draft: "",
    isSurprising: false,
  });
  const { settings } = chat;
  settings.models = named(params, models, settings.models);
  /** @type {Map<Answer, AbortController>} */
  const running = new Map();
  /** @type {Map<Answer, AnswerCard>} */
  const cards = new Map();

  // What is on the page.
  const note = h("p", { class: "faint small chat-note" });
  const surprise = h("button", { type: "button", class: "small", title: "s", onclick: toggle }, "Surprise");
  const tints = h("span", null, legend());
  const file = h("input", { type: "file", accept: ".jsonl,.json,application/jsonl", class: "hidden", onchange: load });
  const [fresh, open, keep] = [
    tool("New", "new", renew, { title: "Begin a new conversation" }),
    tool("Load", "load", () => file.click(), { title: "Open a conversation from a file of JSONL" }),
    tool("Save", "save", save, { title: "Save the conversation as JSONL, as chainrule train reads it" }),
  ];
  const log = h("section", { class: "conversation", "aria-label": "Conversation" });
  const notice = h("p", { class: "undo small row", role: "status" });
  const told = h("p", { class: "unseen", role: "status" });
  const draft = h("textarea", { id: "message", rows: 2, dir: "auto", placeholder: "Write a message", "aria-label": "Message", value: chat.draft });
  const start = h("button", { class: "main", type: "button", onclick: send }, "Send");
  const stop = h("button", { type: "button", title: "Esc", onclick: halt }, "Stop");
  draft.addEventListener("input", () => (chat.draft = draft.value));
  sendsBy(draft, send);
  const panel = makeSettings(models, settings, chat.conversation.system, {
    models: changeModels,
    system: (text) => (chat.conversation.system = text),
  });
  container.append(
    h("h1", { class: "unseen" }, "Chat"),
    h(
      "div",
      { class: "chat" },
      h(
        "div",
        { class: "chat-main" },
        h("div", { class: "row spread chat-head" }, h("div", { class: "row" }, surprise, tints), h("div", { class: "tools" }, fresh, open, keep, file)),
        note,
        log,
        told,
        h("div", { class: "composer" }, notice, h("div", { class: "row" }, draft, start, stop)),
      ),
      h("div", { class: "side" }, panel.element),
    ),
  );

  // Asking.
  function send() {
    const said = draft.value.trim();
    if (said && running.size) context.say(ANSWERING);
    else if (said) {
      draft.value = chat.draft = "";
      ask(chat.conversation.path.at(-1) ?? chat.conversation.root, said);
    }
    draft.focus();
  }

  function ask(parent, said) {
    answerAll(chat.conversation.ask(parent, said));
    scrollTo({ top: document.documentElement.scrollHeight });
  }

  /** Every chosen model answers a turn, with the same seed. */
  function answerAll(turn) {
    const common = newSeed();
    const chosen = settings.models.flatMap((model, slot) => (model ? [[model, slot]] : []));
    for (const [model, slot] of chosen) begin(turn, slot, model, [], common);
    render();
  }

  /** The seed of the settings for the first answer of a slot, the numbers after it for others. */
  function begin(turn, slot, model, tokens, common = newSeed()) {
    const { length } = chat.conversation.variants(turn, slot);
    const answer = chat.conversation.begin(turn, slot, model, tokens);
    answer.seed = settings.seed === null ? common : settings.seed + length;
    run(turn, answer);
    return answer;
  }

  function again(turn, answer) {
    begin(turn, answer.slot, settings.models[answer.slot] ?? answer.model ?? settings.models[0], []);
    render();
  }

  /** Another token at a place of an answer, and what it would have said then. */
  function branch(turn, { slot, model }, tokens) {
    const isEnd = !tokens.at(-1).bytes.length;
    if (!isEnd) begin(turn, slot, model, tokens);
    else chat.conversation.begin(turn, slot, model, tokens).finish = "stop";
    render();
    draft.focus({ preventScroll: true });
  }

  function proceed(turn, answer) {
    answer.model ??= settings.models[answer.slot] ?? settings.models[0];
    run(turn, answer);
    render();
  }

  async function run(turn, answer) {
    const mine = new AbortController();
    running.set(answer, mine);
    clearNotice();
    tell();
    const wanted = { messages: chat.conversation.messages(turn, answer.slot), ...settings };
    await draw(api, answer, wanted, () => follow(() => cards.get(answer)?.update()), mine.signal);
    running.delete(answer);
    follow(() => cards.get(answer)?.finish());
    told.textContent = answer.error ?? `${shortName(answer.model)}: ${answer.text}`; // read out once, at the end
    tell();
  }

  function halt() {
    const hadFocus = document.activeElement === stop;
    for (const each of running.values()) each.abort();
    if (hadFocus) draft.focus();
  }

  // Showing.
  function render() {
    const key = /** @type {any} */ (document.activeElement)?.dataset?.key;
    cards.clear();
    const { path } = chat.conversation;
    replace(log, path.length ? path.map(turnElement) : empty());
    if (key) refocus(key);
    tell();
  }

  /** The button that had the focus, as it was drawn anew; at the last branch, the way back. */
  function refocus(key) {
    const find = (each) => container.querySelector(`[data-key="${each}"]:not(:disabled)`);
    const other = key.endsWith("Next") ? key.replace(/Next$/, "Previous") : key.replace(/Previous$/, "Next");
    (find(key) ?? find(other) ?? draft).focus();
  }

  function turnElement(turn, number) {
    const { conversation } = chat;
    const answers = conversation.answers(turn);
    return h(
      "div",
      { class: "turn" },
      turn.question !== null && question(turn, `${number}`),
      answers.length
        ? h("div", { class: "answers" }, answers.map((answer) => card(turn, answer, `${number}.${answer.slot}`)))
        : h("p", null, h("button", { type: "button", "data-key": `${number} answer`, onclick: () => answerAll(turn) }, "Answer this")),
    );
  }

  function question(turn, key) {
    if (turn.draft !== undefined) return editor(turn, key);
    const versions = chat.conversation.following(turn.parent).filter((each) => each.question !== null);
    return questionElement(turn, versions, key, {
      show: reveal,
      edit: () => edit(turn, key),
      copy: () => toClipboard(turn.question),
      remove: () => remove(turn),
    });
  }

  function card(turn, answer, key) {
    const { conversation } = chat;
    const variants = conversation.variants(turn, answer.slot);
    const how = { variants, key, isSurprising: chat.isSurprising, isRunning: () => running.has(answer) };
    const found = new AnswerCard(answer, how, {
      show: reveal,
      again: () => again(turn, answer),
      retry: () => proceed(turn, answer),
      proceed: () => proceed(turn, answer),
      copy: () => toClipboard(answer.text),
      remove: () => remove(turn, answer),
      branch: (tokens) => branch(turn, answer, tokens),
      say: context.say,
    });
    cards.set(answer, found);
    return found.element;
  }

  function empty() {
    const names = settings.models.filter(Boolean).map(shortName).join(" and ");
    return h(
      "div",
      { class: "faint empty" },
      h("p", null, `Nothing said yet: write to ${names} below.`),
      h("p", { class: "small" }, "Enter sends, Shift+Enter begins a new line. What was said can be edited and drawn again; every version is kept."),
    );
  }

  /** What the controls around the conversation say. */
  function tell() {
    start.classList.toggle("hidden", running.size > 0);
    stop.classList.toggle("hidden", !running.size);
    keep.disabled = fresh.disabled = chat.conversation.isEmpty;
    surprise.setAttribute("aria-pressed", String(chat.isSurprising));
    tints.classList.toggle("hidden", !chat.isSurprising);
    note.textContent = ofPlainText(models.filter(({ id, chat: style }) => !style && settings.models.includes(id)));
  }

  /** What changes the height of the page while one is at its end leaves one there. */
  function follow(change) {
    const page = document.documentElement;
    const isNear = page.scrollHeight - innerHeight - scrollY < NEAR;
    change();
    if (isNear) scrollTo({ top: page.scrollHeight });
  }

  function reveal(other) {
    chat.conversation.show(other);
    render();
  }

  function toggle() {
    chat.isSurprising = !chat.isSurprising;
    render();
  }

  function changeModels() {
    if (settings.models[1] === settings.models[0]) context.say("Both are the same model; with one seed they say the same.");
    context.setParams(addressOf(settings.models));
    if (chat.conversation.isEmpty) render();
    tell();
  }

  // Changing what was said.
  function edit(turn, key) {
    turn.draft ??= turn.question;
    render();
    const field = /** @type {HTMLTextAreaElement} */ (container.querySelector(`textarea[data-key="${key} edit"]`));
    field.focus();
    field.setSelectionRange(field.value.length, field.value.length);
  }

  function editor(turn, key) {
    return questionEditor(turn, key, {
      cancel: () => {
        turn.draft = undefined;
        render();
        refocus(`${key} edit`);
      },
      send: (changed) => {
        halt();
        turn.draft = undefined;
        ask(turn.parent, changed);
        draft.focus();
      },
    });
  }

  function remove(turn, answer = null) {
    halt();
    const restore = chat.conversation.remove(turn, answer);
    offerUndo(answer ? "The answer was deleted." : "The message and what followed it were deleted.", restore);
    render();
  }

  function renew() {
    exchange(new Conversation(chat.conversation.system), "A new conversation.");
    draft.focus();
  }

  /** Another conversation in place of this one, which can be had back. */
  function exchange(conversation, sentence) {
    halt();
    const before = chat.conversation;
    const put = (each) => {
      chat.conversation = each;
      panel.setSystem(each.system);
    };
    put(conversation);
    if (!before.isEmpty) offerUndo(sentence, () => put(before));
    render();
  }

  function offerUndo(sentence, restore) {
    const back = () => {
      restore();
      clearNotice();
      render();
      draft.focus();
    };
    replace(notice, h("span", { class: "faint" }, sentence), h("button", { type: "button", class: "small", onclick: back }, "Undo"));
  }

  function clearNotice() {
    replace(notice);
  }

  // Files and the clipboard.
  async function load() {
    const [chosen] = file.files;
    if (!chosen) return;
    try {
      const { conversation, count, left } = fromLines(await chosen.text(), settings.models[1] !== null);
      exchange(conversation, `${chosen.name} was loaded in place of the conversation that was here.`);
      if (left) context.say(`${count} of ${count + left} conversations were loaded: those with one system message, at most 500.`);
    } catch (error) {
      replace(notice, error.message);
    }
    file.value = "";
  }

  function save() {
    const address = URL.createObjectURL(new Blob([chat.conversation.toLines()], { type: "application/jsonl" }));
    h("a", { href: address, download: FILE }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }

  function toClipboard(text) {
    copy(text).then(() => context.say("Copied"), context.fail);
  }

  context.keys([
    { key: "Ctrl+Enter", does: "send the message", run: send },
    { key: "Escape", does: "stop answering, close what is open", run: halt },
    { key: "s", does: "show the surprise of every token, or hide it", run: toggle },
    { key: "/", does: "write a message", run: () => draft.focus() },
  ]);
  render();
  context.setParams(addressOf(settings.models));
  return halt;
}

function newSeed() {
  return Math.floor(Math.random() * SEEDS);
}

/** The model that one talks to first: trained on conversations, if any was. */
function first(models) {
  const trained = models.filter(({ chat }) => chat);
  return favourite(trained.length ? trained : models).id;
}

/** The models in the address, where they are served; else those chosen before. */
function named(params, models, before) {
  const known = (name) => models.find(({ id }) => id === params.get(name))?.id;
  return known("model") ? [known("model"), known("with") ?? null] : before;
}

function addressOf([model, other]) {
  return new URLSearchParams({ model, ...(other ? { with: other } : {}) });
}

/** What is to be said of models that know no conversations. */
function ofPlainText(models) {
  const names = models.map(({ id }) => shortName(id)).join(" and ");
  const [was, continues] = models.length > 1 ? ["were", "they continue"] : ["was", "it continues"];
  return names && `${names} ${was} not trained on conversations: ${continues} a transcript of “User:” and “Assistant:”.`;
}
