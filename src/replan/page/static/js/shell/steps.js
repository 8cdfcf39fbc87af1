// All steps as a table: the whole of what graph and Gantt show, for everybody.
import { html } from "replan/shell/dom";
import { found } from "replan/plan/filter";
import { span, t } from "replan/i18n";
import { Glyph } from "replan/shell/glyph";
import { Rows } from "replan/shell/rows";
import { Text } from "replan/shell/values";

export const HEIGHT = 40;
const HEIGHT_NARROW = 58;

export const timeOf = (step, now) => (step.startedAt ? (step.endedAt || now) - step.startedAt : 0);

/** Why it stands still, in a few words. */
export function whyOf(task, step) {
  const name = (id) => task.steps.get(id)?.name ?? id;
  if (step.leftOut) return t("step.leftOut", { version: step.leftOut });
  if (step.state === "waiting") {
    const asked = [...step.asks].map((id) => task.waiting.get(id)).filter(Boolean);
    const kind = asked.find((one) => one.kind !== "wait")?.kind ?? `wait.${asked[0]?.wait ?? "time"}`;
    return t(`waits.${kind}`);
  }
  if (step.state === "recovering" && step.rung) return t(`rung.${step.rung.kind}`);
  if (step.why?.step) return t(`why.${step.why.kind}`, { name: name(step.why.step) });
  if (step.why) return t(`why.${step.why.kind}.alone`);
  if (step.error) return step.error.message;
  if (step.state === "pending") {
    const open = step.depends.filter((id) => !["done", "reused", "skipped"].includes(task.steps.get(id)?.state));
    if (open.length) return t("step.waitsFor", { names: open.slice(0, 2).map(name).join(", "), count: open.length });
  }
  if (step.progress?.message) return step.progress.message;
  return "";
}

export function itemsOf(step) {
  return step.items ? `${step.items.done}/${step.items.total}` : "";
}

/** The steps that the filter lets through: by state, by words. */
export function filtered(task, view) {
  return found(task, view.filter).map((id) => task.steps.get(id));
}

export function Steps({ task, view, narrow, select }) {
  const steps = filtered(task, view);
  if (!steps.length) return html`<${Nothing} task=${task} view=${view} />`;
  const at = steps.findIndex((step) => step.id === view.selected);
  const head = narrow ? null : html`<div class="rows-head step-row" role="row">
    ${["state", "name", "tool", "tries", "time", "why"].map((name) => html`<span role="columnheader" class=${`c-${name}`}>${t(`column.${name}`)}</span>`)}
  </div>`;
  return html`<${Rows} count=${steps.length} height=${narrow ? HEIGHT_NARROW : HEIGHT} label=${t("pane.steps")} reveal=${at} head=${head} marks=${narrow ? 0 : 1}
    row=${(index) => html`<${Row} key=${steps[index].id} task=${task} step=${steps[index]} view=${view} select=${select} index=${index} narrow=${narrow} />`} />`;
}

function Row({ task, step, view, select, index, narrow }) {
  const chosen = view.selected === step.id;
  const tries = step.tries.length;
  const time = timeOf(step, view.now);
  const why = whyOf(task, step);
  const name = html`<button class="link step-name" aria-current=${chosen ? "true" : undefined}>
    <span class=${step.leftOut ? "gone" : ""}><${Text} text=${step.name} /></span></button>`;
  const state = html`<${Glyph} state=${step.state} /><span class="state-word">${t(`state.${step.state}`)}</span>`;
  return html`<div role="row" aria-rowindex=${index + 2} class=${`step-row s-${step.state}${chosen ? " chosen" : ""}`} onClick=${() => select(step.id)}>
    <span role="cell" class="c-state">${state}</span>
    <span role="cell" class="c-name">${name}${step.items ? html` <span class="items num">×${itemsOf(step)}</span>` : null}</span>
    <span role="cell" class="c-tool mono">${step.tool}</span>
    <span role="cell" class="c-tries num">${tries > 1 ? t("tries.count", { count: tries }) : ""}</span>
    <span role="cell" class="c-time num">${time ? span(time) : ""}</span>
    <span role="cell" class="c-why" title=${narrow ? undefined : why}><${Text} text=${why} /></span>
  </div>`;
}

function Nothing({ task, view }) {
  const filter = view.filter.states.size || view.filter.text;
  if (task.order.length && filter) return html`<p class="empty">${t("empty.filter")}</p>`;
  if (task.ended) return html`<p class="empty">${t("empty.noSteps")}</p>`;
  const phase = task.phases.findLast((one) => !one.end);
  return html`<p class="empty">${phase ? t("empty.planning", { time: span(view.now - phase.start) }) : t("empty.noPlan")}</p>`;
}
