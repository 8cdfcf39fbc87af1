// The head of a task: its first line, one sentence, what was used, a bar by state, and what filters every view.
import { html, useState } from "replan/shell/dom";
import { found, nextFound } from "replan/plan/filter";
import { money, span, t } from "replan/i18n";
import { sentenceOf } from "replan/sentence";
import { Glyph, stateOfTask } from "replan/shell/glyph";
import { Text } from "replan/shell/values";
import { stepsOf, STATES } from "replan/store";
import { budgetOf } from "replan/panel/overview";

const firstLine = (text) => text.trim().split("\n")[0];

export function doneOf(task) {
  const count = (state) => task.counts[state] ?? 0;
  return count("done") + count("reused");
}

export function Head({ task, view, change, narrow, diff, acts = null }) {
  const said = sentenceOf(task);
  const total = stepsOf(task).length;
  const time = (task.ended || view.now) - (task.started || task.created || view.now);
  const parts = [
    total ? t("head.done", { done: doneOf(task), total }) : null,
    task.created ? span(Math.max(0, time)) : null,
    t("head.calls", { count: task.usage.calls }),
    task.usage.cost ? money(task.usage.cost) : null,
    task.round > 1 ? t("head.round", { round: task.round }) : null,
  ].filter(Boolean);
  return html`<header class="head">
    <div class="head-line"><h1 title=${task.description}><${Text} text=${firstLine(task.description) || task.id} /></h1>${acts}</div>
    <p class="status"><span class=${`badge s-${stateOfTask(task.status)}`}><${Glyph} state=${stateOfTask(task.status)} />${t(`status.${task.status}`)}</span>
      <span class="sentence">${t(said.key, said.values)}</span></p>
    <p class="muted num facts-line">${parts.join(" · ")} ${narrow ? null : budgetOf(task, view.now).slice(0, 3).map((one) => html`<progress key=${one.name} max="1" value=${Math.min(1, one.used / one.most)}
      aria-label=${`${t(`limit.${one.name}`)}: ${t("over.of", { used: one.say(one.used), most: one.say(one.most) })}`} title=${`${t(`limit.${one.name}`)}: ${t("over.of", { used: one.say(one.used), most: one.say(one.most) })}`}></progress>`)}</p>
    <${Bar} task=${task} total=${total} />
    <div class="filters">
      <div class="chips" role="group" aria-label=${t("head.filter")}>${statesOf(task).map((state) => html`<${Filter} key=${state} state=${state} count=${task.counts[state]} view=${view} change=${change} />`)}</div>
      <div class="finds">
        <label class="field"><span class="sr">${t("head.find")}</span><input id="find" type="search" placeholder=${`${t("head.find")}  /`} value=${view.filter.text} onInput=${(event) => change({ q: event.target.value })} onKeyDown=${(event) => event.key === "Enter" && jump(task, view, change, event.shiftKey)} /></label>
        ${diff}
      </div>
    </div>
  </header>`;
}

/** From the search to the next step that fits it, or with Shift to the one before. */
function jump(task, view, change, back) {
  const id = nextFound(found(task, view.filter), view.selected, back);
  if (id) change({ step: id, event: "", tab: "" });
}

/** In the order in which they came up, so that none moves; those that there were stay until the end. */
const statesOf = (task) => {
  const known = Object.keys(task.counts);
  return task.ended ? STATES.filter((state) => task.counts[state]) : known;
};

function Bar({ task, total }) {
  if (!total) return null;
  const parts = ["done", "reused", "failed", "unknown", "waiting", "recovering", "running", "ready", "pending", "skipped", "cancelled"].filter((state) => task.counts[state]);
  const words = parts.map((state) => `${t(`state.${state}`)} ${task.counts[state]}`).join(", ");
  return html`<div class="bar" role="img" aria-label=${words}>${parts.map((state) => html`<span key=${state} class=${`s-${state}`} style=${{ flexGrow: task.counts[state] }}></span>`)}</div>`;
}

function Filter({ state, count, view, change }) {
  const on = view.filter.states.has(state);
  const toggle = () => {
    const next = new Set(view.filter.states);
    if (on) next.delete(state);
    else next.add(state);
    change({ state: [...next].join(",") });
  };
  return html`<button class=${`filter s-${state}${count ? "" : " none"}`} aria-pressed=${on} onClick=${toggle}><${Glyph} state=${state} />${t(`state.${state}`)} <b class="num">${count}</b></button>`;
}

/** The versions of the plan: which is looked at, and what was changed by it. */
export function Versions({ task, view, change }) {
  const [open, setOpen] = useState(false);
  if (!task.versions.length) return null;
  const chosen = view.version || task.version;
  const choose = (version) => {
    change({ v: version === task.version ? "" : String(version) });
    setOpen(false);
  };
  return html`<div class="menu" onKeyDown=${(event) => event.key === "Escape" && setOpen(false)}>
    <button aria-expanded=${open} aria-haspopup="true" onClick=${() => setOpen(!open)}>${t("version.button", { version: chosen })} ▾</button>
    ${open ? html`<div class="menu-body card" role="group" aria-label=${t("version.title")}>
      <h2>${t("version.title")}</h2>
      <ol class="plain versions">${[...task.versions].reverse().map((one) => html`<li key=${one.version}><button class=${`link${one.version === chosen ? " chosen" : ""}`} aria-current=${one.version === chosen ? "true" : undefined} onClick=${() => choose(one.version)}>
        <b>v${one.version}</b> <span class="num muted">${span(one.at - task.created)}</span> ${one.strategy ? t(`strategy.${one.strategy}`) : t("strategy.first")}</button>
        ${one.reason ? html`<span class="small block">${one.reason.slice(0, 240)}</span>` : null}
        <span class="muted small block num">${[one.added.length ? `+${one.added.length}` : "", one.removed.length ? `−${one.removed.length}` : "", Object.keys(one.changed).length ? `~${Object.keys(one.changed).length}` : ""].filter(Boolean).join("  ")}</span></li>`)}</ol>
    </div>` : null}
  </div>`;
}
