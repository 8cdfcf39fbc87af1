// A plan that waits for a yes before any step of it starts. The yes goes with the hash of just that plan.
import { html, useEffect, useState } from "replan/shell/dom";
import { moment, t } from "replan/i18n";
import { Changes } from "replan/forms/changes";
import { same, Unread, write } from "replan/forms/exact";
import { Json } from "replan/forms/fields";
import { Act, byKeys, meant, useAwake, useSend, Wrong } from "replan/forms/sending";
import { Gone } from "replan/people/approval";
import { useRead } from "replan/people/reading";
import { Outlook } from "replan/places/preview";
import { call, taskPath } from "replan/shell/api";
import { Glyph } from "replan/shell/glyph";
import { Text } from "replan/shell/values";

export function Review({ task, id, gone: became = null, off = "", readOnly = false, done, children }) {
  const [mode, setMode] = useState("look");
  const [draft, setDraft] = useState(null);
  const [reason, setReason] = useState("");
  const read = useRead(became || readOnly ? null : taskPath(task, "/waiting"));
  const [kept, keep] = useState(null); // as it was read, also once it is gone
  useEffect(() => {
    const found = (read.found ?? []).find((one) => one.waiting_for.kind === "review" && one.waiting_for.id === id && one.review);
    if (found) keep(found);
  }, [read.found]);
  const plan = kept?.review.plan;
  const awake = useAwake(`${id} ${kept?.hash ?? ""} ${mode}`);
  const [state, send, clear] = useSend();
  const gone = state.sending || state.done ? null : became;
  const still = gone || off || !kept || !awake || state.sending || state.done;
  const why = off || (kept ? "" : t("loading"));
  const ready = mode === "edit" ? draft && !(draft instanceof Unread) && !same(draft, plan) : mode !== "reject" || reason.trim() !== "";

  const go = (next) => {
    clear();
    setMode(next);
    if (next === "edit" && !draft) setDraft(plan);
  };
  const submit = (event) => {
    if (!meant(event) || still || !ready) return;
    const body = mode === "reject" ? { approved: false, hash: kept.hash, reason: reason.trim() } : { approved: true, hash: kept.hash, ...(mode === "edit" ? { plan: draft } : {}) };
    send(async () => {
      await call(taskPath(task, `/plans/${kept.review.version}/review`), { method: "POST", body, text: write(body) });
      done?.(id);
    });
  };
  const expires = kept?.expires ?? kept?.waiting_for.expires;
  return html`<form class="card edge s-waiting ask review" aria-labelledby=${`ask-${id}`} onSubmit=${submit} onKeyDown=${byKeys}>
    <div class="panel-head"><${Glyph} state="waiting" size=${20} /><h2 id=${`ask-${id}`} class="ask-title" tabindex="-1">${t("review.title", { version: kept?.review.version ?? "" })}</h2></div>
    <p class="lead">${t("review.about")}</p>
    ${expires ? html`<p class="muted small">${t("approval.until")} ${moment(expires * 1000)}</p>` : null}
    ${kept?.review.problems.length ? html`<div class="wrong"><p class="error">${t("review.problems")}</p><ul class="error small">${kept.review.problems.map((one) => html`<li><${Text} text=${one} /></li>`)}</ul></div>` : null}
    ${kept && mode !== "edit" ? html`<${Outlook} plan=${plan} found=${kept.review.outlook} /><${Before} changes=${kept.review.changes} />` : null}
    ${mode === "edit" ? html`<label class="field-block"><span class="f-label">${t("new.planJson")}</span><${Json} value=${draft} set=${setDraft} rows=${16} said=${{ "aria-invalid": draft instanceof Unread ? "true" : undefined }} /></label>
      ${draft instanceof Unread ? html`<p class="error small">${t("form.bad.json")}</p>` : html`<h3>${t("edit.title")}</h3><${Changes} before=${plan} after=${draft} />`}` : null}
    ${mode === "reject" ? html`<label class="field-block"><span class="f-label">${t("approval.reason")}</span><textarea rows="2" required value=${reason} onInput=${(event) => setReason(event.target.value)}></textarea></label>` : null}
    ${kept?.hash && mode === "look" ? html`<p class="muted small">${t("review.bound")} <span class="mono">${kept.hash.slice(0, 8)}</span></p>` : null}
    ${gone ? html`<${Gone} gone=${gone} />` : null}
    <${Wrong} error=${read.error ?? state.error} />
    ${gone || state.done || readOnly ? null : html`<p class="buttons"><${Act} type="submit" kind=${mode === "reject" ? "danger" : "primary"} off=${still || !ready} why=${why || (mode === "edit" ? t("edit.none") : "")}>${t(`review.send.${mode}`)}<//>
      ${mode === "look" ? html`<${Act} off=${still} why=${why} act=${() => go("edit")}>${t("approval.edit")}<//> <${Act} kind="danger" off=${still} why=${why} act=${() => go("reject")}>${t("approval.noAsk")}<//>` : html`<${Act} act=${() => go("look")}>${t("dialog.back")}<//>`}</p>`}
    ${state.done && !gone ? html`<p class="muted" role="status">${t("send.sent")}</p>` : null}
    ${children}
  </form>`;
}

/** What is otherwise than in the plan before. */
function Before({ changes }) {
  if (changes.before == null) return null;
  const named = (steps) => steps.map((step) => step.name || step.step_id);
  return html`<h3>${t("review.before", { version: changes.before })}</h3><ul class="plain">
    ${named(changes.added).map((name) => html`<li><ins>+ <${Text} text=${name} /></ins></li>`)}${named(changes.removed).map((name) => html`<li><del>− <${Text} text=${name} /></del></li>`)}
    ${changes.changed.map((step) => html`<li>~ <${Text} text=${step.step_id} /><${Changes} before=${fieldsOf(step, "before")} after=${fieldsOf(step, "after")} /></li>`)}</ul>`;
}

const fieldsOf = (step, side) => Object.fromEntries(step.fields.filter((one) => one[side] !== null).map((one) => [one.name, one[side]]));
