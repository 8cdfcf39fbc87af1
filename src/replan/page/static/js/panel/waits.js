// What a task waits for from people, as it stands: what would be done, with what, and how to answer.
import { html } from "replan/shell/dom";
import { moment, t } from "replan/i18n";
import { Glyph } from "replan/shell/glyph";
import { Copy, Text, Value } from "replan/shell/values";
import { Chip } from "replan/panel/step";

/** Those that somebody has to answer, the oldest first. */
export const openOf = (task) => [...task.waiting].filter(([, one]) => one.kind === "approval" || one.kind === "question");

export function Waits({ session, select }) {
  const { task } = session;
  const open = openOf(task);
  if (!open.length && !task.halt?.until_resumed && !(task.pause && task.halt)) return null;
  if (!open.length) return html`<${Halted} task=${task} />`;
  const [id, one] = open[0];
  return html`<section class="card edge s-waiting" aria-labelledby="waits-title">
    <div class="panel-head"><${Glyph} state="waiting" size=${20} /><h2 id="waits-title">${one.kind === "approval" ? t("approval.title", { tool: one.tool_id }) : t("question.title")}</h2></div>
    ${one.kind === "approval" ? html`<${Approval} id=${id} one=${one} task=${task} />` : html`<${Question} id=${id} one=${one} task=${task} />`}
    ${one.step ? html`<p class="chips"><${Chip} step=${task.steps.get(one.step)} select=${select} /></p>` : null}
    ${open.length > 1 ? html`<p class="muted">${t("waits.more", { count: open.length - 1 })}</p>` : null}
  </section>`;
}

function Approval({ id, one, task }) {
  const command = `replan tasks approve ${task.id} ${id}`;
  return html`<p>${t(`approval.${one.effect}`)}</p>
    ${one.why ? html`<p class="said"><${Text} text=${one.why} /></p>` : null}
    <dl class="facts"><div><dt>${t("column.tool")}</dt><dd><span class="mono">${one.tool_id}</span> · ${t(`effect.${one.effect}`)}</dd></div></dl>
    <${Value} value=${one.parameters} />
    <p class="muted small">${t("approval.bound")}</p>
    <p>${t("waits.how")}</p><p class="code"><code>${command}</code><${Copy} value=${command} /></p>`;
}

function Question({ id, one, task }) {
  const command = `replan tasks answer ${task.id} ${id} "…"`;
  return html`<p class="lead"><${Text} text=${one.text} /></p>
    ${one.background ? html`<p class="muted"><${Text} text=${one.background} /></p>` : null}
    <p>${t("waits.how")}</p><p class="code"><code>${command}</code><${Copy} value=${command} /></p>`;
}

function Halted({ task }) {
  const command = `replan tasks resume ${task.id}`;
  return html`<section class="card edge s-waiting" aria-labelledby="waits-title">
    <div class="panel-head"><${Glyph} state="waiting" size=${20} /><h2 id="waits-title">${t(task.pause ? "now.paused" : `now.halt.${task.halt.because ?? "key"}`)}</h2></div>
    <p><${Text} text=${task.halt.reason} /></p>
    ${task.pause ? html`<p class="muted small">${moment(task.pause.at)}${task.pause.by ? ` · ${task.pause.by}` : ""}</p>` : null}
    <p>${t("waits.how")}</p><p class="code"><code>${command}</code><${Copy} value=${command} /></p>
  </section>`;
}
