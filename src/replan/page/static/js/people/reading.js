// What is read of the service before somebody answers: values without loss, and the tools.
import { useEffect, useState } from "replan/shell/dom";
import { parse } from "replan/forms/exact";
import { call, taskPath } from "replan/shell/api";

export async function exactly(path) {
  return parse(await (await call(path)).text());
}

const partPath = (task, kind, id) => taskPath(task, `/${kind}/${encodeURIComponent(id)}`);
export const approvalPath = (task, id) => partPath(task, "approvals", id);
export const questionPath = (task, id) => partPath(task, "questions", id);

/** What is at that address, read once for each address: `{found}` or `{error}`; `again()` reads it anew. */
export function useRead(path) {
  const [state, setState] = useState({});
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    let over = false;
    setState({});
    if (path) exactly(path).then((found) => over || setState({ path, found }), (error) => over || setState({ path, error }));
    return () => {
      over = true;
    };
  }, [path, turn]);
  const current = state.path === path ? state : {};
  return { ...current, again: () => setTurn((count) => count + 1) };
}

const MASK = "***";

/** Whether a secret stands in it, which is shown to nobody. */
export function holdsMask(value) {
  if (typeof value === "object" && value !== null) return Object.values(value).some(holdsMask);
  return value === MASK;
}

const HEAD = /^(?:\$\{=?|\{\{)\s*([A-Za-z_][\w-]*)/;

/** The steps that values come from, by parameter: of the references that the plan has there. */
export function originsOf(sources, steps) {
  const found = {};
  for (const [name, references] of Object.entries(sources ?? {})) {
    const heads = references.map((one) => HEAD.exec(one)?.[1]).filter(Boolean);
    if (heads.length) found[name] = [...new Set(heads)].map((head) => ({ head, step: steps?.get(head) ?? null }));
  }
  return found;
}
