// Where the cards of a plan stand: columns from left to right, few crossings, short edges.
//
// `layout` lays out anew. `place` adds cards to a picture that somebody is looking at, and moves none that is there.

import { heights } from "replan/graph/heights";
import { layersOf } from "replan/graph/layers";
import { order } from "replan/graph/ordering";
import { ranksOf } from "replan/graph/ranks";

export { layersOf };

export const CARD = { width: 172, height: 48 };
export const GAP = { across: 44, down: 14 };
const LINE = 8; // between two lines, or a line and a card

export const edgeKey = (from, to) => `${from}\u0000${to}`;

/**
 * @param {{id: string, w?: number, h?: number}[]} nodes
 * @param {[string, string][]} edges  from, to
 * @param {{layers?: Map<string, number>}} [opts]  columns that are already decided
 * @returns {{at: Map<string, {x: number, y: number, layer: number}>, ways: Map<string, number[]>,
 *   columns: {x: number, w: number}[], width: number, height: number, crossings: number}}
 *   `at`: upper left corners; `ways`: at which height an edge passes the columns between its ends
 */
export function layout(nodes, edges, opts = {}) {
  const layers = opts.layers ?? layersOf(nodes.map((node) => node.id), edges);
  const graph = ranksOf(nodes, edges, layers);
  const sides = order(graph);
  const tall = (node) => (node < graph.count ? nodes[node].h ?? CARD.height : 0);
  const apart = (a, b) => (a < graph.count && b < graph.count ? GAP.down : LINE);
  const y = heights(graph.ranks, graph.layer.length, [sides.before, sides.after], tall, apart);
  const columns = columnsOf(graph, nodes);
  let top = Infinity;
  let bottom = -Infinity;
  for (let i = 0; i < y.length; i++) {
    top = Math.min(top, y[i] - tall(i) / 2);
    bottom = Math.max(bottom, y[i] + tall(i) / 2);
  }
  if (!y.length) top = bottom = 0;
  const at = new Map();
  nodes.forEach((node, i) => {
    const layer = graph.layer[i];
    at.set(node.id, { x: columns[layer].x, y: Math.round((y[i] - top - tall(i) / 2) * 2) / 2, layer });
  });
  const ways = new Map();
  for (const [key, way] of graph.bends) {
    const from = nodes[Math.floor(key / graph.count)].id;
    const to = nodes[key % graph.count].id;
    ways.set(edgeKey(from, to), way.map((bend) => y[bend] - top));
  }
  const last = columns[columns.length - 1];
  return { at, ways, columns, width: last ? last.x + last.w : 0, height: bottom - top, crossings: sides.crossings };
}

function columnsOf(graph, nodes) {
  const columns = [];
  let x = 0;
  for (const rank of graph.ranks) {
    let w = 0;
    for (const node of rank) if (node < graph.count) w = Math.max(w, nodes[node].w ?? CARD.width);
    w ||= CARD.width;
    columns.push({ x, w });
    x += w + GAP.across;
  }
  return columns;
}

/**
 * Gives each node that has no place yet the free one in its column that is nearest to its neighbours.
 *
 * @param {Map<string, {x: number, y: number, layer: number}>} at  stays as it is
 * @param {{layers?: Map<string, number>, tall?: (id: string) => number}} [opts]
 * @returns {Map<string, {x: number, y: number, layer: number}>} with all that `at` has, where it was
 */
export function place(at, nodes, edges, opts = {}) {
  const fresh = nodes.filter((node) => !at.has(node.id));
  const placed = new Map(at);
  if (!fresh.length) return placed;
  const ids = nodes.map((node) => node.id);
  const layers = opts.layers ?? layersOf(ids, edges);
  const sizes = new Map(nodes.map((node) => [node.id, node.h ?? CARD.height]));
  const tall = (id) => sizes.get(id) ?? opts.tall?.(id) ?? CARD.height;
  const before = new Map();
  const after = new Map();
  for (const [from, to] of edges) {
    push(before, to, from);
    push(after, from, to);
  }
  const columns = new Map(); // column -> what is taken in it, from above
  for (const [id, spot] of at) push(columns, spot.layer, [spot.y, spot.y + tall(id)]);
  for (const taken of columns.values()) taken.sort((a, b) => a[0] - b[0]);
  const xs = xsOf(at);
  let floor = 0;
  for (const node of [...fresh].sort((a, b) => layers.get(a.id) - layers.get(b.id))) {
    const needs = (before.get(node.id) ?? []).map((id) => placed.get(id)).filter(Boolean);
    const layer = Math.max(opts.layers ? layers.get(node.id) : 0, ...needs.map((spot) => spot.layer + 1));
    const near = [...(before.get(node.id) ?? []), ...(after.get(node.id) ?? []), ...(opts.near?.(node.id) ?? [])];
    const spots = near.filter((id) => placed.has(id)).map((id) => placed.get(id).y + tall(id) / 2);
    const wish = spots.length ? spots.reduce((sum, one) => sum + one, 0) / spots.length : floor;
    const h = tall(node.id);
    if (!columns.has(layer)) columns.set(layer, []);
    const y = freeSpot(columns.get(layer), wish - h / 2, h);
    placed.set(node.id, { x: xs(layer), y, layer });
    floor = Math.max(floor, y);
  }
  return placed;
}

/** The upper edge nearest to `wish` at which `h` pixels are free, and takes it. */
export function freeSpot(taken, wish, h) {
  let best = wish;
  let distance = Infinity;
  let from = -Infinity;
  for (let i = 0; i <= taken.length; i++) {
    const until = i < taken.length ? taken[i][0] - GAP.down - h : Infinity;
    if (from <= until) {
      const y = Math.min(Math.max(wish, from), until);
      if (Math.abs(y - wish) < distance) {
        best = y;
        distance = Math.abs(y - wish);
      }
    }
    if (i < taken.length) from = Math.max(from, taken[i][1] + GAP.down);
  }
  const at = taken.findIndex((one) => one[0] > best);
  taken.splice(at < 0 ? taken.length : at, 0, [best, best + h]);
  return best;
}

/** Where a column stands: as it does, or as far beyond the last one as it is numbered. */
function xsOf(at) {
  const known = new Map();
  let last = 0;
  for (const spot of at.values()) {
    known.set(spot.layer, spot.x);
    last = Math.max(last, spot.layer);
  }
  const step = CARD.width + GAP.across;
  return (layer) => {
    if (known.has(layer)) return known.get(layer);
    return known.has(last) && layer > last ? known.get(last) + (layer - last) * step : layer * step;
  };
}

function push(map, key, value) {
  if (!map.has(key)) map.set(key, []);
  map.get(key).push(value);
}
