// When a step waited for something outside: a person's yes or answer, a callback, a time. Pure.

/**
 * @returns {{start: number, end: number, cause: "person" | "wait"}[]} those that are over and the one that is not, in no order
 */
export function waitsOf(task, step, now) {
  const waits = [];
  const until = task.ended || now;
  for (const note of task.notes) {
    if (note.since && note.step === step.id) waits.push({ start: note.since, end: note.at, cause: "person" });
  }
  for (const key of step.asks ?? []) {
    const asked = task.waiting.get(key);
    if (asked && asked.kind !== "wait") waits.push({ start: asked.at, end: until, cause: "person" });
  }
  for (const one of step.tries) {
    if (one.waited) waits.push({ start: one.waited, end: one.end || until, cause: one.wait === "question" ? "person" : "wait" });
  }
  return waits.filter(({ start, end }) => end >= start);
}
