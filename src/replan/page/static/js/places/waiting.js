// All that waits for people, over all tasks. A row stays where it is until the page is opened anew, also once it is answered.
import { html, useEffect, useReducer, useRef, useState } from "replan/shell/dom";
import { ago, has, t } from "replan/i18n";
import { Wrong } from "replan/forms/sending";
import { Approval } from "replan/people/approval";
import { exactly, useRead } from "replan/people/reading";
import { Review } from "replan/people/review";
import { Question } from "replan/people/question";
import { clockOffset, json, taskPath } from "replan/shell/api";
import { Glyph } from "replan/shell/glyph";
import { Text } from "replan/shell/values";

const LOOK_MS = 5000;
const COUNT_MS = 15_000;
const PAGES = 10;
const ANSWERED = new Set(["approval", "question", "outcome", "intervention", "review"]);
const keyOf = (one) => `${one.task_id} ${one.waiting_for.kind} ${one.waiting_for.id}`;

async function everything() {
  const found = [];
  let cursor = null;
  for (let page = 0; page < PAGES; page += 1) {
    const said = await exactly(`/waiting?limit=200${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`);
    found.push(...said.items);
    cursor = said.next_cursor;
    if (!cursor) break;
  }
  return { found, more: Boolean(cursor) };
}

/** How many wait, beside the name of the page. */
export function WaitingCount() {
  const [count, setCount] = useState(0);
  useEffect(() => {
    let over = false;
    const look = () => document.hidden || json("/waiting?limit=100").then((page) => over || setCount(page.items.length + (page.next_cursor ? "+" : "")), () => {});
    look();
    const timer = setInterval(look, COUNT_MS);
    addEventListener("replan:answered", look);
    return () => {
      over = true;
      clearInterval(timer);
      removeEventListener("replan:answered", look);
    };
  }, []);
  return count && count !== "0" ? html` <span class="count num">${count}</span>` : null;
}

export function WaitingPage({ signedOut }) {
  const [, redraw] = useReducer((count) => count + 1, 0);
  const rows = useRef(new Map());
  const known = useRef({ open: null, more: false, error: null });
  const [opened, open] = useState(null);
  const look = async () => {
    try {
      const { found, more } = await everything();
      for (const one of found) if (!rows.current.has(keyOf(one))) rows.current.set(keyOf(one), one);
      Object.assign(known.current, { open: new Set(found.map(keyOf)), more, error: null });
    } catch (error) {
      if (error.status === 401) signedOut();
      known.current.error = error;
    }
    redraw();
  };
  useEffect(() => {
    look();
    const timer = setInterval(() => document.hidden || look(), LOOK_MS);
    return () => clearInterval(timer);
  }, []);
  const { open: still, more, error } = known.current;
  const done = () => {
    dispatchEvent(new Event("replan:answered"));
    look();
  };
  return html`<main class="alone wide waiting"><h1>${t("waiting.title")}</h1>
    <${Wrong} error=${error} again=${look} />
    ${!still && !error ? html`<p class="muted" aria-busy="true">${t("loading")}</p>` : null}
    ${still && !rows.current.size ? html`<p class="empty">${t("waiting.none")}</p>` : null}
    <ul class="plain wait-rows">${[...rows.current].map(([key, one]) => html`<${Row} key=${key} one=${one} over=${!still?.has(key)} opened=${opened === key} open=${() => open(opened === key ? null : key)} done=${done} />`)}</ul>
    ${more ? html`<p class="muted">${t("waiting.more")}</p>` : null}
  </main>`;
}

function Row({ one, over, opened, open, done }) {
  const { kind, text, tool_id: tool, step_id: step, item } = one.waiting_for;
  const which = kind === "approval" ? ` · ${step}${item == null ? "" : ` · ${t("call.item", { number: item })}`}` : "";
  const href = `#/task/${encodeURIComponent(one.task_id)}`;
  const now = Date.now() + clockOffset();
  const line = one.description.trim().split("\n")[0] || one.task_id;
  return html`<li class=${over ? "over" : ""}>
    <div class="wait-row"><${Glyph} state=${over ? "done" : kind === "outcome" ? "unknown" : "waiting"} size=${18} />
      <div class="wait-what"><b>${kind === "approval" ? t("approval.title", { tool }) : html`<${Text} text=${text} />`}</b>
        <span class="muted small block"><a href=${href}><${Text} text=${line} /></a>${which} · ${has(`waits.${kind}`) ? t(`waits.${kind}`) : t("waits.intervention")} · ${ago(one.since * 1000, now)}</span></div>
      ${over && !opened ? html`<span class="muted">${t("waiting.over")}</span>` : ANSWERED.has(kind) ? html`<button type="button" aria-expanded=${opened} onClick=${open}>${t(opened ? "dialog.close" : "waiting.answer")}</button>` : html`<a class="button" href=${href}>${t("waiting.toTask")}</a>`}</div>
    ${opened ? html`<${Opened} one=${one} over=${over} done=${done} />` : null}
  </li>`;
}

/** The card of it, with what the task's page would know besides. */
function Opened({ one, over, done }) {
  const wait = one.waiting_for;
  const tools = useRead(wait.tool_id ? "/tools" : null).found;
  const step = useRead(wait.step_id ? taskPath(one.task_id, `/steps/${encodeURIComponent(wait.step_id)}`) : null);
  const gone = over ? { how: "otherwise" } : null;
  const mine = useRef(false);
  const sent = (id) => {
    mine.current = true;
    done(id);
  };
  const said = gone && mine.current ? { how: "mine" } : gone;
  if ((wait.tool_id && !tools) || (wait.step_id && !step.found && !step.error)) return html`<p class="muted" aria-busy="true">${t("loading")}</p>`;
  const tool = tools?.find((other) => other.id === wait.tool_id);
  const planned = step.found;
  if (wait.kind === "review") return html`<${Review} task=${one.task_id} id=${wait.id} gone=${said} done=${sent} />`;
  if (wait.kind === "approval") {
    const asked = { tool_id: wait.tool_id, effect: tool?.effect, parameters: wait.parameters, parameters_schema: tool?.parameters, item: wait.item_value, index: wait.item == null ? null : wait.item - 1 };
    return html`<${Approval} task=${one.task_id} id=${wait.id} asked=${asked} name=${planned?.step.name} steps=${new Map()} gone=${said} done=${sent} />`;
  }
  const asked = { about: wait.kind, text: wait.text, background: wait.background, answer_schema: wait.answer_schema };
  return html`<${Question} task=${one.task_id} id=${wait.id} asked=${asked} tool=${planned?.step.tool} gone=${said} done=${sent} />`;
}
