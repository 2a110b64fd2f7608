// What `chainrule compare` found: who is best and by how much, which differences are real, and what each cost.

import { axes, scale, short } from "/web/chart.js";
import { count, field, h, nothing, replace, svg } from "/web/dom.js";

const COSTS = { seconds: "seconds of training", parameters: "parameters" };
const EDGE = 216; // of the picture of intervals
const COLUMNS = [
  { key: "model", name: "Model", isText: true },
  { key: "bits", name: "Bits per byte", show: (row) => row.bits.toFixed(4) },
  { key: "behind", name: "Behind the best", show: (row) => (row.behind ? `+${row.behind.toFixed(4)}` : "–") },
  { key: "p_value", name: "p", hint: "p-value of being behind", show: (row) => chance(row.p_value) },
  { key: "seconds", name: "Seconds", show: (row) => (row.seconds == null ? "–" : short(row.seconds)) },
  { key: "parameters", name: "Parameters", show: (row) => count(row.parameters) },
  { key: "generation_speed", name: "Tokens/s", hint: "when it writes", show: (row) => count(Math.round(row.generation_speed)) },
];

export function show(container, context) {
  const { api, params } = context;
  const asking = new AbortController();
  let boards = [];
  let at = 0;
  let sorted = params.get("sort") ?? "bits";
  let isDown = params.has("down");
  let cost = COSTS[params.get("cost")] ? params.get("cost") : "seconds";

  container.append(h("h1", { class: "unseen" }, "Leaderboard"));
  const body = h("div", { class: "stack" }, h("p", { class: "faint" }, "Loading…"));
  container.append(body);

  function draw() {
    const shown = boards.filter(({ table }) => table);
    if (!shown.length) {
      const under = boards.length ? `The comparison ${boards[0].name} has no table yet.` : "No comparison is served.";
      replace(body, nothing(`${under} This trains every kind of model on your text and shows it here:`,
        "chainrule compare poems.txt\nchainrule serve runs/poems-comparison"));
      return;
    }
    const { name, table } = shown[Math.min(at, shown.length - 1)];
    context.setParams(new URLSearchParams({ board: name, sort: sorted, cost, ...(isDown ? { down: "" } : {}) }));
    replace(body,
      h("div", { class: "row spread end" },
        h("h2", null, name),
        shown.length > 1 && field("Comparison", h("select", { onchange: (event) => ((at = Number(event.target.value)), draw()) },
          shown.map((each, number) => h("option", { value: number, selected: number === at }, each.name))))),
      h("p", { class: "verdict" }, table.verdict),
      h("p", { class: "faint small" }, `On the same ${table.documents.toLocaleString("en")} documents (${count(table.bytes)} bytes) kept aside; 95 % intervals by resampling them.`),
      h("div", { class: "wide" }, leaders(table)),
      h("div", { class: "row spread end" }, h("h2", null, "Quality against cost"),
        field("against", h("select", { id: "cost", onchange: (event) => ((cost = event.target.value), draw(), document.getElementById("cost").focus()) },
          Object.entries(COSTS).map(([value, said]) => h("option", { value, selected: value === cost }, said))))),
      pareto(table.models, cost, table.bits_per),
      expectations(table),
      [...(table.left_out ?? []), ...(table.notes ?? [])].map((note) => h("p", { class: "faint small" }, note)));
  }

  function leaders(table) {
    const rows = [...table.models].sort((a, b) => compare(a[sorted], b[sorted]) * (isDown ? -1 : 1));
    const place = intervalScale(table.models);
    const best = Math.min(...table.models.map(({ bits }) => bits));
    return h("table", { class: "leaders" },
      h("caption", { class: "unseen" }, "Models by bits per byte; click a heading to sort"),
      h("thead", null, h("tr", null, COLUMNS.flatMap((column) => [head(column, table),
        column.key === "bits" && h("th", { scope: "col" }, h("span", { class: "unseen" }, "Interval"))]), h("th", { scope: "col" }, "Sample"))),
      h("tbody", null, rows.map((row) => h("tr", { "data-model": row.model, class: row.bits === best ? "best" : null },
        COLUMNS.flatMap((column) => [
          column.isText
            ? h("th", { scope: "row" }, row.id ? h("a", { href: `#/playground?${new URLSearchParams({ model: row.id })}` }, row.model) : row.model)
            : h("td", { class: "right" }, column.show(row)),
          column.key === "bits" && h("td", null, whisker(row, place)),
        ]),
        h("td", { class: "sample", title: row.sample }, row.sample)))));
  }

  function head({ key, name, hint, isText }, table) {
    const isHere = key === sorted;
    const said = key === "bits" && table.bits_per !== "byte" ? `Bits per ${table.bits_per}` : name;
    return h("th", { scope: "col", class: isText ? null : "right", title: hint, "aria-sort": isHere ? (isDown ? "descending" : "ascending") : null },
      h("button", { type: "button", class: "sorter", "data-key": key, onclick: () => sort(key) }, said, h("span", { "aria-hidden": "true" }, isHere ? (isDown ? " ↓" : " ↑") : "")));
  }

  function sort(key) {
    isDown = key === sorted ? !isDown : false;
    sorted = key;
    draw();
    body.querySelector(`[data-key="${key}"]`).focus();
  }

  api.get("/leaderboards", asking.signal).then((answer) => {
    boards = answer.data;
    at = Math.max(0, boards.filter(({ table }) => table).findIndex(({ name }) => name === params.get("board")));
    draw();
  }).catch(context.fail);
  return () => asking.abort();
}

