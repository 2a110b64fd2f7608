// One text for many models, and one number after another for all of them: what each has said so far, and its die.

const FACES = 8;

/**
 * @typedef {{ ids: number[] | null, tokens: any[], answer: any, isOver: boolean }} Column
 *   a column keeps its own ids: what was drawn for it is what it reads next; none yet where it is still the text
 */

export class Columns {
  /** @param {{ models: string[], prompt: string, filters: any, seed: number, rolls: number[] }} wanted */
  constructor(api, wanted) {
    this.api = api;
    Object.assign(this, wanted);
    this.seeded = [];
    this.seededBy = NaN;
    this.asking = null;
    this.clear();
  }

  clear() {
    /** @type {Map<string, Column>} */
    this.columns = new Map(this.models.map((id) => [id, { ids: null, tokens: [], answer: null, isOver: false }]));
  }

  /** The number that is shown: the latest. */
  get roll() {
    return this.rolls.at(-1);
  }

  get steps() {
    return this.rolls.length - 1;
  }

  get isOver() {
    return [...this.columns.values()].every(({ isOver }) => isOver);
  }

  get isReady() {
    return [...this.columns.values()].every(({ answer, isOver }) => answer || isOver);
  }

  /** Whether these are the numbers that the seed gives, so that the seed says it all. */
  get isSeeded() {
    return this.rolls.every((roll, place) => roll === this.seeded[place]);
  }

  /** At least so many numbers of the seed. */
  async numbers(length) {
    if (this.seededBy !== this.seed || this.seeded.length < length) {
      const found = await this.api.get(`/rolls?seed=${this.seed}&count=${Math.max(64, 2 * length)}`);
      [this.seeded, this.seededBy] = [found.rolls, this.seed];
    }
    return this.seeded;
  }

  /** What the latest number draws from every die. A later question ends an earlier one. */
  async ask() {
    this.stop();
    const mine = (this.asking = new AbortController());
    const going = [...this.columns].filter(([, { isOver }]) => !isOver);
    if (!going.length) return;
    const columns = going.map(([model, { ids }]) => ({ model, prompt: ids ?? this.prompt }));
    const asked = { columns, roll: this.roll, faces: FACES, ...this.filters };
    const found = await this.api.post("/dice", asked, mine.signal);
    mine.signal.throwIfAborted();
    going.forEach(([, column], place) => {
      column.answer = found.columns[place];
      column.isOver = "error" in column.answer; // a model that cannot go on does not keep the others from it
    });
  }

  /** Every model takes what was drawn for it, and the next number comes. */
  async step() {
    const next = (await this.numbers(this.rolls.length + 1))[this.rolls.length];
    if (!this.isReady) return; // it has begun anew in the meantime
    this.take();
    this.rolls = [...this.rolls, next];
    await this.ask();
  }

  take() {
    for (const column of this.columns.values()) {
      if (column.isOver) continue;
      const { ids, drawn } = column.answer;
      column.ids = [...ids, drawn.id];
      column.tokens = [...column.tokens, drawn];
      column.isOver = drawn.is_end;
    }
  }

  /** From the text on, with these numbers one after the other. */
  async replay(rolls) {
    this.clear();
    this.rolls = [];
    for (const roll of rolls) {
      if (this.rolls.length) this.take();
      this.rolls = [...this.rolls, roll];
      await this.ask();
    }
  }

  stop() {
    this.asking?.abort();
  }
}
