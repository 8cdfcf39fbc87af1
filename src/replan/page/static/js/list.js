// The list of tasks: the newest first, filtered by what they are at and by session, read page by page.
import { html, isField, useEffect, useReducer, useRef } from "replan/shell/dom";
import { ago, money, span, t } from "replan/i18n";
import { json, Problem, taskPath, clockOffset } from "replan/shell/api";
import { Glyph, stateOfTask } from "replan/shell/glyph";
import { change } from "replan/shell/route";
import { Text } from "replan/shell/values";

const PAGE = 30;
const LOOK_MS = 4000;
const SIDE_BY_SIDE = 4;
const GROUPS = {
  going: ["queued", "planning", "executing", "evaluating", "reflecting", "replanning"],
  waiting: ["waiting"],
  failed: ["failed", "timed_out"],
  done: ["succeeded"],
  cancelled: ["cancelled"],
};

/** What is asked of the service for that list. */
export function queryOf(route, cursor) {
  const query = new URLSearchParams({ limit: String(PAGE) });
  for (const status of GROUPS[route.state] ?? []) query.append("status", status);
  if (route.session) query.set("session_id", route.session);
  if (cursor) query.set("cursor", cursor);
  return `/tasks?${query}`;
}

class Tasks {
  constructor(redraw) {
    Object.assign(this, { redraw, rows: [], cursor: null, pages: 1, state: "loading", error: null, details: new Map(), asked: 0 });
  }

  async look(route) {
    const turn = (this.asked += 1);
    try {
      const rows = [];
      let cursor = null;
      for (let page = 0; page < this.pages; page += 1) {
        const found = await json(queryOf(route, cursor));
        rows.push(...found.items);
        cursor = found.next_cursor;
        if (!cursor) break;
      }
      if (turn !== this.asked) return;
      Object.assign(this, { rows, cursor, state: "there", error: null });
      this.redraw();
      await this.more(turn);
    } catch (error) {
      if (turn !== this.asked) return;
      Object.assign(this, { state: error instanceof Problem && error.status === 401 ? "signed-out" : "failed", error });
      this.redraw();
    }
  }

  /** Steps, cost and what is waited for stand in each task's own view: read once for each state of it, a few side by side. */
  async more(turn) {
    const due = this.rows.filter((row) => this.details.get(row.task_id)?.last_seq !== row.last_seq);
    const one = async () => {
      for (let row = due.shift(); row && turn === this.asked; row = due.shift()) {
        try {
          this.details.set(row.task_id, await json(taskPath(row.task_id)));
          this.redraw();
        } catch {
          // the row stands without it
        }
      }
    };
    await Promise.all(Array.from({ length: SIDE_BY_SIDE }, one));
  }
}

