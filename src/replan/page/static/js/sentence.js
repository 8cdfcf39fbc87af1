// One plain line: what goes on, what is waited for, or how it has ended. Keys of words, so that each language says it its own way.

const names = (steps) => steps.slice(0, 2).map((step) => step.name).join(", ");

/** `{key, values}` for `t`. */
export function sentenceOf(task) {
  const asked = [...task.waiting.values()];
  const count = (kind) => asked.filter((one) => one.kind === kind).length;
  if (task.ended) return ending(task);
  if (task.pause && task.halt) return { key: "now.paused", values: {} };
  const approvals = count("approval");
  const questions = asked.filter((one) => one.kind === "question");
  if (approvals && questions.length) return { key: "now.both", values: { approvals, questions: questions.length } };
  if (count("review")) return { key: "now.review", values: {} };
  if (approvals) return { key: "now.approvals", values: { count: approvals } };
  if (questions.length) return { key: "now.questions", values: { count: questions.length } };
  if (task.halt?.until_resumed) return { key: `now.halt.${task.halt.because ?? "key"}`, values: {} };
  if (task.status === "queued") return { key: "now.queued", values: {} };
  if (task.status === "waiting") return { key: task.halt?.callbacks?.length ? "now.callback" : "now.time", values: {} };
  if (task.status === "evaluating") return { key: "now.judging", values: {} };
  if (task.status === "reflecting") return { key: "now.reflecting", values: {} };
  if (task.status === "replanning") return { key: "now.replanning", values: {} };
  if (!task.version) return { key: "now.planning", values: {} };
  return steps(task);
}

function steps(task) {
  const of = (state) => task.order.map((id) => task.steps.get(id)).filter((step) => !step.leftOut && step.state === state);
  const recovering = of("recovering");
  const running = of("running");
  if (recovering.length && !running.length) return { key: "now.recovering", values: { count: recovering.length, names: names(recovering) } };
  if (running.length > 2) return { key: "now.many", values: { count: running.length - 2, names: names(running) } };
  if (running.length) return { key: "now.running", values: { names: names(running) } };
  if (task.phases.at(-1) && !task.phases.at(-1).end) return { key: `now.model.${task.phases.at(-1).kind}`, values: {} };
  return { key: "now.between", values: {} };
}

function ending(task) {
  if (task.status === "succeeded") return { key: task.shortfall.length ? "now.shortfall" : "now.done", values: {} };
  return { key: `now.${task.status}`, values: {} };
}
