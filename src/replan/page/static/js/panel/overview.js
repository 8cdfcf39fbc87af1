// The task as a whole: what it was to do, its plan, what it has used, how it was judged, what was said.
import { html } from "replan/shell/dom";
import { money, moment, number, span, t } from "replan/i18n";
import { Glyph } from "replan/shell/glyph";
import { Lazy, Text, Value } from "replan/shell/values";
import { Critical } from "replan/panel/critical";
import { Chip } from "replan/panel/step";

const LIMITS = [
  ["max_llm_calls", (task) => task.usage.calls, number],
  ["max_tokens", (task) => task.usage.tokens, number],
  ["max_cost_usd", (task) => task.usage.cost, money],
  ["max_tool_calls", (task) => task.usage.tool_calls, number],
  ["max_rounds", (task) => task.round, number],
];

export function budgetOf(task, now) {
  const found = LIMITS.filter(([name]) => task.budget[name] != null).map(([name, used, say]) => ({ name, used: used(task), most: task.budget[name], say }));
  const secs = task.budget.task_timeout_secs;
  if (secs != null && task.started) found.push({ name: "task_timeout_secs", used: (task.ended || now) - task.started, most: secs * 1000, say: span });
  return found;
}

export function Overview({ session, view, select, change }) {
  const { task } = session;
  const version = task.versions.at(-1);
  const verdicts = task.notes.filter((one) => one.kind === "evaluation");
  return html`<section class="card" aria-labelledby="over-title">
    <h2 id="over-title">${t("over.title")}</h2>
    <p class="pre"><${Text} text=${task.description} /></p>
    <p class="muted small">${t("over.created", { at: moment(task.created) })}${task.by ? ` · ${task.by}` : ""}${task.session ? ` · ${t("list.session")} ${task.session}` : ""}</p>
    <p class="muted small mono">${task.id}</p>
    ${task.origin ? html`<p>${t("over.fork", { at: task.origin.at })} <a href=${`#/task/${encodeURIComponent(task.origin.task)}`} class="mono">${task.origin.task}</a></p>` : null}
    ${version?.reason ? html`<h3>${t("over.plan", { version: version.version })}</h3>${version.strategy ? html`<p class="small muted">${t(`strategy.${version.strategy}`)}</p>` : null}<p><${Text} text=${version.reason} /></p>` : null}
    ${version?.part ? html`<p class="small">${t("over.part")}</p>` : null}
    <h3>${t("over.used")}</h3>
    <dl class="facts">
      <div><dt>${t("over.calls")}</dt><dd class="num">${number(task.usage.calls)}</dd></div>
      <div><dt>${t("over.tokens")}</dt><dd class="num">${number(task.usage.tokens)}</dd></div>
      <div><dt>${t("over.cost")}</dt><dd class="num">${money(task.usage.cost)}</dd></div>
      <div><dt>${t("over.toolCalls")}</dt><dd class="num">${number(task.usage.tool_calls)}</dd></div>
    </dl>
    ${budgetOf(task, view.now).map((one) => html`<${Limit} key=${one.name} limit=${one} />`)}
    ${verdicts.map((one) => html`<${Verdict} key=${one.seq} verdict=${one} change=${change} />`)}
    ${task.notes.filter((one) => ["reflection", "replanning", "escalation", "stopped", "rejected", "budget"].includes(one.kind)).map((one) => html`<${Note} key=${one.seq} note=${one} task=${task} select=${select} />`)}
    ${task.notes.filter((one) => ["hint", "approval", "answer", "fork", "cancel", "pause"].includes(one.kind)).map((one) => html`<${Said} key=${one.seq} note=${one} task=${task} select=${select} />`)}
    <${Critical} task=${task} view=${view} select=${select} />
    <${Phases} task=${task} now=${view.now} />
  </section>`;
}

function Limit({ limit }) {
  const share = limit.most > 0 ? Math.min(1, limit.used / limit.most) : 1;
  const words = t("over.of", { used: limit.say(limit.used), most: limit.say(limit.most) });
  return html`<div class="limit"><span>${t(`limit.${limit.name}`)}</span><span class="num">${words}</span>
    <progress class=${share > 0.8 ? "near" : ""} max="1" value=${share} aria-label=${t(`limit.${limit.name}`)}></progress></div>`;
}

function Verdict({ verdict }) {
  const found = verdict.evaluation;
  if (found?.left_out) return html`<h3>${t("verdict.title")}</h3><${Lazy} href=${found.href ?? ""} size=${found.bytes} />`;
  if (!found) return html`<h3>${t("verdict.title")}</h3><p>${t("verdict.none")} <${Text} text=${verdict.reason ?? ""} /></p>`;
  const parts = ["completeness", "correctness", "efficiency", "reliability"];
  return html`<h3>${t("verdict.title")} <span class="num">${number(found.overall_score)}</span> <span class="muted small">${t(`verdict.by.${verdict.by ?? "model"}`)}</span></h3>
    ${verdict.by === "steps" ? null : html`<dl class="facts">${parts.map((name) => html`<div key=${name}><dt>${t(`verdict.${name}`)}</dt><dd class="num">${number(found.dimensions?.[name] ?? 0)}</dd></div>`)}</dl>`}
    <${Points} list=${found.successes} state="done" /><${Points} list=${found.failures} state="failed" /><${Points} list=${found.wrong_results} state="failed" />`;
}

function Points({ list, state }) {
  if (!list?.length) return null;
  return html`<ul class="marked">${list.map((one) => html`<li><${Glyph} state=${state} /><span><${Text} text=${one} /></span></li>`)}</ul>`;
}

function Note({ note, task, select }) {
  const text =
    note.reflection?.reflection_text || note.strategy?.reason || note.text || note.reason || note.violations?.join("; ") ||
    (note.kind === "budget" ? t("note.budget.text", { limit: t(`limit.${note.limit}`) }) : "");
  const causes = note.reflection?.root_causes ?? [];
  return html`<h3>${t(`note.${note.kind}`)}${note.strategy?.type ? html` <span class="muted small">${t(`strategy.${note.strategy.type}`)}</span>` : null}</h3>
    <p><${Text} text=${text} /></p>
    ${note.step_id ? html`<p><${Chip} step=${task.steps.get(note.step_id)} select=${select} /></p>` : null}
    ${causes.length ? html`<ul>${causes.map((one) => html`<li><${Text} text=${one} /></li>`)}</ul>` : null}`;
}

function Said({ note, task, select }) {
  const what = note.kind === "approval" ? t(note.approved ? "said.yes" : "said.no") : t(`said.${note.kind}`);
  return html`<p class="said-by"><b>${what}</b>${note.by ? ` · ${note.by}` : ""}${note.step ? html` <${Chip} step=${task.steps.get(note.step)} select=${select} />` : null}
    ${note.text || note.reason ? html`<span class="said block"><${Text} text=${note.text || note.reason} /></span>` : null}
    ${note.parameters ? html`<${Value} value=${note.parameters} depth=${1} />` : null}</p>`;
}

function Phases({ task, now }) {
  if (!task.phases.length) return null;
  return html`<details><summary>${t("over.phases", { count: task.phases.length })}</summary><ul class="plain">
    ${task.phases.slice(-100).map((one) => html`<li key=${one.id}><b>${t(`phase.${one.kind}`)}</b> <span class="mono small">${one.model}</span> · <span class="num">${span((one.end || now) - one.start)}</span>${one.error ? html` · <span class="error-text"><${Text} text=${one.error} /></span>` : null}</li>`)}
  </ul></details>`;
}
