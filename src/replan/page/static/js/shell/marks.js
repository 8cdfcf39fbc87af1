// What is marked in graph and Gantt: the critical path, what a version changed; and by what steps are grouped where they are many.
import { html } from "replan/shell/dom";
import { t } from "replan/i18n";
import { MANY } from "replan/graph/picture";

const GROUPS = ["tool", "layer", "state", "none"];

export function Marks({ task, view, change }) {
  return html`
    ${task.order.length > MANY ? html`<label class="field small">${t("marks.group")} <select value=${view.groupBy || "tool"} onChange=${(event) => change({ group: event.target.value === "tool" ? "" : event.target.value })}>
      ${GROUPS.map((one) => html`<option key=${one} value=${one}>${t(`marks.group.${one}`)}</option>`)}</select></label>` : null}
    <button class="mark critical" aria-pressed=${view.critical} onClick=${() => change({ critical: view.critical ? "0" : "" })}><span class="mark-line" aria-hidden="true"></span>${t("marks.critical")}</button>
    ${task.versions.length > 1 ? html`<button class="mark" aria-pressed=${view.diff} onClick=${() => change({ diff: view.diff ? "" : "1" })}>± ${t("marks.diff")}</button>` : null}`;
}
