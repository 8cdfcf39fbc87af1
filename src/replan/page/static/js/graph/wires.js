// Edges as paths, cut at the gaps between columns: what the window does not show costs nothing. Pure.

import { GAP, edgeKey } from "replan/layout";

/**
 * @param {[string, string][]} edges  between cards
 * @param spots  where the cards are
 * @param {Map<string, number[]>} ways  heights at which an edge passes the columns between its ends
 * @param shift  how far a line gives way to an opened group
 * @param {(from: string, to: string) => string} kind  one path is drawn for each kind and gap
 * @returns {Map<string, {gap: number, kind: string, x0: number, x1: number, pieces: {d: string, top: number, bottom: number}[]}>}
 */
export function wires(edges, spots, ways, shift, kind) {
  const xs = columnXs(spots);
  const parts = new Map();
  const add = (gap, name, x0, x1, d, y0, y1) => {
    const key = `${gap} ${name}`;
    let part = parts.get(key);
    if (!part) parts.set(key, (part = { gap, kind: name, x0, x1, pieces: [] }));
    part.x0 = Math.min(part.x0, x0);
    part.x1 = Math.max(part.x1, x1);
    part.pieces.push({ d, top: Math.min(y0, y1), bottom: Math.max(y0, y1) });
  };
  for (const [from, to] of edges) {
    const a = spots.get(from);
    const b = spots.get(to);
    if (!a || !b) continue;
    trace(a, b, ways.get(edgeKey(from, to)), shift, xs, (gap, x0, x1, d, y0, y1) =>
      add(gap, kind(from, to), x0, x1, d, y0, y1),
    );
  }
  return parts;
}

/** One edge in one piece, for lines that stand out. */
export function wire(from, to, spots, ways, shift, xs = columnXs(spots)) {
  const a = spots.get(from);
  const b = spots.get(to);
  if (!a || !b) return "";
  const parts = [];
  trace(a, b, ways.get(edgeKey(from, to)), shift, xs, (gap, x0, x1, d) => parts.push(d));
  return parts.join("");
}

export function columnXs(spots) {
  const xs = new Map();
  for (const spot of spots.values()) {
    const known = xs.get(spot.layer);
    if (!known || known.right < spot.x + spot.w) xs.set(spot.layer, { left: spot.x, right: spot.x + spot.w });
  }
  return xs;
}

function trace(a, b, way, shift, xs, add) {
  let x = a.x + a.w;
  let y = middle(a);
  if (b.layer <= a.layer) {
    // Backwards: a step that came later needs one to its right. Over the top of both.
    const high = Math.min(a.y, b.y) - GAP.down;
    const d = `M${n(x)} ${n(y)}C${n(x + 60)} ${n(high)} ${n(b.x - 60)} ${n(high)} ${n(b.x)} ${n(middle(b))}`;
    add(a.layer, Math.min(x, b.x), Math.max(x, b.x), d, high, Math.max(y, middle(b)));
    return;
  }
  for (let layer = a.layer + 1; layer < b.layer; layer++) {
    const column = xs.get(layer);
    const at = way?.[layer - a.layer - 1];
    if (!column || at === undefined) continue;
    const pass = at + shift(layer, at);
    add(layer - 1, x, column.right, `${curve(x, y, column.left, pass)}H${n(column.right)}`, y, pass);
    x = column.right;
    y = pass;
  }
  add(b.layer - 1, x, b.x, curve(x, y, b.x, middle(b)), y, middle(b));
}

function curve(x0, y0, x1, y1) {
  if (Math.abs(y0 - y1) < 0.5) return `M${n(x0)} ${n(y0)}H${n(x1)}`;
  const half = (x0 + x1) / 2;
  return `M${n(x0)} ${n(y0)}C${n(half)} ${n(y0)} ${n(half)} ${n(y1)} ${n(x1)} ${n(y1)}`;
}

const middle = (spot) => spot.y + spot.h / 2;
const n = (value) => Math.round(value * 10) / 10;
