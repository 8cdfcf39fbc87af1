// The ladder of a step: each try, what it was called with, what came of it, and who decided what was done then.
import { html, useState } from "replan/shell/dom";
import { span, t } from "replan/i18n";
import { Glyph } from "replan/shell/glyph";
import { Text, Value } from "replan/shell/values";

const STATE = { running: "running", done: "done", failed: "failed", waiting: "waiting", unknown: "unknown", none: "pending" };
const MOST = 60;

/** How it came to this try, of the one before it. */
export function rungOf(one, before) {
  if (one.reused) return one.ofTask ? "rung.ofTask" : "rung.reused";
  if (!before) return "rung.first";
  const action = before.done?.type;
  if (action === "retry_with_params") return "rung.parameters";
  if (action === "retry_with_tool") return "rung.tool";
  if (action === "repair_step") return "rung.anew";
  if (before.tool !== one.tool) return "rung.tool";
  return "rung.same";
}

/** What of the parameters is otherwise than in the try before. */
export function changed(one, before) {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(one ?? {})])];
  return names.filter((name) => JSON.stringify(one?.[name]) !== JSON.stringify(before?.[name]));
}

export function Tries({ step, now }) {
  const [most, setMost] = useState(MOST);
  const before = new Map();
  const rows = step.tries.map((one) => {
    const earlier = before.get(one.place);
    before.set(one.place, one);
    return { one, earlier };
  });
  // of many items those that went wrong come first: they are what is looked for
  if (step.items) rows.sort((a, b) => (a.one.state === "failed" ? 0 : 1) - (b.one.state === "failed" ? 0 : 1));
  if (!rows.length) return html`<p class="muted">${t("tries.none")}</p>`;
  return html`<ol class="tries">
    ${rows.slice(0, most).map(({ one, earlier }) => html`<${Try} key=${one.n} one=${one} before=${earlier} now=${now} />`)}
    ${step.readings.map((one) => html`<li key=${one.key}><${Glyph} state=${one.error ? "failed" : one.end ? "done" : "running"} /><div>
      <div><span class="mono">${one.tool}</span> · ${t("rung.reading")}</div>
      ${one.error ? html`<div class="error-text"><${Text} text=${one.error.message} /></div>` : null}</div></li>`)}
  </ol>
  ${rows.length > most ? html`<button class="small" onClick=${() => setMost(most * 4)}>${t("value.rest", { count: rows.length - most })}</button>` : null}`;
}

function Try({ one, before, now }) {
  const [open, setOpen] = useState(false);
  const took = one.start ? (one.end || now) - one.start : 0;
  const fields = before && before.tool === one.tool ? changed(one.parameters, before.parameters) : [];
  const place = [one.action, one.item == null ? null : t("try.item", { number: one.item + 1 })].filter(Boolean).join(", ");
  return html`<li class=${`try s-${STATE[one.state]}`}><${Glyph} state=${one.reused ? "reused" : STATE[one.state]} /><div>
    <div><b class="num">${one.n}.</b> <span class="mono">${one.tool}</span>${place ? html` <span class="muted">${place}</span>` : null}
      ${" · "}${t(`try.${one.state === "done" && one.reused ? "reused" : one.state}`)}${took ? html` · <span class="num">${span(took)}</span>` : null}</div>
    <div class="muted small">${t(rungOf(one, before))}${before?.decidedBy && before.done ? ` · ${t(`by.${before.decidedBy}`)}` : ""}</div>
    ${fields.length ? html`<dl class="diff">${fields.map((name) => html`<div key=${name}><dt class="mono">${name}</dt><dd>
      ${name in (before.parameters ?? {}) ? html`<del><${Value} value=${before.parameters[name]} depth=${2} /></del>` : null}
      ${name in (one.parameters ?? {}) ? html` <ins><${Value} value=${one.parameters[name]} depth=${2} /></ins>` : null}</dd></div>`)}</dl>` : null}
    ${one.error ? html`<div class="error-text"><${Text} text=${one.error.message} /></div>` : null}
    ${one.error ? html`<div class="muted small">${[t(`category.${one.error.category}`), one.error.status ? `HTTP ${one.error.status}` : "", one.error.happened === "unknown" && one.effect !== "reads" ? t("try.mayHave") : ""].filter(Boolean).join(" · ")}</div>` : null}
    ${one.doubt ? html`<div class="small"><${Text} text=${one.doubt} /></div>` : null}
    ${one.state === "failed" && one.retryAt > now ? html`<div class="small num">${t("try.again", { time: span(one.retryAt - now) })}</div>` : null}
    ${one.done ? html`<div class="small">${t(`action.${one.done.type}`)} · ${t(`by.${one.decidedBy ?? "code"}`)}${one.reason ? html`: <${Text} text=${one.reason} />` : null}</div>` : null}
    ${one.proposal?.root_cause ? html`<div class="said"><${Text} text=${one.proposal.root_cause} /></div>` : null}
    ${one.violations?.length ? html`<div class="small">${t("try.refused")}: <${Text} text=${one.violations.join("; ")} /></div>` : null}
    ${Object.keys(one.parameters ?? {}).length ? html`<button class="link small" aria-expanded=${open} onClick=${() => setOpen(!open)}>${t("tab.parameters")}</button>` : null}
    ${open ? html`<${Value} value=${one.parameters} depth=${1} />` : null}
  </div></li>`;
}
