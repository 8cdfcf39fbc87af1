// What is said of the place under the pointer: which try, how it came out, how long it took, and when.

import { waitsOf } from "replan/plan/waits";

export function placeWords(task, row, time, now, { t, duration }) {
  const since = duration(Math.max(0, time - (task.created || task.started)));
  if (row.kind === "model") {
    const phase = row.phases.find((one) => one.start <= time && (one.end || now) >= time);
    return phase ? `${since} · ${t(`phase.${phase.kind}`)} · ${duration((phase.end || now) - phase.start)}` : since;
  }
  if (row.kind !== "step") return since;
  const step = task.steps.get(row.id);
  const one = step.tries.find((each) => each.start <= time && (each.end || now) >= time);
  if (one && !step.items) {
    const many = step.tries.length > 1 ? `${t("gantt.try", { number: one.n })} · ` : "";
    const state = one.state === "none" ? "pending" : one.state;
    return `${since} · ${many}${t(`state.${state}`)} · ${duration((one.end || step.endedAt || now) - one.start)}`;
  }
  const wait = waitsOf(task, step, now).find(({ start, end }) => start <= time && end >= time);
  if (wait) return `${since} · ${t("state.waiting")} · ${duration(wait.end - wait.start)}`;
  return since;
}
