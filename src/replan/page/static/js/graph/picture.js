// What of a task is drawn: which steps, which of them as one card, and the edges between the cards. Pure.

import { layersOf } from "replan/layout";

/** Beyond so many cards, siblings become one. */
export const MANY = 150;
const SIBLINGS = 4;
const SINGLED = 8; // of one group, at most, are shown by themselves
/** What somebody has to see is not hidden in a group. */
const SINGLES = new Set(["failed", "waiting", "recovering", "unknown"]);

/** The steps that a view shows, in the order of their first appearance. */
export function visibleSteps(task, view) {
  const chosen = versionOf(task, view.version);
  if (chosen) {
    const shown = new Set(chosen.steps);
    if (view.diff) for (const id of versionBefore(task, chosen)?.steps ?? []) shown.add(id);
    return task.order.filter((id) => shown.has(id));
  }
  const gone = view.diff ? new Set(versionBefore(task, newest(task))?.steps ?? []) : null;
  return task.order.filter((id) => {
    const step = task.steps.get(id);
    return !step.leftOut || step.startedAt > 0 || gone?.has(id);
  });
}

export function newest(task) {
  return task.versions[task.versions.length - 1] ?? null;
}

export function versionOf(task, number) {
  return number == null ? null : task.versions.find((one) => one.version === number) ?? null;
}

export function versionBefore(task, version) {
  const at = task.versions.indexOf(version);
  return at > 0 ? task.versions[at - 1] : null;
}

/**
 * What a version changed: by step `+`, `~` or `−`.
 * @returns {{version: number | null, marks: Map<string, string>}}
 */
export function marksOf(task, view) {
  const marks = new Map();
  const version = versionOf(task, view.version) ?? newest(task);
  const before = version && versionBefore(task, version);
  if (!view.diff || !before) return { version: null, marks };
  const had = new Set(before.steps);
  const has = new Set(version.steps);
  for (const id of version.steps) if (!had.has(id)) marks.set(id, "+");
  for (const id of before.steps) if (!has.has(id)) marks.set(id, "−");
  for (const id of Object.keys(version.changed ?? {})) if (!marks.has(id)) marks.set(id, "~");
  return { version: version.version, marks };
}

/** The edges between steps: from what is needed to what needs it. */
export function stepEdges(task, ids) {
  const shown = new Set(ids);
  const edges = [];
  for (const id of ids) {
    for (const from of task.steps.get(id).depends) if (shown.has(from)) edges.push([from, id]);
  }
  return edges;
}

/**
 * The column of each step. One that has a column keeps it, whatever the plan says later.
 * @param {Map<string, number>} known  is added to
 */
export function columnsOf(task, ids, known) {
  if (!known.size) {
    for (const [id, layer] of layersOf(ids, stepEdges(task, ids))) known.set(id, layer);
    return known;
  }
  const fresh = ids.filter((id) => !known.has(id));
  if (!fresh.length) return known;
  const inside = layersOf(fresh, stepEdges(task, fresh));
  for (const id of [...fresh].sort((a, b) => inside.get(a) - inside.get(b))) {
    let layer = 0;
    for (const from of task.steps.get(id).depends) if (known.has(from)) layer = Math.max(layer, known.get(from) + 1);
    known.set(id, layer);
  }
  return known;
}

/** Whether a plan of so many steps is drawn in groups. One that is, or is not, stays so until it has changed by far. */
export function inGroups(count, groupBy, before) {
  if (groupBy === "none") return false;
  if (before === undefined) return count > MANY;
  return before ? count > MANY / 2 : count > MANY * 2;
}

const shared = new WeakMap();

/** What graph and Gantt know together of a task: the column of each step, and whether siblings are drawn as one. */
export function groupingOf(task) {
  if (!shared.has(task)) shared.set(task, { columns: new Map(), grouped: undefined });
  return shared.get(task);
}

const GROUP_KEYS = {
  tool: (step, layer) => `L${layer}:${step.tool.replaceAll(", ", "+")}`,
  layer: (step, layer) => `L${layer}`,
  state: (step, layer) => `L${layer}:${step.state}`,
};

/**
 * @param {Map<string, number>} columns  of the steps; is added to
 * @returns {{nodes: object[], byId: Map<string, object>, nodeOf: Map<string, string>, edges: [string, string][], grouped: boolean}}
 *   a node is `{id, kind: "step", layer, step}` or `{id, kind: "group", layer, label, members, opened}`; `nodeOf`: the card of a step
 */
