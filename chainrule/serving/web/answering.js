// An answer as it is drawn: what is asked of /v1/chat/completions, and what each token that comes stands for.

/** @typedef {import("/web/conversation.js").Answer} Answer */
/** @typedef {import("/web/conversation.js").Token} Token */

const ALTERNATIVES = 10; // that come with every token

/**
 * Draw an answer, or what follows of one that has begun; `heard` is called after every token.
 * @param {Answer} answer
 * @param {{ messages: any[], filters: any, max_tokens: number }} wanted the messages up to the question
 */
export async function draw(api, answer, { messages, filters, max_tokens }, heard, signal) {
  let began = 0;
  let drawn = 0;
  const hear = ({ choices: [choice] }) => {
    began ||= performance.now();
    drawn += 1;
    take(answer, choice);
    heard();
  };
  answer.finish = answer.error = null;
  try {
    const body = { ...request(answer, messages), ...filters, max_completion_tokens: max_tokens };
    await api.stream("/v1/chat/completions", body, hear, signal);
  } catch (error) {
    answer.finish = error.name === "AbortError" ? "stopped" : "failed";
    if (error.name !== "AbortError") answer.error = error.message;
  }
  answer.rate = (1000 * drawn) / Math.max(1, performance.now() - began);
}

function request({ model, text, seed }, messages) {
  const begun = text ? { continue_final_message: true, add_generation_prompt: false } : {};
  const said = text ? [...messages, { role: "assistant", content: text }] : messages;
  return { model, messages: said, ...begun, seed, stream: true, logprobs: true, top_logprobs: ALTERNATIVES };
}

function take(answer, choice) {
  const { token, bytes, logprob, top_logprobs } = choice.logprobs.content[0];
  const text = choice.delta.content;
  answer.tokens.push({ name: token, text, bytes, bits: -logprob / Math.LN2, top: top_logprobs });
  answer.text += text;
  answer.finish = choice.finish_reason ?? answer.finish;
}

/**
 * The tokens of an answer, each with its own part of the text. Text comes later than its tokens where it might have
 * become a stop string, or is not whole characters; the bytes of the tokens say whose it is.
 * @param {Answer} answer
 * @returns {Token[]}
 */
export function spelled({ tokens, text }) {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const texts = [];
  let rest = text;
  for (const { bytes } of tokens) {
    const found = shownAs(decoder.decode(Uint8Array.from(bytes), { stream: true }), rest);
    if (found === null) return tokens;
    texts.push(found);
    rest = rest.slice(found.length);
  }
  return tokens.map((token, place) => ({ ...token, text: texts[place] }));
}

/** How a token stands at the beginning of a text: with its space, without it, or with one before it; null: not at all. */
function shownAs(token, text) {
  const bare = token.startsWith(" ") ? token.slice(1) : token;
  const found = [token, bare, ` ${token}`].find((each) => text.startsWith(each));
  return found ?? ([token, bare].some((each) => each.startsWith(text)) ? text : null);
}

/**
 * The beginning of an answer with another token at a place; null where it would not be whole characters. A token that
 * has no bytes is an end.
 * @param {Answer} answer
 * @param {{ token: string, bytes: number[], logprob: number }} choice
 */
export function forced(answer, place, { token, bytes, logprob }) {
  const tokens = spelled(answer);
  const [before, drawn] = [tokens.slice(0, place), tokens[place]];
  const [own, other] = [decode(drawn.bytes), decode(bytes)];
  if (other === null || isCut(before)) return null;
  const text = drawn.text === ` ${own}` ? ` ${other}` : own === ` ${drawn.text}` ? other.replace(/^ /, "") : other;
  return [...before, { name: token, text, bytes, bits: -logprob / Math.LN2, top: drawn.top, isForced: true }];
}

function decode(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Uint8Array.from(bytes));
  } catch {
    return null;
  }
}

/** Whether the last character of these tokens is not whole. */
function isCut(tokens) {
  const decoder = new TextDecoder();
  decoder.decode(Uint8Array.from(tokens.flatMap(({ bytes }) => bytes)), { stream: true });
  return decoder.decode() !== "";
}
