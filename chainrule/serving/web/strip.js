// The strip: the text in lines, under each line one row of colour for every model, a column for each character. A
// token's bits are spread over its characters.

import { h } from "/web/dom.js";
import { shortName } from "/web/models.js";

const STRONG = 6; // bits per character that are full orange
const ROW = 13; // pixels of one model's row, with the gap below it
const ORANGE = [224, 123, 0];
const IMPOSSIBLE = [180, 35, 24];

/**
 * @param {{ models: { model: string, tokens: object[] }[], spans: { text: string, begin: number, end: number, bits: (number|null)[] }[] }} answer
 * @param {(span: object) => void} told hears the span that is selected
 */
export function makeStrip({ models, spans }, told) {
  const characters = spans.map(({ text }) => [...text]).flat();
  const owners = spans.flatMap((span, number) => Array(span.end - span.begin).fill(number));
  const spreads = models.map(({ tokens }) => spread(tokens, characters.length));
  const element = h("div", { class: "strip", role: "img", "aria-label": `Bits of ${spans.length} pieces of the text by ${models.length} models; the table below tells those of one piece` });
  const ruler = h("span", { class: "ruler mono" }, "0".repeat(100));
  let lines = [];
  let selected = -1;
  let columns = 0;

  function layOut() {
    const longest = Math.max(...models.map(({ model }) => shortName(model).length));
    const labels = Math.min(longest * 7 + 14, element.clientWidth / 4);
    const width = ruler.getBoundingClientRect().width / 100;
    const fitting = Math.max(16, Math.floor((element.clientWidth - labels - 4) / width));
    if (!width || fitting === columns) return;
    columns = fitting;
    lines = cutLines(characters, columns).map(([begin, end]) => makeLine(begin, end, labels));
    element.replaceChildren(ruler, ...lines.map(({ block }) => block));
    if (selected >= 0) mark();
  }

  function makeLine(begin, end, labels) {
    const canvas = h("canvas", { width: columns, height: models.length * ROW, "aria-hidden": "true" });
    canvas.style.height = `${models.length * ROW}px`;
    canvas.style.width = `${columns}ch`;
    paint(canvas, begin, end);
    const cursor = h("span", { class: "cursor hidden" });
    const body = h("div", { class: "strip-body mono" },
      h("div", { class: "strip-text" }, characters.slice(begin, end).map((each) => cell(each))), canvas, cursor);
    body.addEventListener("pointermove", (event) => point(event, body, begin, end));
    body.addEventListener("click", (event) => point(event, body, begin, end));
    const names = h("div", { class: "strip-names" }, models.map(({ model }) => h("span", { title: model }, shortName(model))));
    names.style.width = `${labels}px`;
    return { begin, end, cursor, block: h("div", { class: "strip-line" }, names, body) };
  }

  function point(event, body, begin, end) {
    const box = body.querySelector("canvas").getBoundingClientRect();
    const at = begin + Math.floor(((event.clientX - box.left) / box.width) * columns);
    if (at >= begin && at < end && owners[at] !== selected) select(owners[at], false);
  }

  function paint(canvas, begin, end) {
    const drawing = canvas.getContext("2d");
    for (let at = begin; at < end; at++) {
      spreads.forEach((bits, row) => {
        const colour = bits[at] === Infinity ? IMPOSSIBLE : ORANGE;
        const strength = 0.05 + 0.95 * Math.min(1, bits[at] / STRONG);
        drawing.fillStyle = `rgb(${colour.join(" ")} / ${strength.toFixed(3)})`;
        drawing.fillRect(at - begin, row * ROW, 1, ROW - 3);
      });
    }
  }

  function select(number, doesScroll = true) {
    selected = number;
    mark(doesScroll);
    told(spans[number]);
  }

  function mark(doesScroll = false) {
    const { begin, end } = spans[selected];
    for (const line of lines) {
      const from = Math.max(begin, line.begin);
      const to = Math.min(Math.max(end, begin + 1), line.end);
      line.cursor.classList.toggle("hidden", from >= to);
      if (from >= to) continue;
      line.cursor.style.left = `${from - line.begin}ch`;
      line.cursor.style.width = `${to - from}ch`;
      if (doesScroll && from === begin) line.block.scrollIntoView({ block: "nearest" });
    }
  }

  const watching = new ResizeObserver(layOut);
  watching.observe(element);
  element.append(ruler);

  return {
    element,
    card: null,
    select,
    move: (by) => select(Math.min(spans.length - 1, Math.max(0, selected + by))),
    leave: () => watching.disconnect(),
  };
}

/** Bits for each character; what the later bytes of a character cost is added to it. */
function spread(tokens, length) {
  const found = new Float64Array(length);
  for (const { begin, end, bits } of tokens) {
    for (let at = Math.min(begin, end - 1); at < end; at++) found[at] += (bits ?? Infinity) / Math.max(1, end - begin);
  }
  return found;
}

/** Every character has the same width, those that a font would draw wider too. */
function cell(character) {
  if (character === "\n") return h("i", null, "⏎");
  if (character === "\t") return h("i", null, "⇥");
  return /[\x20-\x7e]/.test(character) ? character : h("i", null, character);
}

/** [begin, end) of each line: after a line end, else after the last space that fits. */
function cutLines(characters, columns) {
  const lines = [];
  for (let begin = 0; begin < characters.length; ) {
    let end = Math.min(begin + columns, characters.length);
    const lineEnd = characters.indexOf("\n", begin);
    if (lineEnd >= 0 && lineEnd < end) end = lineEnd + 1;
    else if (end < characters.length) {
      const space = characters.lastIndexOf(" ", end - 1);
      if (space > begin + columns / 2) end = space + 1;
    }
    lines.push([begin, end]);
    begin = end;
  }
  return lines;
}
