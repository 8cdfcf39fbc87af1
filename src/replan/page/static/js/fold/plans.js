// What a plan, and each change of one, makes of a task: which steps there are, which are due, which are left out.
import { isClosed, newStep, uncount } from "replan/fold/state";

const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

function callsAs(one, other) {
  return ["tool", "parameters", "actions", "for_each"].every((name) => same(one?.[name], other?.[name]));
}

/** Goes by this plan from here on. */
export function takePlan(task, plan, at, marked, said) {
  const version = task.version + 1;
  const here = new Set(plan.steps.map((step) => step.step_id));
  const gone = [];
  for (const step of task.steps.values()) {
    if (step.leftOut || here.has(step.id)) continue;
    gone.push(step);
    uncount(task, step);
    step.leftOut = version;
    for (const key of step.asks) if (task.waiting.get(key)?.kind === "wait") forget(task, step, key);
    marked.add(step.id);
  }
  const fresh = [];
  const planned = new Map();
  for (const one of plan.steps) {
    planned.set(one.step_id, one);
    let step = task.steps.get(one.step_id);
    if (step === undefined || step.leftOut) {
      const tries = step?.tries ?? [];
      if (step === undefined) task.order.push(one.step_id);
      step = Object.assign(newStep(one.step_id), { tries, version, strategy: said.strategy ?? "" });
      task.steps.set(step.id, step);
      fresh.push(step);
    } else if (!same(step.plan, one) && step.status !== "succeeded") {
      step.version = version;
      step.strategy = said.strategy ?? "";
      if (!callsAs(step.plan, one)) forgetCalls(task, step);
    }
    describe(task, step, one);
    marked.add(step.id);
  }
  task.version = version;
  task.versions.push({
    version, at, strategy: "", reason: plan.reasoning ?? "", part: Boolean(plan.more), steps: [...planned.keys()],
    planned, added: fresh.map((step) => step.id), removed: gone.map((step) => step.id), changed: {}, ...said,
  });
  for (const step of fresh) step.replaces = replacedBy(task, step, gone, fresh);
  marked.add("*");
  return gone;
}

function describe(task, step, one) {
  step.plan = one;
  step.name = one.name || one.step_id;
  step.tool = one.tool || [...new Set((one.actions ?? []).map((action) => action.tool))].join(", ");
  step.depends = one.dependencies ?? [];
  step.effect = task.effects[one.tool] ?? strongest(task, one) ?? step.effect;
}

const STRENGTH = ["reads", "repeatable", "once"];

function strongest(task, one) {
  const all = (one.actions ?? []).map((action) => STRENGTH.indexOf(task.effects[action.tool]));
  return STRENGTH[Math.max(-1, ...all)] ?? null;
}

/** What it has called as it was is history; what is in doubt stays so. */
function forgetCalls(task, step) {
  for (const place of [...step.latest.keys()]) {
    if (step.latest.get(place).state !== "unknown") step.latest.delete(place);
  }
  step.items = null;
}

/** The step of the plan before whose place this one takes: as the plan says, else the failed one that it is most like. */
function replacedBy(task, step, gone, fresh) {
  const said = step.plan.instead_of?.[0];
  if (said) return said;
  const open = gone.filter((one) => one.status === "failed" || one.status === "skipped");
  const taken = new Set(fresh.map((one) => one.replaces));
  const left = open.filter((one) => !taken.has(one.id));
  const needed = (id) => [...task.steps.values()].filter((one) => one.depends.includes(id)).map((one) => one.id);
  const mine = new Set(needed(step.id));
  const like = (one) =>
    (one.name === step.name ? 4 : 0) + (one.tool && one.tool === step.tool ? 2 : 0) +
    (same(one.depends, step.depends) ? 1 : 0) + (needed(one.id).some((id) => mine.has(id)) ? 1 : 0) +
    (one.status === "failed" && left.length === 1 && fresh.length === 1 ? 1 : 0);
  const best = left.map((one) => [like(one), one]).sort((one, other) => other[0] - one[0])[0];
  return best && best[0] > 0 ? best[1].id : null;
}

