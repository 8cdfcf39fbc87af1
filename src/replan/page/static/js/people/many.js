// Calls of one tool that wait, all at once: what they have in common above, what is otherwise in columns. Each yes goes with the hash of its call.
import { html, useEffect, useState } from "replan/shell/dom";
import { t } from "replan/i18n";
import { Window } from "replan/forms/dialog";
import { same } from "replan/forms/exact";
import { Act, byKeys, meant, useAwake, useSend, Wrong } from "replan/forms/sending";
import { answerApproval } from "replan/people/approval";
import { approvalPath, exactly, holdsMask } from "replan/people/reading";
import { Call } from "replan/people/shown";
import { taskPath } from "replan/shell/api";
import { Glyph } from "replan/shell/glyph";
import { Text, Value } from "replan/shell/values";

/** As they stand now, each with its large values whole. What comes later is not among them. */
async function waitingOf(task, tool) {
  const found = (await exactly(taskPath(task, "/waiting"))).filter((one) => one.hash && one.waiting_for.tool_id === tool);
  const rows = [];
  for (const one of found) {
    const { hidden, parameters } = one.waiting_for;
    const cut = Object.keys(hidden).some((name) => !holdsMask(parameters[name]));
    rows.push(cut ? await exactly(approvalPath(task, one.waiting_for.id)) : one);
  }
  return rows;
}

/** The names of parameters that all have alike, and of those that are otherwise. */
export function columnsOf(rows) {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row.waiting_for.parameters)))];
  const alike = (name) => rows.every((row) => same(row.waiting_for.parameters[name], rows[0].waiting_for.parameters[name]) && row.waiting_for.hidden[name] === rows[0].waiting_for.hidden[name]);
  return { common: names.filter(alike), differing: names.filter((name) => !alike(name)) };
}