function compare(a, b) {
  if (a == null || b == null) return (a == null) - (b == null);
  return typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b;
}

function chance(p) {
  return p == null ? "–" : p < 0.001 ? "< 0.001" : p.toFixed(3);
}

/** From the best to a bit behind the middle; what is farther behind stands at the edge. */
function intervalScale(models) {
  const bits = models.map((row) => row.bits).sort((a, b) => a - b);
  const low = Math.min(...models.map((row) => row.interval?.[0] ?? row.bits));
  const high = Math.min(low + 2 * (bits[Math.floor(bits.length / 2)] - low) + 1e-6, Math.max(...models.map((row) => row.interval?.[1] ?? row.bits)));
  const place = scale([low, high], 4, 206);
  return (value) => Math.min(place(value), EDGE);
}

function whisker({ bits, interval, model }, place) {
  const [low, high] = interval ?? [bits, bits];
  const said = interval ? `${model}: ${bits.toFixed(4)}, from ${low.toFixed(4)} to ${high.toFixed(4)}` : `${model}: ${bits.toFixed(4)}`;
  return svg("svg", { viewBox: "0 0 220 16", width: 220, height: 16, class: "whisker", role: "img", "aria-label": said },
    svg("title", null, said),
    svg("line", { x1: 0, x2: 220, y1: 8, y2: 8, class: "rail" }),
    place(bits) < EDGE && svg("rect", { x: place(low), y: 4, width: Math.max(2, place(high) - place(low)), height: 8, rx: 3 }),
    place(bits) < EDGE ? svg("circle", { cx: place(bits), cy: 8, r: 3 }) : svg("path", { d: "M 210 4 L 216 8 L 210 12", class: "beyond" }));
}

/** Bits against a cost; the line joins those that nothing cheaper beats. */
function pareto(models, cost, unit) {
  const rows = models.filter((row) => row[cost] != null && row[cost] > 0).sort((a, b) => a[cost] - b[cost]);
  const isNarrow = innerWidth < 600;
  const [width, height] = isNarrow ? [440, 400] : [860, 460];
  const inner = { left: 56, right: width - (isNarrow ? 70 : 110), top: 14, bottom: height - 44 };
  const across = scale(rows.map((row) => row[cost]), inner.left + 8, inner.right - 8, true);
  const up = scale(rows.map(({ bits }) => bits), inner.bottom - 8, inner.top + 8);
  const front = [];
  for (const row of rows) if (!front.length || row.bits < front.at(-1).bits) front.push(row);
  const labels = spreadOut(rows.map((row) => ({ row, x: across(row[cost]), y: up(row.bits) })), 13);
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart pareto", role: "img", "aria-label": `Bits per ${unit} against ${COSTS[cost]}; the table has the numbers` },
    axes(inner, across, up, `${COSTS[cost]} (logarithmic)`, `bits per ${unit}`),
    svg("polyline", { class: "line series-1 dashed", points: front.map((row) => `${across(row[cost])},${up(row.bits)}`).join(" ") }),
    labels.map(({ row, x, y, at }) => [
      Math.abs(at - y) > 6 && svg("line", { class: "leader", x1: x, y1: y, x2: x + 8, y2: at }),
      svg("circle", { class: `mark ${front.includes(row) ? "series-1" : "series-8"}`, cx: x, cy: y, r: 4.5 },
        svg("title", null, `${row.model}: ${row.bits.toFixed(4)} bits, ${short(row[cost])} ${cost}`)),
      svg("text", { x: x + 9, y: at + 4, class: front.includes(row) ? "front" : null }, row.model),
    ]));
}

/** Labels that would lie on each other are moved up, in the order of their points; the best keeps its place. */
function spreadOut(places, height) {
  const done = [];
  for (const place of [...places].sort((a, b) => b.y - a.y)) {
    const [from, to] = [place.x + 8, place.x + 12 + place.row.model.length * 6.3];
    const near = done.filter((other) => other.from < to && other.to > from);
    const at = Math.min(place.y, ...near.map((other) => other.at - height));
    done.push({ ...place, from, to, at });
  }
  return done;
}

function expectations({ expectations: all }) {
  if (!all?.length) return null;
  const sign = { "so it is": "✓" };
  return h("details", null, h("summary", null, `What theory leads one to expect, and what was found: ${all.filter(({ verdict }) => sign[verdict]).length} of ${all.length} as expected`),
    h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Expectations" }, h("table", { class: "plain" }, h("tbody", null, all.map(({ worse, better, why, gain, interval, verdict, remark }) => h("tr", null,
      h("td", null, sign[verdict] ?? "✗"),
      h("td", null, `${better} is better than ${worse}`),
      h("td", { class: "right" }, gain == null ? "" : `by ${gain.toFixed(4)}`),
      h("td", { class: "faint" }, interval ? `${interval[0].toFixed(4)} to ${interval[1].toFixed(4)}` : ""),
      h("td", { class: "faint" }, why), h("td", null, remark ? `${verdict}: ${remark}` : verdict)))))));
}
