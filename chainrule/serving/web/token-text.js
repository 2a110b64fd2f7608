// A text as a row of tokens that one can point at, walk through with arrow keys, and choose.

import { h, replace, visible } from "/web/dom.js";
import { inText, level } from "/web/tokens.js";

export class TokenText {
  /**
   * @param {string} hint what stands there while there is nothing
   * @param {(place: number) => void} look one points at a token, or comes to it by keys
   * @param {(place: number, byKey: boolean) => void} choose one clicks it, or presses Enter
   * @param {{ className?: string, label?: string }} [how] the element's class and name
   */
  constructor(hint, look, choose, { className = "text card", label = "Sampled text, token by token" } = {}) {
    this.element = h("div", {
      class: className,
      role: "group",
      "aria-label": label,
      "data-hint": hint,
    });
    const on = (kind, run) =>
      this.element.addEventListener(kind, (event) => {
        const found = event.target.closest("[data-place]");
        if (found) run(Number(found.dataset.place), event);
      });
    on("pointerover", look);
    on("focusin", look);
    on("click", (place) => choose(place, false));
    on("keydown", (place, event) => this.press(place, event, choose));
  }

  press(place, event, choose) {
    const last = this.element.childElementCount - 1;
    const to = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: last }[event.key];
    if (event.key === "Enter" || event.key === " ") choose(place, true);
    else if (to !== undefined) this.focus(Math.min(Math.max(to, 0), last));
    else return;
    event.preventDefault();
  }

  focus(place) {
    for (const each of this.element.querySelectorAll('[tabindex="0"]')) each.tabIndex = -1;
    this.element.children[place].tabIndex = 0;
    this.element.children[place].focus();
  }

  clear() {
    replace(this.element);
  }

  /** Only what is new is added, so that nothing moves. */
  show(tokens) {
    for (let place = this.element.childElementCount; place < tokens.length; place++) {
      this.element.append(drawn(tokens[place], place));
    }
  }

  /** Ring this one, or none. */
  ring(place) {
    this.element.querySelector(".shown")?.classList.remove("shown");
    if (place != null) this.element.children[place]?.classList.add("shown");
  }
}

function drawn(token, place) {
  const kinds = { token: true, given: token.isPrompt, forced: token.isForced, silent: token.text === "" };
  const bits = token.bits == null ? "" : `, ${token.bits.toFixed(1)} bits`;
  return h(
    "span",
    {
      class: Object.keys(kinds).filter((kind) => kinds[kind]).join(" "),
      role: "button",
      tabindex: place ? -1 : 0,
      "data-place": place,
      style: { "--level": level(token.bits).toFixed(3) },
      "aria-label": visible(token.name) + bits,
    },
    inText(token.text, token.name),
  );
}
