// How a step is shown, of what is known of it; and how many are shown so.

const OVER = { succeeded: 1, failed: 1, skipped: 1 };
const ENDED = { succeeded: 1, failed: 1, cancelled: 1, timed_out: 1 };

export const isClosed = (step) => step.status in OVER;

export function newStep(id) {
  return {
    id,
    name: id,
    tool: "",
    effect: null,
    depends: [],
    version: 1, // the plan that brought it, as it is
    leftOut: false,
    replaces: null,
    strategy: "", // how the plan was made that brought it
    plan: null, // as the plan has it
    status: "pending", // the service's own word
    state: "pending", // as it is shown
    readyAt: 0,
    startedAt: 0,
    endedAt: 0,
    tries: [],
    readings: [], // made to find out about a call in doubt
    items: null,
    output: null,
    error: null,
    why: null, // {step, reason, kind}: skipped or waiting because of
    rung: null, // {kind, at, until}: what recovery is at
    progress: null, // {message, progress, total}: stored nowhere
    latest: new Map(), // by place: the latest try there
    failing: new Set(), // places whose latest try has failed, and that are not given up
    asks: new Set(), // what of `task.waiting` is the step's
    doubts: new Set(),
  };
}

export function settleState(task, step) {
  if (!step) return;
  const before = step.leftOut ? null : step.counted;
  step.state = stateOf(task, step);
  const now = step.leftOut ? null : step.state;
  step.counted = now;
  if (before === now) return;
  if (before) task.counts[before] -= 1;
  if (now) task.counts[now] = (task.counts[now] ?? 0) + 1;
}

/** Before a step is left out it stands no longer among those of the plan. */
export function uncount(task, step) {
  if (step.counted) task.counts[step.counted] -= 1;
  step.counted = null;
}

function stateOf(task, step) {
  if (step.status === "succeeded") return isReused(step) ? "reused" : "done";
  if (step.status === "skipped") return step.why?.kind === "ended" ? "cancelled" : "skipped";
  if (step.doubts.size && !step.asks.size) return "unknown";
  if (step.status === "failed") return step.error?.kind === "cancelled" ? "cancelled" : "failed";
  if (task.status in ENDED) return "cancelled";
  if (step.asks.size) return "waiting";
  if (step.failing.size) return "recovering";
  return step.status;
}

function isReused(step) {
  if (!step.latest.size) return false;
  for (const one of step.latest.values()) if (!one.reused) return false;
  return true;
}
