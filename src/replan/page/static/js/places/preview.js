// What a task would do: its plan, what it would change, what it would ask for, and what it may take.
import { html } from "replan/shell/dom";
import { money, number, span, t } from "replan/i18n";
import { Act } from "replan/forms/sending";
import { Text, Value } from "replan/shell/values";

export function Preview({ found, begin, off }) {
  return html`<section class="card preview" aria-labelledby="preview-title" aria-live="polite">
    <h2 id="preview-title">${t("preview.title")}</h2>
    <${Outlook} plan=${found.plan} found=${found} />
    <p class="buttons"><${Act} kind="primary" off=${off} act=${begin}>${t("preview.begin")}<//></p>
    <p class="muted small">${t("preview.nothing")}</p>
  </section>`;
}

/** A plan, and what it would do as far as that is known before. */
export function Outlook({ plan, found }) {
  const steps = plan.steps ?? [];
  const critical = new Set(found.critical_path);
  const asked = new Set(found.approvals);
  const names = new Map(steps.map((step) => [step.step_id, step.name || step.step_id]));
  const nameOf = (id) => names.get(id) ?? id;
  return html`${plan.reasoning ? html`<p><${Text} text=${plan.reasoning} /></p>` : null}
    <dl class="facts">
      <div><dt>${t("preview.tools")}</dt><dd class="num">${number(found.tool_calls)}${found.open_items.length ? html` <span class="muted small">${t("preview.atLeast", { names: found.open_items.map(nameOf).join(", ") })}</span>` : null}</dd></div>
      <div><dt>${t("preview.models")}</dt><dd class="num">${number(found.model_calls)}</dd></div>
      <div><dt>${t("preview.time")}</dt><dd class="num">${found.estimated_secs == null ? t("preview.unknownTime") : span(found.estimated_secs * 1000)}</dd></div>
      <div><dt>${t("preview.cost")}</dt><dd class="num">${found.estimated_cost_usd == null ? t("preview.unknownCost") : money(found.estimated_cost_usd)}</dd></div>
    </dl>
    <h3>${t("preview.effects")}</h3>
    ${found.effects.length ? html`<ul>${found.effects.map((one) => html`<li><${Text} text=${one} /></li>`)}</ul>` : html`<p>${t("preview.noEffects")}</p>`}
    <h3>${t("preview.steps", { count: steps.length })}</h3>
    <ol class="preview-steps">${steps.map((step) => html`<li key=${step.step_id}><b><${Text} text=${step.name || step.step_id} /></b> <span class="mono small muted">${step.tool ?? (step.actions ?? []).map((one) => one.tool).join(", ")}</span>
      ${asked.has(step.step_id) ? html` <span class="tag s-waiting">${t("preview.asks")}</span>` : null}${critical.has(step.step_id) ? html` <span class="tag critical">${t("preview.critical")}</span>` : null}
      ${step.dependencies?.length ? html`<span class="muted small block">${t("preview.after", { names: step.dependencies.map(nameOf).join(", ") })}</span>` : null}
      ${Object.keys(step.parameters ?? {}).length ? html`<details><summary>${t("tab.parameters")}</summary><${Value} value=${step.parameters} /></details>` : null}</li>`)}</ol>`;
}
