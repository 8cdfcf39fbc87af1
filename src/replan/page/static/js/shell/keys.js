// Keys of a task's page. Single letters can be switched off; none of them acts or destroys.
import { isField } from "replan/shell/dom";
import { PANES } from "replan/panes";
import { pref } from "replan/shell/prefs";
import { filtered } from "replan/shell/steps";

const JUMPS = { f: ["failed", "unknown"], w: ["waiting"], r: ["running", "recovering"] };

export const KEYS = [
  ["← →", "keys.across"], ["↑ ↓", "keys.along"], ["Enter", "keys.enter"], ["Esc", "keys.escape"], ["/", "keys.find"],
  ["f w r", "keys.jump"], ["c d", "keys.marks"], ["+ − 0", "keys.zoom"], ["Space", "keys.group"], ["Shift+T", "keys.tidy"], ["[ ]", "keys.versions"], ["1–4", "keys.panes"], ["F6", "keys.areas"], ["?", "keys.help"],
];

/** Listens until what it gives is called. */
export function stepKeys({ task, view, select, change, narrow }) {
  const heard = (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "F6") return areas(event);
    if (isField(event.target)) return event.key === "Escape" ? event.target.blur() : undefined;
    const act = actionOf(event, task, view(), select, change, narrow);
    if (!act) return undefined;
    event.preventDefault();
    return act();
  };
  addEventListener("keydown", heard);
  return () => removeEventListener("keydown", heard);
}

function actionOf(event, task, view, select, change) {
  const { key } = event;
  if (key === "Escape" && (view.selected || view.event)) return () => change({ step: "", event: "", tab: "" });
  if (key === "Enter" && view.selected && !(event.target instanceof HTMLButtonElement)) return () => document.getElementById("panel-title")?.focus();
  if (event.target.closest?.("[role=tablist], [role=menu], .picture, summary")) return null;
  if (key === "ArrowDown" || key === "ArrowUp") return along(task, view, key === "ArrowDown" ? 1 : -1, select);
  if (key === "ArrowLeft" || key === "ArrowRight") return across(task, view, key === "ArrowRight", select);
  if (!pref("letters", true)) return null;
  if (key === "/") return () => document.getElementById("find")?.focus();
  if (key in JUMPS) return jump(task, view, JUMPS[key], select);
  if (key === "c") return () => change({ critical: view.critical ? "0" : "" });
  if (key === "d") return () => change({ diff: view.diff ? "" : "1" });
  if (key === "[" || key === "]") return version(task, view, key === "]" ? 1 : -1, change);
  const pane = PANES[Number(key) - 1];
  return pane ? () => change({ pane: pane.id }) : null;
}

const choose = (view, id, select) => (id && id !== view.selected ? () => select(id) : null);

function along(task, view, by, select) {
  const steps = filtered(task, view);
  const at = steps.findIndex((step) => step.id === view.selected);
  const next = steps[at < 0 ? (by > 0 ? 0 : steps.length - 1) : at + by];
  return choose(view, next?.id, select);
}

function across(task, view, forward, select) {
  const step = task.steps.get(view.selected);
  if (!step) return null;
  if (!forward) return choose(view, step.depends[0], select);
  return choose(view, task.order.find((id) => task.steps.get(id).depends.includes(step.id)), select);
}

function jump(task, view, states, select) {
  const found = task.order.filter((id) => states.includes(task.steps.get(id).state));
  if (!found.length) return null;
  return choose(view, found[(found.indexOf(view.selected) + 1) % found.length], select);
}

function version(task, view, by, change) {
  const next = Math.min(task.version, Math.max(1, (view.version || task.version) + by));
  return () => change({ v: next === task.version ? "" : String(next) });
}

const AREAS = [".top", ".head", ".pane-body", ".side", ".bottom-tabs"];

function areas(event) {
  event.preventDefault();
  const found = AREAS.map((name) => document.querySelector(name)).filter(Boolean);
  const at = found.findIndex((area) => area.contains(document.activeElement));
  const next = found[(at + (event.shiftKey ? -1 : 1) + found.length) % found.length];
  next?.querySelector("button, a, input, select, [tabindex='0']")?.focus();
}
