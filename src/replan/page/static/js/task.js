// The page of one task.
import { html, useEffect, useMemo, useReducer, useRef } from "replan/shell/dom";
import { language, span, t } from "replan/i18n";
import { Session } from "replan/live";
import { PANES } from "replan/panes";
import { Changes } from "replan/panel/changes";
import { EventPanel } from "replan/panel/event";
import { Doing } from "replan/people/doing";
import { Overview } from "replan/panel/overview";
import { StepPanel } from "replan/panel/step";
import { openOf, Waits } from "replan/panel/waits";
import { Why } from "replan/panel/why";
import { sentenceOf } from "replan/sentence";
import { Frames } from "replan/shell/frames";
import { Glyph } from "replan/shell/glyph";
import { Head, Versions } from "replan/shell/head";
import { stepKeys } from "replan/shell/keys";
import { Log } from "replan/shell/log";
import { Marks } from "replan/shell/marks";
import { Picture } from "replan/shell/picture";
import { pref, prefer } from "replan/shell/prefs";
import { change, readRoute } from "replan/shell/route";
import { Steps } from "replan/shell/steps";
import { ENDED } from "replan/store";

const TICK_MS = 250;

/** Two times in ms since the task was handed in: what the log is narrowed to. */
function rangeOf(text) {
  const found = /^(\d+)-(\d+)$/.exec(text ?? "");
  return found ? [Number(found[1]), Number(found[2])] : null;
}

/** What is looked at, as all views of a task share it. */
export function viewOf(route, now, theme) {
  return {
    selected: route.step || null,
    tab: route.tab,
    event: route.event ? Number(route.event) : null,
    filter: { states: new Set(route.state ? route.state.split(",") : []), text: route.q },
    version: route.v ? Number(route.v) : null,
    diff: route.diff === "1",
    critical: route.critical !== "0",
    groupBy: route.group || null,
    open: new Set(route.open ? route.open.split(",") : []),
    range: rangeOf(route.range),
    logKind: route.type,
    logText: "",
    logStep: null,
    now,
    theme,
    language: language(),
  };
}

export function useSession(id, given, redraw, fresh) {
  const frames = useRef(null);
  const session = useMemo(() => {
    frames.current = new Frames(redraw);
    return given ?? new Session(id, { told: (marked) => frames.current.mark(marked), changed: redraw, fresh });
  }, [id, given]);
  useEffect(() => {
    if (given) return undefined;
    session.start();
    return () => {
      session.stop();
      frames.current.stop();
    };
  }, [session]);
  return { session, frames: frames.current };
}

export function TaskPage({ route, theme, narrow, given = null, told, link }) {
  const [, redraw] = useReducer((count) => count + 1, 0);
  const { session, frames } = useSession(route.id, given, redraw, told);
  const { task, state } = session;
  const live = ["live", "asleep"].includes(state.kind);
  const stopped = useRef(0);
  if (live || !stopped.current) stopped.current = session.now();
  const now = task.ended || (live ? session.now() : stopped.current); // clocks stand still while nothing is heard
  const view = viewOf(route, now, theme);

  useEffect(() => {
    if (task.ended || !live) return undefined;
    const timer = setInterval(redraw, TICK_MS);
    return () => clearInterval(timer);
  }, [live, Boolean(task.ended)]);

  useEffect(() => link?.(state, task, () => session.go()), [state.kind, state.at, openOf(task).length, task.status, task.description]);

  const select = (id) => change({ step: id === readRoute().step ? "" : id, event: "", tab: "" });
  useEffect(() => stepKeys({ task, view: () => viewOf(readRoute(), session.now(), theme), select, change, narrow }), [task, narrow]);

  if (state.kind === "missing") return html`<main class="alone"><h1>${t("task.missing")}</h1><p class="error">${state.error.message}</p><p><a href="#/">${t("task.toList")}</a></p></main>`;
  if (state.kind === "loading" && !task.seq) return html`<main class="alone" aria-busy="true"><h1 class="sr">${t("title.task")}</h1><p class="muted">${t("loading")}</p></main>`;

  const usual = narrow ? "now" : pref("pane", PANES[0].id);
  const panes = narrow ? [{ id: "now", key: "pane.now" }, ...PANES] : PANES;
  const pane = panes.find((one) => one.id === (route.pane || usual)) ?? panes[0];
  const panel = html`<${Panel} session=${session} view=${view} select=${select} />`;
  const body = html`<${Pane} pane=${pane} session=${session} frames=${frames} view=${view} narrow=${narrow} select=${select} panel=${panel} />`;
  const tabs = html`<${Tabs} panes=${panes} pane=${pane} narrow=${narrow} />`;
  const head = html`<${Head} task=${task} view=${view} change=${change} narrow=${narrow} diff=${html`<${Marks} task=${task} view=${view} change=${change} /><${Versions} task=${task} view=${view} change=${change} />`} acts=${html`<${Doing} session=${session} narrow=${narrow} />`} />`;
  const sheet = narrow && (view.selected || view.event) ? html`<div class="sheet">${panel}</div>` : null;
  if (narrow) return html`<main class="task narrow">${pane.id === "now" ? head : html`<h1 class="sr">${task.description || task.id}</h1>`}<div class="pane-body">${body}</div>${sheet}${tabs}</main>`;
  return html`<main class="task">
    ${head}
    <div class="split"><div class="views">${tabs}<div id="pane" class="pane-body" role="tabpanel" aria-labelledby=${`pane-${pane.id}`}>${body}</div></div>
    <aside class="side" aria-label=${t("panel.label")}>${panel}</aside></div>
  </main>`;
}

