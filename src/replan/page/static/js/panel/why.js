// Why a task ended as it did: what was tried, what is kept, what took effect, what can be done. The reasons are the service's own.
import { html, useEffect, useState } from "replan/shell/dom";
import { t } from "replan/i18n";
import { Act } from "replan/forms/sending";
import { offOf } from "replan/people/doing";
import { ForkDialog } from "replan/people/fork";
import { json, taskPath } from "replan/shell/api";
import { Glyph, stateOfTask } from "replan/shell/glyph";
import { Copy, Text, Value } from "replan/shell/values";
import { Chip } from "replan/panel/step";
import { rungOf } from "replan/panel/tries";
import { stepsOf } from "replan/store";

const MOST = 12;

/** What the service says of the end beside its event: read once. */
export function useResult(session) {
  const { task } = session;
  const [result, setResult] = useState(session.result ?? null);
  useEffect(() => {
    if (!task.ended || session.readOnly || session.result) return;
    json(taskPath(task.id, "/result")).then(
      (found) => {
        session.result = found;
        setResult(found);
      },
      () => {}, // the event has most of it
    );
  }, [task.id, Boolean(task.ended)]);
  return result;
}

export function Why({ session, select }) {
  const { task } = session;
  const result = useResult(session);
  const failure = result?.failure ?? task.failure;
  const good = task.status === "succeeded";
  if (good) return html`<${Answer} session=${session} result=${result} />`;
  if (!failure) return null;
  const done = stepsOf(task).filter((step) => step.status === "succeeded");
  const effects = [
    ["effects.done", failure.done, "done"],
    ["effects.doubt", failure.in_doubt, "unknown"],
    ["effects.undone", failure.undone, "skipped"],
  ].filter(([, list]) => list?.length);
  return html`<section class=${`card edge s-${stateOfTask(task.status)}`} aria-labelledby="why-title">
    <div class="panel-head"><${Glyph} state=${stateOfTask(task.status)} size=${20} /><h2 id="why-title">${t("why.title")}</h2></div>
    <p class="lead"><${Text} text=${failure.reason} /></p>
    ${failure.question ? html`<p class="said"><${Text} text=${failure.question} /></p>` : null}
    <${Tried} task=${task} failure=${failure} select=${select} />
    <h3>${t("why.kept")}</h3>
    <p>${done.length ? t("why.keptSteps", { count: done.length }) : t("why.keptNone")}</p>
    ${done.length ? html`<p class="chips">${done.slice(0, MOST).map((step) => html`<${Chip} key=${step.id} step=${step} select=${select} />`)}${done.length > MOST ? html`<span class="muted">+${done.length - MOST}</span>` : null}</p>` : null}
    <h3>${t("why.effects")}</h3>
    ${effects.length ? effects.map(([key, list, state]) => html`<div key=${key}><p class="muted small">${t(key)}</p><ul class="marked">${list.map((one) => html`<li><${Glyph} state=${state} /><span><${Text} text=${one} /></span></li>`)}</ul></div>`) : html`<p>${t("why.noEffects")}</p>`}
    <h3>${t("why.next")}</h3>
    <${Next} session=${session} failure=${failure} result=${result} />
    ${failure.root_causes?.length || failure.violations?.length ? html`<details><summary>${t("why.details")}</summary>
      <ul>${[...(failure.root_causes ?? []), ...(failure.violations ?? [])].map((one) => html`<li><${Text} text=${one} /></li>`)}</ul></details>` : null}
  </section>`;
}

function Tried({ task, failure, select }) {
  const steps = [...task.steps.values()].filter((step) => step.status === "failed").slice(0, MOST);
  if (!steps.length && !failure.tried?.length) return null;
  return html`<h3>${t("why.tried")}</h3>
    ${steps.map((step) => html`<div key=${step.id} class="tried"><p><${Chip} step=${step} select=${select} /></p><ul class="marked">${rungsOf(step).map((rung) => html`<li key=${rung.key}>
      <${Glyph} state=${rung.state} /><span><span class="mono">${rung.tool}</span>${rung.times > 1 ? ` × ${rung.times}` : ""}${rung.error ? html`: <${Text} text=${rung.error} />` : null}
      <span class="muted small block">${t(rung.how)}${rung.by ? ` · ${t(`by.${rung.by}`)}` : ""}</span>
      ${rung.refused ? html`<span class="small block">${t("try.refused")}: <${Text} text=${rung.refused} /></span>` : null}</span></li>`)}</ul></div>`)}
    ${!steps.length && failure.tried?.length ? html`<ul class="marked">${failure.tried.map((one) => html`<li><${Glyph} state="failed" /><span><${Text} text=${one} /></span></li>`)}</ul>` : null}`;
}

