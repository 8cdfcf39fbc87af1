// The rows of the Gantt as SVG: only those in the window, each written where it differs.

import { cut, width } from "replan/graph/measure";
import { glyph, make, put, write } from "replan/graph/svg";

export const ROW = 24;
const MIDDLE = ROW / 2;

export class Chart {
  constructor(svg) {
    const shapes = make("defs", {}, svg);
    for (const state of ["failed", "unknown"]) hatch(shapes, state);
    this.back = make("g", { class: "grid", "aria-hidden": "true" }, svg);
    this.layer = make("g", { class: "rows" }, svg);
    this.front = make("g", { class: "now", "aria-hidden": "true" }, svg);
    this.rows = new Map();
  }

  keep(ids) {
    for (const [id, row] of this.rows) {
      if (ids.has(id)) continue;
      row.root.remove();
      this.rows.delete(id);
    }
  }

  /** @param face `{state, title, right, indent, selected, dim, folded}` */
  draw(id, y, size, face, bars) {
    let row = this.rows.get(id);
    if (!row) this.rows.set(id, (row = this.build(id)));
    put(row.root, "transform", `translate(0 ${y})`);
    const names = ["row", face.kind];
    if (face.state) names.push(`s-${face.state}`);
    for (const name of ["selected", "dim", "inside", "ghost"]) if (face[name]) names.push(name);
    put(row.root, "class", names.join(" "));
    put(row.band, "width", size.width);
    put(row.band, "height", ROW);
    const left = 8 + (face.inside ? 14 : 0);
    if (face.state) {
      row.glyph ??= make("g", { class: "glyph" }, row.root);
      put(row.glyph, "transform", `translate(${left} ${MIDDLE - 6})`);
      glyph(row.root, face.state, row.glyph);
    } else if (row.glyph) {
      row.glyph.remove();
      row.glyph = null;
    }
    const from = face.kind === "lane" ? 8 : left + 18;
    put(row.name, "x", from);
    write(row.name, cut(face.title, size.names - from - 8, face.kind === "lane" ? "600 12px" : "400 13px"));
    this.drawBars(row, bars);
  }

  build(id) {
    const root = make("g", { "data-row": id }, this.layer);
    const band = make("rect", { class: "band" }, root);
    const name = make("text", { class: "row-name", y: MIDDLE + 4.5 }, root);
    return { root, band, name, glyph: null, mark: null, paths: new Map() };
  }

  drawBars(row, bars) {
    const wanted = bars?.paths ?? {};
    for (const [kind, d] of Object.entries(wanted)) {
      let path = row.paths.get(kind);
      if (!path) row.paths.set(kind, (path = make("path", { class: `beam ${kind}` }, row.root)));
      put(path, "d", d);
    }
    for (const [kind, path] of row.paths) {
      if (kind in wanted) continue;
      path.remove();
      row.paths.delete(kind);
    }
    if (bars?.mark) {
      row.mark ??= make("g", { class: "glyph mark" }, row.root);
      put(row.mark, "transform", `translate(${Math.round(bars.mark.x) - 6} ${MIDDLE - 6})`);
      glyph(row.root, bars.mark.state, row.mark);
    } else if (row.mark) {
      row.mark.remove();
      row.mark = null;
    }
  }

  /** Lines behind the rows: marks of time, folds, versions; and the chosen range. */
  drawGrid(axis, size, { versions, range }) {
    const inside = (x) => x >= axis.left && x <= axis.left + axis.width;
    let ticks = "";
    for (const { x } of axis.ticks()) if (inside(x)) ticks += `M${Math.round(x) + 0.5} 0V${size.height}`;
    let later = "";
    for (const { at } of versions) {
      const x = axis.x(at);
      if (inside(x)) later += `M${Math.round(x) + 0.5} 0V${size.height}`;
    }
    const folds = axis.folds.map(({ start, end }) => [Math.max(axis.left, axis.x(start)), Math.min(axis.left + axis.width, axis.x(end))]);
    const said = JSON.stringify([ticks, later, folds, range && [axis.x(range.from), axis.x(range.to)], size]);
    if (this.said === said) return;
    this.said = said;
    this.back.replaceChildren();
    make("path", { class: "tick", d: ticks }, this.back);
    if (later) make("path", { class: "version", d: later }, this.back);
    for (const [a, b] of folds) {
      if (b > a) make("rect", { class: "fold", x: a, y: 0, width: b - a, height: size.height }, this.back);
    }
    if (range) {
      const a = Math.max(axis.left, axis.x(range.from));
      const b = Math.min(axis.left + axis.width, axis.x(range.to));
      if (b > a) make("rect", { class: "range", x: a, y: 0, width: b - a, height: size.height }, this.back);
    }
  }

  drawNow(x, height) {
    this.line ??= make("line", { class: "now-line" }, this.front);
    const shown = x !== null;
    put(this.line, "visibility", shown ? "visible" : "hidden");
    if (!shown) return;
    put(this.line, "x1", Math.round(x) + 0.5);
    put(this.line, "x2", Math.round(x) + 0.5);
    put(this.line, "y2", height);
  }
}

/** Stripes: a bar that failed is told from one that did not without its colour. */
function hatch(shapes, state) {
  const pattern = make("pattern", { id: `hatch-${state}`, class: `s-${state}`, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, shapes);
  make("rect", { class: "hatch-back", width: 6, height: 6 }, pattern);
  make("line", { class: "hatch-line", x1: 1.2, x2: 1.2, y2: 6 }, pattern);
}

export const AXIS_HEIGHT = 24;

/** What is written above the rows: times, how much a fold holds, where a plan was changed. */
export function drawHead(head, axis, size, words, versions) {
  const marks = [];
  const inside = (x) => x >= axis.left - 1 && x <= axis.left + axis.width + 1;
  const taken = [];
  const free = (x, half) => !taken.some(([a, b]) => x + half > a && x - half < b);
  const say = (x, text, kind) => {
    const half = width(text, "600 12px") / 2 + 4;
    if (!inside(x) || !free(x, half)) return;
    taken.push([x - half, x + half]);
    const anchor = x < axis.left + 14 ? "start" : x > axis.left + axis.width - 30 ? "end" : "middle";
    marks.push([Math.round(x), text, kind, anchor]);
  };
  for (const { start, end } of axis.folds) say((axis.x(start) + axis.x(end)) / 2, `⋯ ${words.duration(end - start)}`, "fold-word");
  for (const { at, version } of versions) say(axis.x(at), `v${version}`, "version-word");
  for (const { at, x } of axis.ticks()) say(x, words.duration(at), "tick-word");
  const said = JSON.stringify([marks, size.width]);
  if (head.$said === said) return;
  head.$said = said;
  head.replaceChildren();
  put(head, "width", size.width);
  put(head, "height", AXIS_HEIGHT);
  for (const [x, text, kind, anchor] of marks) {
    write(make("text", { class: kind, x, y: 16, "text-anchor": anchor }, head), text);
  }
}
