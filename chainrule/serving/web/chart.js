// Pictures of numbers as SVG: axes with round ticks, lines, marks. Colours come from classes in style.css.

import { svg } from "/web/dom.js";

/** About `count` round numbers that cover [low, high]. */
export function ticks(low, high, count = 5) {
  if (!(high > low)) return [low];
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= rough);
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step) {
    found.push(Number(value.toPrecision(12)));
  }
  return found;
}

/** A number as a tick shows it. */
export function short(value) {
  const size = Math.abs(value);
  if (size >= 1e9) return `${Number((value / 1e9).toPrecision(3))}B`;
  if (size >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`;
  if (size >= 1e4) return `${Number((value / 1e3).toPrecision(3))}k`;
  return String(Number(value.toPrecision(4)));
}

/**
 * @typedef {{ name: string, points: [number, number][], colour: number, marks?: boolean }} Series
 * Lines over a common x axis. `colour` is the number of a colour in style.css: class "series-1" and so on.
 * @param {{ series: Series[], title: string, x: string, y: string, width?: number, height?: number,
 *   isLogX?: boolean, isLogY?: boolean, low?: number, high?: number }} wanted
 */
export function lineChart({ series, title, x, y, width = 640, height = 280, isLogX, isLogY, low, high }) {
  const all = series.flatMap(({ points }) => points);
  const inner = { left: 52, right: width - 12, top: 12, bottom: height - 40 };
  const across = scale(all.map(([value]) => value), inner.left, inner.right, isLogX);
  const heights = [...all.map(([, value]) => value), low, high].filter((value) => value != null);
  const up = scale(heights, inner.bottom, inner.top, isLogY);
  return svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": title },
    axes(inner, across, up, x, y),
    series.map(({ name, points, colour, marks }) => [
      svg(
        "polyline",
        { class: `line series-${colour}`, points: points.map(([a, b]) => `${fix(across(a))},${fix(up(b))}`).join(" ") },
        svg("title", null, name),
      ),
      marks &&
        points.map(([a, b]) =>
          svg(
            "circle",
            { class: `mark series-${colour}`, cx: fix(across(a)), cy: fix(up(b)), r: 3 },
            svg("title", null, `${name}: ${short(b)} at ${short(a)}`),
          ),
        ),
    ]),
  );
}

/** The lines and labels of a plot; `across` and `up` come from `scale`. */
export function axes(inner, across, up, x, y) {
  const middle = (inner.top + inner.bottom) / 2;
  return svg(
    "g",
    { class: "axes" },
    up.ticks.map((value) => [
      svg("line", { x1: inner.left, x2: inner.right, y1: fix(up(value)), y2: fix(up(value)) }),
      svg("text", { x: inner.left - 6, y: fix(up(value) + 4), "text-anchor": "end" }, short(value)),
    ]),
    across.ticks.map((value) =>
      svg("text", { x: fix(across(value)), y: inner.bottom + 16, "text-anchor": "middle" }, short(value)),
    ),
    svg("text", { x: (inner.left + inner.right) / 2, y: inner.bottom + 34, "text-anchor": "middle" }, x),
    svg("text", { transform: `translate(12 ${middle}) rotate(-90)`, "text-anchor": "middle" }, y),
  );
}

/** A function from values to places, with the ticks that suit it. */
export function scale(values, from, to, isLog = false) {
  const map = isLog ? (value) => Math.log10(Math.max(value, 1e-12)) : (value) => value;
  const mapped = values.filter(Number.isFinite).map(map);
  let low = Math.min(...mapped);
  let high = Math.max(...mapped);
  if (!mapped.length) [low, high] = [0, 1];
  if (low === high) [low, high] = [low - 0.5, high + 0.5];
  const place = (value) => from + ((map(value) - low) / (high - low)) * (to - from);
  place.ticks = isLog ? powers(low, high) : ticks(low, high);
  return place;
}

function powers(low, high) {
  const found = [];
  for (let power = Math.floor(low); power <= Math.ceil(high); power++) {
    for (const factor of high - low > 3 ? [1] : [1, 2, 5]) {
      const value = Math.log10(factor) + power;
      if (value >= low - 1e-9 && value <= high + 1e-9) found.push(Number((factor * 10 ** power).toPrecision(3)));
    }
  }
  return found;
}

function fix(value) {
  return Number(value.toFixed(2));
}
