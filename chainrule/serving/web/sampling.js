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

  /** The tokens of a text of one's own. */
  async tokensOf(branch, text) {
    const asked = { model: branch.settings.model, prompt: text, return_token_strs: true };
    const { tokens, token_strs } = await this.api.post("/tokenize", asked);
    return tokens.map((id, at) => ({ id, name: token_strs[at], bits: null, top: null }));
  }

  /** Tokens that a link forces, as they were when they were forced. */
  async tokensOfIds(branch, at, ids) {
    const face = ids.length === 1 && (await this.dieAt(branch, at)).faces.find(({ id }) => id === ids[0]);
    if (face) return [forcedFace(face)];
    const texts = ids.map((id) => this.api.post("/detokenize", { model: branch.settings.model, tokens: [id] }));
    return (await Promise.all(texts)).map(({ prompt }, place) => ({
      id: ids[place],
      name: prompt || "<eos>",
      bits: null,
      top: null,
    }));
  }

  /** The same tokens with what they add to the text, which for words is a space as well. */
  async withTexts(branch, at, forced) {
    const before = branch.tokens.slice(Math.max(0, at - 16), at).map(({ id }) => id);
    const ids = forced.map(({ id }) => id);
    const longer = [0, ...ids.keys()].map((_, count) => [...before, ...ids.slice(0, count)]);
    const asked = longer.map((tokens) => this.api.post("/detokenize", { model: branch.settings.model, tokens }));
    const texts = (await Promise.all(asked)).map(({ prompt }) => prompt.replace(/\ufffd+$/, ""));
    return forced.map((token, place) => ({ ...token, text: texts[place + 1].slice(texts[place].length) }));
  }
}

/** A face that is to stand where another token stood. */
export function forcedFace({ id, token, probability }) {
  return { id, name: token, bits: -Math.log2(Math.max(probability, 1e-300)), top: null };
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
      bits: logs[place] == null ? null : -logs[place] / Math.LN2,
    });
  });
  branch.finish = choice.finish_reason ?? branch.finish;
}

/** What each token of the prompt stands for in it: they follow one another, or have spaces between. */
function promptTexts(prompt, names) {
  const joined = names.join("");
  if (!names.length || !prompt.startsWith(joined)) return names.map((name, place) => (place ? " " : "") + name);
  return names.with(-1, names.at(-1) + prompt.slice(joined.length));
}
