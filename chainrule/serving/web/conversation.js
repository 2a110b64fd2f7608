// A conversation as a tree. A turn is a question with the answers to it, of one model or of two side by side (slots 0
// and 1). A question that is edited, and an answer that is drawn again, stand beside the first one as branches: of
// those that stand side by side, the one that was looked at last is shown. A turn follows the answers it was asked after.

/**
 * @typedef {{ name: string, text: string, bytes: number[], bits: number | null, top: any[] | null, isForced?: boolean }} Token
 * @typedef {{ slot: number, model: string | null, text: string, tokens: Token[], finish: string | null, error: string | null,
 *   seed: number | null, rate: number, seen: number }} Answer
 * @typedef {{ question: string | null, parent: Turn | null, after: Answer[], answers: Answer[], turns: Turn[], seen: number, draft?: string }} Turn
 */

const SLOTS = [0, 1];
const MOST_LOADED = 500; // conversations of one file
const EXPECTED = '{"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]}';

export class Conversation {
  constructor(system = "") {
    this.system = system;
    this.looks = 0;
    /** @type {Turn} */
    this.root = { question: null, parent: null, after: [], answers: [], turns: [], seen: 0 };
  }

  /** The turns that are shown, from the first to the last. */
  get path() {
    const found = [];
    for (let turn = latest(this.following(this.root)); turn; turn = latest(this.following(turn))) found.push(turn);
    return found;
  }

  get isEmpty() {
    return !this.root.turns.length;
  }

  /** The turns that come after a turn and the answers of it that are shown: versions of one question. */
  following(turn) {
    return turn.turns.filter(({ after }) => after.every((answer) => this.answer(turn, answer.slot) === answer));
  }

  /** Those among which the answer of a slot was drawn. */
  variants(turn, slot) {
    return turn.answers.filter((answer) => answer.slot === slot);
  }

  /** The answer of a slot that is shown, if it has any. */
  answer(turn, slot) {
    return latest(this.variants(turn, slot));
  }

  answers(turn) {
    return SLOTS.map((slot) => this.answer(turn, slot)).filter(Boolean);
  }

  /** Show this turn, or this answer, among those beside it. */
  show(branch) {
    branch.seen = ++this.looks;
    return branch;
  }

  /** A question after a turn (the root: the first one) and its answers that are shown; null where nothing was asked. */
  ask(parent, question) {
    const turn = { question, parent, after: this.answers(parent), answers: [], turns: [], seen: 0 };
    parent.turns.push(turn);
    return this.show(turn);
  }

  /** An answer to come, beside those of its slot. @returns {Answer} */
  begin(turn, slot, model, tokens = []) {
    const text = tokens.map((token) => token.text).join("");
    const answer = { slot, model, text, tokens, finish: null, error: null, seed: null, rate: 0, seen: 0 };
    turn.answers.push(answer);
    return this.show(answer);
  }

  /** Take a turn or an answer away, and with it all that follows; returns what brings it back. */
  remove(turn, answer = null) {
    const list = answer ? turn.answers : turn.parent.turns;
    const place = list.indexOf(answer ?? turn);
    list.splice(place, 1);
    return () => list.splice(place, 0, answer ?? turn);
  }

  /** What the model of a slot reads up to a turn's question; answers that it has not given itself are the other's. */
  messages(last, slot) {
    const found = this.system ? [{ role: "system", content: this.system }] : [];
    for (const turn of pathTo(last)) {
      if (turn.question !== null) found.push({ role: "user", content: turn.question });
      const answer = turn === last ? null : (this.answer(turn, slot) ?? this.answers(turn)[0]);
      if (answer?.text) found.push({ role: "assistant", content: answer.text });
    }
    return found;
  }

  /** The conversations that are shown, a line of JSON for each slot that has answers. */
  toLines() {
    const { path } = this;
    const slots = SLOTS.filter((slot) => path.some((turn) => this.answer(turn, slot)));
    const lines = (slots.length ? slots : [0]).map((slot) => {
      const end = { question: null, parent: path.at(-1), after: [], answers: [], turns: [], seen: 0 };
      return JSON.stringify({ messages: this.messages(end, slot) });
    });
    return [...new Set(lines)].map((line) => `${line}\n`).join("");
  }

  /** Add a conversation, as branches where it differs from what is here, and show it. Its system message is left out. */
  add(messages, slot) {
    let turn = this.root;
    let isAnswered = true; // where the assistant speaks first, or twice, nothing was asked
    const said = messages.slice(systemOf(messages) === null ? 0 : 1);
    for (const { role, content } of said) {
      const question = role === "user" ? content : null;
      if (question !== null || isAnswered) {
        turn = this.show(this.following(turn).find((each) => each.question === question) ?? this.ask(turn, question));
        isAnswered = false;
      }
      if (question !== null) continue;
      const known = this.variants(turn, slot).find(({ text }) => text === content);
      this.show(known ?? this.begin(turn, slot, null, [whole(content)]));
      isAnswered = true;
    }
  }
}

/** A text whose tokens are not known, as one. */
export function whole(text) {
  return { name: text, text, bytes: [...new TextEncoder().encode(text)], bits: null, top: null };
}

function latest(branches) {
  return branches.reduce((found, each) => (!found || each.seen > found.seen ? each : found), null);
}

function pathTo(turn) {
  return turn.parent ? [...pathTo(turn.parent), turn] : [];
}

/**
 * The conversations of a file, one to a line: side by side where two models answer and these are two answers to the
 * same questions, else as branches of one. `left` counts those that could not be added.
 */
export function fromLines(text, isPair) {
  const conversations = text.split("\n").flatMap((line, place) => (line.trim() ? [readLine(line, place + 1)] : []));
  if (!conversations.length) throw new Error(`The file is empty; each line should be a conversation: ${EXPECTED}`);
  const [first] = conversations;
  const alike = conversations.filter((each) => systemOf(each) === systemOf(first)).slice(0, MOST_LOADED);
  const isSideBySide = isPair && alike.length === 2 && questions(alike[0]) === questions(alike[1]);
  const conversation = new Conversation(systemOf(first) ?? "");
  alike.forEach((messages, place) => conversation.add(messages, isSideBySide ? place : 0));
  if (!isSideBySide) conversation.add(first, 0);
  return { conversation, count: alike.length, left: conversations.length - alike.length };
}

function readLine(line, number) {
  let messages;
  try {
    ({ messages } = JSON.parse(line));
  } catch {
    messages = null;
  }
  const isMessage = (each, place) =>
    typeof each?.content === "string" && (["user", "assistant"].includes(each.role) || (each.role === "system" && !place));
  if (Array.isArray(messages) && messages.length && messages.every(isMessage)) return messages;
  throw new Error(`Line ${number} of the file is not a conversation, which looks like this: ${EXPECTED}`);
}

function systemOf([first]) {
  return first.role === "system" ? first.content : null;
}

function questions(messages) {
  return JSON.stringify(messages.map(({ role, content }) => (role === "assistant" ? null : content)));
}
