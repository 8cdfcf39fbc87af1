// What decided how long the task took: how much of its critical path was work, and what the rest was.
import { html } from "replan/shell/dom";
import { span, t } from "replan/i18n";
import { criticalNow, sums } from "replan/critical";
import { Chip } from "replan/panel/step";

const CAUSES = ["model", "person", "wait", "retry", "place", "other"];
const LEAST = 50; // ms: less is nobody's concern
const MANY = 30;

export function Critical({ task, view, select }) {
  const found = criticalNow(task, view.now);
  if (!found.path.length) return null;
  const waited = sums(found.gaps);
  const whole = (task.ended || view.now) - (task.started || task.created);
  const gaps = Object.values(waited).reduce((sum, ms) => sum + ms, 0);
  const rows = [["worked", Math.max(0, whole - gaps)], ...CAUSES.map((cause) => [cause, waited[cause] ?? 0])].filter(([, ms]) => ms >= LEAST);
  return html`<h3>${t("critical.title")}</h3>
    <dl class="facts">${rows.map(([cause, ms]) => html`<div key=${cause}><dt>${t(`critical.${cause}`)}</dt><dd class="num">${span(ms)}</dd></div>`)}</dl>
    <details><summary>${t("critical.steps", { count: found.path.length })}</summary>
      <p class="chips">${found.path.slice(-MANY).map((id) => html`<${Chip} key=${id} step=${task.steps.get(id)} select=${select} />`)}</p></details>`;
}
