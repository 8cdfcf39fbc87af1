// What people are asked, what they say, and what they ask for.
import { forget, leaveAll, reopen } from "replan/fold/plans";
import { keepAsked } from "replan/fold/steps";

function noted(task, kind, data, at, seq, marked) {
  task.notes.push({ ...data, at, seq, kind });
  marked.add("*");
}

function wish(task, data, at, marked, { seq, type }) {
  task.wishes.set(data.request_id, { type, data, at, seq });
  if (task.halt && !task.halt.paused && type !== "hint_given") task.halt = null;
  if (type === "hint_given") noted(task, "hint", { text: data.hint, by: data.by, request: data.request_id }, at, seq, marked);
}

function openVerdict(task) {
  task.score = null;
}

export const people = {
  approval_requested(task, data, at, marked) {
    const step = task.steps.get(data.step_id);
    for (const [id, one] of task.waiting) if (one.kind === "approval" && one.call_key === data.call_key) forget(task, step, id);
    task.waiting.set(data.approval_id, { ...data, kind: "approval", at, step: data.step_id });
    if (data.effect) task.effects[data.tool_id] = data.effect;
    if (step) {
      step.asks.add(data.approval_id);
      step.effect = step.effect ?? data.effect;
    }
    marked.add(data.step_id).add("*");
  },
  approval_resolved(task, data, at, marked, { seq, ended }) {
    if (ended) return;
    task.halt = null;
    const asked = task.waiting.get(data.approval_id);
    if (!asked) return;
    forget(task, task.steps.get(asked.step), data.approval_id);
    const { approved, reason, by, parameters } = data;
    const about = { step: asked.step, tool: asked.tool_id, since: asked.at };
    noted(task, "approval", { approved, reason, by, parameters, ...about }, at, seq, marked);
    marked.add(asked.step);
  },
  approval_expired(task, data, at, marked) {
    forget(task, task.steps.get(data.step_id), data.approval_id);
    marked.add(data.step_id).add("*");
  },
  question_asked(task, data, at, marked) {
    const asked = { ...data, kind: "question", about: data.kind, at, step: data.step_id ?? null };
    task.waiting.set(data.question_id, asked);
    if (data.kind === "question") keepAsked(task, data.call_key, data.question_id, asked);
    task.steps.get(data.step_id)?.asks.add(data.question_id);
    if (data.step_id) marked.add(data.step_id);
    marked.add("*");
  },
  question_answered(task, data, at, marked, { seq, ended }) {
    if (ended) return;
    task.halt = null;
    const asked = task.waiting.get(data.question_id);
    if (!asked) return;
    forget(task, task.steps.get(asked.step), data.question_id);
    task.asked.get(asked.call_key)?.delete(data.question_id);
    const about = { question: asked.text, step: asked.step, since: asked.at };
    noted(task, "answer", { text: data.answer, by: data.by, ...about }, at, seq, marked);
    if (asked.step) marked.add(asked.step);
  },
  plan_review_requested(task, data, at, marked) {
    for (const [id, one] of task.waiting) if (one.kind === "review") task.waiting.delete(id);
    task.waiting.set(data.review_id, { ...data, kind: "review", at, step: null });
    marked.add("*");
  },
  plan_reviewed(task, data, at, marked, { seq, ended }) {
    if (ended) return;
    task.halt = null;
    if (!task.waiting.delete(data.review_id)) return;
    noted(task, "approval", { approved: data.approved, reason: data.reason, by: data.by }, at, seq, marked);
  },
  plan_review_expired(task, data, at, marked) {
    task.waiting.delete(data.review_id);
    marked.add("*");
  },
  callback_received(task, data, at, marked, { ended }) {
    if (!ended && task.halt && !task.halt.until_resumed) task.halt = null;
    marked.add("*");
  },
  task_waiting(task, data, at, marked) {
    task.halt = { ...data, at };
    marked.add("*");
  },
  pause_requested(task, data, at, marked, { seq }) {
    if (!task.pause || (data.now && !task.pause.now)) task.pause = { at, reason: data.reason, by: data.by, now: data.now };
    noted(task, "pause", { text: data.reason, by: data.by }, at, seq, marked);
  },
  resume_requested(task, data, at, marked, { seq }) {
    task.pause = null;
    if (task.halt?.paused) task.halt = null;
    noted(task, "resume", { text: data.reason, by: data.by }, at, seq, marked);
  },
  cancel_requested(task, data, at, marked, { seq }) {
    task.cancel = { at, reason: data.reason, by: data.by };
    task.halt = null;
    noted(task, "cancel", { text: data.reason, by: data.by }, at, seq, marked);
  },
  hint_given: wish,
  retry_requested: wish,
  judgement_requested: wish,
  request_taken(task, data, at, marked) {
    const asked = task.wishes.get(data.request_id);
    task.wishes.delete(data.request_id);
    if (!asked || data.refused) return;
    if (asked.type === "retry_requested") retry(task, [asked.data.step_id], marked);
    if (asked.type !== "hint_given") openVerdict(task);
    marked.add("*");
  },
  task_forked(task, data, at, marked, { seq }) {
    task.origin = { task: data.origin, at: data.at };
    task.created = at;
    task.started = task.ended = 0;
    task.pause = task.halt = task.cancel = null;
    task.wishes.clear();
    task.usage = { calls: 0, tokens: 0, cost: 0, tool_calls: 0 };
    Object.assign(task.budget, data.policy?.budget);
    if (data.plan) {
      leaveAll(task, at, marked);
      openVerdict(task);
    }
    if (data.retry?.length) retry(task, data.retry, marked);
    if (data.judge) openVerdict(task);
    noted(task, "fork", { text: data.hint || data.reason, by: data.by, origin: data.origin, from: data.at }, at, seq, marked);
  },
};

function retry(task, ids, marked) {
  reopen(task, ids.filter((id) => task.steps.get(id)?.status === "failed"), marked);
  openVerdict(task);
}
