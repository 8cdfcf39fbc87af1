// What decided when the task ended, or will: the chain of steps of which each waited for the one before.
//
// Found backwards, from the step that ends last to what it waited for last. (The longest chain of durations is another
// thing: as soon as there was a new plan in between, it leads through steps that nobody waited for.)

import { waitsOf } from "replan/plan/waits";

const OVER = new Set(["done", "failed", "cancelled", "unknown"]);
const NEVER = new Set(["skipped", "reused"]);

/**
 * @param task  as `replan/store` folds it
 * @param {{now?: number, typical?: (tool: string, step?: object) => number | undefined}} [opts]  how long a tool takes, where that is known
 * @returns {{path: string[], ends: number, expected: Map<string, number>, gaps: {between: [string, string], start: number, ms: number, cause: string}[]}}
 *   causes: `place` (no free place), `person`, `wait` (a time, a callback), `model`, `retry`, `other`; the two ends of a gap are one where it is within a step
 */
export function critical(task, opts = {}) {
  const now = (opts.now ?? task.ended) || latest(task);
  const ends = expectedEnds(task, now, opts.typical ?? typicalOf(task));
  let last = null;
  for (const [id, end] of ends) if (last === null || end > ends.get(last)) last = id;
  const path = [];
  const seen = new Set();
  const brought = bringers(task);
  while (last !== null && !seen.has(last)) {
    seen.add(last);
    path.push(last);
    last = waitedFor(task, task.steps.get(last), ends, brought);
  }
  path.reverse();
  return { path, gaps: gapsOf(task, path, now), ends: path.length ? ends.get(path[path.length - 1]) : now, expected: ends };
}

/** For each step that runs, has run or is to run: when it ended, or when it is thought to. */
function expectedEnds(task, now, typical) {
  const ends = new Map();
  const open = [];
  for (const id of task.order) {
    const step = task.steps.get(id);
    if (NEVER.has(step.state)) continue;
    if (step.endedAt && OVER.has(step.state)) ends.set(id, step.endedAt);
    else if (task.ended) {
      if (step.startedAt) ends.set(id, task.ended);
    } else if (!step.leftOut) open.push(step);
  }
  const visiting = new Set();
  const later = new Map(open.map((step) => [step.id, step]));
  const endOf = (step) => {
    if (ends.has(step.id)) return ends.get(step.id);
    if (visiting.has(step.id)) return now;
    visiting.add(step.id);
    let begins = step.startedAt || now;
    if (!step.startedAt) {
      for (const id of step.depends) {
        if (later.has(id)) begins = Math.max(begins, endOf(later.get(id)));
        else begins = Math.max(begins, ends.get(id) ?? now);
      }
    }
    const end = Math.max(now, begins + (typical(step.tool, step) ?? 0));
    ends.set(step.id, end);
    return end;
  };
  for (const step of inOrder(open, later)) endOf(step);
  return ends;
}

/** Dependencies first, without calling itself: a chain may be long. */
function inOrder(steps, among) {
  const seen = new Set();
  const sorted = [];
  for (const first of steps) {
    const stack = [[first, 0]];
    while (stack.length) {
      const top = stack[stack.length - 1];
      if (top[1] === 0 && seen.has(top[0].id)) {
        stack.pop();
        continue;
      }
      seen.add(top[0].id);
      const next = top[0].depends[top[1]++];
      if (next === undefined) {
        sorted.push(top[0]);
        stack.pop();
      } else if (among.has(next) && !seen.has(next)) stack.push([among.get(next), 0]);
    }
  }
  return sorted;
}

/** The step that held this one up: of a step that a later plan brought, the failure for which that plan was made. */
function waitedFor(task, step, ends, brought) {
  const known = (id) => ends.has(id) && task.steps.has(id);
  let last = null;
  for (const id of step.depends) {
    if (known(id) && (last === null || ends.get(id) > ends.get(last))) last = id;
  }
  const version = brought.get(step.id);
  if (!version || version === task.versions[0]) return last;
  if (last !== null && ends.get(last) >= version.at) return last;
  if (step.replaces && known(step.replaces)) return step.replaces;
  let cause = null;
  for (const [id, end] of ends) {
    const other = task.steps.get(id);
    if (id === step.id || end > version.at || other.state !== "failed") continue;
    if (cause === null || end > ends.get(cause)) cause = id;
  }
  return cause ?? last;
}

