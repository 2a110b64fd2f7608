// The computation graph of a small model: every value that was computed, and the gradient that came back.

import { field, h, replace, svg } from "/web/dom.js";

const MOST_ZOOM = 6;
const COMMON = "elman and attention are unrolled word by word; the others are drawn as they are trained.";

export function show(container, context) {
  const { api, params, state } = context;
  const asking = new AbortController();
  let model = params.get("model") ?? state.graph?.model ?? "elman";
  let length = Number(params.get("length") ?? state.graph?.length ?? 3);
  let nodes = [];
  let readers = [];
  let selected = null;
  let size = { width: 1, height: 1 };
  let view = { x: 0, y: 0, scale: 1 }; // scale: pixels of the picture for one of the screen
  let dragging = null;
  const groups = new Map();

  const select = h("select", { onchange: () => ((model = select.value), load()) });
  const words = h("input", { type: "range", min: 1, max: 8, value: length, "aria-label": "Words of the text",
    oninput: () => (counted.textContent = words.value), onchange: () => ((length = Number(words.value)), load()) });
  const counted = h("output", { class: "number" }, String(length));
  const picture = svg("svg", { class: "graph", role: "group", "aria-label": "Computation graph; arrow keys follow its edges" });
  const panel = h("div", { class: "card stack graph-panel", "aria-live": "polite" });
  const told = h("span", { class: "faint small" });
  const button = (said, name, run) => h("button", { type: "button", title: name, "aria-label": name, onclick: run }, said);

  container.append(
    h("h1", { class: "unseen" }, "Computation graph"),
    h("div", { class: "stack" },
      h("div", { class: "row end" }, field("Model", select),
        field("Words", h("span", { class: "row pair" }, words, counted)),
        button("+", "closer", () => zoom(1 / 1.4)), button("−", "farther", () => zoom(1.4)), button("Whole", "the whole graph", whole), told),
      h("p", { class: "faint small" }, `${COMMON} Drag to move, scroll to come closer, arrow keys go from node to node.`),
      h("div", { class: "graph-view" }, h("div", { class: "graph-frame" }, picture), panel)));
  context.keys([
    { key: "+", does: "closer", run: () => zoom(1 / 1.4) },
    { key: "-", does: "farther", run: () => zoom(1.4) },
    { key: "0", does: "the whole graph", run: whole },
    { key: "ArrowDown", does: "to what the node reads", run: () => along("down") },
    { key: "ArrowUp", does: "to what reads the node", run: () => along("up") },
    { key: "ArrowRight", does: "to the node on the right", run: () => along("right") },
    { key: "ArrowLeft", does: "to the node on the left", run: () => along("left") },
  ]);

  async function load() {
    try {
      const answer = await api.get(`/graphs/${encodeURIComponent(model)}?length=${length}`, asking.signal);
      state.graph = { model, length };
      context.setParams(new URLSearchParams({ model, length: String(length) }));
      nodes = answer.nodes;
      readers = nodes.map(() => []);
      for (const node of nodes) for (const each of node.inputs) readers[each].push(node.number);
      draw(answer.box);
    } catch (error) {
      context.fail(error);
    }
  }

  function draw([width, height]) {
    groups.clear();
    const edges = nodes.flatMap((node) => node.inputs.map((each) => edge(nodes[each], node, width, height)));
    const boxes = nodes.map((node) => box(node, width, height));
    replace(picture, svg("g", null, edges), svg("g", null, boxes));
    size = { width: Math.max(...nodes.map(({ x }) => x)) + width + 14, height: Math.max(...nodes.map(({ y }) => y)) + height + 17 };
    const counts = Object.groupBy(nodes, ({ kind }) => kind);
    told.textContent = `${counts.module.length} modules, ${counts.parameter?.length ?? 0} parameters, ${counts.input?.length ?? 0} inputs`;
    whole();
    choose(nodes.at(-1), false);
  }

  function box(node, width, height) {
    const shape = node.value.shape.join(" × ") || "a number";
    const group = svg("g", { class: `node ${node.kind}`, transform: `translate(${node.x} ${node.y})`, tabindex: -1, role: "button",
      "aria-label": `${node.kind} ${node.name}, ${shape}`, "data-number": node.number,
      onclick: () => choose(node), onpointerenter: () => !dragging && peek(node), onfocus: () => choose(node) },
      svg("rect", { width, height, rx: 7 }),
      svg("rect", { class: "size", x: 0, y: height - 4, width: (width * strength(node)).toFixed(1), height: 4, rx: 2 }),
      svg("text", { x: width / 2, y: 16 }, node.name.length > 19 ? `…${node.name.slice(-18)}` : node.name),
      svg("text", { x: width / 2, y: 30, class: "shape" }, shape));
    groups.set(node.number, group);
    return group;
  }

  function edge(from, to, width, height) {
    const [x1, y1, x2, y2] = [from.x + width / 2, from.y, to.x + width / 2, to.y + height];
    const middle = (y1 + y2) / 2;
    return svg("path", { class: y1 - y2 > 150 ? "edge far" : "edge", "data-from": from.number, "data-to": to.number,
      d: `M ${x1} ${y1} C ${x1} ${middle} ${x2} ${middle} ${x2} ${y2}` });
  }

  /** How large the gradient is among all, on a scale of magnitudes. */
  function strength({ gradient }) {
    const norms = nodes.map((node) => node.gradient?.norm).filter((norm) => norm > 0).map(Math.log10);
    if (!(gradient?.norm > 0)) return 0;
    const [low, high] = [Math.min(...norms) - 0.3, Math.max(...norms)];
    return (Math.log10(gradient.norm) - low) / (high - low || 1);
  }

  function choose(node, doesFocus = true) {
    if (selected === node && doesFocus && document.activeElement === groups.get(node.number)) return;
    groups.get(selected?.number)?.setAttribute("tabindex", "-1");
    selected = node;
    const group = groups.get(node.number);
    group.setAttribute("tabindex", "0");
    mark(node);
    if (doesFocus) {
      bring(node);
      group.focus({ preventScroll: true });
    }
    peek(node);
  }

  function mark(node) {
    for (const [number, group] of groups) group.classList.toggle("selected", number === node.number);
    for (const path of picture.querySelectorAll(".edge")) {
      path.classList.toggle("reads", Number(path.dataset.to) === node.number);
      path.classList.toggle("read", Number(path.dataset.from) === node.number);
    }
  }

  function peek(node) {
    replace(panel,
      h("div", null, h("h2", null, node.name), h("p", { class: "faint small" }, `${node.kind} ${node.number}`,
        node.inputs.length ? `, reads ${node.inputs.map((each) => nodes[each].name).join(", ")}` : "")),
      array("Value", node.value), array("Gradient of the loss", node.gradient));
  }

  function along(way) {
    if (!selected) return;
    const { number, x, y } = selected;
    const row = nodes.filter((node) => node.y === y).sort((a, b) => a.x - b.x);
    const beside = { right: row.find((node) => node.x > x), left: row.findLast((node) => node.x < x) };
    const to = { down: nodes[selected.inputs[0]], up: nodes[readers[number][0]], ...beside }[way];
    if (to) choose(to);
  }

  function frameSize() {
    const { width, height } = picture.getBoundingClientRect();
    return { width: width || 1, height: height || 1 };
  }

  function place() {
    const { width, height } = frameSize();
    picture.setAttribute("viewBox", `${view.x} ${view.y} ${width * view.scale} ${height * view.scale}`);
  }

  function whole() {
    const { width, height } = frameSize();
    const scale = Math.max(size.width / width, size.height / height, 0.7);
    view = { scale, x: (size.width - width * scale) / 2, y: (size.height - height * scale) / 2 };
    place();
  }

  function zoom(factor, at) {
    const { width, height } = frameSize();
    const point = at ?? { x: width / 2, y: height / 2 };
    const limit = Math.max(size.width / width, size.height / height, 1) * 1.5;
    const scale = Math.min(limit, Math.max(1 / MOST_ZOOM, view.scale * factor));
    view = { scale, x: view.x + point.x * (view.scale - scale), y: view.y + point.y * (view.scale - scale) };
    place();
  }

  /** A node that is out of sight comes to the middle. */
  function bring(node) {
    const { width, height } = frameSize();
    const isSeen = node.x >= view.x && node.y >= view.y && node.x + 140 <= view.x + width * view.scale && node.y + 38 <= view.y + height * view.scale;
    if (isSeen) return;
    view = { ...view, x: node.x + 70 - (width * view.scale) / 2, y: node.y + 19 - (height * view.scale) / 2 };
    place();
  }

  picture.addEventListener("wheel", (event) => {
    event.preventDefault();
    const { left, top } = picture.getBoundingClientRect();
    zoom(1.0015 ** event.deltaY, { x: event.clientX - left, y: event.clientY - top });
  }, { passive: false });
  picture.addEventListener("pointerdown", (event) => (dragging = { x: event.clientX, y: event.clientY, moved: false }));
  const move = (event) => {
    if (!dragging) return;
    const [dx, dy] = [event.clientX - dragging.x, event.clientY - dragging.y];
    dragging = { x: event.clientX, y: event.clientY };
    view = { ...view, x: view.x - dx * view.scale, y: view.y - dy * view.scale };
    place();
  };
  const drop = () => (dragging = null);
  addEventListener("pointermove", move);
  addEventListener("pointerup", drop);
  const watching = new ResizeObserver(place);
  watching.observe(picture);

  api.get("/graphs", asking.signal).then(({ data, most_words }) => {
    words.max = String(most_words);
    if (!data.includes(model)) model = data[0];
    replace(select, data.map((name) => h("option", { value: name, selected: name === model }, name)));
    return load();
  }).catch(context.fail);
  return () => {
    asking.abort();
    watching.disconnect();
    removeEventListener("pointermove", move);
    removeEventListener("pointerup", drop);
  };
}

