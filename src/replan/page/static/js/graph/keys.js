// Moving through the graph by the arrows: along the edges, and within a column.

/** @returns {string | null} the card to go to from `id` */
export function neighbour(scene, id, key, came) {
  const spot = scene.spots.get(id);
  if (!spot) return scene.picture.nodes[0]?.id ?? null;
  if (key === "ArrowUp" || key === "ArrowDown") {
    const down = key === "ArrowDown";
    let best = null;
    for (const [other, place] of scene.spots) {
      if (place.layer !== spot.layer || other === id) continue;
      if (down ? place.y <= spot.y : place.y >= spot.y) continue;
      if (best === null || Math.abs(place.y - spot.y) < Math.abs(scene.spots.get(best).y - spot.y)) best = other;
    }
    return best;
  }
  const right = key === "ArrowRight";
  const others = scene.edgesOf(id).filter(([from, to]) => (right ? from : to) === id).map(([from, to]) => (right ? to : from));
  if (!others.length) return null;
  others.sort((a, b) => scene.spots.get(a).y - scene.spots.get(b).y);
  // Back where one came from; else the nearest, so that one arrow leads straight on.
  if (came && others.includes(came)) return came;
  const off = (other) => Math.abs(scene.spots.get(other).y - spot.y);
  return others.reduce((best, other) => (off(other) < off(best) ? other : best));
}

/** From a neighbour to the next one of the same: the key pressed once more with Alt. */
export function sibling(scene, from, id, key) {
  const right = key === "ArrowRight";
  const others = scene.edgesOf(from).filter(([a, b]) => (right ? a : b) === from).map(([a, b]) => (right ? b : a));
  others.sort((a, b) => scene.spots.get(a).y - scene.spots.get(b).y);
  return others.length ? others[(others.indexOf(id) + 1) % others.length] : null;
}
