// Numbers as colours: blue above zero, orange below, paper at zero.

import { h, visible } from "/web/dom.js";

const CELL = 6; // pixels of one number, at the most
const WIDEST = 24;
const MOST_PIXELS = 260;

/**
 * A strip of values (time, units): a column for each token. The number under the pointer is told below.
 * @param {number[][]} values
 */
export function strip(values, tokens, name) {
  const [length, units] = [values.length, values[0].length];
  const label = `${name} of ${units} units over ${length} tokens`;
  const canvas = h("canvas", { class: "heat", width: length, height: units, role: "img", "aria-label": label });
  canvas.style.height = `${Math.min(MOST_PIXELS, units * CELL)}px`;
  canvas.style.maxWidth = `${length * WIDEST}px`;
  paint(canvas, values);
  const told = h("p", { class: "faint number told" }, `from ${least(values).toFixed(2)} to ${most(values).toFixed(2)}`);
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const at = Math.min(length - 1, Math.floor(((event.clientX - box.left) / box.width) * length));
    const unit = Math.min(units - 1, Math.floor(((event.clientY - box.top) / box.height) * units));
    if (values[at]?.[unit] === undefined) return;
    told.textContent = `unit ${unit + 1} after ${visible(tokens[at])}: ${values[at][unit].toFixed(3)}`;
  });
  return h("div", null, canvas, told);
}

function paint(canvas, values) {
  const drawing = canvas.getContext("2d");
  const picture = drawing.createImageData(canvas.width, canvas.height);
  const largest = Math.max(Math.abs(least(values)), Math.abs(most(values)), 1e-9);
  values.forEach((units, column) =>
    units.forEach((value, row) => {
      const colour = value >= 0 ? [0, 114, 178] : [224, 123, 0];
      const place = 4 * (row * canvas.width + column);
      picture.data.set([...colour, Math.round((255 * Math.abs(value)) / largest)], place);
    }),
  );
  drawing.putImageData(picture, 0, 0);
}

function least(values) {
  return Math.min(...values.map((row) => Math.min(...row)));
}

function most(values) {
  return Math.max(...values.map((row) => Math.max(...row)));
}
