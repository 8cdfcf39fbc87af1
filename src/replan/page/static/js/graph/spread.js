// Opened groups: their members stand where the group stood, and only what is below in the same column gives way. Pure.

import { CARD } from "replan/layout";

export const HEAD = 26; // the opened group's own line, with which it is folded again
const BETWEEN = 8;

/**
 * @param {Map<string, {x: number, y: number, layer: number}>} at  where the cards stand while all groups are folded
 * @returns {{spots: Map<string, {x: number, y: number, w: number, h: number, layer: number}>,
 *   shift: (layer: number, y: number) => number}} `shift`: how far a line at this height gives way
 */
export function spread(at, picture) {
  const spots = new Map();
  const columns = new Map();
  for (const node of picture.nodes) {
    const spot = at.get(node.id);
    if (!spot) continue;
    if (!columns.has(spot.layer)) columns.set(spot.layer, []);
    columns.get(spot.layer).push([spot.y, node, spot]);
  }
  const pushes = new Map();
  for (const [layer, column] of columns) {
    if (!column.some(([, node]) => node.opened)) {
      for (const [y, node, spot] of column) spots.set(node.id, { x: spot.x, y, w: CARD.width, h: CARD.height, layer });
      continue;
    }
    column.sort((a, b) => a[0] - b[0]);
    const steps = [];
    let shift = 0;
    for (const [y, node, spot] of column) {
      const top = y + shift;
      if (!node.opened) {
        spots.set(node.id, { x: spot.x, y: top, w: CARD.width, h: CARD.height, layer });
        continue;
      }
      spots.set(node.id, { x: spot.x, y: top, w: CARD.width, h: HEAD, layer });
      let next = top + HEAD + BETWEEN;
      for (const id of node.members) {
        spots.set(id, { x: spot.x, y: next, w: CARD.width, h: CARD.height, layer });
        next += CARD.height + BETWEEN;
      }
      shift += next - BETWEEN - top - CARD.height;
      steps.push([y + CARD.height, shift]);
    }
    pushes.set(layer, steps);
  }
  const shiftAt = (layer, y) => {
    let shift = 0;
    for (const [from, by] of pushes.get(layer) ?? []) if (y >= from) shift = by;
    return shift;
  };
  return { spots, shift: shiftAt };
}

/** The rectangle around all spots. */
export function extent(spots) {
  let left = Infinity;
  let top = Infinity;
  let right = -Infinity;
  let bottom = -Infinity;
  for (const spot of spots.values ? spots.values() : spots) {
    left = Math.min(left, spot.x);
    top = Math.min(top, spot.y);
    right = Math.max(right, spot.x + spot.w);
    bottom = Math.max(bottom, spot.y + spot.h);
  }
  if (left === Infinity) return { x: 0, y: 0, w: 0, h: 0 };
  return { x: left, y: top, w: right - left, h: bottom - top };
}
