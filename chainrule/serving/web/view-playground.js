import { nothing } from "/web/dom.js";

export function show(container) {
  container.append(nothing("This view is not built yet."));
}
