// What a person can do about one step.
import { html, useState } from "replan/shell/dom";
import { t } from "replan/i18n";
import { Act } from "replan/forms/sending";
import { offOf, ReasonDialog } from "replan/people/doing";
import { beforeStep, ForkDialog } from "replan/people/fork";

export function StepActs({ session, step }) {
  const [asked, ask] = useState(null);
  const { task } = session;
  if (session.readOnly || step.leftOut) return null;
  const off = offOf(session);
  const close = () => ask(null);
  const failed = step.status === "failed";
  const at = beforeStep(session, step);
  if (!failed && !at) return null;
  const again = failed && task.ended ? { retry: [step.id] } : null;
  return html`<p class="buttons acts">
    ${failed ? html`<${Act} kind="small" off=${off} why=${off} act=${() => ask(again ? "again" : "retry")}>${t("act.retry")}<//>` : null}
    ${at ? html`<${Act} kind="small" off=${off} why=${off} act=${() => ask("fork")}>${t("act.forkHere")}<//>` : null}
    ${asked === "retry" ? html`<${ReasonDialog} session=${session} what="retry" path=${`steps/${encodeURIComponent(step.id)}/retry`} close=${close} />` : null}
    ${asked === "again" ? html`<${ForkDialog} session=${session} begin=${again} close=${close} />` : null}
    ${asked === "fork" ? html`<${ForkDialog} session=${session} begin=${{ at }} close=${close} />` : null}
  </p>`;
}
