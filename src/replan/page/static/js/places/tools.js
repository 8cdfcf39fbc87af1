// The tools that tasks may use, and how each has done.
import { html } from "replan/shell/dom";
import { number, span, t } from "replan/i18n";
import { Wrong } from "replan/forms/sending";
import { resolved } from "replan/forms/schema";
import { write } from "replan/forms/exact";
import { useRead } from "replan/people/reading";
import { change } from "replan/shell/route";
import { Copy, Text } from "replan/shell/values";

const SHOWN_FAULTS = 10;

export function ToolsPage({ route, narrow }) {
  const { found, error, again } = useRead("/tools?stats=true");
  if (error) return html`<main class="alone"><h1>${t("title.tools")}</h1><${Wrong} error=${error} again=${again} /></main>`;
  if (!found) return html`<main class="alone" aria-busy="true"><h1>${t("title.tools")}</h1><p class="muted">${t("loading")}</p></main>`;
  if (route.id) {
    const tool = found.find((one) => one.id === route.id);
    return tool ? html`<${Tool} tool=${tool} />` : html`<main class="alone"><h1>${t("tools.missing")}</h1><p class="mono"><${Text} text=${route.id} /></p><p><a href="#/tools">${t("tools.all")}</a></p></main>`;
  }
  const words = route.q.toLowerCase();
  const rows = found.filter((tool) => !words || `${tool.id}\n${tool.description}\n${tool.source}`.toLowerCase().includes(words));
  return html`<main class="list"><div class="list-head"><h1>${t("title.tools")}</h1>
    <label class="field"><span class="sr">${t("tools.find")}</span><input id="find" type="search" placeholder=${t("tools.find")} value=${route.q} onInput=${(event) => change({ q: event.target.value })} /></label></div>
    ${found.length ? null : html`<div class="empty"><p>${t("tools.none")}</p><p class="code"><code>replan serve --tools tools.py</code></p></div>`}
    ${found.length && !rows.length ? html`<p class="empty">${t("empty.filter")}</p>` : null}
    ${rows.length ? html`<div class="scroll" tabindex="0" role="region" aria-label=${t("title.tools")}><table class="tasks"><thead><tr>${["tool", ...(narrow ? [] : ["effect", "calls", "rate", "half", "most"])].map((one) => html`<th key=${one} scope="col">${t(`tools.${one}`)}</th>`)}</tr></thead>
      <tbody>${rows.map((tool) => html`<tr key=${tool.id}><td class="t-tool"><a class="mono" href=${`#/tools/${encodeURIComponent(tool.id)}`}><${Text} text=${tool.id} /></a><span class="muted small block"><${Text} text=${tool.description.split("\n")[0].slice(0, 160)} /></span>
        ${narrow ? html`<span class="small block">${t(`effect.${tool.effect}`)}${tool.stats?.calls ? ` · ${t("tools.callCount", { count: tool.stats.calls })} · ${rateOf(tool)}` : ""}</span>` : null}</td>
        ${narrow ? null : html`<td>${t(`effect.${tool.effect}`)}${tool.requires_approval ? html`<span class="small block">${t("tools.asks")}</span>` : null}</td><td class="num">${tool.stats?.calls ? number(tool.stats.calls) : ""}</td><td class="num">${rateOf(tool)}</td><td class="num">${timeOf(tool.stats?.p50_secs)}</td><td class="num">${timeOf(tool.stats?.p95_secs)}</td>`}</tr>`)}</tbody></table></div>` : null}
  </main>`;
}

const timeOf = (secs) => (secs == null ? "" : span(secs * 1000));
const rateOf = ({ stats }) => (stats?.success_rate == null ? "" : number(stats.success_rate, { style: "percent", maximumFractionDigits: 1 }));

function Tool({ tool }) {
  const { stats } = tool;
  return html`<main class="alone wide tool"><p><a href="#/tools">← ${t("tools.all")}</a></p>
    <h1 class="mono"><${Text} text=${tool.id} /></h1>
    <p class="muted">${t(`effect.${tool.effect}`)}${tool.requires_approval ? ` · ${t("tools.asks")}` : ""} · ${t("tools.source", { source: tool.source })}</p>
    <p class="pre"><${Text} text=${tool.description} /></p>
    <h2>${t("tools.parameters")}</h2><${Parameters} schema=${tool.parameters} />
    <h2>${t("tools.done")}</h2>
    ${stats?.calls ? html`<dl class="facts"><div><dt>${t("tools.calls")}</dt><dd class="num">${number(stats.calls)}</dd></div><div><dt>${t("tools.rate")}</dt><dd class="num">${rateOf(tool)}</dd></div>
      <div><dt>${t("tools.half")}</dt><dd class="num">${timeOf(stats.p50_secs)}</dd></div><div><dt>${t("tools.most")}</dt><dd class="num">${timeOf(stats.p95_secs)}</dd></div></dl>
      ${stats.common_errors.length ? html`<h3>${t("tools.faults")}</h3><ul>${stats.common_errors.slice(0, SHOWN_FAULTS).map(([text, count]) => html`<li><${Text} text=${text} /> <span class="num muted">× ${number(count)}</span></li>`)}</ul>` : null}`
      : html`<p class="muted">${t("tools.neverCalled")}</p>`}
    ${tool.output_schema ? html`<details><summary>${t("tools.output")}</summary><pre class="raw" tabindex="0"><${Text} text=${write(tool.output_schema, 2)} /></pre></details>` : null}
    <details><summary>${t("tools.schema")}</summary><pre class="raw" tabindex="0"><${Text} text=${write(tool.parameters, 2)} /></pre><p><${Copy} value=${write(tool.parameters, 2)} /></p></details>
  </main>`;
}

function Parameters({ schema }) {
  const names = Object.entries(schema.properties ?? {});
  if (!names.length) return html`<p class="muted">${t("call.nothing")}</p>`;
  return html`<dl class="call">${names.map(([name, one]) => {
    const found = resolved(one, schema);
    const kind = found.enum ? found.enum.map((choice) => write(choice)).join(", ") : [found.type].flat().filter(Boolean).join(", ");
    return html`<div key=${name}><dt class="mono"><${Text} text=${name} /></dt><dd><span class="mono small"><${Text} text=${kind || "JSON"} /></span>${(schema.required ?? []).includes(name) ? null : html` <span class="muted small">${t("form.optional")}</span>`}
      ${found.description ? html`<span class="block"><${Text} text=${found.description} /></span>` : null}${found.default === undefined ? null : html`<span class="muted small block">${t("tools.usual", { value: write(found.default) })}</span>`}</dd></div>`;
  })}</dl>`;
}
