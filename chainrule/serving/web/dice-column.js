// One model among the dice: what it has said, its line with the number on it, its die, and why.

import { dieRows } from "/web/die.js";
import { count, h, percent, replace, visible } from "/web/dom.js";
import { showEvidence } from "/web/evidence.js";
import { line } from "/web/line.js";
import { inText, level } from "/web/tokens.js";

const SHOWN_CHARACTERS = 160; // of the text, its end

export class DiceColumn {
  /** @param {(roll: number) => void} choose one points at the line */
  constructor(context, model, choose, openEvidence) {
    const { id, architecture, parameters } = model;
    Object.assign(this, { context, id, choose, openEvidence });
    this.said = h("p", { class: "said" });
    this.line = h("div", { class: "lines" });
    this.word = h("p", { class: "drawn-word" });
    this.bars = h("div", { class: "bars" });
    this.evidence = h("div", { class: "evidence" });
    this.asked = "";
    this.wanted = null; // the token that is explained, unless it is the one drawn
    this.element = h(
      "section",
      { class: "column", "data-model": id, "aria-label": id },
      h(
        "header",
        { class: "row spread" },
        h("h2", { class: "name" }, id),
        h("span", { class: "faint small" }, `${architecture}, ${count(parameters)}`),
      ),
      this.said,
      this.line,
      this.word,
      this.bars,
      this.evidence,
    );
  }

  /**
   * @param {import("/web/columns.js").Columns} columns
   * @param {{ hasEvidence: boolean, isMoving: boolean }} how while it moves, evidence is left as it is
   */
  show(columns, { hasEvidence, isMoving }) {
    const { answer, tokens, isOver, ids } = columns.columns.get(this.id);
    const { prompt } = columns;
    const cut = prompt.length > SHOWN_CHARACTERS ? "…" : "";
    replace(this.said, h("span", { class: "faint" }, cut + prompt.slice(-SHOWN_CHARACTERS)), tokens.map(spoken));
    this.said.scrollTop = this.said.scrollHeight;
    if (isOver) {
      replace(this.line, h("p", { class: "faint small over" }, answer.error ?? "The text has ended here."));
      for (const each of [this.word, this.bars, this.evidence]) replace(each);
      return;
    }
    if (!answer) return;
    const { drawn, entropy_bits } = answer;
    const share = ` ${percent(drawn.filtered)} · die of ${entropy_bits.toFixed(2)} bits`;
    const name = h("b", { class: "name" }, visible(drawn.token));
    replace(this.line, line(answer, columns.roll, this.choose));
    replace(this.word, "→ ", name, h("span", { class: "faint small" }, share));
    const token = this.wanted ?? drawn.id;
    const pick = (face) => {
      this.wanted = face.id;
      this.openEvidence();
      this.bars.querySelector(`[data-id="${face.id}"]`)?.focus();
    };
    replace(this.bars, dieRows(answer, { does: "explain", chosen: token, pick }));
    if (!hasEvidence) this.hideEvidence();
    else if (!isMoving) this.explain({ model: this.id, prompt: ids ?? prompt, token, ...columns.filters });
  }

  hideEvidence() {
    replace(this.evidence);
    this.asked = "";
  }

  explain(request) {
    const asked = JSON.stringify(request);
    if (asked === this.asked) return;
    this.asked = asked;
    showEvidence(this.evidence, this.context, request);
  }
}

function spoken(token) {
  const bits = -Math.log2(Math.max(token.probability, 1e-12));
  return h(
    "span",
    {
      class: "token",
      style: { "--level": level(bits).toFixed(3) },
      title: `${visible(token.token)}: ${percent(token.probability)}`,
    },
    token.is_end ? "⏹" : inText(token.text, token.token),
  );
}
