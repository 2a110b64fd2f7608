// Branches and the server: what is asked for one, and what is heard of it, token by token.

const FACES = 10; // alternatives that come with every token
const CHOICES = 20; // of a die that one may choose from

/** @typedef {import("/web/branches.js").Branch} Branch */

export class Sampler {
  constructor(api) {
    this.api = api;
    this.tokenizers = new Map();
  }

  /** Draw what this branch still lacks; `heard` is called after every piece. */
  async run(branch, heard, signal) {
    branch.request = await this.requestOf(branch);
    let began = 0;
    const hear = (event) => {
      began ||= performance.now();
      if (event.choices[0]) take(branch, event.choices[0]);
      heard();
    };
    try {
      await this.api.stream("/v1/completions", branch.request, hear, signal);
      branch.seconds = (performance.now() - began) / 1000;
    } catch (error) {
      branch.finish = error.name === "AbortError" ? "stopped" : "failed";
      throw error;
    }
  }

  /** A root asks with its text, a branch with the ids that it keeps and forces. */
  async requestOf(branch) {
    const { model, prompt, seed, max_tokens, stop, filters } = branch.settings;
    return {
      model,
      prompt: branch.parent ? await this.idsBefore(branch, branch.tokens.length) : prompt,
      seed,
      max_tokens,
      ...(stop ? { stop } : {}),
      ...filters,
      stream: true,
      logprobs: FACES,
      echo: !branch.parent,
      return_token_ids: true,
    };
  }

  /** The ids that the model has read before a token: every text begins after an <eos>. */
  async idsBefore(branch, place) {
    const id = branch.settings.model;
    if (!this.tokenizers.has(id)) {
      this.tokenizers.set(id, await this.api.get(`/tokenizer_info?model=${encodeURIComponent(id)}`));
    }
    const { eos_token_id, model_max_length } = this.tokenizers.get(id);
    const ids = [eos_token_id, ...branch.tokens.slice(0, place).map((token) => token.id)];
    return model_max_length ? ids.slice(-model_max_length) : ids;
  }

  /** The die in front of a token, with ids. */
  async dieAt(branch, place) {
    const columns = [{ model: branch.settings.model, prompt: await this.idsBefore(branch, place) }];
    const asked = { columns, roll: 0, faces: CHOICES, ...branch.settings.filters };
    return (await this.api.post("/dice", asked)).columns[0];
  }

  /** The ids of a text of one's own. */
  async idsOf(branch, text) {
    return (await this.api.post("/tokenize", { model: branch.settings.model, prompt: text })).tokens;
  }

  /** Tokens that are to stand at a place: their names, what each would have cost there, and what they add to the text. */
  async forced(branch, at, ids) {
    const { model } = branch.settings;
    const read = await this.idsBefore(branch, at);
    const most = this.tokenizers.get(model).model_max_length ?? Infinity;
    const prompt = [...read, ...ids].slice(-most);
    const asked = { model, prompt, max_tokens: 0, echo: true, logprobs: 0 };
    const [answer, texts] = await Promise.all([this.api.post("/v1/completions", asked), this.textsOf(branch, at, ids)]);
    const { tokens, token_logprobs: logs } = answer.choices[0].logprobs;
    const first = tokens.length - ids.length;
    return ids.map((id, place) => ({
      id,
      name: tokens[first + place],
      text: texts[place],
      bits: bitsOf(logs[first + place]),
      top: null,
    }));
  }

  /** What ids add to the text, one after the other; for words that is a space as well. */
  async textsOf(branch, at, ids) {
    const before = branch.tokens.slice(Math.max(0, at - 16), at).map(({ id }) => id);
    const longer = Array.from({ length: ids.length + 1 }, (_, count) => [...before, ...ids.slice(0, count)]);
    const asked = longer.map((tokens) => this.api.post("/detokenize", { model: branch.settings.model, tokens }));
    const texts = (await Promise.all(asked)).map(({ prompt }) => prompt.replace(/\ufffd+$/, ""));
    return ids.map((_, place) => texts[place + 1].slice(texts[place].length));
  }
}

function bitsOf(logarithm) {
  return logarithm == null ? null : -logarithm / Math.LN2;
}

/** Add what one piece of the answer brings; the first brings the prompt too, where it is echoed. */
function take(branch, choice) {
  const { tokens: names, token_logprobs: logs, top_logprobs: tops } = choice.logprobs;
  const isFirst = branch.request.echo && choice.prompt_token_ids != null;
  const given = isFirst ? choice.prompt_token_ids : [];
  const prompt = branch.settings.prompt;
  const texts = promptTexts(prompt, names.slice(0, given.length));
  const drawn = isFirst ? choice.text.slice(prompt.length) : choice.text;
  [...given, ...choice.token_ids].forEach((id, place, all) => {
    const isPrompt = place < given.length;
    branch.tokens.push({
      id,
      name: names[place],
      text: isPrompt ? texts[place] : place === all.length - 1 ? drawn : "",
      isPrompt,
      top: tops[place],
      bits: bitsOf(logs[place]),
    });
  });
  branch.finish = choice.finish_reason ?? branch.finish;
}

/** What each token of the prompt stands for in it: they follow one another, or have spaces between. */
function promptTexts(prompt, names) {
  const decoder = new TextDecoder();
  const texts = names.map((name) => decoder.decode(bytesOf(name), { stream: true }));
  const joined = texts.join("");
  if (!names.length || !prompt.startsWith(joined)) return names.map((name, place) => (place ? " " : "") + name);
  return texts.with(-1, texts.at(-1) + prompt.slice(joined.length));
}

/** A token that is not whole characters is named by its bytes: 'bytes:\xe2\x80'. */
function bytesOf(name) {
  if (!/^bytes:(\\x[0-9a-f]{2})+$/.test(name)) return new TextEncoder().encode(name);
  return Uint8Array.from(name.split("\\x").slice(1), (each) => parseInt(each, 16));
}
