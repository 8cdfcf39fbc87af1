// One call that waits for a yes. What is shown is what runs: the yes goes with the hash of just that.
import { html, useEffect, useState } from "replan/shell/dom";
import { moment, t } from "replan/i18n";
import { Changes } from "replan/forms/changes";
import { same, write } from "replan/forms/exact";
import { SchemaForm } from "replan/forms/form";
import { check } from "replan/forms/schema";
import { Act, byKeys, meant, useAwake, useSend, Wrong } from "replan/forms/sending";
import { approvalPath, holdsMask, originsOf, useRead } from "replan/people/reading";
import { Call, Item } from "replan/people/shown";
import { call } from "replan/shell/api";
import { Glyph } from "replan/shell/glyph";
import { Text } from "replan/shell/values";

export async function answerApproval(task, id, body) {
  return (await call(approvalPath(task, id), { method: "POST", body, text: write(body) })).json();
}

/** `asked`: as its event says; `gone`: what became of it, if that is known; `off`: why nothing can be sent now. */
export function Approval({ task, id, asked, name, steps, gone: became = null, off = "", readOnly = false, done, children }) {
  const [mode, setMode] = useState("look");
  const [draft, setDraft] = useState(null);
  const [reason, setReason] = useState("");
  const read = useRead(became || readOnly ? null : approvalPath(task, id));
  const [kept, keep] = useState(null); // as it was read, also once it is gone
  useEffect(() => {
    if (read.found) keep(read.found);
  }, [read.found]);
  const whole = kept?.waiting_for ?? null;
  const parameters = whole?.parameters ?? asked.parameters;
  const awake = useAwake(`${id} ${kept?.hash ?? ""} ${mode}`);
  const [state, send, clear] = useSend();
  const gone = state.sending || state.done ? null : became; // what becomes of it now is our own doing
  const schema = asked.parameters_schema ?? { type: "object" };
  const faults = mode === "edit" && draft ? check(schema, draft).filter((fault) => !holdsMask(draft[fault.path[0]])) : [];
  const changes = draft ? changed(parameters, draft) : {};
  const still = gone || off || !kept || !awake || state.sending || state.done;
  const why = off || (kept ? "" : t("loading"));

  const go = (next) => {
    clear();
    setMode(next);
    if (next === "edit" && !draft) setDraft(parameters);
  };
  const post = (body) => send(async () => {
    await answerApproval(task, id, body);
    done?.(id);
  });
  const submit = (event) => {
    if (!meant(event) || still) return;
    if (mode === "look") post({ approved: true, hash: kept.hash });
    else if (mode === "edit" && !faults.length && Object.keys(changes).length) go("changes");
    else if (mode === "changes") post({ approved: true, hash: kept.hash, parameters: changes });
    else if (mode === "reject" && reason.trim()) post({ approved: false, hash: kept.hash, reason: reason.trim() });
  };
  const expires = kept?.expires ?? whole?.expires ?? asked.expires;
  const number = asked.index == null ? whole?.item : asked.index + 1;
  return html`<form class="card edge s-waiting ask" aria-labelledby=${`ask-${id}`} onSubmit=${submit} onKeyDown=${byKeys}>
    <div class="panel-head"><${Glyph} state="waiting" size=${20} /><h2 id=${`ask-${id}`} class="ask-title" tabindex="-1">${name ? t("approval.heading", { name }) : t("approval.title", { tool: asked.tool_id })}</h2></div>
    <p class="lead">${t(`approval.${asked.effect ?? "once"}`)}</p>
    ${asked.why ? html`<p class="said"><${Text} text=${asked.why} /></p>` : null}
    <dl class="facts"><div><dt>${t("column.tool")}</dt><dd><span class="mono">${asked.tool_id}</span>${asked.effect ? ` · ${t(`effect.${asked.effect}`)}` : ""}</dd></div>
      <${Item} number=${number} value=${whole?.item_value ?? asked.item} />
      ${expires ? html`<div><dt>${t("approval.until")}</dt><dd>${moment(expires * 1000)}</dd></div>` : null}</dl>
    ${mode === "edit" ? html`<${SchemaForm} schema=${schema} value=${draft} set=${setDraft} faults=${faults} fixed=${(path) => path.length > 0 && holdsMask(parameters[path[0]])} name=${t("approval.parameters")} />` : null}
    ${mode === "changes" ? html`<h3>${t("edit.title")}</h3><${Changes} before=${pick(parameters, changes)} after=${pick(draft, changes)} />` : null}
    ${mode === "look" || mode === "reject" ? html`<${Call} parameters=${parameters} schema=${schema} hidden=${whole?.hidden} origins=${originsOf(kept?.sources, steps)} />` : null}
    ${mode === "reject" ? html`<label class="field-block"><span class="f-label">${t("approval.reason")}</span><textarea rows="2" required value=${reason} onInput=${(event) => setReason(event.target.value)}></textarea></label>` : null}
    <p class="muted small">${t(mode === "changes" ? "approval.boundEdited" : "approval.bound")}${kept?.hash ? html` <span class="mono">${kept.hash.slice(0, 8)}</span>` : null}${asked.effect === "once" && asked.call_key ? html` · <span class="mono">${t("approval.key", { key: asked.call_key.slice(0, 12) })}</span>` : null}</p>
    ${gone ? html`<${Gone} gone=${gone} />` : null}
    <${Wrong} error=${read.error ?? state.error} />
    ${gone || state.done || readOnly ? null : html`<${Buttons} mode=${mode} go=${go} still=${still} why=${why} ready=${mode === "edit" ? !faults.length && Object.keys(changes).length > 0 : mode !== "reject" || reason.trim() !== ""} />`}
    ${state.done && !gone ? html`<p class="muted" role="status">${t("send.sent")}</p>` : null}
    ${children}
  </form>`;
}

