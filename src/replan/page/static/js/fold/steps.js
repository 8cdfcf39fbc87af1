// What the events of steps and of their calls add to a task.
import { forget, reopen } from "replan/fold/plans";
import { isClosed } from "replan/fold/state";

const READING = "verify:"; // of a call that is made to find out about another
const POLLING = "poll:"; // of one that a wait makes

const placeOf = (data) => `${data.action_id ?? ""}\u0000${data.index ?? ""}`;
const kindOf = (data) =>
  data.action_id?.startsWith(READING) ? "reading" : data.action_id?.startsWith(POLLING) ? "poll" : "call";

function setState(step, one, state) {
  if (step.items && one.counts) {
    if (one.state === "running" || one.state === "waiting") step.items.running -= 1;
    else if (one.state === "done") step.items.done -= 1;
    else if (one.state === "failed" || one.state === "unknown") step.items.failed -= 1;
    if (state === "running" || state === "waiting") step.items.running += 1;
    else if (state === "done") step.items.done += 1;
    else if (state === "failed" || state === "unknown") step.items.failed += 1;
  }
  one.state = state;
}

function addTry(step, data, at, more) {
  const place = placeOf(data);
  const before = step.latest.get(place);
  if (before?.counts && step.items) {
    setState(step, before, "none");
    before.state = before.settled ?? "failed";
    before.counts = false;
  }
  const one = {
    n: step.tries.length + 1,
    start: at,
    end: 0,
    state: "none",
    tool: data.tool_id ?? "",
    parameters: data.parameters ?? {},
    error: null,
    retryAt: 0,
    proposal: null,
    decidedBy: null,
    key: data.call_key ?? null,
    attempt: data.attempt ?? 1,
    action: data.action_id ?? null,
    item: data.index ?? null,
    reused: false,
    place,
    counts: step.items !== null,
    ...more,
  };
  step.tries.push(one);
  step.latest.set(place, one);
  return one;
}

function finish(step, one, at, state) {
  setState(step, one, state);
  one.settled = state;
  one.end = at;
}

function outputOf(data) {
  if (data.artifact) return { artifact: data.artifact, size: data.artifact.size };
  if (data.output?.left_out) return { href: data.output.href, size: data.output.bytes };
  return { preview: data.output };
}

function started(task, data, at, marked) {
  task.usage.tool_calls += 1;
  marked.add("*");
  const step = task.steps.get(data.step_id);
  if (!step) return;
  const kind = kindOf(data);
  if (kind === "reading") {
    step.readings.push({ key: data.call_key, at, end: 0, tool: data.tool_id, parameters: data.parameters, error: null });
  }
  if (kind !== "call") return;
  if (data.effect) task.effects[data.tool_id] = data.effect;
  step.effect = step.effect ?? data.effect;
  const one = addTry(step, data, at, { effect: data.effect });
  setState(step, one, "running");
  task.calls.set(data.call_key, { step: step.id, one });
  for (const [id, asked] of task.asked.get(data.call_key) ?? []) {
    // it was cut off while it waited, and goes on with that
    task.waiting.set(id, asked);
    step.asks.add(id);
  }
  rowOf(task, step, at);
  marked.add(step.id);
}

function rowOf(task, step, at) {
  if (step.rowed) return;
  step.rowed = true;
  step.startedAt = step.startedAt || at;
  task.rows.push(step.id);
}

function completed(task, data, at, marked) {
  const step = task.steps.get(data.step_id);
  marked.add(data.step_id);
  const kind = kindOf(data);
  if (kind === "reading") return readingEnded(step, data, at, null);
  if (kind === "poll") return undefined;
  if (data.reused && !data.of_task) {
    if (step) {
      const one = addTry(step, data, at, { reused: true });
      finish(step, one, at, "done");
      one.output = outputOf(data);
      step.failing.delete(one.place);
    }
    return undefined;
  }
  const call = task.calls.get(data.call_key);
  if (!call) return undefined;
  if (data.of_task) {
    task.usage.tool_calls -= 1;
    call.one.reused = true;
    call.one.ofTask = data.of_task;
  }
  succeeded(task, call, data, at, marked);
  return undefined;
}

function succeeded(task, { step: id, one }, data, at, marked) {
  task.calls.delete(one.key);
  const step = task.steps.get(id);
  if (!step) return;
  finish(step, one, at, "done");
  one.output = outputOf(data);
  one.error = null;
  step.failing.delete(one.place);
  step.doubts.delete(one.key);
  if (!step.failing.size) step.rung = null;
  forget(task, step, one.key);
  marked.add(id).add("*");
}

function readingEnded(step, data, at, error) {
  const reading = step?.readings.findLast((one) => one.key === data.call_key);
  if (reading) Object.assign(reading, { end: at, error, output: error ? null : outputOf(data) });
}

function failed(task, data, at, marked) {
  const step = task.steps.get(data.step_id);
  marked.add(data.step_id);
  const kind = kindOf(data);
  if (kind === "reading") return readingEnded(step, data, at, data.error);
  const call = task.calls.get(data.call_key);
  if (kind === "poll" || !call || !step) return undefined;
  const { one } = call;
  if (data.error?.kind === "repeated" && data.retry_in_secs != null) {
    // another task has made it, and the plan means the effect once more: another call is made in its place
    task.usage.tool_calls -= 1;
    task.calls.delete(one.key);
    finish(step, one, at, "failed");
    one.error = data.error;
    step.latest.delete(one.place);
    return undefined;
  }
  finish(step, one, at, "failed");
  one.error = data.error;
  forget(task, step, one.key);
  step.failing.add(one.place);
  if (data.retry_in_secs != null) {
    one.retryAt = at + data.retry_in_secs * 1000;
    step.rung = { kind: "again", at, until: one.retryAt };
  } else {
    step.rung = { kind: "thinks", at, until: 0 };
  }
  return undefined;
}

