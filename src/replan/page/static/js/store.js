// A task as its events tell it: one fold, the same for the page and for an exported file. Nothing here knows the DOM.
// All times are milliseconds of the server's clock.
import { people } from "replan/fold/people";
import { plans } from "replan/fold/plans";
import { settleState } from "replan/fold/state";
import { steps } from "replan/fold/steps";
import { whole } from "replan/fold/task";

const HANDLERS = { ...whole, ...plans, ...steps, ...people };
const ENDS = {
  task_completed: "succeeded",
  task_failed: "failed",
  task_cancelled: "cancelled",
  task_timed_out: "timed_out",
};
const BRINGS = {
  task_forked: "queued",
  task_started: "planning",
  plan_generated: "executing",
  plan_updated: "executing",
  overall_reflection_triggered: "reflecting",
  replanning_started: "replanning",
  task_waiting: "waiting",
  approval_resolved: "executing",
  plan_reviewed: "executing",
  callback_received: "executing",
  question_answered: "reflecting",
  ...ENDS,
};
const STATUSES = new Set([...Object.values(BRINGS), "evaluating"]);
// What anybody may write into the log, also when the task has ended: then it changes nothing.
const SIGNALS = new Set([
  "approval_resolved", "plan_reviewed", "question_answered", "callback_received", "cancel_requested", "pause_requested",
  "resume_requested", "hint_given", "retry_requested", "judgement_requested", "fork_made",
]);
export const ENDED = new Set(Object.values(ENDS));
export const STATES = [
  "failed", "unknown", "waiting", "recovering", "running", "ready", "pending", "done", "reused", "skipped", "cancelled",
];

export function newTask(id = "") {
  return {
    id,
    seq: 0,
    status: "queued",
    description: "",
    session: null,
    created: 0,
    started: 0,
    ended: 0,
    last: 0, // of the latest event
    round: 0,
    rounds: [], // {round, at}: when each began
    score: null,
    failure: null,
    shortfall: [],
    output: null, // {value} or {artifact} or {left_out}
    budget: {},
    usage: { calls: 0, tokens: 0, cost: 0, tool_calls: 0 },
    versions: [],
    version: 0,
    steps: new Map(),
    order: [],
    rows: [],
    waiting: new Map(),
    cancel: null, // {at, reason, by}: somebody wants it to end
    pause: null, // {at, reason, by}: a person has paused it
    halt: null, // what `task_waiting` said last, as long as it holds
    notes: [],
    phases: [],
    progress: "", // a sentence for people, which is stored nowhere
    mode: null, // {mode, reason}: how the plan is run
    origin: null, // {task, at}: it is a fork
    effects: {}, // of the tools that its plans call
    counts: {}, // steps of the plan, by state
    calls: new Map(), // calls that have no result: key → {step, try, ...}
    asked: new Map(), // what calls wait for, by their keys
    wishes: new Map(),
  };
}

/** Takes one event; which steps it has touched, by id, and '*' where the head of the page is another one by it. */
export function apply(task, event) {
  const marked = new Set();
  const { seq, type, data = {} } = event;
  if (seq && seq <= task.seq) return marked; // it was here before
  const at = event.ts * 1000;
  if (seq) {
    task.seq = seq;
    task.last = Math.max(task.last, at);
    task.id = task.id || event.task_id;
  }
  const ended = ENDED.has(task.status);
  const status = statusOf(type, data);
  if (status && !(SIGNALS.has(type) && ended)) {
    task.status = status;
    marked.add("*");
  }
  const handle = HANDLERS[type];
  if (handle) handle(task, data, at, marked, { seq, type, ended });
  if (ENDED.has(task.status) && !ended) for (const step of task.steps.values()) marked.add(step.id);
  for (const id of marked) if (id !== "*") settleState(task, task.steps.get(id));
  return marked;
}

function statusOf(type, data) {
  if (type === "llm_call_started") {
    if (data.schema_name === "overall_reflection") return "reflecting";
    return data.role === "evaluation" ? "evaluating" : null;
  }
  if (type === "task_resumed") return STATUSES.has(data.status) ? data.status : null;
  if (type === "question_answered" && data.step_id != null) return "executing";
  return BRINGS[type] ?? null;
}

/** The steps of the plan as it is, and those of earlier plans that were left out where `all` is said. */
export function stepsOf(task, all = false) {
  const found = task.order.map((id) => task.steps.get(id));
  return all ? found : found.filter((step) => !step.leftOut);
}
