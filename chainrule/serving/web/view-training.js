// Trainings, finished and under way: their curves, their samples, and how what they expect became sharp.

import { lineChart } from "/web/chart.js";
import { dieRows } from "/web/die.js";
import { field, h, nothing, percent, replace } from "/web/dom.js";
import { shortName } from "/web/models.js";

const PAUSE = 2000; // milliseconds between looks while a training is under way
const COLOURS = 8;
const ACROSS = { seconds: "seconds", tokens: "tokens read", step: "step" };
const COMMAND = "chainrule train poems.txt --minutes 5 --as runs/poems-5";

export function show(container, context) {
  const { api, params, state } = context;
  const journals = new Map(); // by name: { known, events, status }
  const asking = new AbortController();
  let trainings = [];
  let chosen = new Set(params.get("runs")?.split(",") ?? state.training?.chosen ?? []);
  let looked = params.get("run") ?? state.training?.looked ?? null; // the one below the chart
  let across = ACROSS[params.get("across")] ? params.get("across") : (state.training?.across ?? "seconds");
  let moment = null; // of the slider; null: the last
  let timer = 0;
  let playing = 0;

  const list = h("div", { class: "trainings", role: "group", "aria-label": "Trainings" });
  const chart = h("div");
  const legend = h("div", { class: "row legend small" });
  const select = h("select", { onchange: () => ((across = select.value), draw()) },
    Object.entries(ACROSS).map(([value, name]) => h("option", { value, selected: value === across }, name)));
  const below = h("section", { class: "stack", "aria-label": "Checkpoints" });
  container.append(h("h1", { class: "unseen" }, "Training"), h("p", { class: "faint" }, "Loading…"));
  context.keys([
    { key: "ArrowRight", does: "the next checkpoint", run: () => slide(1) },
    { key: "ArrowLeft", does: "the checkpoint before", run: () => slide(-1) },
    { key: "p", does: "play through the checkpoints", run: () => play() },
  ]);

  async function look() {
    clearTimeout(timer);
    try {
      trainings = (await api.get("/trainings", asking.signal)).data;
      choose();
      await Promise.all([...new Set([...chosen, looked])].filter(Boolean).map(follow));
      draw();
    } catch (error) {
      context.fail(error);
    }
    const isLive = trainings.some(({ status }) => status === "training");
    if (!asking.signal.aborted) timer = setTimeout(look, isLive ? PAUSE : 5 * PAUSE);
  }

  /** At first: what is under way, then those that learn. */
  function choose() {
    const names = new Set(trainings.map(({ name }) => name));
    chosen = new Set([...chosen].filter((name) => names.has(name)));
    const learning = trainings.filter(({ learns }) => learns);
    const liked = [...learning].sort((a, b) => worth(b) - worth(a));
    if (!chosen.size) chosen = new Set(liked.slice(0, 5).map(({ name }) => name));
    if (!names.has(looked)) looked = liked[0]?.name ?? null;
  }

  async function follow(name) {
    const journal = journals.get(name) ?? { known: 0, events: [], status: null };
    if (journal.status === "done" && trainings.find((each) => each.name === name)?.events === journal.known) return;
    const found = await api.get(`/trainings/${encodeURIComponent(name)}?since=${journal.known}`, asking.signal);
    const events = found.begin === 0 ? found.data : [...journal.events, ...found.data];
    journals.set(name, { known: found.events, events, status: found.status });
  }

  function draw() {
    state.training = { chosen: [...chosen], looked, across };
    if (!trainings.some(({ learns }) => learns)) {
      replace(container, h("h1", { class: "unseen" }, "Training"),
        nothing("None of these runs was trained by gradient descent, so there are no curves. This command trains one:", COMMAND));
      return;
    }
    if (!list.isConnected) {
      replace(container, h("h1", { class: "unseen" }, "Training"),
        h("div", { class: "training" },
          h("div", null, h("p", { class: "faint small spread row" }, h("span", null, "Training"), h("span", null, "bits per byte")), list),
          h("div", { class: "stack" },
            h("div", { class: "row spread" }, legend, field("against", select)), chart)),
        below);
    }
    context.setParams(new URLSearchParams({ runs: [...chosen].join(","), run: looked ?? "", across }));
    drawList();
    drawChart();
    drawBelow();
  }

  function colour(name) {
    return ([...chosen].indexOf(name) % COLOURS) + 1;
  }

  function drawList() {
    const focused = document.activeElement?.closest?.(".trainings button, .trainings input")?.dataset.name;
    const kind = document.activeElement?.tagName;
    replace(list, trainings.map((each) => h("div", { class: each.name === looked ? "training-row looked" : "training-row" },
      h("input", { type: "checkbox", checked: chosen.has(each.name), disabled: !each.learns && each.validation_bits_per_byte == null,
        "aria-label": `curve of ${each.name}`, "data-name": each.name, onchange: (event) => toggle(each.name, event.target.checked) }),
      h("button", { type: "button", class: "quiet", "data-name": each.name, "aria-pressed": String(each.name === looked), title: each.name,
        onclick: () => (each.learns ? lookAt(each.name) : toggle(each.name, !chosen.has(each.name))) },
        h("span", { class: chosen.has(each.name) ? `dot series-${colour(each.name)}` : "dot" }), h("span", { class: "grow" }, shortName(each.name)),
        h("span", { class: `number small ${each.status === "training" ? "live" : "faint"}` }, figure(each))),
      each.status === "training" && h("progress", { max: 1, value: each.progress ?? 0, "aria-label": `how far ${each.name} is` }))));
    if (focused) list.querySelector(`${kind === "INPUT" ? "input" : "button"}[data-name="${CSS.escape(focused)}"]`)?.focus();
  }

  async function toggle(name, isOn) {
    isOn ? chosen.add(name) : chosen.delete(name);
    await follow(name).catch(context.fail);
    draw();
  }

  async function lookAt(name) {
    stop();
    looked = name;
    moment = null;
    chosen.add(name);
    await follow(name).catch(context.fail);
    draw();
  }

  function drawChart() {
    const shown = [...chosen].map((name) => [name, journals.get(name)]).filter(([, journal]) => journal);
    const perByte = shown.every(([, { events }]) => events.every((each) => each.event !== "step" || each.bits_per_byte != null));
    const of = (event) => (perByte ? event.bits_per_byte : event.loss == null ? null : event.loss / Math.LN2);
    const series = [];
    const flat = [];
    for (const [name, { events }] of shown) {
      const steps = events.filter(({ event, step }) => event === "step" && step);
      if (!steps.length) {
        const last = events.findLast(({ event }) => event === "trained")?.validation;
        if (last && of(last) != null) flat.push({ name: `${name}, validation`, value: of(last), shade: colour(name) });
        continue;
      }
      const at = (event) => (across in event ? event[across] : steps.find(({ step }) => step >= event.step)?.[across]);
      const line = (label, kind) => ({ name: label, colour: colour(name), points: events
        .filter((each) => each.event === kind && of(each) != null && at(each) != null).map((each) => [at(each), of(each)]) });
      series.push({ ...line(`${name}, training`, "step"), isThin: true });
      series.push({ ...line(`${name}, validation`, "evaluation"), marks: true });
    }
    const ends = series.flatMap(({ points }) => points.map(([x]) => x));
    for (const { name, value, shade } of flat) {
      series.push({ name, colour: shade, isDashed: true, points: [[Math.min(...ends, 0), value], [Math.max(...ends, 1), value]] });
    }
    const lowest = Math.min(...series.flatMap(({ points }) => points.map(([, y]) => y)));
    const filled = series.filter(({ points }) => points.length);
    if (!filled.length) {
      replace(chart, h("p", { class: "faint" }, "Choose a training to see its curve."));
      return;
    }
    const height = container.clientWidth < 600 ? 420 : 330;
    const picture = lineChart({ series: cap(filled, lowest), title: "Loss of the chosen trainings", x: ACROSS[across],
      y: perByte ? "bits per byte" : "bits per token", width: container.clientWidth < 600 ? 480 : 760, height });
    [...picture.querySelectorAll("polyline")].forEach((each, number) => {
      each.classList.toggle("thin", Boolean(filled[number].isThin));
      each.classList.toggle("dashed", Boolean(filled[number].isDashed));
    });
    replace(chart, picture);
    replace(legend, h("span", { class: "faint" }, "thin: training, dots: validation"), flat.length > 0 && h("span", { class: "faint" }, "dashed: models that count"));
  }

  function drawBelow() {
    const journal = looked && journals.get(looked);
    if (!journal) {
      replace(below);
      return;
    }
    const looks = journal.events.filter(({ event }) => event === "probe");
    const samples = journal.events.filter(({ event }) => event === "sample");
    const steps = looks.length ? looks.map(({ step }) => step) : samples.map(({ step }) => step);
    const at = moment === null ? steps.length - 1 : Math.min(moment, steps.length - 1);
    const title = h("h2", { title: looked }, `How ${shortName(looked)} learned`);
    if (!steps.length) {
      const said = journal.status === "done"
        ? "This run was trained by an older version, which recorded neither predictions nor samples. Train a new one:"
        : "Nothing has been recorded yet.";
      replace(below, title, nothing(said, journal.status === "done" ? COMMAND : null));
      return;
    }
    if (!below.querySelector("input[type=range]") || below.dataset.name !== looked) frame(title, steps, looks.length);
    below.dataset.name = looked;
    const slider = below.querySelector("input[type=range]");
    slider.max = String(steps.length - 1);
    slider.value = String(at);
    slider.setAttribute("aria-valuetext", `step ${steps[at]}`);
    below.querySelector("output").textContent = `step ${steps[at].toLocaleString("en")} · ${at + 1} of ${steps.length}${measured(journal.events, steps[at])}`;
    replace(below.querySelector(".looks"), looks[at]?.contexts.map((each, number) => lookCard(each, number, looks)));
    const sample = samples.findLast(({ step }) => step <= steps[at]);
    const none = samples.length ? `The first sample was drawn at step ${samples[0].step.toLocaleString("en")}.` : "No sample was drawn: the training was too short.";
    replace(below.querySelector(".sample-card"),
      h("h3", null, sample ? `Sample of step ${sample.step.toLocaleString("en")}` : "Sample"),
      sample ? h("p", { class: "sample-text" }, sample.text) : h("p", { class: "faint" }, none));
  }

  function frame(title, steps, hasLooks) {
    const slider = h("input", { type: "range", min: 0, step: 1, "aria-label": "Checkpoint",
      oninput: () => (stop(), (moment = Number(slider.value)), drawBelow()) });
    replace(below, title,
      h("p", { class: "faint" }, hasLooks
        ? "What the model predicted in a few places of the validation text at every checkpoint; the actual token is marked."
        : "This run was trained by an older version, which did not record predictions; here are its samples."),
      h("div", { class: "row checkpoints" },
        h("button", { type: "button", title: "p", class: "play", "aria-pressed": "false", onclick: () => play() }, "Play"), slider, h("output", { class: "number small" })),
      h("div", { class: "looks" }), h("div", { class: "card sample-card" }));
  }

  function slide(by) {
    const slider = below.querySelector("input[type=range]");
    if (!slider) return;
    moment = Math.min(Number(slider.max), Math.max(0, Number(slider.value) + by));
    drawBelow();
  }

  function play() {
    if (playing) {
      stop();
      return;
    }
    const slider = below.querySelector("input[type=range]");
    if (!slider) return;
    if (Number(slider.value) === Number(slider.max)) moment = -1;
    below.querySelector(".play").setAttribute("aria-pressed", "true");
    const go = () => {
      slide(1);
      if (Number(slider.value) === Number(slider.max)) stop();
    };
    if (moment === -1) (slider.value = "0"), (moment = 0), drawBelow();
    playing = setInterval(go, 450);
  }

  function stop() {
    clearInterval(playing);
    playing = 0;
    below.querySelector(".play")?.setAttribute("aria-pressed", "false");
  }

  look();
  return () => {
    asking.abort();
    clearTimeout(timer);
    stop();
  };
}