function Tabs({ panes, pane, narrow }) {
  const choose = (id) => {
    if (!narrow) prefer("pane", id);
    change({ pane: id, ...(narrow ? { step: "", event: "" } : {}) });
  };
  const arrows = (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    const next = panes[(panes.indexOf(pane) + by + panes.length) % panes.length].id;
    choose(next);
    document.getElementById(`pane-${next}`)?.focus();
  };
  return html`<div class=${narrow ? "bottom-tabs" : "tabs pane-tabs"} role="tablist" aria-label=${t("pane.label")} onKeyDown=${arrows}>
    ${panes.map((one) => html`<button key=${one.id} role="tab" id=${`pane-${one.id}`} aria-selected=${one.id === pane.id} aria-controls=${narrow ? undefined : "pane"} tabindex=${one.id === pane.id ? 0 : -1} onClick=${() => choose(one.id)}>${t(one.key)}</button>`)}
  </div>`;
}

function Pane({ pane, session, frames, view, narrow, select, panel }) {
  const { task } = session;
  if (pane.id === "now") return html`<div class="now">${view.selected || view.event ? null : panel}<${Steps} task=${task} view=${view} narrow=${narrow} select=${select} /></div>`;
  if (pane.id === "log") return html`<${Log} session=${session} view=${view} change=${change} narrow=${narrow} />`;
  if (pane.mount) {
    const open = (id) => change({ step: id, event: "", tab: "" });
    return html`<${Picture} key=${pane.id} mount=${pane.mount} frames=${frames} task=${task} view=${view} select=${select} open=${open} change=${change} session=${session} narrow=${narrow} />`;
  }
  return html`<${Steps} task=${task} view=${view} narrow=${narrow} select=${select} />`;
}

/** One thing at a time: what was chosen, else what waits, else why it ended, else the task as a whole. */
function Panel({ session, view, select }) {
  const { task } = session;
  const step = view.selected ? task.steps.get(view.selected) : null;
  const waits = openOf(task).length > 0 || (task.halt && (task.halt.until_resumed || task.pause));
  // Something else was chosen: what waits is one line then, and what was written in its form stays.
  const aside = Boolean(waits && (view.event || (step && !step.asks.size)));
  return html`${aside ? html`<${Banner} task=${task} />` : null}
    ${session.state.kind === "loading" ? null : html`<div class="waits" hidden=${aside}><${Waits} session=${session} select=${select} /></div>`}
    ${step ? html`<${StepPanel} session=${session} step=${step} view=${view} change=${change} select=${select} />` : null}
    ${view.diff && !view.event ? html`<${Changes} task=${task} view=${view} select=${select} only=${view.selected} />` : null}
    ${view.event && !step ? html`<${EventPanel} session=${session} seq=${view.event} change=${change} />` : null}
    ${ENDED.has(task.status) ? html`<${Why} session=${session} select=${select} />` : null}
    ${step || view.event ? null : html`<${Overview} key=${task.ended ? "after" : "before"} session=${session} view=${view} select=${select} change=${change} />`}`;
}

function Banner({ task }) {
  const said = sentenceOf(task);
  return html`<button class="banner s-waiting" onClick=${() => change({ step: "", event: "", tab: "" })}><${Glyph} state="waiting" />${t(said.key, said.values)}</button>`;
}

/** How it stands with the connection, in words. */
export function connectionOf(state, now) {
  if (state.kind === "reconnecting") {
    return t("live.reconnecting", { secs: Math.max(0, Math.ceil((state.at - now) / 1000)), since: span(now - state.since) });
  }
  return t(`live.${state.kind}`);
}