export function Many({ task, asked, waiting, steps, off = "", done, close }) {
  const [rows, setRows] = useState(null);
  const [failed, setFailed] = useState(null);
  const [chosen, choose] = useState(new Set());
  const [mode, setMode] = useState("look"); // look, sure, reject
  const [reason, setReason] = useState("");
  const [told, tell] = useState({});
  const [state, send] = useSend();
  const tool = asked.tool_id;
  const load = () => {
    setRows(null);
    tell({});
    setMode("look");
    waitingOf(task, tool).then((found) => {
      setRows(found);
      choose(new Set(found.map((one) => one.waiting_for.id)));
    }, setFailed);
  };
  useEffect(load, [task, tool]);
  const awake = useAwake(`${mode} ${rows?.length ?? ""}`);
  if (!rows) return html`<${Window} label="many-title" wide=${true} close=${close}><h2 id="many-title">${t("many.open", { tool })}</h2><p class="muted" aria-busy="true">${failed ? null : t("loading")}</p><${Wrong} error=${failed} />
    <p><button type="button" onClick=${close}>${t("dialog.close")}</button></p><//>`;
  const open = rows.filter((row) => !told[row.waiting_for.id]?.sent);
  const picked = open.filter((row) => chosen.has(row.waiting_for.id));
  const later = [...waiting].filter(([id, one]) => one.kind === "approval" && one.tool_id === tool && !rows.some((row) => row.waiting_for.id === id)).length;
  const still = off || !awake || state.sending || !picked.length || (mode === "reject" && !reason.trim());
  const once = (asked.effect ?? "once") === "once";

  const toggle = (id) => {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    choose(next);
    setMode("look");
  };
  /** One by one, each with its own hash: what becomes of each stands beside it. */
  const post = (approved) => send(async () => {
    for (const row of picked) {
      const { id } = row.waiting_for;
      const answer = await answerApproval(task, id, { approved, hash: row.hash, ...(approved ? {} : { reason: reason.trim() }) }).then(() => ({ sent: true, approved }), (error) => ({ error, sent: error.status === 409 }));
      if (!answer.error) done(id);
      tell((before) => ({ ...before, [id]: answer }));
    }
    setMode("look");
  });
  const submit = (event) => {
    if (!meant(event) || still) return;
    if (mode === "look" && once) setMode("sure");
    else post(mode !== "reject");
  };
  const { common, differing } = columnsOf(rows);
  const first = rows[0]?.waiting_for;
  return html`<${Window} label="many-title" wide=${true} close=${close}><form class="ask many" onSubmit=${submit} onKeyDown=${byKeys}>
    <div class="panel-head"><${Glyph} state="waiting" size=${20} /><h2 id="many-title" class="ask-title" tabindex="-1">${t("many.title", { count: rows.length, tool })}</h2>
      <button type="button" class="quiet" aria-label=${t("panel.close")} onClick=${close}>✕</button></div>
    <p class="lead">${t(`approval.${asked.effect ?? "once"}`)}</p>
    ${common.length ? html`<h3>${t("many.common")}</h3><${Call} parameters=${Object.fromEntries(common.map((name) => [name, first.parameters[name]]))} schema=${asked.parameters_schema} hidden=${first.hidden} />` : null}
    <div class="scroll" tabindex="0" role="region" aria-label=${t("many.calls")}><table class="many-table">
      <thead><tr><th scope="col"><span class="sr">${t("many.choose")}</span></th><th scope="col">${t("column.name")}</th>${differing.map((name) => html`<th key=${name} scope="col" class="mono"><${Text} text=${name} /></th>`)}<th scope="col"><span class="sr">${t("many.became")}</span></th></tr></thead>
      <tbody>${rows.map((row) => html`<${Row} key=${row.waiting_for.id} row=${row} names=${differing} steps=${steps} chosen=${chosen} toggle=${toggle} told=${told[row.waiting_for.id]} />`)}</tbody>
    </table></div>
    ${later ? html`<p>${t("many.later", { count: later })} <button type="button" class="link" onClick=${load}>${t("many.again")}</button></p>` : null}
    <p class="muted small">${t("approval.bound")}</p>
    ${mode === "reject" ? html`<label class="field-block"><span class="f-label">${t("approval.reason")}</span><textarea rows="2" required value=${reason} onInput=${(event) => setReason(event.target.value)}></textarea></label>` : null}
    ${mode === "sure" ? html`<p class="sure" role="status">${t("many.sure", { count: picked.length, tool })}</p>` : null}
    <${Wrong} error=${state.error} />
    ${open.length ? html`<p class="buttons"><${Act} type="submit" kind=${mode === "reject" ? "danger" : "primary"} off=${still} why=${off}>${t(mode === "reject" ? "many.no" : mode === "sure" ? "many.yesSure" : "many.yes", { count: picked.length })}<//>
      ${mode === "look" ? html`<${Act} kind="danger" off=${off || !picked.length} why=${off} act=${() => setMode("reject")}>${t("approval.noAsk")}<//>` : html`<${Act} act=${() => setMode("look")}>${t("dialog.back")}<//>`}</p>`
      : html`<p><button type="button" onClick=${close}>${t("dialog.close")}</button></p>`}
  </form><//>`;
}

function Row({ row, names, steps, chosen, toggle, told }) {
  const { id, step_id, item, item_value, parameters, hidden } = row.waiting_for;
  const name = `${steps.get(step_id)?.name ?? step_id}${item == null ? "" : ` · ${t("call.item", { number: item })}`}`;
  return html`<tr><td>${told?.sent ? null : html`<input type="checkbox" aria-label=${name} checked=${chosen.has(id)} onChange=${() => toggle(id)} />`}</td>
    <th scope="row"><${Text} text=${name} />${item == null || item_value == null ? null : html`<span class="muted small block"><${Value} value=${item_value} depth=${2} /></span>`}</th>
    ${names.map((one) => html`<td key=${one}><${Value} value=${parameters[one]} depth=${1} />${hidden[one] && holdsMask(parameters[one]) ? html` <span class="mono muted small">#${hidden[one]}</span>` : null}</td>`)}
    <td>${told?.error ? html`<span class="error small"><${Text} text=${told.error.message} /></span>` : told?.sent ? t(told.approved ? "said.yes" : "said.no") : null}</td></tr>`;
}
