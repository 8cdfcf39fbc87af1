// How high each node of a column stands: as near to its neighbours as the order and the distances allow.
//
// That is a least-squares problem with an order to be kept, and "pool adjacent violators" solves it exactly in one pass.

const SWEEPS = 10;

/**
 * @param {number[][]} ranks  nodes of each column, from above
 * @param {(node: number) => number} tall  the height of a node
 * @param {(a: number, b: number) => number} apart  the least distance of two neighbours in a column
 * @returns {Float64Array} the middle of each node
 */
export function heights(ranks, size, sides, tall, apart) {
  const y = new Float64Array(size);
  const offsets = ranks.map((rank) => {
    const at = new Float64Array(rank.length);
    for (let i = 1; i < rank.length; i++) {
      at[i] = at[i - 1] + (tall(rank[i - 1]) + tall(rank[i])) / 2 + apart(rank[i - 1], rank[i]);
    }
    const middle = rank.length ? at[rank.length - 1] / 2 : 0;
    for (let i = 0; i < rank.length; i++) y[rank[i]] = at[i] - middle;
    return at;
  });
  const longest = Math.max(0, ...ranks.map((rank) => rank.length));
  const room = { value: new Float64Array(longest), weight: new Float64Array(longest), size: new Int32Array(longest) };
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    // At last all look to both sides, so that the picture is balanced rather than leaning on its first column.
    const looks = sweep >= SWEEPS - 2 ? sides : [sides[sweep % 2]];
    const right = sweep % 2 === 0;
    for (let i = 0; i < ranks.length; i++) {
      const at = right ? i : ranks.length - 1 - i;
      settle(ranks[at], offsets[at], looks, y, room);
    }
  }
  return y;
}

function settle(rank, offset, looks, y, room) {
  const { value, weight, size } = room;
  let blocks = 0;
  for (let i = 0; i < rank.length; i++) {
    const [wish, strength] = wishOf(rank[i], looks, y);
    value[blocks] = wish - offset[i];
    weight[blocks] = strength;
    size[blocks] = 1;
    blocks++;
    while (blocks > 1 && value[blocks - 2] > value[blocks - 1]) {
      const a = blocks - 2;
      const b = blocks - 1;
      const total = weight[a] + weight[b];
      value[a] = (value[a] * weight[a] + value[b] * weight[b]) / total;
      weight[a] = total;
      size[a] += size[b];
      blocks--;
    }
  }
  let i = 0;
  for (let block = 0; block < blocks; block++) {
    for (let n = 0; n < size[block]; n++, i++) y[rank[i]] = value[block] + offset[i];
  }
}

function wishOf(node, looks, y) {
  let sum = 0;
  let total = 0;
  for (const { start, who, weight } of looks) {
    for (let i = start[node]; i < start[node + 1]; i++) {
      sum += y[who[i]] * weight[i];
      total += weight[i];
    }
  }
  // Who has no neighbour stays where it is, and gives way to those who have.
  return total ? [sum / total, total] : [y[node], 0.05];
}
