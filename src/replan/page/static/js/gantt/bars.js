// The bars of a row, as one path for each kind of bar. Pure.

import { waitsOf } from "replan/plan/waits";

const TOP = 5;
const TALL = 14;
const THIN = 6;
const LEAST = 2; // px: shorter ones would not be seen
const MOST_BARS = 60; // of a row; more are drawn by how many ran at a time
const LEVELS = 4;
const BIN = 3; // px

const KINDS = { none: "pending", done: "done", failed: "failed", running: "running", waiting: "waiting", unknown: "unknown", cancelled: "cancelled" };

/**
 * @param typical  how long the step's tool takes, where that is known
 * @returns {{paths: Record<string, string>, mark: {x: number, state: string} | null}}
 */
export function stepBars(task, step, axis, { now, expected, typical, critical }) {
  const paths = {};
  const until = task.ended || now;
  const clip = (time) => Math.min(axis.left + axis.width + 4, Math.max(axis.left - 4, axis.x(time)));
  const add = (kind, start, end) => {
    const a = clip(start);
    const b = clip(end);
    if (b <= axis.left || a >= axis.left + axis.width) return;
    paths[kind] = (paths[kind] ?? "") + bar(a, Math.max(LEAST, b - a), TOP, TALL);
  };
  const line = (start, end) => {
    const a = clip(start);
    const b = clip(end);
    if (b - a > 1) paths.queue = `${paths.queue ?? ""}M${n(a)} ${TOP + TALL / 2}H${n(b)}`;
  };
  if (!step.startedAt) return unstarted(step, axis, paths, { expected, typical, until, clip });
  if (step.readyAt && step.readyAt < step.startedAt) line(step.readyAt, step.startedAt);
  if (step.items || step.tries.length > MOST_BARS) {
    Object.assign(paths, density(step.tries.map((one) => [one.start, one.end || until, one.state]), axis));
  } else {
    let last = 0;
    for (const one of step.tries) {
      if (last && one.start > last) line(last, one.start);
      const end = one.end || step.endedAt || until;
      if (one.waited && one.waited > one.start) add(KINDS[one.state === "waiting" ? "done" : one.state], one.start, one.waited);
      else if (!one.waited) add(KINDS[one.state] ?? "done", one.start, end);
      last = Math.max(last, end);
    }
    if (last && !step.endedAt && until > last) line(last, until);
  }
  for (const { start, end } of waitsOf(task, step, now)) add("waiting", start, end);
  if (critical) {
    const a = clip(step.startedAt);
    const b = clip(step.endedAt || until);
    paths.critical = `M${n(a)} ${TOP + TALL + 3}H${n(Math.max(a + 2, b))}`;
  }
  const over = step.state === "skipped" || step.state === "cancelled";
  return { paths, mark: over && step.endedAt ? { x: clip(step.endedAt), state: step.state } : null };
}

function unstarted(step, axis, paths, { expected, typical, until, clip }) {
  const state = step.state;
  if (state === "skipped" || state === "cancelled" || state === "reused" || state === "done") {
    return { paths, mark: step.endedAt ? { x: clip(step.endedAt), state } : null };
  }
  if (step.readyAt) {
    const a = clip(step.readyAt);
    const b = clip(until);
    if (b - a > 1) paths.queue = `M${n(a)} ${TOP + TALL / 2}H${n(b)}`;
  }
  if (expected && typical) {
    // What was expected a moment ago may be late by now.
    const begins = Math.max(until, expected - typical);
    const a = clip(begins);
    const b = clip(begins + typical);
    if (b > axis.left && a < axis.left + axis.width) paths.pale = bar(a, Math.max(LEAST, b - a), TOP, TALL);
  }
  return { paths, mark: null };
}

/** A group's row: how many ran at a time, darker where more. */
export function groupBars(task, members, axis, { now, critical }) {
  const until = task.ended || now;
  const times = [];
  for (const id of members) {
    for (const one of task.steps.get(id).tries) times.push([one.start, one.end || until, one.state]);
  }
  const paths = density(times, axis);
  if (critical) {
    let d = "";
    for (const id of members) {
      const step = task.steps.get(id);
      if (critical.has(id) && step.startedAt) d += `M${n(axis.x(step.startedAt))} ${TOP + TALL + 3}H${n(axis.x(step.endedAt || until))}`;
    }
    if (d) paths.critical = d;
  }
  return { paths, mark: null };
}

function density(times, axis) {
  const bins = Math.ceil(axis.width / BIN);
  const over = new Int32Array(bins + 1);
  const live = new Uint8Array(bins);
  const bad = new Uint8Array(bins);
  for (const [start, end, state] of times) {
    const a = Math.max(0, Math.floor((axis.x(start) - axis.left) / BIN));
    const b = Math.min(bins - 1, Math.floor((axis.x(end) - axis.left) / BIN));
    if (b < 0 || a >= bins || b < a) continue;
    over[a]++;
    over[b + 1]--;
    if (state === "failed" || state === "unknown") bad[b] = 1;
    if (state === "running" || state === "waiting") live.fill(1, a, b + 1);
  }
  let most = 0;
  for (let i = 0, sum = 0; i < bins; i++) most = Math.max(most, (sum += over[i]));
  const paths = {};
  let sum = 0;
  let from = 0;
  let before = "";
  for (let i = 0; i <= bins; i++) {
    if (i < bins) sum += over[i];
    const level = sum > 0 && i < bins ? Math.min(LEVELS, Math.ceil((sum / most) * LEVELS)) : 0;
    const kind = level ? `${live[i] ? "running" : "done"} level-${level}` : "";
    if (kind === before) continue;
    if (before) paths[before] = (paths[before] ?? "") + box(axis.left + from * BIN, (i - from) * BIN, TOP, TALL);
    before = kind;
    from = i;
  }
  for (let i = 0; i < bins; i++) if (bad[i]) paths.bad = (paths.bad ?? "") + box(axis.left + i * BIN, BIN, TOP, TALL);
  return paths;
}

/** Calls of the model: thin, for they are not the work itself. */
export function modelBars(phases, axis, until) {
  let d = "";
  for (const phase of phases) {
    const a = Math.max(axis.left, axis.x(phase.start));
    const b = Math.min(axis.left + axis.width, axis.x(phase.end || until));
    if (b >= a) d += box(a, Math.max(LEAST, b - a), TOP + (TALL - THIN) / 2, THIN);
  }
  return { paths: d ? { model: d } : {}, mark: null };
}

const n = (value) => Math.round(value * 10) / 10;

function box(x, w, y, h) {
  return `M${n(x)} ${y}h${n(w)}v${h}h${n(-w)}z`;
}

function bar(x, w, y, h) {
  if (w < 7) return box(x, w, y, h);
  return `M${n(x + 3)} ${y}h${n(w - 6)}a3 3 0 0 1 3 3v${h - 6}a3 3 0 0 1 -3 3h${n(6 - w)}a3 3 0 0 1 -3 -3v${6 - h}a3 3 0 0 1 3 -3z`;
}
