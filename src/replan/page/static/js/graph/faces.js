// What a card says, in words and numbers. Pure: `cards` draws it, and only what differs from what is there.

import { countStates, loudest } from "replan/graph/picture";

const DOTS = 5;

/** The tries of a step that are shown as dots: only where there was more than one. */
export function dotsOf(step) {
  if (step.items || step.tries.length < 2) return null;
  const states = step.tries.map((one) => (one.state === "none" ? "pending" : one.state));
  if (states.length <= DOTS) return states.map((state) => ({ state, count: 1 }));
  const last = states[states.length - 1];
  const failed = states.filter((state) => state === "failed" || state === "unknown").length;
  return last === "failed" ? [{ state: "failed", count: failed }] : [{ state: "failed", count: failed }, { state: last, count: 1 }];
}

/** How long a step has run, in ms; null where it has not begun. */
export function lasted(step, now) {
  if (!step.startedAt) return null;
  return Math.max(0, (step.endedAt || now) - step.startedAt);
}

export function isMoving(state) {
  return state === "running" || state === "recovering" || state === "waiting";
}

/**
 * @param {{t: (key: string, values?: object) => string, duration: (ms: number) => string}} words
 */
export function stepFace(step, now, words) {
  const { t, duration } = words;
  const state = step.state;
  const time = lasted(step, now);
  let sub = step.tool;
  let right = "";
  if (state === "recovering") sub = rungWords(step.rung, now, words) || sub;
  else if (state === "waiting") sub = t("state.waiting");
  else if (state === "skipped" || state === "cancelled") sub = t(`state.${state}`);
  if (step.items) {
    const { total, done, failed } = step.items;
    sub = `×${total}${sub ? ` · ${sub}` : ""}`;
    right = state === "running" || state === "recovering" ? `${done + failed}/${total}` : "";
  }
  if (!right && time !== null && state !== "waiting") right = duration(time);
  return { state, title: step.name || step.id, sub, right, dots: dotsOf(step), bar: null, label: stepLabel(step, time, words) };
}

export function rungWords(rung, now, { t, duration }) {
  if (!rung) return "";
  if (rung.kind !== "again") return t(`rung.${rung.kind}`);
  const left = Math.max(0, rung.until - now);
  return left > 0 ? t("rung.again_in", { time: duration(Math.ceil(left / 1000) * 1000) }) : t("rung.again");
}

/** For those who hear the page: all that the card shows, and how many it waits for. */
function stepLabel(step, time, { t, duration }) {
  const parts = [step.name || step.id, t(`state.${step.state}`), step.tool];
  if (step.tries.length > 1 && !step.items) parts.push(t("graph.tries", { count: step.tries.length }));
  if (step.items) parts.push(t("graph.items", { done: step.items.done, total: step.items.total }));
  // While it runs the label would change with each tick, and be read out each time.
  if (time !== null && !isMoving(step.state)) parts.push(duration(time));
  parts.push(t("graph.needs", { count: step.depends.length }));
  if (step.leftOut) parts.push(t("graph.left_out", { version: step.leftOut }));
  return parts.filter(Boolean).join(", ");
}

export function groupFace(task, node, words) {
  const counts = countStates(task, node.members);
  const state = loudest(counts);
  const named = node.byState ? words.t(`state.${node.label}`) : node.label;
  const title = named || words.t("graph.column", { number: node.layer + 1 });
  const said = counts.map(([one, count]) => `${count} ${words.t(`state.${one}`)}`).join(", ");
  return {
    state, title, sub: "", right: `×${node.members.length}`, dots: null, bar: counts, total: node.members.length,
    label: `${title}, ${words.t("graph.group", { count: node.members.length })}, ${said}`,
  };
}
