// The panel of the chosen step.
import { html, useEffect, useState } from "replan/shell/dom";
import { bytes, span, t } from "replan/i18n";
import { json, taskPath } from "replan/shell/api";
import { briefOf, wordOf } from "replan/shell/log";
import { Glyph } from "replan/shell/glyph";
import { timeOf, whyOf } from "replan/shell/steps";
import { Copy, Text, Value } from "replan/shell/values";
import { Tries } from "replan/panel/tries";
import { StepActs } from "replan/people/step";

const TABS = ["tries", "parameters", "output", "events"];
const SHOWN = 200;

export function StepPanel({ session, step, view, change, select }) {
  const { task } = session;
  const tab = TABS.includes(view.tab) ? view.tab : "tries";
  const needs = step.depends.map((id) => task.steps.get(id)).filter(Boolean);
  const needed = task.order.map((id) => task.steps.get(id)).filter((one) => one.depends.includes(step.id) && !one.leftOut);
  const why = whyOf(task, step);
  return html`<section class=${`card edge s-${step.state}`} aria-labelledby="panel-title">
    <div class="panel-head"><${Glyph} state=${step.state} size=${20} /><h2 id="panel-title" tabindex="-1"><${Text} text=${step.name} /></h2>
      <button class="quiet" aria-label=${t("panel.close")} onClick=${() => change({ step: "", tab: "" })}>✕</button></div>
    <p class="meta"><b>${t(`state.${step.state}`)}</b> · <span class="mono">${step.tool}</span>${step.effect ? ` · ${t(`effect.${step.effect}`)}` : ""}${timeOf(step, view.now) ? html` · <span class="num">${span(timeOf(step, view.now))}</span>` : null}</p>
    ${step.name !== step.id ? html`<p class="muted small mono">${step.id}</p>` : null}
    ${why ? html`<p><${Text} text=${why} />${step.why?.step ? html` <${Chip} step=${task.steps.get(step.why.step)} select=${select} />` : null}</p>` : null}
    ${step.strategy ? html`<p class="small">${t("step.broughtBy", { version: step.version, strategy: t(`strategy.${step.strategy}`) })}${step.replaces ? html` <${Chip} step=${task.steps.get(step.replaces)} select=${select} />` : null}</p>` : null}
    <${StepActs} session=${session} step=${step} />
    <div class="tabs" role="tablist" aria-label=${t("panel.step")}>
      ${TABS.map((one) => html`<button role="tab" id=${`tab-${one}`} aria-selected=${tab === one} aria-controls="panel-body" tabindex=${tab === one ? 0 : -1}
        onKeyDown=${(event) => arrows(event, tab, change)} onClick=${() => change({ tab: one === "tries" ? "" : one })}>${t(`tab.${one}`)}${one === "tries" && step.tries.length > 1 ? html` <span class="num">${step.tries.length}</span>` : null}</button>`)}
    </div>
    <div id="panel-body" role="tabpanel" aria-labelledby=${`tab-${tab}`} tabindex="0">
      ${tab === "tries" ? html`<${Tries} step=${step} now=${view.now} />` : null}
      ${tab === "parameters" ? html`<${Parameters} step=${step} />` : null}
      ${tab === "output" ? html`<${Output} key=${step.id} session=${session} step=${step} />` : null}
      ${tab === "events" ? html`<${Events} session=${session} step=${step} change=${change} />` : null}
    </div>
    ${needs.length ? html`<h3>${t("step.needs")}</h3><p class="chips">${needs.map((one) => html`<${Chip} key=${one.id} step=${one} select=${select} />`)}</p>` : null}
    ${needed.length ? html`<h3>${t("step.neededBy")}</h3><p class="chips">${needed.slice(0, 30).map((one) => html`<${Chip} key=${one.id} step=${one} select=${select} />`)}</p>` : null}
  </section>`;
}

function arrows(event, tab, change) {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!by) return;
  event.preventDefault();
  event.stopPropagation();
  const next = TABS[(TABS.indexOf(tab) + by + TABS.length) % TABS.length];
  change({ tab: next === "tries" ? "" : next });
  document.getElementById(`tab-${next}`)?.focus();
}

export function Chip({ step, select }) {
  if (!step) return null;
  return html`<button type="button" class="chip" onClick=${() => select(step.id)}><${Glyph} state=${step.state} size=${14} /><span><${Text} text=${step.name} /></span><span class="sr">, ${t(`state.${step.state}`)}</span></button>`;
}

