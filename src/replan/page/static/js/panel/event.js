// One event, whole.
import { html, useState } from "replan/shell/dom";
import { moment, t } from "replan/i18n";
import { wordOf } from "replan/shell/log";
import { Copy, Value } from "replan/shell/values";
import { Act } from "replan/forms/sending";
import { offOf } from "replan/people/doing";
import { ForkDialog } from "replan/people/fork";

export function EventPanel({ session, seq, change }) {
  const [forking, fork] = useState(false);
  const event = session.events.find((one) => one.seq === seq);
  if (!event) return html`<section class="card"><p class="muted">${t("event.away", { seq })}</p></section>`;
  const off = offOf(session);
  const go = (by) => change({ event: String(seq + by) });
  return html`<section class="card" aria-labelledby="event-title">
    <div class="panel-head"><h2 id="event-title">${wordOf(event.type)}</h2>
      <button class="quiet" aria-label=${t("panel.close")} onClick=${() => change({ event: "" })}>✕</button></div>
    <p class="muted small"><span class="mono">${event.type}</span> · <span class="num">${event.seq}</span> · ${moment(event.ts * 1000)}</p>
    <${Value} value=${event.data} />
    <p class="buttons"><button class="small" disabled=${seq <= 1} onClick=${() => go(-1)}>${t("event.before")}</button>
      <button class="small" disabled=${seq >= session.task.seq} onClick=${() => go(1)}>${t("event.after")}</button> <${Copy} value=${event} />
      ${session.readOnly ? null : html`<${Act} kind="small" off=${off} why=${off} act=${() => fork(true)}>${t("act.forkHere")}<//>`}</p>
    ${forking ? html`<${ForkDialog} session=${session} begin=${{ at: seq }} close=${() => fork(false)} />` : null}
  </section>`;
}