/** Which version of the plan was the first to have each step. */
export function bringers(task) {
  const first = new Map();
  for (const version of task.versions) {
    for (const id of version.steps) if (!first.has(id)) first.set(id, version);
  }
  return first;
}

/** The times on the path in which no call ran, and why. */
function gapsOf(task, path, now) {
  const gaps = [];
  const add = (between, start, end, cause) => {
    if (end > start) gaps.push({ between, start, ms: end - start, cause });
  };
  let before = null;
  for (const id of path) {
    const step = task.steps.get(id);
    if (!step.startedAt) break;
    const begun = task.started || task.created || step.startedAt;
    const from = before ? task.steps.get(before).endedAt || step.startedAt : begun;
    const ready = step.readyAt ? Math.min(Math.max(step.readyAt, from), step.startedAt) : step.startedAt;
    for (const part of split(task, from, ready)) add([before ?? id, id], part.start, part.end, part.cause);
    add([before ?? id, id], ready, step.startedAt, "place");
    for (const part of within(task, step, now)) add([id, id], part.start, part.end, part.cause);
    before = id;
  }
  return gaps;
}

/** Between two steps: what the model took of it, and the rest. */
function split(task, start, end) {
  const parts = [];
  let at = start;
  for (const phase of task.phases) {
    const from = Math.max(at, phase.start);
    const until = Math.min(end, phase.end || end);
    if (until <= from) continue;
    parts.push({ start: at, end: from, cause: "other" });
    parts.push({ start: from, end: until, cause: "model" });
    at = until;
  }
  parts.push({ start: at, end, cause: "other" });
  return parts;
}

/** Between the tries of one step, and while it waited for a person or a time. */
function within(task, step, now) {
  const parts = waitsOf(task, step, now);
  if (step.items) return parts; // its calls run side by side: no single one holds it up
  let free = null;
  for (const one of step.tries) {
    const end = one.end || step.endedAt || now;
    if (free !== null && one.start > free.end) {
      if (free.retryAt) parts.push({ start: free.end, end: Math.min(free.retryAt, one.start), cause: "retry" });
      parts.push(...split(task, Math.max(free.end, free.retryAt || free.end), one.start));
    }
    free = { end, retryAt: one.retryAt || 0 };
  }
  return parts;
}

/** How long a tool takes, by what this task has seen of it; else as the plan has it of the step, or as long as tools take here. */
export function typicalOf(task) {
  const seen = new Map();
  const all = [];
  for (const step of task.steps.values()) {
    if (!step.startedAt || !step.endedAt || step.state !== "done") continue;
    if (!seen.has(step.tool)) seen.set(step.tool, []);
    seen.get(step.tool).push(step.endedAt - step.startedAt);
    all.push(step.endedAt - step.startedAt);
  }
  const medians = new Map();
  for (const [tool, times] of seen) medians.set(tool, median(times));
  const usual = median(all);
  return (tool, step) => medians.get(tool) ?? (step?.plan?.estimated_secs ? step.plan.estimated_secs * 1000 : usual);
}

export function median(numbers) {
  if (!numbers.length) return undefined;
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.floor((sorted.length - 1) / 2)];
}

/** How long each cause took of the path, in ms. */
export function sums(gaps) {
  const total = {};
  for (const gap of gaps) total[gap.cause] = (total[gap.cause] ?? 0) + gap.ms;
  return total;
}

/** The last moment of which anything is known. */
function latest(task) {
  let last = task.last || task.started || task.created || 0;
  for (const step of task.steps.values()) last = Math.max(last, step.endedAt || step.startedAt || 0);
  return last;
}

const kept = new WeakMap();
const AGAIN = 1000; // ms between two looks at a task that runs

/** The same, looked for at most once a second while the task runs: graph and Gantt ask for it with each picture. */
export function criticalNow(task, now) {
  const known = kept.get(task);
  const at = performance.now();
  if (known && known.seq === task.seq && (task.ended || at - known.at < AGAIN)) return known.found;
  if (known && !task.ended && at - known.at < AGAIN) return known.found;
  const found = critical(task, { now: task.ended || now });
  found.on = new Set(found.path);
  kept.set(task, { seq: task.seq, at, found });
  return found;
}
