// A value by its schema: as fields, or as JSON.
import { useId } from "preact/hooks";
import { html, useState } from "replan/shell/dom";
import { t } from "replan/i18n";
import { lineAt, Unread } from "replan/forms/exact";
import { Field, Fields, Json } from "replan/forms/fields";
import { kindOf, resolved } from "replan/forms/schema";
import { Text } from "replan/shell/values";

/** `faults`: of `check`; `fixed(path)`: what cannot be changed here; `name`: of the value as a whole. */
export function SchemaForm({ schema, value, set, faults = [], fixed, name }) {
  const [asJson, setAsJson] = useState(false);
  const id = useId();
  const form = { root: schema, faults, fixed };
  const one = resolved(schema);
  const kind = kindOf(one);
  const only = kind === "json";
  const whole = faults.filter((fault) => !fault.path.length && !(value instanceof Unread));
  return html`<div class="form">
    ${only ? null : html`<p class="f-switch"><button type="button" class="link small" disabled=${value instanceof Unread} aria-pressed=${asJson} onClick=${() => setAsJson(!asJson)}>${t(asJson ? "form.asFields" : "form.asJson")}</button></p>`}
    ${asJson || only
      ? html`<label class="f-label" for=${id}>${name ?? "JSON"}</label><${Json} value=${value} set=${set} rows=${10} said=${{ id, "aria-invalid": faults.length ? "true" : undefined, "aria-describedby": faults.length ? `${id}-bad` : undefined }} />
        ${faults.length ? html`<ul id=${`${id}-bad`} class="error small">${faults.map((fault) => html`<li><${Text} text=${sentence(fault, value)} /></li>`)}</ul>` : null}`
      : kind === "object"
        ? html`<${Fields} form=${form} schema=${one} path=${[]} value=${value} set=${set} depth=${0} />${whole.length ? html`<p class="error small">${whole.map((fault) => t(fault.key, fault.values)).join(" ")}</p>` : null}`
        : html`<${Field} form=${form} schema=${one} name=${name} path=${[]} value=${value} set=${set} required=${true} />`}
  </div>`;
}

function sentence(fault, value) {
  if (value instanceof Unread) return t("form.bad.line", { line: lineAt(value.text, value.at) });
  return `${fault.path.join(".")}${fault.path.length ? ": " : ""}${t(fault.key, fault.values)}`;
}
