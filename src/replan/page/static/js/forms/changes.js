// What is otherwise in one value than in another, to be read before it is sent.
import { html } from "replan/shell/dom";
import { t } from "replan/i18n";
import { same, write } from "replan/forms/exact";
import { Text } from "replan/shell/values";

const AROUND = 40;
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** `{path, before, after}` of each place; `undefined` where there is none. */
export function changesOf(before, after, path = []) {
  if (same(before, after)) return [];
  const both = isObject(before) && isObject(after) ? [before, after] : null;
  if (!both && Array.isArray(before) && Array.isArray(after) && before.length === after.length) {
    return before.flatMap((one, index) => changesOf(one, after[index], [...path, index]));
  }
  if (!both) return [{ path, before, after }];
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...names].flatMap((name) => changesOf(before[name], after[name], [...path, name]));
}

/** The part of two texts that is not the same, with a little around it. */
export function apart(before, after) {
  let head = 0;
  const most = Math.min(before.length, after.length);
  while (head < most && before[head] === after[head]) head += 1;
  let tail = 0;
  while (tail < most - head && before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail += 1;
  return {
    lead: before.slice(Math.max(0, head - AROUND), head),
    before: before.slice(head, before.length - tail),
    after: after.slice(head, after.length - tail),
    rest: before.slice(before.length - tail, before.length - tail + AROUND),
    cutLead: head > AROUND,
    cutRest: tail > AROUND,
  };
}

export function Changes({ before, after }) {
  const found = changesOf(before, after);
  if (!found.length) return html`<p class="muted">${t("edit.none")}</p>`;
  return html`<dl class="changes" aria-label=${t("edit.title")}>${found.map((one) => html`<div key=${one.path.join("/")}>
    <dt class="mono"><${Text} text=${one.path.join(".")} /></dt><dd><${Change} ...${one} /></dd></div>`)}</dl>`;
}

function Change({ before, after }) {
  if (typeof before === "string" && typeof after === "string") {
    const { lead, before: old, after: now, rest, cutLead, cutRest } = apart(before, after);
    return html`<p class="v-text">${cutLead ? "…" : ""}<${Text} text=${lead} />${old ? html`<del><span class="sr">${t("edit.was")} </span><${Text} text=${old} /></del>` : null}${now ? html`<ins><span class="sr">${t("edit.now")} </span><${Text} text=${now} /></ins>` : null}<${Text} text=${rest} />${cutRest ? "…" : ""}</p>`;
  }
  const said = (value) => (typeof value === "string" ? value : write(value, 1));
  return html`<p class="v-text">${before === undefined ? null : html`<del><span class="sr">${t("edit.was")} </span><${Text} text=${said(before)} /></del> `}
    ${after === undefined ? html`<ins>${t("edit.leftOut")}</ins>` : html`<ins><span class="sr">${t("edit.now")} </span><${Text} text=${said(after)} /></ins>`}</p>`;
}