/** What a call waits for is known by its key until that is answered: it may be cut off, and begin again. */
export function keepAsked(task, key, id, asked) {
  if (!task.asked.has(key)) task.asked.set(key, new Map());
  task.asked.get(key).set(id, asked);
}

const RUNGS = {
  retry_with_params: "parameters",
  retry_with_tool: "tool",
  repair_step: "anew",
  verify_outcome: "verifies",
  replan: "replan",
  trigger_overall_reflection: "replan",
};

function reflected(task, data, at, marked) {
  const step = task.steps.get(data.step_id);
  if (!step) return;
  const place = placeOf(data);
  let one = step.tries.findLast((each) => each.place === place && each.end);
  if (!one || (one.proposal && data.fresh)) {
    // no call could be made: what was meant stands for one
    one = addTry(step, data, at, { state: "none" });
    finish(step, one, at, "failed");
    one.error = data.error;
  }
  one.proposal = data.proposal ?? null;
  one.refused = data.first_proposal ?? null;
  one.violations = data.violations ?? [];
  one.done = data.action;
  one.decidedBy = data.by;
  one.reason = data.reason ?? "";
  one.error = one.error ?? data.error;
  step.rung = { kind: RUNGS[data.action?.type] ?? "thinks", at, until: 0 };
  if (step.rung.kind === "parameters" || step.rung.kind === "tool") step.latest.delete(place);
  if (!isClosed(step)) step.failing.add(place);
  marked.add(step.id);
}

function close(task, step, status, at, marked) {
  step.status = status;
  step.endedAt = at;
  step.rung = step.progress = null;
  step.failing.clear();
  marked.add(step.id).add("*");
}

export const steps = {
  step_ready(task, data, at, marked) {
    const step = task.steps.get(data.step_id);
    if (!step || step.leftOut) return;
    if (step.status === "pending") step.status = "ready";
    step.readyAt = at;
    marked.add(step.id);
  },
  step_started(task, data, at, marked) {
    const step = task.steps.get(data.step_id);
    if (!step || step.leftOut) return;
    if (isClosed(step)) {
      step.error = step.why = null;
      step.endedAt = 0;
    }
    step.status = "running";
    step.items = data.items == null ? null : { total: data.items, done: 0, failed: 0, running: 0 };
    if (step.items) for (const one of step.latest.values()) recount(step, one);
    rowOf(task, step, at);
    step.readyAt = step.readyAt || at;
    marked.add(step.id).add("*");
  },
  call_started: started,
  call_completed: completed,
  call_failed: failed,
  wait_started(task, data, at, marked) {
    const step = task.steps.get(data.step_id);
    const call = task.calls.get(data.call_key);
    if (!step || !call) return;
    setState(step, call.one, "waiting");
    call.one.waited = call.one.waited || at;
    call.one.wait = data.kind;
    const until = data.until == null ? 0 : data.until * 1000;
    const wait = { ...data, kind: "wait", wait: data.kind, at, until, step: step.id };
    task.waiting.set(data.call_key, wait);
    keepAsked(task, data.call_key, data.call_key, wait);
    step.asks.add(data.call_key);
    marked.add(step.id).add("*");
  },
  outcome_unknown(task, data, at, marked) {
    const call = task.calls.get(data.call_key);
    const step = task.steps.get(data.step_id);
    if (!call || !step) return;
    forget(task, step, data.call_key);
    finish(step, call.one, at, "unknown");
    call.one.doubt = data.reason;
    step.doubts.add(data.call_key);
    task.waiting.set(data.call_key, { ...data, kind: "doubt", at, step: step.id });
    marked.add(step.id).add("*");
  },
  outcome_settled(task, data, at, marked) {
    const call = task.calls.get(data.call_key);
    if (!call || call.one.state !== "unknown") return;
    const step = task.steps.get(call.step);
    task.waiting.delete(data.call_key);
    for (const [id, one] of task.waiting) if (one.call_key === data.call_key) forget(task, step, id);
    if (!step) return;
    step.doubts.delete(data.call_key);
    call.one.settledBy = data.by;
    if (data.happened) {
      const at_ = call.one.end;
      succeeded(task, call, data, Math.max(at_, data.at ? data.at * 1000 : 0), marked);
    } else {
      finish(step, call.one, call.one.end, "failed");
      if (step.latest.get(call.one.place) === call.one) step.latest.delete(call.one.place);
    }
    if (step.status === "failed") reopen(task, [step.id], marked);
    marked.add(step.id).add("*");
  },
  step_progress(task, data, at, marked) {
    const step = task.steps.get(data.step_id);
    if (step) step.progress = data;
    marked.add(data.step_id);
  },
  step_completed(task, data, at, marked) {
    const step = task.steps.get(data.step_id);
    if (!step || step.leftOut) return;
    close(task, step, "succeeded", at, marked);
    step.failedItems = data.failed_items ?? [];
    const last = step.tries.findLast((one) => one.output);
    step.output = step.latest.size === 1 && last ? last.output : { composed: true };
  },
  step_failed(task, data, at, marked) {
    const step = task.steps.get(data.step_id);
    if (!step || step.leftOut) return;
    close(task, step, "failed", at, marked);
    step.error = data.error;
  },
  step_skipped(task, data, at, marked) {
    const step = task.steps.get(data.step_id);
    if (!step || step.leftOut) return;
    close(task, step, "skipped", at, marked);
    step.why = { kind: data.kind, step: data.because ?? null, reason: data.reason };
  },
  step_reflected: reflected,
};

function recount(step, one) {
  const state = one.state;
  one.state = "none";
  one.counts = true;
  setState(step, one, state);
}
