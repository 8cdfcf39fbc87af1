// Where everything in the graph stands, as the plan grows and changes. Knows the task and the view, not the DOM.

import { CARD, edgeKey, layout, place } from "replan/layout";
import { groupKey, groupingOf, inGroups, pictureOf, visibleSteps } from "replan/graph/picture";
import { columnXs, wire, wires } from "replan/graph/wires";
import { extent, spread } from "replan/graph/spread";

const MOST_ROUTED = 2000; // edges for which a way between the cards is looked for

export class Scene {
  constructor() {
    this.at = new Map();
    this.ways = new Map();
    this.columns = null;
    this.grouped = undefined;
    this.picture = null;
    this.spots = new Map();
    this.area = extent([]);
    this.parts = new Map();
    this.replaced = [];
    this.key = "";
    this.singles = new Map();
  }

  /** Whether what is drawn, and between what there are edges, may differ from what it was. */
  isOther(task, view, marked) {
    if (this.keyOf(task, view) !== this.key) return true;
    if (!this.grouped) return false;
    for (const id of marked) {
      const step = task.steps.get(id);
      if (step && this.singles.get(id) !== this.standing(step, view)) return true;
    }
    return false;
  }

  standing(step, view) {
    if (view.groupBy === "state") return step.state;
    return step.state === "failed" || step.state === "waiting" || step.state === "recovering" || step.state === "unknown";
  }

  keyOf(task, view) {
    const open = this.grouped ? [...(view.open ?? [])].join(" ") : "";
    return `${task.order.length}|${task.versions.length}|${view.version ?? ""}|${Boolean(view.diff)}|${view.groupBy ?? ""}|${open}`;
  }

  /**
   * Brings the picture up to date: cards that have a place keep it.
   * @returns {boolean} whether all was laid out anew
   */
  update(task, view, tidy = false) {
    const shared = groupingOf(task);
    this.columns = shared.columns;
    const count = visibleSteps(task, view).length;
    const grouped = inGroups(count, view.groupBy, tidy ? undefined : this.at.size ? this.grouped : shared.grouped);
    const otherGroups = this.at.size > 0 && (grouped !== this.grouped || (grouped && this.groupBy !== view.groupBy));
    const anew = tidy || otherGroups || !this.at.size || !task.versions.length;
    this.grouped = shared.grouped = grouped;
    this.groupBy = view.groupBy;
    this.key = this.keyOf(task, view);
    if (anew) this.columns.clear();
    const picture = (this.picture = pictureOf(task, view, this.columns, grouped));
    this.singles = grouped ? new Map(picture.ids.map((id) => [id, this.standing(task.steps.get(id), view)])) : new Map();
    // Members of an opened group stand in its place: to the layout it is one card, opened or not.
    const folded = (id) => (picture.groupOf.get(id)?.opened ? picture.groupOf.get(id).id : id);
    const edges = picture.edges.map(([from, to]) => [folded(from), folded(to)]).filter(([from, to]) => from !== to);
    const layers = new Map(picture.nodes.map((node) => [node.id, node.layer]));
    if (anew) {
      const made = layout(picture.nodes, edges, { layers });
      this.at = made.at;
      this.ways = made.ways;
    } else {
      const near = (id) => {
        const step = picture.byId.get(id)?.step;
        const group = step && groupKey(step, this.columns.get(id), view);
        return this.at.has(group) ? [group] : [];
      };
      this.at = place(this.at, picture.nodes, edges, { layers, near });
    }
    this.route(edges);
    this.unfold(picture, folded);
    this.replaced = replacements(task, picture);
    return anew;
  }

  /** Opened groups take their room, and all edges their paths. */
  unfold(picture, folded) {
    const shown = spread(this.at, picture);
    this.spots = shown.spots;
    this.shift = shown.shift;
    this.area = extent(this.spots);
    this.folded = folded;
    this.wire();
  }

  wire() {
    const { picture } = this;
    const gone = (id) => Boolean(picture.byId.get(id)?.step?.leftOut);
    const ways = { get: (key) => this.ways.get(key) ?? this.foldedWay(key) };
    this.lines = { ways, xs: columnXs(this.spots) };
    this.parts = wires(picture.edges, this.spots, ways, this.shift, (from, to) => (gone(from) || gone(to) ? "gone" : "plain"));
  }

  foldedWay(key) {
    if (!this.grouped) return undefined;
    const [from, to] = key.split("\u0000");
    return this.ways.get(edgeKey(this.folded(from), this.folded(to)));
  }

  /** One edge, as a path. */
  line(from, to) {
    return wire(from, to, this.spots, this.lines.ways, this.shift, this.lines.xs);
  }

  /** Edges that came after the layout pass the columns on their way where these are free. */
  route(edges) {
    let columns = null;
    let left = MOST_ROUTED;
    for (const [from, to] of edges) {
      const a = this.at.get(from);
      const b = this.at.get(to);
      if (!a || !b || b.layer - a.layer < 2 || this.ways.has(edgeKey(from, to)) || left-- <= 0) continue;
      columns ??= takenIn(this.at);
      const way = [];
      for (let layer = a.layer + 1; layer < b.layer; layer++) {
        const straight = a.y + ((b.y - a.y) * (layer - a.layer)) / (b.layer - a.layer) + CARD.height / 2;
        way.push(between(columns.get(layer) ?? [], straight));
      }
      this.ways.set(edgeKey(from, to), way);
    }
  }

  /** The cards at both ends of the edges of one card. */
  edgesOf(id) {
    return this.picture.edges.filter(([from, to]) => from === id || to === id);
  }
}

function takenIn(at) {
  const columns = new Map();
  for (const spot of at.values()) {
    if (!columns.has(spot.layer)) columns.set(spot.layer, []);
    columns.get(spot.layer).push(spot.y);
  }
  for (const column of columns.values()) column.sort((a, b) => a - b);
  return columns;
}

/** The height nearest to `wish` at which no card of the column is. */
function between(tops, wish) {
  let best = wish;
  let least = Infinity;
  let from = -Infinity;
  for (let i = 0; i <= tops.length; i++) {
    const until = i < tops.length ? tops[i] - 6 : Infinity;
    if (from <= until) {
      const y = Math.min(Math.max(wish, from), until);
      if (Math.abs(y - wish) < least) {
        least = Math.abs(y - wish);
        best = y;
      }
    }
    if (i < tops.length) from = tops[i] + CARD.height + 6;
  }
  return best;
}

/** From each step that was replaced to what stands for it now. */
function replacements(task, picture) {
  const found = [];
  for (const id of picture.ids) {
    const step = task.steps.get(id);
    const from = step.replaces && picture.nodeOf.get(step.replaces);
    if (from && from !== picture.nodeOf.get(id)) found.push({ from, to: picture.nodeOf.get(id), strategy: step.strategy });
  }
  return found;
}
