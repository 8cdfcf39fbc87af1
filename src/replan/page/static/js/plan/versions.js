// What one version of a plan changed against the one before: which steps, and of each which fields. Pure.

const OWN = new Set(["step_id"]);

/** @returns {{version: number, before: number, at: number, changes: {id: string, name: string, kind: "added" | "changed" | "removed", fields: {name: string, before: unknown, after: unknown}[]}[]} | null} */
export function changesOf(task, number = null) {
  const at = number == null ? task.versions.length - 1 : task.versions.findIndex((one) => one.version === number);
  if (at < 1) return null;
  const [older, newer] = [task.versions[at - 1], task.versions[at]];
  const changes = [];
  for (const [id, step] of newer.planned) {
    const was = older.planned.get(id);
    const name = step.name || id;
    if (!was) changes.push({ id, name, kind: "added", fields: [] });
    else {
      const fields = fieldsOf(was, step);
      if (fields.length) changes.push({ id, name, kind: "changed", fields });
    }
  }
  for (const [id, step] of older.planned) {
    if (!newer.planned.has(id)) changes.push({ id, name: step.name || id, kind: "removed", fields: [] });
  }
  return { version: newer.version, before: older.version, at: newer.at, changes };
}

function fieldsOf(was, is) {
  const fields = [];
  for (const name of new Set([...Object.keys(was), ...Object.keys(is)])) {
    if (OWN.has(name) || JSON.stringify(was[name]) === JSON.stringify(is[name])) continue;
    fields.push({ name, before: was[name], after: is[name] });
  }
  return fields;
}
