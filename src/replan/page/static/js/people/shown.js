// A call as it would be made: each value whole or folded, with where it comes from.
import { html } from "replan/shell/dom";
import { t } from "replan/i18n";
import { resolved } from "replan/forms/schema";
import { holdsMask } from "replan/people/reading";
import { Text, Value } from "replan/shell/values";

const WORDS = ["item", "index", "metadata", "task", "previous"];

export function Call({ parameters, schema, hidden = {}, origins = {} }) {
  const names = Object.keys(parameters ?? {});
  if (!names.length) return html`<p class="muted">${t("call.nothing")}</p>`;
  const root = resolved(schema ?? {});
  return html`<dl class="call">${names.map((name) => {
    const title = resolved(root.properties?.[name] ?? {}, schema).title;
    return html`<div key=${name}><dt><${Text} text=${title ?? name} />${title && title !== name ? html`<span class="mono small block"><${Text} text=${name} /></span>` : null}</dt>
      <dd><${Value} value=${parameters[name]} />${hidden[name] && holdsMask(parameters[name]) ? html` <span class="mono muted small">#${hidden[name]}</span>` : null}
        ${origins[name] ? html`<span class="muted small block">${origins[name].map((one) => t("call.source", { name: nameOf(one) })).join(", ")}</span>` : null}</dd></div>`;
  })}</dl>`;
}

const nameOf = ({ head, step }) => step?.name ?? (WORDS.includes(head) ? t(`call.of.${head}`) : head);

/** Which of the items of a step it is for. */
export function Item({ number, value }) {
  if (number == null) return null;
  return html`<div><dt>${t("call.item", { number })}</dt><dd><${Value} value=${value} depth=${1} /></dd></div>`;
}