export function pictureOf(task, view, columns, grouped) {
  const ids = visibleSteps(task, view);
  columnsOf(task, ids, columns);
  const groups = grouped ? groupsOf(task, ids, view, columns) : new Map();
  const nodes = [];
  const byId = new Map();
  const nodeOf = new Map();
  const add = (node) => {
    nodes.push(node);
    byId.set(node.id, node);
  };
  for (const id of ids) {
    const group = groups.get(id);
    if (group) {
      if (!byId.has(group.id)) add(group);
      nodeOf.set(id, group.opened ? id : group.id);
    } else {
      add({ id, kind: "step", layer: columns.get(id), step: task.steps.get(id) });
      nodeOf.set(id, id);
    }
  }
  return { nodes, byId, nodeOf, groupOf: groups, edges: merged(stepEdges(task, ids), nodeOf), grouped, ids };
}

/** The group that a step belongs to, if there is one. */
export function groupKey(step, layer, view) {
  return (GROUP_KEYS[view.groupBy] ?? GROUP_KEYS.tool)(step, layer);
}

/** By step its group. With `whole` also what somebody has to see stays in it. */
export function groupsOf(task, ids, view, columns, whole = false) {
  const siblings = new Map();
  for (const id of ids) {
    const step = task.steps.get(id);
    const key = groupKey(step, columns.get(id), view);
    if (!siblings.has(key)) siblings.set(key, []);
    siblings.get(key).push(id);
  }
  const groups = new Map();
  for (const [key, all] of siblings) {
    if (all.length < SIBLINGS) continue;
    const opened = Boolean(view.open?.has(key));
    const single = opened || whole ? [] : all.filter((id) => SINGLES.has(task.steps.get(id).state)).slice(0, SINGLED);
    const members = single.length ? all.filter((id) => !single.includes(id)) : all;
    if (!members.length) continue;
    const first = task.steps.get(members[0]);
    const label = view.groupBy === "layer" ? "" : view.groupBy === "state" ? first.state : first.tool;
    const group = { id: key, kind: "group", layer: columns.get(members[0]), label, members, opened, byState: view.groupBy === "state" };
    for (const id of members) groups.set(id, group);
  }
  return groups;
}

function merged(edges, nodeOf) {
  const seen = new Set();
  const result = [];
  for (const [from, to] of edges) {
    const a = nodeOf.get(from);
    const b = nodeOf.get(to);
    const key = `${a}\u0000${b}`;
    if (a === b || seen.has(key)) continue;
    seen.add(key);
    result.push([a, b]);
  }
  return result;
}

/** How many of a group are in which state, in the order in which states are drawn. */
export const STATES = [
  "done", "reused", "failed", "unknown", "recovering", "waiting", "running", "ready", "pending", "skipped", "cancelled",
];

export function countStates(task, ids) {
  const counts = new Map();
  for (const id of ids) {
    const { state } = task.steps.get(id);
    counts.set(state, (counts.get(state) ?? 0) + 1);
  }
  return STATES.filter((state) => counts.has(state)).map((state) => [state, counts.get(state)]);
}

/** The state that a group shows: what goes on in it, before what is over. */
const LOUDEST = ["recovering", "waiting", "running", "failed", "unknown", "ready", "pending", "done", "reused", "skipped", "cancelled"];

export function loudest(counts) {
  const has = new Set(counts.map(([state]) => state));
  // A group of which some are done and none runs is on its way, not untouched.
  return LOUDEST.find((state) => has.has(state)) ?? "pending";
}

/** All that a step waits for, and all that wait for it, with itself. */
export function lineage(task, id) {
  const after = new Map();
  for (const step of task.steps.values()) {
    for (const from of step.depends) {
      if (!after.has(from)) after.set(from, []);
      after.get(from).push(step.id);
    }
  }
  const all = new Set([id]);
  for (const next of [(one) => task.steps.get(one)?.depends ?? [], (one) => after.get(one) ?? []]) {
    const turn = [id];
    const seen = new Set(turn);
    while (turn.length) {
      for (const other of next(turn.pop())) {
        if (seen.has(other) || !task.steps.has(other)) continue;
        seen.add(other);
        all.add(other);
        turn.push(other);
      }
    }
  }
  return all;
}
