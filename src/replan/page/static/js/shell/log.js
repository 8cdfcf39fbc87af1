// Every event, in order: searched by words, by kind, by step.
import { html, useState } from "replan/shell/dom";
import { has, span, t } from "replan/i18n";
import { Rows } from "replan/shell/rows";
import { Text } from "replan/shell/values";

const HEIGHT = 30;
const LINE = 400; // characters of a line that can be seen
const GROUPS = {
  steps: /^(step_|outcome_|wait_|callback_)/,
  calls: /^call_/,
  models: /^(llm_|tool_selection)/,
  plans: /^(plan|replanning|execution_mode|versions)/,
  people: /^(approval_|question_|hint_|retry_|judgement_|request_|pause_|resume_|cancel_|fork)/,
  rounds: /^(round_|evaluation|overall|reflection|budget)/,
  task: /^(task_|previous_)/,
};

export const wordOf = (type) => (has(`event.${type}`) ? t(`event.${type}`) : type);

const NOISE = new Set(["step_ready", "llm_call_completed", "request_taken", "execution_mode", "round_completed"]);

/** What an event is about, in a line. Words of models and tools are theirs. */
export function briefOf(task, event) {
  const data = event.data ?? {};
  const step = data.step_id ?? data.step?.step_id;
  const name = step ? (task.steps.get(step)?.name ?? step) : "";
  const more =
    data.error?.message ?? data.reason ?? data.text ?? data.hint ?? data.answer ?? data.question ?? data.failure?.reason ??
    (data.plan ? t("log.steps", { count: data.plan.steps.length }) : null) ??
    (data.role ? `${t(`role.${data.role}`)} · ${data.model ?? ""}` : null) ?? data.description ?? data.message ?? "";
  return { name, tool: data.tool_id ?? "", more: typeof more === "string" ? more : JSON.stringify(more) };
}

export function logOf(session, view, kind) {
  const words = view.logText.toLowerCase();
  const pattern = GROUPS[kind];
  const began = session.task.created;
  return session.events.filter((event) => {
    const at = event.ts * 1000 - began;
    if (view.range && (at < view.range[0] || at > view.range[1])) return false;
    if (pattern ? !pattern.test(event.type) : kind === "light" && NOISE.has(event.type)) return false;
    if (view.logStep && (event.data.step_id ?? event.data.step?.step_id) !== view.logStep) return false;
    return !words || `${event.type} ${wordOf(event.type)} ${JSON.stringify(event.data)}`.toLowerCase().includes(words);
  });
}

export function Log({ session, view, change, narrow }) {
  const [text, setText] = useState(view.logText);
  const kind = view.logKind || "light";
  const found = logOf(session, { ...view, logText: text }, kind);
  const { task } = session;
  const began = task.created;
  const older = session.events.length && session.events[0].seq > 1;
  const at = found.findIndex((event) => event.seq === view.event);
  const order = narrow ? (index) => found.length - 1 - index : (index) => index;
  return html`<div class="log">
    <div class="log-bar">
      <label class="field"><span class="sr">${t("log.search")}</span>
        <input type="search" placeholder=${t("log.search")} value=${text} onInput=${(event) => setText(event.target.value)} /></label>
      <label class="field"><span class="sr">${t("log.kind")}</span>
        <select value=${kind} onChange=${(event) => change({ type: event.target.value === "light" ? "" : event.target.value })}>
          ${["light", "all", ...Object.keys(GROUPS)].map((one) => html`<option value=${one}>${t(`log.kind.${one}`)}</option>`)}
        </select></label>
      ${view.range ? html`<button class="small num" onClick=${() => change({ range: "" })}>${span(view.range[0])} – ${span(view.range[1])} <span aria-hidden="true">✕</span><span class="sr">${t("log.range.clear")}</span></button>` : null}
      <span class="muted num">${t("log.count", { count: found.length })}</span>
      ${older ? html`<button class="small" onClick=${() => session.older()}>${t("log.older")}</button>` : null}
    </div>
    ${found.length
      ? html`<${Rows} count=${found.length} height=${HEIGHT} stick=${!narrow && !task.ended} label=${t("pane.log")} reveal=${at < 0 ? -1 : order(at)}
          row=${(index) => html`<${Line} key=${found[order(index)].seq} event=${found[order(index)]} task=${task} began=${began} chosen=${view.event} change=${change} index=${index} />`} />`
      : html`<p class="empty">${t("empty.log")}</p>`}
  </div>`;
}

function Line({ event, task, began, chosen, change, index }) {
  const { name, tool, more } = briefOf(task, event);
  const open = () => change({ event: String(event.seq) });
  const bad = /failed|rejected|unknown|timed_out/.test(event.type);
  return html`<div role="row" aria-rowindex=${index + 1} class=${`log-row${chosen === event.seq ? " chosen" : ""}${bad ? " bad" : ""}`} onClick=${open}>
    <span role="cell" class="l-time num">${span(Math.max(0, event.ts * 1000 - began))}</span>
    <span role="cell" class="l-type"><button class="link">${wordOf(event.type)}</button></span>
    <span role="cell" class="l-more"><b><${Text} text=${name} /></b> ${tool && tool !== name ? html`<span class="mono">${tool}</span>` : null} <${Text} text=${more.slice(0, LINE)} /></span>
  </div>`;
}
