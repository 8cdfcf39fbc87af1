// Which rows the Gantt has. What has begun stands in the order in which it began, so that rows are only added below;
// what has not stands under it, in the order of the plan. Pure.

import { columnsOf, groupingOf, groupsOf, inGroups, visibleSteps } from "replan/graph/picture";

export const MODEL = "model"; // the row of calls of the model, opened by this name

/** @returns {{id: string, kind: "step" | "group" | "model" | "lane", members?: string[], inside?: boolean, begun: boolean}[]} */
export function rowsOf(task, view) {
  const ids = visibleSteps(task, view);
  const shown = new Set(ids);
  const shared = groupingOf(task);
  columnsOf(task, ids, shared.columns);
  const grouped = (shared.grouped ??= inGroups(ids.length, view.groupBy));
  const groups = grouped ? groupsOf(task, ids, { ...view, groupBy: view.groupBy === "state" ? "tool" : view.groupBy }, shared.columns, true) : new Map();
  const rows = modelRows(task, view);
  const seen = new Set();
  const begun = task.rows.filter((id) => shown.has(id));
  const has = new Set(begun);
  let round = 0;
  const add = (id, isBegun) => {
    if (seen.has(id)) return;
    seen.add(id);
    const group = groups.get(id);
    if (!group) {
      rows.push({ id, kind: "step", begun: isBegun });
      return;
    }
    for (const member of group.members) seen.add(member);
    rows.push({ id: group.id, kind: "group", members: group.members, label: group.label, layer: group.layer, opened: group.opened, begun: isBegun });
    if (!group.opened) return;
    const order = [...group.members.filter((one) => has.has(one)), ...group.members.filter((one) => !has.has(one))];
    for (const member of order) rows.push({ id: member, kind: "step", inside: true, begun: has.has(member) });
  };
  for (const id of begun) {
    if (!seen.has(id)) {
      const at = roundAt(task, task.steps.get(id).startedAt);
      if (round && at > round) rows.push({ id: `round ${at}`, kind: "lane", round: at, begun: true });
      round = Math.max(round, at);
    }
    add(id, true);
  }
  for (const id of ids) add(id, false);
  return rows;
}

function roundAt(task, time) {
  let found = 1;
  for (const one of task.rounds ?? []) if (one.at <= time) found = one.round;
  return found;
}

function modelRows(task, view) {
  if (!task.phases.length) return [];
  const opened = Boolean(view.open?.has(MODEL));
  const rows = [{ id: MODEL, kind: "model", opened, phases: task.phases, begun: true }];
  if (!opened) return rows;
  for (const kind of ["select", "plan", "step", "reflect", "judge"]) {
    const phases = task.phases.filter((phase) => phase.kind === kind);
    if (phases.length) rows.push({ id: `${MODEL} ${kind}`, kind: "model", phase: kind, inside: true, phases, begun: true });
  }
  return rows;
}
