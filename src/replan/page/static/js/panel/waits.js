// What a task waits for from people. What stands here stays until it is answered or somebody goes on: what comes later waits behind it.
import { html, useEffect, useReducer, useRef, useState } from "replan/shell/dom";
import { ago, moment, t } from "replan/i18n";
import { Act } from "replan/forms/sending";
import { Approval } from "replan/people/approval";
import { offOf, ResumeDialog } from "replan/people/doing";
import { Many } from "replan/people/many";
import { Review } from "replan/people/review";
import { Question } from "replan/people/question";
import { Glyph } from "replan/shell/glyph";
import { Copy, Text } from "replan/shell/values";
import { Chip } from "replan/panel/step";

/** Those that somebody has to answer, the oldest first. */
export const openOf = (task) => [...task.waiting].filter(([, one]) => ["approval", "question", "review"].includes(one.kind));

export function Waits({ session, select }) {
  const { task } = session;
  const [, redraw] = useReducer((count) => count + 1, 0);
  const [many, setMany] = useState(null);
  const pinned = useRef(null);
  const mine = useRef(new Set());
  const box = useRef(null);
  const moved = useRef(false);
  const open = openOf(task);
  const isOpen = (id) => task.waiting.has(id);
  if (pinned.current && !isOpen(pinned.current[0]) && mine.current.has(pinned.current[0])) {
    moved.current = box.current?.contains(document.activeElement) || document.activeElement === document.body;
    pinned.current = null;
  }
  pinned.current ??= open[0] ?? null;
  const [id, one] = pinned.current ?? [];
  useEffect(() => {
    if (moved.current) box.current?.querySelector(".ask-title")?.focus({ preventScroll: true });
    moved.current = false;
  }, [id]);

  const done = (answered) => {
    mine.current.add(answered);
    redraw();
  };
  const all = many ? html`<${Many} task=${task.id} asked=${many} waiting=${task.waiting} steps=${task.steps} off=${offOf(session)} done=${done} close=${() => setMany(null)} />` : null;
  if (!id) return html`${all}<${Halted} session=${session} />`;
  const gone = isOpen(id) ? null : goneOf(session, id);
  const others = open.filter(([other]) => other !== id);
  const pin = (entry) => {
    if (gone) mine.current.add(id);
    pinned.current = entry;
    moved.current = true;
    redraw();
  };
  const off = offOf(session);
  const alike = !session.readOnly && one.kind === "approval" && others.some(([, other]) => other.kind === "approval" && other.tool_id === one.tool_id);
  const more = html`
    ${one.step ? html`<p class="chips"><${Chip} step=${task.steps.get(one.step)} select=${select} /></p>` : null}
    ${gone ? html`<p><button type="button" onClick=${() => pin(others[0] ?? null)}>${t(others.length ? "waits.next" : "waits.close")}</button></p>` : null}
    ${alike ? html`<p><button type="button" onClick=${() => setMany(one)}>${t("many.open", { tool: one.tool_id })}</button></p>` : null}
    ${others.length ? html`<details class="behind"><summary>${t("waits.more", { count: others.length })}</summary><ul class="plain">${others.slice(0, 50).map((entry) => html`<li key=${entry[0]}><button type="button" class="link" onClick=${() => pin(entry)}><${Text} text=${nameOf(task, entry[1])} /></button></li>`)}</ul></details>` : null}`;
  return html`<div ref=${box}>${all}${one.kind === "review" ? html`<${Review} key=${id} task=${task.id} id=${id} gone=${gone} off=${off} readOnly=${session.readOnly} done=${done}>${more}<//>` : one.kind === "approval"
    ? html`<${Approval} key=${id} task=${task.id} id=${id} asked=${one} name=${task.steps.get(one.step)?.name} steps=${task.steps} gone=${gone} off=${off} readOnly=${session.readOnly} done=${done}>${more}<//>`
    : html`<${Question} key=${id} task=${task.id} id=${id} asked=${one} tool=${task.steps.get(one.step)?.tool} rests=${restsOn(task, one.step)} gone=${gone} off=${off} readOnly=${session.readOnly} done=${done}>${more}<//>`}</div>`;
}

const nameOf = (task, one) => (one.kind === "review" ? t("review.title", { version: one.plan_version }) : one.kind === "approval" ? `${task.steps.get(one.step)?.name ?? one.step}${one.index == null ? "" : ` · ${t("call.item", { number: one.index + 1 })}`}` : one.text.slice(0, 120));

const ENDS_OF = { approval_resolved: null, plan_reviewed: null, question_answered: "answered", approval_expired: "expired", plan_review_expired: "expired" };

/** What became of it, as the log says. */
function goneOf(session, id) {
  const event = session.events.findLast(({ type, data }) => type in ENDS_OF && [data.approval_id, data.question_id, data.review_id].includes(id));
  if (!event) return { how: session.task.ended ? "ended" : "otherwise" };
  const how = ENDS_OF[event.type] ?? (event.data.approved ? "yes" : "no");
  return { how, by: event.data.by, reason: event.data.reason ?? event.data.answer, ago: ago(event.ts * 1000, session.now()) };
}

/** The steps that wait for what this one gives, near and far. */
function restsOn(task, id) {
  if (!id) return [];
  const found = new Set([id]);
  for (const other of task.order) {
    const step = task.steps.get(other);
    if (!step.leftOut && step.depends.some((one) => found.has(one))) found.add(other);
  }
  found.delete(id);
  return [...found].map((one) => task.steps.get(one));
}

function Halted({ session }) {
  const { task } = session;
  const [asked, ask] = useState(false);
  if (!task.halt?.until_resumed && !(task.pause && task.halt)) return null;
  const off = offOf(session);
  const command = `replan tasks resume ${task.id}`;
  return html`<section class="card edge s-waiting" aria-labelledby="waits-title">
    <div class="panel-head"><${Glyph} state="waiting" size=${20} /><h2 id="waits-title">${t(task.pause ? "now.paused" : `now.halt.${task.halt.because ?? "key"}`)}</h2></div>
    <p><${Text} text=${task.halt.reason} /></p>
    ${task.pause ? html`<p class="muted small">${moment(task.pause.at)}${task.pause.by ? ` · ${task.pause.by}` : ""}</p>` : null}
    ${session.readOnly ? html`<p class="code"><code>${command}</code><${Copy} value=${command} /></p>` : html`<p class="buttons"><${Act} kind="primary" off=${off} why=${off} act=${() => ask(true)}>${t("act.resume")}<//></p>`}
    ${asked ? html`<${ResumeDialog} session=${session} close=${() => ask(false)} />` : null}
  </section>`;
}