function array(name, found) {
  if (!found) return h("div", null, h("h3", null, name), h("p", { class: "faint small" }, "none: it depends on no parameter"));
  if (found.numbers?.length === 1) return h("div", null, h("h3", null, name), h("div", null, table(found, name)));
  const figures = `${found.shape.join(" × ") || "a number"} · from ${tell(found.min)} to ${tell(found.max)} · mean ${tell(found.mean)} · norm ${tell(found.norm)}`;
  return h("div", null, h("h3", null, name), h("p", { class: "faint small number" }, figures),
    found.numbers ? h("div", { class: "wide" }, table(found, name)) : h("p", { class: "faint small" }, "too large to show in full"));
}

/** A cell for each number: the last axis across, all others down. */
function table({ shape, numbers }, name) {
  const across = shape.at(-1) ?? 1;
  const largest = Math.max(...numbers.map((each) => Math.abs(each ?? 0)), 1e-12);
  const rows = [];
  for (let begin = 0; begin < numbers.length; begin += across) rows.push(numbers.slice(begin, begin + across));
  return h("table", { class: "numbers", "aria-label": name, tabindex: 0 }, h("tbody", null, rows.map((row) => h("tr", null, row.map((each) =>
    h("td", { class: (each ?? 0) < 0 ? "tint against" : "tint", style: { "--level": (Math.abs(each ?? 0) / largest).toFixed(3) } }, tell(each)))))));
}

function tell(number) {
  if (number == null) return "∞";
  const shown = Math.abs(number) >= 1e-3 || number === 0 ? number.toFixed(3).replace(/\.?0+$/, "") : number.toExponential(0);
  return shown.replace("-", "−");
}
