// Which column each node stands in: one to the right of the rightmost node that it depends on.

/**
 * @param {string[]} ids
 * @param {[string, string][]} edges  from, to; ends that are unknown are passed over
 * @returns {Map<string, number>}
 */
export function layersOf(ids, edges) {
  const layer = new Map(ids.map((id) => [id, 0]));
  const open = new Map(ids.map((id) => [id, 0]));
  const after = new Map();
  for (const [from, to] of edges) {
    if (from === to || !layer.has(from) || !layer.has(to)) continue;
    open.set(to, open.get(to) + 1);
    if (!after.has(from)) after.set(from, []);
    after.get(from).push(to);
  }
  // A circle has no place to begin; its nodes keep the column that they have by then.
  const turn = ids.filter((id) => open.get(id) === 0);
  for (let i = 0; i < turn.length; i++) {
    const next = layer.get(turn[i]) + 1;
    for (const to of after.get(turn[i]) ?? []) {
      if (layer.get(to) < next) layer.set(to, next);
      const left = open.get(to) - 1;
      open.set(to, left);
      if (left === 0) turn.push(to);
    }
  }
  return layer;
}