/** The tries of a step, those alike in one row. */
function rungsOf(step) {
  const rungs = [];
  const before = new Map();
  for (const one of step.tries.slice(-40)) {
    const earlier = before.get(one.place);
    before.set(one.place, one);
    const rung = {
      key: one.n, tool: one.tool, state: one.state === "done" ? "done" : one.state === "unknown" ? "unknown" : "failed", times: 1,
      error: one.error?.message ?? "", how: rungOf(one, earlier), by: earlier?.done ? earlier.decidedBy : null, refused: one.violations?.join("; ") ?? "",
    };
    const last = rungs.at(-1);
    if (last && last.tool === rung.tool && last.error === rung.error && last.state === rung.state) Object.assign(last, { times: last.times + 1, how: rung.how, by: rung.by });
    else rungs.push(rung);
  }
  return rungs;
}

/** What the service knows to be possible now. */
function Next({ session, failure, result }) {
  const { task } = session;
  const [begin, setBegin] = useState(null);
  const off = offOf(session);
  const words = failure.advice ?? [];
  const actions = (result?.failure?.next ?? []).filter((one) => one.action !== "advice");
  const known = actions.filter((one) => beginOf(one)).slice(0, 3);
  return html`${words.length ? html`<ul>${words.map((one) => html`<li><${Text} text=${one} /></li>`)}</ul>` : null}
    ${session.readOnly
      ? known.map((one) => html`<div key=${one.action} class="command"><p>${t(`next.${one.action}`)}</p><p class="code"><code>${commandOf(task, one)}</code><${Copy} value=${commandOf(task, one)} /></p></div>`)
      : known.length ? html`<p class="buttons">${known.map((one, index) => html`<${Act} key=${one.action} kind=${index ? "" : "primary"} off=${off} why=${off} act=${() => setBegin(beginOf(one))}>${t(`next.${one.action}.do`)}<//>`)}</p>` : null}
    ${begin ? html`<${ForkDialog} session=${session} begin=${begin} close=${() => setBegin(null)} />` : null}
    ${!words.length && !known.length ? html`<p class="muted">${t("why.nothing")}</p>` : null}`;
}

/** What a fork begins with, of what can be done. */
function beginOf({ action, text, values }) {
  return { fork: {}, retry: { retry: values?.steps ?? [] }, raise_limit: { limit: values?.limit }, answer: { ask: text } }[action];
}

function commandOf(task, { action, values }) {
  if (action === "fork" || action === "raise_limit") return `replan tasks fork ${task.id}`;
  if (action === "retry") return `replan tasks fork ${task.id} --retry ${(values?.steps ?? [])[0] ?? ""}`.trim();
  if (action === "answer") return `replan tasks fork ${task.id} --hint "…"`;
  return "";
}

function Answer({ session, result }) {
  const { task } = session;
  const output = result ? result.final_output : task.output?.value;
  return html`<section class="card edge s-done" aria-labelledby="why-title">
    <div class="panel-head"><${Glyph} state="done" size=${20} /><h2 id="why-title">${t(task.shortfall.length ? "answer.shortfall" : "answer.title")}</h2></div>
    ${task.shortfall.length ? html`<h3>${t("answer.missing")}</h3><ul>${task.shortfall.map((one) => html`<li><${Text} text=${one} /></li>`)}</ul>` : null}
    ${output === undefined || output === null ? html`<p class="muted">${t("answer.none")}</p>` : html`<div class="answer">${typeof output === "string" ? html`<p class="pre"><${Text} text=${output} /></p>` : html`<${Value} value=${output} />`}</div><p><${Copy} value=${output} /></p>`}
  </section>`;
}