export function ListPage({ route, signedOut, narrow }) {
  const [, redraw] = useReducer((count) => count + 1, 0);
  const tasks = useRef(null);
  tasks.current ??= new Tasks(redraw);
  const list = tasks.current;

  useEffect(() => {
    list.pages = 1;
    list.look(route);
    const timer = setInterval(() => document.hidden || list.look(route), LOOK_MS);
    return () => clearInterval(timer);
  }, [route.state, route.session]);

  useEffect(() => {
    if (list.state === "signed-out") signedOut();
  }, [list.state]);

  const words = route.q.toLowerCase();
  const rows = list.rows.filter((row) => !words || `${row.description}\n${row.task_id}\n${row.session_id ?? ""}`.toLowerCase().includes(words));
  useEffect(() => listKeys(), []);
  const now = Date.now() + clockOffset();
  return html`<main class="list">
    <div class="list-head"><h1>${t("list.title")}</h1>
      <div class="filters"><div class="chips" role="group" aria-label=${t("list.filter")}>
        ${["", ...Object.keys(GROUPS)].map((one) => html`<button key=${one} class="filter" aria-pressed=${route.state === one} onClick=${() => change({ state: one })}>${t(`list.group.${one || "all"}`)}</button>`)}
        ${route.session ? html`<button class="filter" aria-pressed="true" onClick=${() => change({ session: "" })}>${t("list.session")} ${route.session} ✕</button>` : null}
      </div>
      <label class="field"><span class="sr">${t("list.find")}</span><input id="find" type="search" placeholder=${t("list.find")} value=${route.q} onInput=${(event) => change({ q: event.target.value })} /></label></div>
    </div>
    ${list.error && list.state === "failed" ? html`<p class="error" role="alert">${list.error.message} <button class="link" onClick=${() => list.look(route)}>${t("action.again")}</button></p>` : null}
    ${list.state === "loading" ? html`<p class="muted empty" aria-busy="true">${t("loading")}</p>` : null}
    ${list.state !== "loading" && !rows.length && !list.error ? html`<${Empty} route=${route} all=${list.rows.length} />` : null}
    ${rows.length ? html`<div class="scroll"><table class="tasks">
      <thead><tr>${["state", "task", ...(narrow ? [] : ["steps", "waits", "started", "time", "cost"])].map((one) => html`<th key=${one} scope="col">${t(`list.column.${one}`)}</th>`)}</tr></thead>
      <tbody>${rows.map((row) => html`<${Row} key=${row.task_id} row=${row} more=${list.details.get(row.task_id)} now=${now} narrow=${narrow} />`)}</tbody></table></div>` : null}
    ${list.cursor ? html`<p class="center"><button onClick=${() => { list.pages += 1; list.look(route); }}>${t("list.more")}</button></p>` : null}
  </main>`;
}

function Row({ row, more, now, narrow }) {
  const state = stateOfTask(row.status);
  const ended = ["succeeded", "failed", "cancelled", "timed_out"].includes(row.status);
  const href = `#/task/${encodeURIComponent(row.task_id)}`;
  const line = row.description.trim().split("\n")[0] || row.task_id;
  const steps = more ? t("list.steps", { done: more.done_steps, total: more.total_steps }) : "";
  const waits = (more?.waiting_for ?? []).map((one) => t(`waits.${["approval", "outcome", "intervention", "question", "callback", "time", "pause", "key", "model"].includes(one.kind) ? one.kind : "question"}`));
  const time = span(((ended ? row.updated : now / 1000) - row.created) * 1000);
  return html`<tr class=${`s-${state}`}>
    <td><span class=${`badge s-${state}`}><${Glyph} state=${state} />${t(`status.${row.status}`)}</span></td>
    <td class="t-task"><a href=${href}><${Text} text=${line} /></a>${row.session_id ? html` <button class="link small muted" onClick=${() => change({ session: row.session_id })}>${row.session_id}</button>` : null}
      ${narrow ? html`<span class="muted small block num">${[steps, waits[0], time].filter(Boolean).join(" · ")}</span>` : null}</td>
    ${narrow ? null : html`<td class="num">${more?.total_steps ? steps : ""}</td><td>${[...new Set(waits)].join(", ")}</td>
      <td class="num">${ago(row.created * 1000, now)}</td><td class="num">${time}</td><td class="num">${more?.usage?.cost_usd ? money(more.usage.cost_usd) : ""}</td>`}
  </tr>`;
}

function Empty({ route, all }) {
  if (all || route.q || route.state || route.session) {
    return html`<p class="empty">${t("empty.filter")} <button class="link" onClick=${() => change({ q: "", state: "", session: "" })}>${t("empty.clear")}</button></p>`;
  }
  return html`<div class="empty"><p>${t("empty.tasks")}</p><p class="code"><code>replan run "…" --tools tools.py</code></p></div>`;
}

/** j and k go down and up the list. */
function listKeys() {
  const heard = (event) => {
    if (isField(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") {
      event.preventDefault();
      document.getElementById("find")?.focus();
    }
    const by = { j: 1, k: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by) return;
    const links = [...document.querySelectorAll(".t-task > a")];
    const next = links[Math.max(0, links.indexOf(document.activeElement) + by)];
    if (next) {
      event.preventDefault();
      next.focus();
    }
  };
  addEventListener("keydown", heard);
  return () => removeEventListener("keydown", heard);
}