function Parameters({ step }) {
  const plan = step.plan ?? {};
  const resolved = step.tries.findLast((one) => Object.keys(one.parameters ?? {}).length);
  return html`<h3>${t("parameters.plan")}</h3>
    ${plan.actions?.length
      ? plan.actions.map((action) => html`<div key=${action.action_id}><p class="mono">${action.action_id} · ${action.tool}</p><${Value} value=${action.parameters} /></div>`)
      : html`<${Value} value=${plan.parameters ?? {}} />`}
    ${["for_each", "when", "expected_output", "repeat_reason"].map((name) => plan[name] ? html`<p key=${name}><span class="muted">${t(`plan.${name}`)}</span> <${Text} text=${String(plan[name])} /></p>` : null)}
    ${resolved ? html`<h3>${t("parameters.resolved")}</h3><${Value} value=${resolved.parameters} />
      <p><${Copy} value=${resolved.parameters} /></p>` : null}`;
}

/** The output: small ones came with their event, large ones are read by piece. */
function Output({ session, step }) {
  const [state, setState] = useState({ pieces: [], next: 0 });
  const { task, readOnly } = session;
  const known = step.output;
  const stored = known && (known.href || known.artifact || known.composed);
  const load = async (offset) => {
    setState((before) => ({ ...before, loading: true }));
    try {
      const piece = await json(taskPath(task.id, `/steps/${encodeURIComponent(step.id)}/output?offset=${offset}`));
      setState((before) => ({ pieces: [...before.pieces, piece], next: piece.next_offset, total: piece.total, artifact: piece.artifact_id, media: piece.media_type }));
    } catch (error) {
      setState((before) => ({ ...before, error, loading: false }));
    }
  };
  useEffect(() => {
    if (stored && !readOnly) load(0);
  }, [step.id, Boolean(stored)]);
  if (!known) return html`<p class="muted">${t(step.endedAt ? "output.none" : "output.notYet")}</p>`;
  if ("preview" in known) return html`<${Value} value=${known.preview} /><p><${Copy} value=${known.preview} /></p>`;
  if (readOnly) return html`<${Kept} known=${known} step=${step} />`;
  if (state.error) return html`<p class="error">${state.error.message} <button class="link" onClick=${() => load(0)}>${t("action.again")}</button></p>`;
  if (!state.pieces.length) return html`<p class="muted">${t("loading")}</p>`;
  const text = state.pieces.map((piece) => piece.text).join("");
  const whole = state.next == null;
  return html`${whole && state.media === "application/json" ? html`<${Parsed} text=${text} />` : html`<pre class="raw"><${Text} text=${text} /></pre>`}
    <p class="muted small">${t("output.size", { size: bytes(text.length), total: bytes(state.total ?? text.length) })}</p>
    <p>${whole ? null : html`<button class="small" disabled=${state.loading} onClick=${() => load(state.next)}>${t("output.more")}</button> `}
      <${Copy} value=${text} />${state.artifact ? html` <a class="button small" href=${`/api/v1${taskPath(task.id, `/artifacts/${encodeURIComponent(state.artifact)}`)}`} download>${t("output.file")}</a>` : null}</p>`;
}

function Parsed({ text }) {
  let value = text;
  try {
    value = JSON.parse(text);
  } catch {
    // shown as it came
  }
  return html`<${Value} value=${value} />`;
}

function Kept({ known, step }) {
  if (known.artifact) return html`<pre class="raw"><${Text} text=${known.artifact.head} />${known.artifact.tail ? "\n…\n" : ""}<${Text} text=${known.artifact.tail ?? ""} /></pre>
    <p class="muted small">${t("output.cutHere", { total: bytes(known.artifact.size) })}</p>`;
  const parts = [...step.latest.values()].filter((one) => one.output && "preview" in one.output).slice(0, SHOWN);
  return html`<${Value} value=${parts.map((one) => one.output.preview)} />`;
}

function Events({ session, step, change }) {
  const found = session.events.filter((event) => (event.data.step_id ?? event.data.step?.step_id) === step.id);
  if (!found.length) return html`<p class="muted">${t("empty.log")}</p>`;
  const began = session.task.created;
  return html`<ul class="plain">${found.slice(-SHOWN).map((event) => html`<li key=${event.seq}>
    <button class="link" onClick=${() => change({ event: String(event.seq), step: "" })}><span class="num muted">${span(event.ts * 1000 - began)}</span> ${wordOf(event.type)}</button>
    <span class="muted small"> <${Text} text=${briefOf(session.task, event).more.slice(0, 160)} /></span></li>`)}</ul>
    <p><button class="small" onClick=${() => change({ pane: "log", q: "" })}>${t("tab.allEvents")}</button></p>`;
}
