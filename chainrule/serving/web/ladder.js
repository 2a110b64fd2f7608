// Models that count: the back-off ladder, the lines of the text they were trained on, the parts of a mix.

import { h, percent, visible } from "/web/dom.js";
import { adds, part } from "/web/parts.js";

export function ladder({ rungs, smoothing, probability }) {
  const largest = Math.max(...rungs.map(({ contribution }) => contribution));
  const row = (rung) =>
    h(
      "tr",
      { class: rung.contribution ? null : "faint" },
      h("td", { class: "context" }, contextOf(rung), h("br"), h("span", { class: "faint" }, seen(rung))),
      h("td", null, adds(rung.contribution, largest)),
    );
  return part(
    `The back-off ladder (${smoothing})`,
    "Each order contributes its own estimate, weighted by the probability that the longer ones leave over.",
    h(
      "table",
      { class: "ladder" },
      h("thead", null, h("tr", null, h("th", null, "after"), h("th", null, "adds"))),
      h("tbody", null, rungs.map(row), together(probability, 1)),
    ),
  );
}

function contextOf({ order, context }) {
  if (order === 0) return h("i", null, "any token");
  return context.length ? h("span", { class: "name" }, context.map(visible).join("·")) : h("i", null, "no context");
}

function seen({ count, total }) {
  if (count == null) return "";
  return total ? `seen ${count.toLocaleString("en")} of ${total.toLocaleString("en")}` : "never seen";
}

function together(probability, empty) {
  const cells = Array.from({ length: empty - 1 }, () => h("td"));
  return h("tr", { class: "sum" }, h("td", null, "together"), cells, h("td", null, percent(probability)));
}

export function corpus({ context, count, followed, sightings }) {
  const row = ({ path, line, before, found, after }) =>
    h(
      "li",
      null,
      h("span", { class: "faint" }, `${path.split("/").at(-1)}:${line} `),
      before,
      h("mark", null, found),
      after,
    );
  return part(
    "In the training text",
    `“${visible(context)}” occurs ${times(count)}, ${times(followed)} followed by this token.`,
    h("ul", { class: "sightings" }, sightings.map(row)),
  );
}

function times(number) {
  return number === 1 ? "once" : number === 0 ? "never" : `${number.toLocaleString("en")} times`;
}

export function mixture({ shares, by, probability }) {
  const largest = Math.max(...shares.map(({ contribution }) => contribution));
  const row = (share) =>
    h(
      "tr",
      null,
      [share.part, percent(share.weight), percent(share.probability)].map((each) => h("td", null, each)),
      h("td", null, adds(share.contribution, largest)),
    );
  return part(
    "The parts of the mix",
    `Weights by ${by}.`,
    h(
      "table",
      null,
      h("thead", null, h("tr", null, ["part", "weight", "says", "adds"].map((name) => h("th", null, name)))),
      h("tbody", null, shares.map(row), together(probability, 3)),
    ),
  );
}