function Buttons({ mode, go, still, why, ready }) {
  if (mode === "edit") return html`<p class="buttons"><${Act} type="submit" kind="primary" off=${still || !ready} why=${why || t("edit.none")}>${t("approval.seeChanges")}<//> <${Act} act=${() => go("look")}>${t("dialog.back")}<//></p>`;
  if (mode === "changes") return html`<p class="buttons"><${Act} type="submit" kind="primary" off=${still} why=${why}>${t("approval.yesEdited")}<//> <${Act} act=${() => go("edit")}>${t("dialog.back")}<//></p>`;
  if (mode === "reject") return html`<p class="buttons"><${Act} type="submit" kind="danger" off=${still || !ready} why=${why || t("approval.reasonNeeded")}>${t("approval.no")}<//> <${Act} act=${() => go("look")}>${t("dialog.back")}<//></p>`;
  return html`<p class="buttons"><${Act} type="submit" kind="primary" off=${still} why=${why}>${t("approval.yes")}<//> <${Act} off=${still} why=${why} act=${() => go("edit")}>${t("approval.edit")}<//>
    <${Act} kind="danger" off=${still} why=${why} act=${() => go("reject")}>${t("approval.noAsk")}<//></p>`;
}

/** Somebody was faster, or the task went another way: all of it can still be read. */
export function Gone({ gone }) {
  return html`<p class="gone-said" role="status">${t(`gone.${gone.how}`, { who: gone.by || t("gone.somebody"), ago: gone.ago })}${gone.reason ? html` <span class="said"><${Text} text=${gone.reason} /></span>` : null}</p>`;
}

/** What is to be laid over the call as it was shown; null leaves a parameter out. */
export function changed(before, after) {
  const found = {};
  for (const name of Object.keys(after)) if (!same(before[name], after[name])) found[name] = after[name];
  for (const name of Object.keys(before)) if (!(name in after)) found[name] = null;
  return found;
}

const pick = (all, names) => Object.fromEntries(Object.keys(names).filter((name) => name in all).map((name) => [name, all[name]]));
