// Who stands above whom in a column, so that few edges cross: each node goes to the mean of its neighbours,
// column by column to the right, then to the left, and the best of all sweeps is kept.

const SWEEPS = 8;

export function order(graph) {
  const { ranks, links, layer } = graph;
  const size = layer.length;
  const before = neighbours(links, size, 1, 0);
  const after = neighbours(links, size, 0, 1);
  const byGap = ranks.map(() => []);
  for (const link of links) byGap[layer[link[0]]].push(link);
  const position = new Float64Array(size);
  for (const rank of ranks) number(rank, position);
  let best = ranks.map((rank) => rank.slice());
  let least = Infinity;
  const mean = new Float64Array(size);
  for (let sweep = 0; sweep < SWEEPS && least > 0; sweep++) {
    const right = sweep % 2 === 0;
    const sides = right ? before : after;
    for (let i = 1; i < ranks.length; i++) {
      const rank = ranks[right ? i : ranks.length - 1 - i];
      for (const node of rank) mean[node] = meanOf(node, sides, position);
      rank.sort((a, b) => mean[a] - mean[b] || position[a] - position[b]);
      number(rank, position);
    }
    const crossed = crossings(byGap, ranks, position);
    if (crossed < least) {
      least = crossed;
      best = ranks.map((rank) => rank.slice());
    }
  }
  graph.ranks = best;
  for (const rank of best) number(rank, position);
  return { before, after, crossings: least === Infinity ? 0 : least };
}

/** Positions count from the middle of a column, so that columns of unlike length can be compared. */
function number(rank, position) {
  const middle = (rank.length - 1) / 2;
  for (let i = 0; i < rank.length; i++) position[rank[i]] = i - middle;
}

/** The neighbours of all nodes in two flat arrays: where each node's begin, and who they are with which weight. */
function neighbours(links, size, own, other) {
  const start = new Int32Array(size + 1);
  for (const link of links) start[link[own] + 1]++;
  for (let i = 0; i < size; i++) start[i + 1] += start[i];
  const fill = start.slice();
  const who = new Int32Array(links.length);
  const weight = new Float64Array(links.length);
  for (const link of links) {
    const at = fill[link[own]]++;
    who[at] = link[other];
    weight[at] = link[2];
  }
  return { start, who, weight };
}

function meanOf(node, { start, who, weight }, position) {
  let sum = 0;
  let total = 0;
  for (let i = start[node]; i < start[node + 1]; i++) {
    sum += position[who[i]] * weight[i];
    total += weight[i];
  }
  return total ? sum / total : position[node];
}

/** How many pairs of edges cross, gap by gap: inversions, counted with a tree of sums. */
function crossings(byGap, ranks, position) {
  let all = 0;
  for (let gap = 0; gap + 1 < ranks.length; gap++) {
    const size = ranks[gap + 1].length;
    const left = (ranks[gap].length - 1) / 2;
    const right = (size - 1) / 2;
    const edges = byGap[gap];
    if (edges.length < 2) continue;
    const keys = new Float64Array(edges.length);
    for (let i = 0; i < edges.length; i++) {
      keys[i] = (position[edges[i][0]] + left) * size + position[edges[i][1]] + right;
    }
    keys.sort();
    const tree = new Int32Array(size + 1);
    for (let i = 0; i < keys.length; i++) {
      const to = Math.round(keys[i] % size);
      all += i;
      for (let at = to + 1; at > 0; at -= at & -at) all -= tree[at];
      for (let at = to + 1; at <= size; at += at & -at) tree[at]++;
    }
  }
  return all;
}
