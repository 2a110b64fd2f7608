// The line from 0 to 1 that a number is looked up on: a piece for each token, in the order of ids.

import { svg, visible, percent } from "/web/dom.js";

const HEIGHT = 230;
const LEAST = 15; // of a piece that has room for its name
const COLOURS = 6;

/**
 * The faces' pieces with their names, the others between them, and the number. `choose` hears where one points.
 * @param {{ faces: any[], drawn: any }} answer of /dice
 */
export function line(answer, choose) {
  const { faces, drawn } = answer;
  const known = faces.some(({ id }) => id === drawn.id) ? faces : [...faces, drawn];
  const pieces = known.filter(({ filtered }) => filtered > 0).map((face, rank) => piece(face, rank, face.id === drawn.id));
  const picture = svg("svg", { class: "line-of-dice", width: "100%", height: HEIGHT, role: "img",
    "aria-label": `The number falls on ${visible(drawn.token)}, from ${drawn.begin.toFixed(4)} to ${drawn.end.toFixed(4)}` },
    svg("rect", { class: "rest", x: 0, y: 0, width: 64, height: HEIGHT }), pieces);
  const pick = (event) => {
    const box = picture.getBoundingClientRect();
    choose(Math.min(0.9999, Math.max(0, (event.clientY - box.top) / box.height)));
  };
  picture.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    pick(event);
  });
  return picture;
}

function piece(face, rank, isDrawn) {
  const { begin, end, token, filtered } = face;
  const [top, height] = [begin * HEIGHT, Math.max((end - begin) * HEIGHT, 0.5)];
  const hasName = height >= LEAST || isDrawn;
  const middle = Math.min(HEIGHT - 4, Math.max(11, top + height / 2 + 4));
  return svg("g", { class: `piece rank-${Math.min(rank, COLOURS)}${isDrawn ? " drawn" : ""}`, "data-id": face.id },
    svg("title", null, `${visible(token)}: ${percent(filtered)}, from ${begin.toFixed(4)} to ${end.toFixed(4)}`),
    svg("rect", { x: 0, y: top.toFixed(3), width: 64, height: height.toFixed(3), "data-begin": begin, "data-end": end }),
    hasName && svg("text", { x: 72, y: middle.toFixed(2) }, visible(token).slice(0, 18)));
}