function worth({ status, probes, validation_bits_per_byte: bits }) {
  return (status === "training" ? 1000 : 0) + (probes ? 100 : 0) - (bits ?? 50);
}

/** The start of a training is far above the rest: what is beyond is drawn at the edge. */
function cap(series, lowest) {
  const values = series.flatMap(({ points }) => points.map(([, y]) => y)).sort((a, b) => a - b);
  const high = Math.max(lowest * 2, values[Math.floor(values.length * 0.97)]);
  return series.map((each) => ({ ...each, points: each.points.map(([x, y]) => [x, Math.min(y, high)]) }));
}

function figure({ status, learns, progress, validation_bits_per_byte: bits, loss }) {
  if (status === "training") return `${percent(progress ?? 0)}`;
  if (status === "stopped") return "stopped";
  if (bits != null) return bits.toFixed(3);
  return learns && loss != null ? `loss ${loss.toFixed(3)}` : "";
}

function measured(events, step) {
  const found = events.findLast((each) => each.event === "evaluation" && each.step <= step);
  return found?.bits_per_byte == null ? "" : ` · ${found.bits_per_byte.toFixed(3)} bits per byte`;
}

function lookCard({ context, token, probability, top }, number, looks) {
  const shown = top.map(([name, value]) => ({ token: name, probability: value }));
  const rest = Math.max(0, 1 - shown.reduce((sum, face) => sum + face.probability, 0));
  const die = { faces: shown, others: { probability: rest }, drawn: { token, probability } };
  const course = looks.map(({ step, contexts }) => [step, contexts[number]?.probability ?? 0]);
  return h("div", { class: "card" },
    h("p", { class: "context" }, h("span", { class: "faint" }, `…${context.slice(-60)}`), h("b", null, token === "<eos>" ? " (the end)" : token)),
    dieRows(die), spark(course, probability));
}

/** How the probability of what came grew. */
function spark(course, now) {
  const said = `what came: ${percent(course[0][1])} at first, ${percent(now)} now, ${percent(course.at(-1)[1])} at last`;
  return h("p", { class: "faint small number" }, said);
}
