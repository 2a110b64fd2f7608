// Samples as a tree: a root is a prompt and its settings; a branch keeps some tokens, forces another, and goes on.

/**
 * @typedef {{ id: number, name: string, text: string, bits: number | null, top: Record<string, number> | null,
 *   isPrompt?: boolean, isForced?: boolean }} Token
 * @typedef {{ number: number, parent: Branch | null, fork: { at: number, ids: number[] } | null, settings: any,
 *   tokens: Token[], request: any, finish: string | null }} Branch
 */

export class Branches {
  constructor() {
    /** @type {Branch[]} */
    this.all = [];
    this.made = 0;
  }

  /** A new sample. A root that nothing came of but itself makes way for it. */
  addRoot(settings) {
    this.all = this.all.filter((each) => each.parent || this.all.some((other) => other.parent === each));
    return this.add(null, null, settings, []);
  }

  /** Keep `at` tokens of the parent, then these. */
  addBranch(parent, at, forced) {
    const kept = parent.tokens.slice(0, at);
    const ids = forced.map(({ id }) => id);
    const others = forced.map((each) => ({ ...each, isForced: true }));
    return this.add(parent, { at, ids }, parent.settings, [...kept, ...others]);
  }

  add(parent, fork, settings, tokens) {
    const branch = { number: ++this.made, parent, fork, settings, tokens, request: null, finish: null };
    const after = parent ? this.lastOf(parent) : this.all.at(-1);
    this.all.splice(after ? this.all.indexOf(after) + 1 : 0, 0, branch);
    return branch;
  }

  /** The last in the list that comes of this one. */
  lastOf(branch) {
    const children = this.all.filter(({ parent }) => parent === branch);
    return children.length ? this.lastOf(children.at(-1)) : branch;
  }

  depth(branch) {
    return branch.parent ? 1 + this.depth(branch.parent) : 0;
  }

  /** "12:345,20:7.8": at which token which ids were forced, from the root on. */
  path(branch) {
    const own = branch.fork ? [`${branch.fork.at}:${branch.fork.ids.join(".")}`] : [];
    return branch.parent ? [this.path(branch.parent), ...own].filter(Boolean).join(",") : "";
  }

  /** The branch that these forks lead to, if it is here. */
  child(parent, { at, ids }) {
    const isIt = ({ fork }) => fork.at === at && String(fork.ids) === String(ids);
    return this.all.find((each) => each.parent === parent && isIt(each));
  }
}

/** The inverse of `path`; what is no path is none. */
export function readPath(text) {
  const forks = (text ?? "").split(",").filter(Boolean).map((part) => {
    const [at, ids] = part.split(":");
    return { at: Number(at), ids: (ids ?? "").split(".").map(Number) };
  });
  const isSound = ({ at, ids }) => [at, ...ids].every((each) => Number.isInteger(each) && each >= 0);
  return forks.every(isSound) ? forks : [];
}
