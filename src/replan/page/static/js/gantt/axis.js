// The time axis: moments to pixels and back. Long times in which nothing ran are folded; it grows in jumps. Pure.

import { median } from "replan/critical";

const FOLD = 20; // times the median bar
const LEAST_FOLD = 5000; // ms: less is no nuisance
const NOTCH = 0.035; // of the axis, that a fold takes
const FULL = 0.92;
const GROWTH = 1.5;

/** When anything ran: calls and calls of the model, without those that only waited. Sorted, and joined where they touch. */
export function busyTimes(task, now) {
  const all = [];
  const lengths = [];
  for (const step of task.steps.values()) {
    for (const one of step.tries) {
      if (one.state === "waiting" || one.waited) continue;
      const end = one.end || (task.ended ? one.start : now);
      all.push([one.start, end]);
      if (one.end) lengths.push(one.end - one.start);
    }
  }
  for (const phase of task.phases) all.push([phase.start, phase.end || now]);
  all.sort((a, b) => a[0] - b[0]);
  const joined = [];
  for (const [start, end] of all) {
    const last = joined[joined.length - 1];
    if (last && start <= last[1]) last[1] = Math.max(last[1], end);
    else joined.push([start, end]);
  }
  return { busy: joined, usual: median(lengths) ?? 0 };
}

/** The long times between, from `from` (in a queue, say) to `until`. */
export function foldsOf({ busy, usual }, from, until) {
  const folds = [];
  const most = Math.max(LEAST_FOLD, usual * FOLD);
  const margin = Math.min(usual, most / 10);
  for (let i = 0; i <= busy.length; i++) {
    const start = i > 0 ? busy[i - 1][1] : from;
    const end = i < busy.length ? busy[i][0] : until;
    if (end - start > most) folds.push({ start: start + margin, end: end - margin });
  }
  return folds;
}

export class Axis {
  constructor() {
    this.start = 0;
    this.folds = [];
    this.notch = 0;
    this.length = 0; // of the whole axis, in ms without what is folded
    this.from = 0;
    this.to = 0;
    this.zoomed = false;
    this.left = 0;
    this.width = 1;
  }

  /** @param {number} expected  when the task is thought to end; it bounds nothing */
  update(task, now, expected = 0) {
    this.start = task.created || task.started || firstStart(task) || now;
    const until = task.ended || now;
    this.folds = foldsOf(busyTimes(task, now), this.start, until);
    const folded = this.folds.reduce((sum, fold) => sum + fold.end - fold.start, 0);
    this.notch = (Math.max(1, until - this.start - folded) * NOTCH) / (1 - NOTCH * Math.min(10, this.folds.length));
    const used = Math.max(1, this.plain(until));
    if (task.ended) this.length = used * 1.02;
    else {
      if (this.length === 0) this.length = Math.max(2000, used / 0.7, Math.min(this.plain(expected) * 1.05, used * 3));
      while (used > this.length * FULL) this.length *= GROWTH;
      // A fold that has just begun makes the time before it short.
      if (used < this.length / 4 && this.folds.length) this.length = used / 0.7;
    }
    if (!this.zoomed) {
      this.from = 0;
      this.to = this.length;
    }
  }

  place(left, width) {
    this.left = left;
    this.width = Math.max(1, width);
  }

  /** Milliseconds from the start, with each fold as short as a notch. */
  plain(time) {
    let at = time - this.start;
    for (const { start, end } of this.folds) {
      if (time <= start) break;
      const part = Math.min(1, (time - start) / (end - start));
      at -= Math.min(time, end) - start - this.notch * part;
    }
    return at;
  }

  x(time) {
    return this.left + ((this.plain(time) - this.from) / (this.to - this.from)) * this.width;
  }

  /** The moment at a pixel. */
  time(x) {
    let at = this.from + ((x - this.left) / this.width) * (this.to - this.from);
    for (const { start, end } of this.folds) {
      const before = start - this.start;
      if (at <= before) break;
      if (at < before + this.notch) return start + ((at - before) / this.notch) * (end - start);
      at += end - start - this.notch;
    }
    return this.start + at;
  }

  /** Zooms so that what is at `x` stays there. */
  zoom(factor, x = this.left + this.width / 2) {
    const part = (x - this.left) / this.width;
    const middle = this.from + part * (this.to - this.from);
    const span = Math.min(this.length, Math.max(5, (this.to - this.from) / factor));
    this.show(middle - part * span, span);
  }

  pan(pixels) {
    const span = this.to - this.from;
    this.show(this.from + (pixels / this.width) * span, span);
  }

  show(from, span) {
    this.from = Math.max(0, Math.min(from, this.length - span));
    this.to = this.from + span;
    this.zoomed = span < this.length * 0.999;
    if (!this.zoomed) this.whole();
  }

  whole() {
    this.zoomed = false;
    this.from = 0;
    this.to = this.length;
  }

  /** Where marks stand: round times since the start, none within a fold. */
  ticks() {
    const span = this.to - this.from;
    const step = roundStep((span / this.width) * 86);
    const ticks = [];
    const first = Math.ceil((this.time(this.left) - this.start) / step) * step;
    const last = this.time(this.left + this.width) - this.start;
    let at = first;
    for (let n = 0; at <= last && n < 200; n++) {
      const time = this.start + at;
      const fold = this.folds.find(({ start, end }) => time > start && time < end);
      if (fold) at = Math.ceil((fold.end - this.start) / step) * step;
      else {
        ticks.push({ at, x: this.x(time) });
        at += step;
      }
    }
    return ticks.filter((tick, i) => i === 0 || tick.x - ticks[i - 1].x > 30);
  }
}

function firstStart(task) {
  return task.rows.length ? task.steps.get(task.rows[0]).startedAt : 0;
}

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const STEPS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, SECOND, 2 * SECOND, 5 * SECOND, 10 * SECOND, 15 * SECOND, 30 * SECOND,
  MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, 24 * HOUR,
];

export function roundStep(least) {
  return STEPS.find((step) => step >= least) ?? Math.ceil(least / (24 * HOUR)) * 24 * HOUR;
}