/** Steps that had come to an end are due again. */
export function beginAgain(task, step, marked) {
  step.status = "pending";
  step.error = step.why = null;
  step.endedAt = 0;
  step.failing.clear();
  for (const [place, one] of [...step.latest]) {
    const stays = one.state === "unknown" || (one.state === "done" && !step.plan?.for_each);
    if (!stays) step.latest.delete(place);
  }
  step.items = null;
  step.rung = null;
  marked.add(step.id);
}

/** These, and all that was left out because of them. */
export function reopen(task, ids, marked) {
  const due = ids.map((id) => task.steps.get(id)).filter((step) => step && !step.leftOut);
  const needs = new Map();
  for (const step of task.steps.values()) {
    if (step.leftOut) continue;
    for (const id of step.depends) needs.set(id, [...(needs.get(id) ?? []), step]);
  }
  const seen = new Set(due.map((step) => step.id));
  const walk = [...due];
  while (walk.length) {
    for (const step of needs.get(walk.pop().id) ?? []) {
      if (seen.has(step.id)) continue;
      seen.add(step.id);
      walk.push(step);
      if (step.why && step.status === "skipped" && step.why.kind !== "condition") due.push(step);
    }
  }
  for (const step of due) beginAgain(task, step, marked);
}

/** It is waited for no more; nor is the answer to what a step has asked, once its call has come to an end. */
export function forget(task, step, key) {
  task.waiting.delete(key);
  step?.asks.delete(key);
  for (const [id, one] of task.waiting) {
    if (one.about !== "question" || one.call_key !== key) continue;
    task.waiting.delete(id);
    step?.asks.delete(id);
  }
}

export function leaveAll(task, at, marked) {
  for (const step of task.steps.values()) {
    if (step.leftOut) continue;
    uncount(task, step);
    step.leftOut = task.version + 1;
    marked.add(step.id);
  }
}

function learn(task, versions) {
  for (const [name, tool] of Object.entries(versions?.tools ?? {})) task.effects[name] = tool.effect;
}

const changes = (diff) => Object.fromEntries((diff?.changed ?? []).map((one) => [one.step_id, one.fields]));

export const plans = {
  plan_generated(task, data, at, marked) {
    learn(task, data.made_with);
    takePlan(task, data.plan, at, marked, { workflow: data.workflow?.workflow_id ?? data.workflow_id ?? null });
  },
  plan_updated(task, data, at, marked) {
    learn(task, data.made_with);
    const gone = takePlan(task, data.plan, at, marked, {
      strategy: data.strategy ?? "",
      reason: data.reason ?? "",
      part: Boolean(data.plan.more),
      changed: changes(data.diff),
    });
    for (const step of gone) {
      if (isClosed(step)) continue;
      step.status = "skipped";
      step.why = { kind: "left_out", step: null, reason: "", version: task.version };
      step.endedAt = step.startedAt ? at : 0;
    }
    for (const id of data.reset ?? []) if (task.steps.has(id)) beginAgain(task, task.steps.get(id), marked);
  },
  step_repaired(task, data, at, marked) {
    learn(task, data.made_with);
    const step = task.steps.get(data.step.step_id);
    if (!step) return;
    const before = task.versions.at(-1);
    task.version += 1;
    step.version = task.version;
    step.strategy = "repair_step";
    describe(task, step, data.step);
    forgetCalls(task, step);
    step.rung = { kind: "anew", at, until: 0 };
    const planned = new Map(before?.planned ?? []).set(step.id, data.step);
    task.versions.push({
      version: task.version, at, strategy: "repair_step", reason: data.hint ?? "", part: before?.part ?? false,
      steps: [...planned.keys()], planned, added: [], removed: [], changed: changes(data.diff), step: step.id,
    });
    marked.add(step.id).add("*");
  },
  versions_changed(task, data) {
    learn(task, data.made_with);
  },
  plan_rejected(task, data, at, marked, { seq }) {
    task.notes.push({ at, seq, kind: "rejected", violations: data.violations ?? [], attempt: data.attempt });
    marked.add("*");
  },
  planning_stopped(task, data, at, marked, { seq }) {
    task.notes.push({ at, seq, kind: "stopped", why: data.kind, text: data.reason, violations: data.violations ?? [] });
    marked.add("*");
  },
};
