// Going on from a point of a task in a new one: what is kept is shown before it is made.
import { html, useEffect, useState } from "replan/shell/dom";
import { t } from "replan/i18n";
import { Dialog } from "replan/forms/dialog";
import { Unread, write } from "replan/forms/exact";
import { Json } from "replan/forms/fields";
import { useSend } from "replan/forms/sending";
import { call, taskPath } from "replan/shell/api";
import { Glyph } from "replan/shell/glyph";
import { Text } from "replan/shell/values";
import { apply, newTask, stepsOf } from "replan/store";

const LIMITS = { max_llm_calls: "max_llm_calls", max_tokens: "max_tokens", max_cost_usd: "max_cost_usd", max_tool_calls: "max_tool_calls", max_rounds: "max_rounds", task_timeout_secs: "timeout_secs" };
const SHOWN = 30;

/** The task as it stood after that event; null where its first events are not in memory. */
export function taskAt(session, seq) {
  if (session.events[0]?.seq !== 1) return null;
  const task = newTask(session.task.id);
  for (const event of session.events) {
    if (event.seq > seq) break;
    apply(task, event);
  }
  return task;
}

/** The event before the first call of a step: from there it can go on as if it had not begun. */
export function beforeStep(session, step) {
  const first = session.events.find((event) => event.data?.step_id === step.id && ["step_started", "call_started", "approval_requested"].includes(event.type));
  return first ? Math.max(1, first.seq - 1) : null;
}

/** `begin`: what is filled in: `{at, hint, retry, limit, ask}`. */
export function ForkDialog({ session, begin = {}, close }) {
  const { task } = session;
  const [at, setAt] = useState(begin.at ? String(begin.at) : "");
  const [hint, setHint] = useState(begin.hint ?? "");
  const [plan, setPlan] = useState(undefined);
  const [limit, setLimit] = useState("");
  const [retry, setRetry] = useState(begin.retry?.length > 0);
  const [judge, setJudge] = useState(Boolean(begin.judge));
  const [secrets, setSecrets] = useState({});
  const [, redraw] = useState(0);
  const [state, send] = useSend();
  const missing = state.error?.document?.secrets ?? [];
  const [names, setNames] = useState([]);
  useEffect(() => {
    if (missing.length) setNames(missing);
  }, [state.error]);
  useEffect(() => {
    if (session.events[0]?.seq > 1 && session.older) session.older().then(() => redraw(1), () => {});
  }, []);

  const wanted = Number(at);
  const bad = at !== "" && !(Number.isInteger(wanted) && wanted >= 1 && wanted <= task.seq);
  const post = () => send(async () => {
    const body = {
      ...(at === "" ? {} : { at: wanted }), ...(hint.trim() ? { hint: hint.trim() } : {}), ...(plan === undefined ? {} : { plan }), ...(retry ? { retry: begin.retry } : {}),
      ...(judge ? { judge } : {}), ...(limit.trim() ? { options: { [LIMITS[begin.limit]]: Number(limit) } } : {}), ...(names.length ? { secrets } : {}),
    };
    const made = await (await call(taskPath(task.id, "/fork"), { method: "POST", body, text: write(body) })).json();
    close();
    location.hash = `#/task/${encodeURIComponent(made.task_id)}`;
  });
  return html`<${Dialog} title=${t("fork.title")} close=${close} send=${post} state=${state} sendWord=${t("fork.send")} off=${bad || plan instanceof Unread}>
    <p>${t("fork.about")}</p>
    ${begin.ask ? html`<p class="said"><${Text} text=${begin.ask} /></p>` : null}
    <label class="field-block"><span class="f-label">${t("fork.at")}</span><input inputmode="numeric" value=${at} placeholder=${t("fork.atEnd")} aria-invalid=${bad ? "true" : undefined} onInput=${(event) => setAt(event.target.value.trim())} /></label>
    ${bad ? html`<p class="error small">${t("fork.badAt", { last: task.seq })}</p>` : html`<${Kept} session=${session} seq=${at === "" ? task.seq : wanted} />`}
    <label class="field-block"><span class="f-label">${t(begin.ask ? "fork.answer" : "fork.hint")}</span><textarea rows="2" value=${hint} onInput=${(event) => setHint(event.target.value)}></textarea></label>
    ${begin.retry?.length ? html`<label class="f-check"><input type="checkbox" checked=${retry} onChange=${() => setRetry(!retry)} /> ${t("fork.retry", { names: begin.retry.map((id) => task.steps.get(id)?.name ?? id).join(", ") })}</label>` : null}
    <label class="f-check"><input type="checkbox" checked=${judge} onChange=${() => setJudge(!judge)} /> ${t("fork.judge")}</label>
    ${begin.limit in LIMITS ? html`<label class="field-block"><span class="f-label">${t("fork.limit", { limit: t(`limit.${begin.limit}`) })}</span><input inputmode="decimal" value=${limit} onInput=${(event) => setLimit(event.target.value)} /></label>` : null}
    <details><summary>${t("fork.plan")}</summary><label class="field-block"><span class="f-label">${t("new.planJson")}</span><${Json} value=${plan} set=${setPlan} rows=${8} said=${{}} /></label></details>
    ${names.map((name) => html`<label key=${name} class="field-block"><span class="f-label">${t("new.secret", { name })}</span><input type="password" autocomplete="off" onInput=${(event) => setSecrets({ ...secrets, [name]: event.target.value })} /></label>`)}
  <//>`;
}

/** The steps that are done by then, whose outputs the new task has. */
function Kept({ session, seq }) {
  const then = taskAt(session, seq);
  if (!then) return html`<p class="muted small">${t("fork.away")}</p>`;
  const steps = stepsOf(then);
  const done = steps.filter((step) => step.status === "succeeded");
  const open = steps.length - done.length;
  return html`<div class="kept"><h3>${t("fork.kept", { count: done.length })}</h3>
    ${done.length ? html`<ul class="plain kept-list">${done.slice(0, SHOWN).map((step) => html`<li key=${step.id}><${Glyph} state="done" size=${14} /> <${Text} text=${step.name} /></li>`)}${done.length > SHOWN ? html`<li class="muted">+${done.length - SHOWN}</li>` : null}</ul>` : null}
    <p class="muted small">${t("fork.open", { count: open })}</p></div>`;
}
