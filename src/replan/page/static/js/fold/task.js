// The task as a whole: handed in, driven, asked of models, judged, ended.

const KINDS = { selection: "select", planning: "plan", evaluation: "judge", reflection: "reflect", step: "step" };

function ended(task, data, at, marked) {
  task.ended = at;
  task.failure = data.failure ?? null;
  if (data.score != null) task.score = data.score;
  task.shortfall = data.shortfall ?? [];
  if (data.artifact) task.output = { artifact: data.artifact };
  else if (data.final_output?.left_out) task.output = data.final_output;
  else if (data.final_output != null) task.output = { value: data.final_output };
  for (const phase of task.phases) if (!phase.end) phase.end = at;
  for (const step of task.steps.values()) {
    step.asks.clear();
    for (const one of step.tries) if (!one.end) one.end = at;
  }
  for (const [id, one] of task.waiting) if (one.kind !== "doubt") task.waiting.delete(id);
  task.halt = null;
  task.progress = "";
  marked.add("*");
}

function note(kind) {
  return (task, data, at, marked, { seq }) => {
    task.notes.push({ ...data, at, seq, kind });
    marked.add("*");
  };
}

export const whole = {
  task_submitted(task, data, at, marked) {
    task.description = data.description ?? "";
    task.created = at;
    task.session = data.context?.session_id ?? null;
    task.budget = { ...data.policy?.budget };
    task.interactive = Boolean(data.policy?.interactive);
    task.by = data.by ?? "";
    marked.add("*");
  },
  task_started(task, data, at, marked) {
    task.started = task.started || at;
    if (task.halt?.until_resumed) task.halt = null;
    marked.add("*");
  },
  task_resumed(task, data, at, marked) {
    task.started = task.started || at;
    if (task.halt && (task.halt.until_resumed || task.halt.until != null)) task.halt = null;
    for (const phase of task.phases) if (!phase.end) Object.assign(phase, { end: at, lost: true });
    marked.add("*");
  },
  round_started(task, data, at, marked) {
    task.round = data.round;
    task.rounds.push({ round: data.round, at });
    marked.add("*");
  },
  llm_call_started(task, data, at, marked) {
    task.usage.calls += 1;
    const kind = KINDS[data.role] ?? data.role;
    task.phases.push({ kind, start: at, end: 0, model: data.model, id: data.call_id, attempt: data.attempt, schema: data.schema_name });
    marked.add("*");
  },
  llm_token(task, data, at, marked) {
    const phase = task.phases.findLast((one) => one.id === data.call_id);
    if (phase) phase.chars = (phase.chars ?? 0) + (data.text?.length ?? 0);
    marked.add("*");
  },
  llm_call_completed(task, data, at, marked) {
    const used = data.usage ?? {};
    task.usage.calls += Math.max(0, (used.llm_calls ?? 0) - 1);
    task.usage.tokens += (used.input_tokens ?? 0) + (used.output_tokens ?? 0);
    task.usage.cost += used.cost_usd ?? 0;
    const phase = task.phases.findLast((one) => one.id === data.call_id && !one.end);
    if (phase) Object.assign(phase, { end: at, error: data.error ?? null });
    marked.add("*");
  },
  execution_mode(task, data, at, marked) {
    task.mode = { mode: data.mode, reason: data.reason };
    marked.add("*");
  },
  progress_update(task, data, at, marked) {
    task.progress = data.message ?? "";
    marked.add("*");
  },
  tool_selection_completed: note("selection"),
  evaluation_completed(task, data, at, marked, { seq }) {
    const found = data.evaluation;
    if (found && found.overall_score != null) task.score = found.overall_score;
    task.notes.push({ ...data, at, seq, kind: "evaluation" });
    marked.add("*");
  },
  overall_reflection_triggered: note("escalation"),
  reflection_completed: note("reflection"),
  replanning_started: note("replanning"),
  budget_warning: note("budget"),
  fork_made: note("forked"),
  task_completed: ended,
  task_failed: ended,
  task_cancelled: ended,
  task_timed_out: ended,
};
