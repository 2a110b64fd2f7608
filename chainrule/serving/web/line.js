// The line from 0 to 1 that a number is looked up on: a piece for each token, in the order of ids.

import { percent, svg, visible } from "/web/dom.js";

const HEIGHT = 230;
const WIDTH = 96;
const ROOM = 14; // that a name needs
const COLOURS = 6;

/**
 * The faces' pieces with their names, the others between them, and the number. `choose` hears where one points.
 * @param {{ faces: any[], drawn: any }} answer of /dice
 * @param {number} roll
 * @param {(roll: number) => void} choose
 */
export function line(answer, roll, choose) {
  const { faces, drawn } = answer;
  const known = faces.some(({ id }) => id === drawn.id) ? faces : [...faces, drawn];
  const at = roll * HEIGHT < ROOM ? roll * HEIGHT + ROOM : roll * HEIGHT - 5; // the drawn name stands beside the number
  const pieces = known
    .filter(({ filtered }) => filtered > 0)
    .map((face, rank) => {
      const isDrawn = face.id === drawn.id;
      return piece(face, isDrawn ? "drawn" : `rank-${Math.min(rank, COLOURS)}`, isDrawn ? at : nameAt(face, at));
    });
  const from = `from ${drawn.begin.toFixed(4)} to ${drawn.end.toFixed(4)}`;
  const picture = svg(
    "svg",
    {
      class: "line-of-dice",
      width: "100%",
      height: HEIGHT,
      role: "img",
      "aria-label": `The number falls on ${visible(drawn.token)}, ${from}`,
    },
    svg("rect", { class: "rest", x: 0, y: 0, width: WIDTH, height: HEIGHT }),
    pieces,
  );
  picture.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    const box = picture.getBoundingClientRect();
    choose(Math.min(0.9999, Math.max(0, (event.clientY - box.top) / box.height)));
  });
  return picture;
}

/** Where a name has room beside its piece, clear of the drawn one's; null where it has none. */
function nameAt({ begin, end }, taken) {
  const middle = ((begin + end) / 2) * HEIGHT + 4;
  return (end - begin) * HEIGHT >= ROOM && Math.abs(middle - taken) >= ROOM ? middle : null;
}

function piece({ id, token, filtered, begin, end }, kind, at) {
  const height = Math.max((end - begin) * HEIGHT, 0.5).toFixed(3);
  const place = { x: 0, y: (begin * HEIGHT).toFixed(3), width: WIDTH, height };
  return svg(
    "g",
    { class: `piece ${kind}`, "data-id": id },
    svg("title", null, `${visible(token)}: ${percent(filtered)}, from ${begin.toFixed(4)} to ${end.toFixed(4)}`),
    svg("rect", { ...place, "data-begin": begin, "data-end": end }),
    at !== null && svg("text", { x: WIDTH + 8, y: at.toFixed(2) }, visible(token).slice(0, 18)),
  );
}
