// Elements of SVG that are written only where something has changed: reading a kept value is cheap, touching the DOM is not.

const NAMESPACE = "http://www.w3.org/2000/svg";

export function make(name, attributes = {}, parent = null) {
  const element = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) put(element, key, value);
  parent?.append(element);
  return element;
}

/** Sets an attribute, or takes it away where the value is null, if it is not so already. */
export function put(element, name, value) {
  const kept = (element.$kept ??= {});
  if (kept[name] === value) return;
  kept[name] = value;
  if (value === null || value === undefined) element.removeAttribute(name);
  else element.setAttribute(name, value);
}

/** Sets the text, as text. */
export function write(element, text) {
  if (element.$text === text) return;
  element.$text = text;
  element.textContent = text;
}

// Each glyph stands in a square of 12 by 12. `line` is drawn with a pen, `fill` is filled.
export const GLYPHS = {
  pending: { line: "M6 2a4 4 0 1 1 0 8a4 4 0 1 1 0-8Z" },
  ready: { line: "M6 1.5a4.5 4.5 0 1 1 0 9a4.5 4.5 0 1 1 0-9ZM6 3.5V6.2H8.2" },
  running: { fill: "M3 1.5L10.5 6L3 10.5Z" },
  recovering: { line: "M9.6 4A4.2 4.2 0 1 0 10.2 6.6", fill: "M10.9 0.8V5H6.7Z" },
  waiting: { line: "M4 2V10M8 2V10" },
  done: { line: "M1.8 6.6L4.8 9.4L10.4 2.8" },
  reused: { line: "M3 5.6L5.2 7.8L8.6 3.8M1.2 8.2A5.2 5.2 0 0 0 10.8 8.2" },
  failed: { line: "M2.4 2.4L9.6 9.6M9.6 2.4L2.4 9.6" },
  skipped: { line: "M2 2.5L5.5 6L2 9.5M6.5 2.5L10 6L6.5 9.5" },
  cancelled: { line: "M2 2.5L5.5 6L2 9.5M6.5 2.5L10 6L6.5 9.5" },
  unknown: { line: "M3.6 4A2.4 2.4 0 1 1 6 6.4V7.6M6 9.4V10" },
};

/** Draws a glyph, or another one into the same place. */
export function glyph(parent, state, element = make("g", { class: "glyph" }, parent)) {
  if (element.$glyph === state) return element;
  element.$glyph = state;
  const { line, fill } = GLYPHS[state] ?? GLYPHS.pending;
  element.replaceChildren();
  if (line) make("path", { class: "glyph-line", d: line }, element);
  if (fill) make("path", { class: "glyph-fill", d: fill }, element);
  return element;
}
