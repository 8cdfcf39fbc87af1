// Which steps a search and the chips of states leave, in graph, Gantt and list alike.

/** @param filter {{states?: Iterable<string>, text?: string}} of the view */
export function isFiltering(filter) {
  return Boolean(filter && (filter.text?.trim() || [...(filter.states ?? [])].length));
}

export function matcher(filter) {
  const states = new Set(filter?.states ?? []);
  const words = (filter?.text ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  return (step) => {
    if (states.size && !states.has(step.state)) return false;
    if (!words.length) return true;
    const text = `${step.id} ${step.name} ${step.tool}`.toLowerCase();
    return words.every((word) => text.includes(word));
  };
}

/** The ids of all steps that match, in the order of the plan. */
export function found(task, filter) {
  const matches = matcher(filter);
  return task.order.filter((id) => matches(task.steps.get(id)));
}

/** The one after `id` of those found, or before it; round from the last to the first. */
export function nextFound(ids, id, back = false) {
  if (!ids.length) return null;
  const at = ids.indexOf(id);
  if (at < 0) return back ? ids[ids.length - 1] : ids[0];
  return ids[(at + (back ? ids.length - 1 : 1)) % ids.length];
}

/** All of a view by which a whole picture is another one, as one word; not the time, which has its own pace. */
export function lookKey(view) {
  const { filter, open } = view;
  const plain = ["selected", "version", "diff", "groupBy", "theme", "language", "critical"].map((name) => view[name] ?? "");
  return JSON.stringify([...plain, filter?.text ?? "", [...(filter?.states ?? [])], [...(open ?? [])]]);
}
