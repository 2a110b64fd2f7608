// Elements from data: text is always text, styles go through the CSSOM, as the page's policy wants it.

const SVG = "http://www.w3.org/2000/svg";

/**
 * h("button", { class: "quiet", onclick: stop, disabled: false, style: { width: "3em" } }, "Stop")
 * Attributes that are null, undefined or false are left out; names that begin with "on" are listeners.
 * @param {string} tag
 * @param {Record<string, any> | null} [attributes]
 * @param {...any} children nodes, texts, or lists of them; null and false are left out
 * @returns {HTMLElement}
 */
export function h(tag, attributes, ...children) {
  return /** @type {HTMLElement} */ (fill(document.createElement(tag), attributes, children));
}

/** The same for pictures. @returns {SVGElement} */
export function svg(tag, attributes, ...children) {
  return /** @type {SVGElement} */ (fill(document.createElementNS(SVG, tag), attributes, children));
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) set(element, name, value);
  element.append(...children.flat(Infinity).filter((child) => child != null && child !== false));
  return element;
}

function set(element, name, value) {
  if (value == null || value === false) return;
  if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
  else if (name === "style") Object.entries(value).forEach(([key, each]) => style(element, key, each));
  else if (name === "value" && "value" in element) element.value = value;
  else element.setAttribute(name, value === true ? "" : String(value));
}

function style(element, name, value) {
  if (name.startsWith("--")) element.style.setProperty(name, String(value));
  else element.style[name] = value;
}

/** Put these in place of what was there. */
export function replace(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child != null && child !== false));
  return element;
}

/** One token by itself: line ends and tabs as signs, spaces too where it is nothing else. */
export function visible(token) {
  const shown = token
    .replaceAll("\n", "⏎")
    .replaceAll("\t", "⇥")
    // eslint-disable-next-line no-control-regex -- these are what is made visible
    .replace(/[\x00-\x1f\x7f-\x9f]/g, (found) => `\\x${found.charCodeAt(0).toString(16).padStart(2, "0")}`);
  return shown.trim() ? shown : shown.replaceAll(" ", "␣");
}

/** 0.1234 -> "12.3%"; what is small keeps two digits that mean something. */
export function percent(probability) {
  if (probability == null) return "?"; // JSON has no infinity
  const value = probability * 100;
  if (value === 0) return "0%";
  if (value < 0.01) return "<0.01%";
  return `${value >= 99.95 ? value.toFixed(0) : value >= 1 ? value.toFixed(1) : value.toPrecision(2)}%`;
}

/** 1234567 -> "1.2 M". */
export function count(value) {
  for (const [unit, size] of [["B", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (value >= size) return `${(value / size).toFixed(value >= 10 * size ? 0 : 1)} ${unit}`;
  }
  return String(value);
}

/** A field with its label, and what it means where one points at it. */
export function field(label, control, hint) {
  return h("label", { class: "field", title: hint }, h("span", null, label), control);
}

/** What a view says that has nothing to show: a sentence, and the command that would give it something. */
export function nothing(sentence, command) {
  return h("div", { class: "nothing" }, h("p", null, sentence), command && h("pre", null, h("code", null, command)));
}
