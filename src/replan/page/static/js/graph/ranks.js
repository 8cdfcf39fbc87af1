// The graph as layers of small numbers: nodes, and between them the bends of edges that pass through a column.
//
// A long edge needs a place in each column on its way, or it would run beneath cards. Edges that leave one node, or that
// come to one, share their bends: a report that needs a thousand steps has one line through each column, not a thousand.

/** Bends beyond this many for each node are not made: those edges run straight, which costs looks but no time. */
const MOST_BENDS = 6;

export function ranksOf(nodes, edges, layers) {
  const index = new Map(nodes.map((node, i) => [node.id, i]));
  const layer = nodes.map((node) => layers.get(node.id) ?? 0);
  const links = [];
  const long = [];
  const seen = new Set();
  for (const [from, to] of edges) {
    const a = index.get(from);
    const b = index.get(to);
    if (a === undefined || b === undefined || layer[b] <= layer[a]) continue;
    const key = a * nodes.length + b;
    if (seen.has(key)) continue;
    seen.add(key);
    if (layer[b] === layer[a] + 1) links.push([a, b, 1]);
    else long.push([a, b]);
  }
  const bends = new Map(); // number of an edge's two ends -> the bends it passes, left to right
  bend(long, layer, links, bends, nodes.length);
  const ranks = [];
  for (let i = 0; i < layer.length; i++) (ranks[layer[i]] ??= []).push(i);
  for (let i = 0; i < ranks.length; i++) ranks[i] ??= [];
  return { ranks, layer, links, bends, count: nodes.length, index };
}

function bend(long, layer, links, bends, count) {
  const out = new Map();
  const into = new Map();
  for (const [a, b] of long) {
    out.set(a, (out.get(a) ?? 0) + 1);
    into.set(b, (into.get(b) ?? 0) + 1);
  }
  const chains = new Map(); // whose chain, and from or to -> the edges that share it
  for (const edge of long) {
    const [a, b] = edge;
    const key = into.get(b) > out.get(a) ? -1 - b : a;
    if (!chains.has(key)) chains.set(key, []);
    chains.get(key).push(edge);
  }
  const reach = ([key, shared]) =>
    key < 0
      ? layer[-1 - key] - Math.min(...shared.map(([a]) => layer[a])) - 1
      : Math.max(...shared.map(([, b]) => layer[b])) - layer[key] - 1;
  let left = MOST_BENDS * count + 500;
  for (const chain of [...chains].map((one) => [reach(one), one]).sort((x, y) => x[0] - y[0])) {
    left -= chain[0];
    if (left < 0) break;
    const [key, shared] = chain[1];
    if (key < 0) bendInto(-1 - key, shared, layer, links, bends, count);
    else bendOut(key, shared, layer, links, bends, count);
  }
}

function bendOut(from, shared, layer, links, bends, count) {
  const chain = [];
  let last = from;
  const far = Math.max(...shared.map(([, b]) => layer[b]));
  for (let at = layer[from] + 1; at < far; at++) {
    layer.push(at);
    const made = layer.length - 1;
    links.push([last, made, chain.length ? 4 : 2]);
    chain.push(made);
    last = made;
  }
  for (const [a, b] of shared) {
    const way = chain.slice(0, layer[b] - layer[a] - 1);
    links.push([way[way.length - 1], b, 2]);
    bends.set(a * count + b, way);
  }
}

function bendInto(to, shared, layer, links, bends, count) {
  const near = Math.min(...shared.map(([a]) => layer[a]));
  const chain = [];
  let last = -1;
  for (let at = near + 1; at < layer[to]; at++) {
    layer.push(at);
    const made = layer.length - 1;
    if (last >= 0) links.push([last, made, 4]);
    chain.push(made);
    last = made;
  }
  links.push([last, to, 2]);
  for (const [a, b] of shared) {
    const way = chain.slice(layer[a] - near);
    links.push([a, way[0], 2]);
    bends.set(a * count + b, way);
  }
}
