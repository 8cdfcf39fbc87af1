// What a version of the plan changed, field by field.
import { html } from "replan/shell/dom";
import { has, t } from "replan/i18n";
import { Text, Value } from "replan/shell/values";
import { Chip } from "replan/panel/step";
import { changesOf } from "replan/plan/versions";

const SIGNS = { added: "+", changed: "~", removed: "−" };
const MANY = 100;

export function Changes({ task, view, select, only = null }) {
  const found = changesOf(task, view.version);
  if (!found) return null;
  const shown = only ? found.changes.filter((one) => one.id === only) : found.changes;
  if (only && !shown.length) return null;
  return html`<section class="card" aria-labelledby="changes-title">
    <h2 id="changes-title">${t("changes.title", { version: found.version })}</h2>
    ${shown.length ? null : html`<p>${t("changes.none")}</p>`}
    <ul class="plain changes">${shown.slice(0, MANY).map((one) => html`<li key=${one.id}>
      <p><b class="change-sign">${SIGNS[one.kind]}</b> <${Chip} step=${task.steps.get(one.id)} select=${select} /> <span class="muted small">${t(`changes.${one.kind}`)}</span></p>
      ${one.fields.map((field) => html`<${Field} key=${field.name} field=${field} />`)}</li>`)}</ul>
  </section>`;
}

function Field({ field }) {
  const key = `changes.field.${field.name}`;
  return html`<dl class="change">
    <dt>${has(key) ? t(key) : html`<span class="mono"><${Text} text=${field.name} /></span>`}</dt>
    <dd><span class="muted small">${t("changes.before")}</span> <${Value} value=${field.before ?? null} depth=${1} /></dd>
    <dd><span class="muted small">${t("changes.after")}</span> <${Value} value=${field.after ?? null} depth=${1} /></dd>
  </dl>`;
}
