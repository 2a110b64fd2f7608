// An answer in a conversation, with the surprise and the alternatives of its tokens.

import { forced, spelled } from "/web/answering.js";
import { arrows, tool } from "/web/chat-question.js";
import { head } from "/web/die-card.js";
import { dieRows } from "/web/die.js";
import { h, replace } from "/web/dom.js";
import { shortName } from "/web/models.js";
import { TokenText } from "/web/token-text.js";

/** @typedef {import("/web/conversation.js").Answer} Answer */

const UNKNOWN = "The alternatives are not known: this text was not drawn here.";
const NOT_WHOLE = "A part of a character cannot be chosen; choose another token.";

export class AnswerCard {
  /**
   * @param {Answer} answer
   * @param {{ variants: Answer[], isSurprising: boolean, isRunning: () => boolean, key: string }} how
   * @param {{ show: (other: Answer) => void, again: () => void, retry: () => void, proceed: () => void, copy: () => void,
   *   remove: () => void, branch: (tokens: any[]) => void, say: (sentence: string) => void }} does
   */
  constructor(answer, how, does) {
    Object.assign(this, { answer, ...how, does });
    this.name = answer.model ? shortName(answer.model) : "Assistant";
    this.body = h("div", { class: "answer-body" });
    this.die = h("div");
    this.foot = h("div", { class: "row spread answer-foot" });
    const label = `Answer of ${this.name}`;
    this.element = h("article", { class: "answer", "aria-label": label }, this.header(), this.body, this.die, this.foot);
    this.element.addEventListener("keydown", (event) => event.key === "Escape" && this.close(event));
    this.finish();
  }

  header() {
    return h("h2", { class: "small faint", title: this.answer.model }, this.name);
  }

  /** What has come so far. */
  update() {
    const { answer } = this;
    if (this.text) this.text.show(this.settled());
    else this.plain.textContent = answer.text;
    this.element.classList.toggle("begun", answer.tokens.length > 0);
  }

  /** The tokens whose text will not change any more. */
  settled() {
    const tokens = spelled(this.answer);
    return this.isRunning() ? tokens.slice(0, tokens.findLastIndex(({ text }) => text !== "") + 1) : tokens;
  }

  /** All of it anew: where it begins, where it ends, and where tokens are to be told apart or no more. */
  finish() {
    const { answer } = this;
    const isRunning = this.isRunning();
    this.element.setAttribute("aria-busy", String(isRunning));
    this.element.classList.toggle("running", isRunning);
    this.text = this.isSurprising && (isRunning || answer.tokens.length) ? this.tokenText() : null;
    this.plain = this.text ? null : h("p", { class: "message", dir: "auto" });
    replace(this.body, this.text?.element ?? this.plain, this.failure());
    replace(this.die);
    this.update();
    replace(this.foot, h("span", { class: "small faint number" }, this.status()), this.tools());
  }

  tokenText() {
    const choose = (place, byKey) => this.open(place, byKey);
    const found = new TokenText("", () => {}, choose, { className: "text", label: `Tokens of ${this.name}` });
    found.element.setAttribute("dir", "auto");
    return found;
  }

  failure() {
    const { error, text } = this.answer;
    if (!error) return !text && !this.isRunning() && h("p", { class: "faint small" }, "Nothing: the answer ended at once.");
    const again = h("button", { type: "button", "data-key": `${this.key} retry`, onclick: this.does.retry }, "Try again");
    const sentence = error[0].toUpperCase() + error.slice(1);
    return h("div", { class: "notice small row spread", role: "alert" }, h("span", null, /[.?!]$/.test(sentence) ? sentence : `${sentence}.`), !text && again);
  }

  status() {
    const { tokens, finish, seed, rate } = this.answer;
    const measured = tokens.filter(({ bits }) => bits !== null);
    if (!measured.length || this.isRunning()) return "";
    const bits = measured.reduce((sum, token) => sum + token.bits, 0) / measured.length;
    const cut = { length: "cut off", stopped: "stopped" }[finish];
    const parts = [`${measured.length} tokens`, this.isSurprising && `${bits.toFixed(2)} bits each`, cut, `seed ${seed}`];
    return [...parts, rate && `${rate.toFixed(rate < 10 ? 1 : 0)} tokens/s`].filter(Boolean).join(" · ");
  }

  tools() {
    if (this.isRunning()) return null;
    const { does, key, answer } = this;
    const isOpen = answer.text && ["length", "stopped", "failed"].includes(answer.finish);
    return h(
      "span",
      { class: "tools" },
      arrows("answer", this.variants, answer, does.show, key),
      isOpen && tool("Continue", `${key} continue`, does.proceed),
      tool("Regenerate", `${key} again`, does.again),
      tool("Copy", `${key} copy`, does.copy),
      tool("Delete", `${key} delete`, does.remove, { title: "Delete this answer and what follows it" }),
    );
  }

  /** The alternatives of a token. */
  open(place, byKey) {
    if (this.isRunning()) return;
    const token = spelled(this.answer)[place];
    this.text.ring(place);
    this.opened = place;
    const close = h("button", { type: "button", class: "quiet small", onclick: () => this.close() }, "Close");
    const known = token.top && dieRows(dieOf(token), { pick: ({ choice }) => this.choose(place, choice), does: "continue with" });
    replace(
      this.die,
      h(
        "section",
        { class: "card die-card", "aria-label": "What else could have come here" },
        h("div", { class: "row spread top-of-die" }, head(token), close),
        h("p", { class: "faint small" }, known ? "Choose a token, and the answer goes on from there." : UNKNOWN),
        known,
      ),
    );
    this.die.firstElementChild.scrollIntoView({ block: "nearest" });
    if (byKey) this.die.querySelector("button.face, button").focus({ preventScroll: true });
  }

  close(event = null) {
    if (!this.die.firstChild) return;
    event?.preventDefault();
    replace(this.die);
    this.text.ring(null);
    this.text.focus(this.opened);
  }

  choose(place, choice) {
    const tokens = forced(this.answer, place, choice);
    if (tokens) this.does.branch(tokens);
    else this.does.say(NOT_WHOLE);
  }
}

/** The die of a token from its top_logprobs. */
function dieOf({ name, bytes, bits, top }) {
  const face = (choice) => ({ token: choice.token, probability: Math.exp(choice.logprob), choice });
  const faces = top.map(face);
  const rest = 1 - faces.reduce((sum, { probability }) => sum + probability, 0);
  const drawn = face({ token: name, bytes, logprob: -bits * Math.LN2 });
  return { faces, others: { probability: Math.max(0, rest) }, drawn };
}
