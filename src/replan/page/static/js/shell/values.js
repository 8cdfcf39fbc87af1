// A value of a tool or a model, as a tree: all of it is text, and what is cut says so.
import { copyText, html, useState } from "replan/shell/dom";
import { bytes, t } from "replan/i18n";
import { json } from "replan/shell/api";
import { mixedParts } from "replan/shell/scripts";

const LONG = 300;
const MANY = 50;
// Characters that change how others are read without being seen: shown as their numbers.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2064\u2066-\u206f\ufeff]/gu;
const ALL_UNSEEN = new RegExp(UNSEEN.source, "u");

export function Text({ text }) {
  if (!ALL_UNSEEN.test(text)) return seen(text);
  const parts = [];
  let at = 0;
  for (const found of text.matchAll(UNSEEN)) {
    parts.push(seen(text.slice(at, found.index)), html`<mark class="unseen">U+${found[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}</mark>`);
    at = found.index + found[0].length;
  }
  return [...parts, seen(text.slice(at))];
}

/** Addresses that mix the letters of several scripts are marked: they may look like others. */
function seen(text) {
  const parts = mixedParts(text);
  if (parts.length === 1 && !parts[0][1]) return text;
  return parts.map(([part, mixed]) => (mixed ? html`<u class="mixed" title=${t("value.mixed")}>${part}<span class="sr"> (${t("value.mixed")})</span></u>` : part));
}

function Long({ text }) {
  const [open, setOpen] = useState(false);
  if (text.length <= LONG) return html`<span class="v-text"><${Text} text=${text} /></span>`;
  return html`<span class="v-text"><${Text} text=${open ? text : text.slice(0, LONG)} />${open ? null : "… "}
    <button type="button" class="link small" onClick=${() => setOpen(!open)}>${open ? t("value.less") : t("value.more", { size: bytes(text.length) })}</button></span>`;
}

const ADDRESS = /^https?:\/\/[^\s<>"']{1,2000}$/;

function Word({ text }) {
  if (!ADDRESS.test(text)) return html`<${Long} text=${text} />`;
  const host = (() => {
    try {
      return new URL(text).host;
    } catch {
      return null;
    }
  })();
  if (!host) return html`<${Long} text=${text} />`;
  return html`<a class="v-text" href=${text} target="_blank" rel="noopener noreferrer nofollow"><${Text} text=${text} /></a>
    <span class="muted small"> (${host})</span>`;
}

export function Value({ value, depth = 0 }) {
  if (value === null || value === undefined) return html`<span class="v-none">${value === null ? "null" : t("value.none")}</span>`;
  if (typeof value === "string") return html`<${Word} text=${value} />`;
  if (typeof value !== "object") return html`<span class="v-plain num">${String(value)}</span>`;
  if (value.left_out && value.href) return html`<${Lazy} href=${value.href} size=${value.bytes} />`;
  if (value.left_out) return html`<span><${Long} text=${value.head ?? ""} /> <span class="muted">${t("value.cut", { size: bytes(value.bytes) })}</span></span>`;
  const rows = Array.isArray(value) ? value.map((one, index) => [String(index), one]) : Object.entries(value);
  if (!rows.length) return html`<span class="v-none">${Array.isArray(value) ? "[]" : "{}"}</span>`;
  return html`<${Branch} rows=${rows} depth=${depth} list=${Array.isArray(value)} />`;
}

function Branch({ rows, depth, list }) {
  const [open, setOpen] = useState(depth < 2);
  const [most, setMost] = useState(MANY);
  const head = list ? t("value.items", { count: rows.length }) : t("value.fields", { count: rows.length });
  if (depth > 0 && !open) return html`<button type="button" class="link small" aria-expanded="false" onClick=${() => setOpen(true)}>${head}</button>`;
  return html`<div class="v-branch">
    ${depth > 0 ? html`<button type="button" class="link small" aria-expanded="true" onClick=${() => setOpen(false)}>${head}</button>` : null}
    <dl class=${list ? "v-rows v-list" : "v-rows"}>${rows.slice(0, most).map(([name, one]) => html`<div key=${name}><dt><${Text} text=${name} /></dt><dd><${Value} value=${one} depth=${depth + 1} /></dd></div>`)}</dl>
    ${rows.length > most ? html`<button type="button" class="link small" onClick=${() => setMost(most * 4)}>${t("value.rest", { count: rows.length - most })}</button>` : null}
  </div>`;
}

/** What the light view has left out: read when it is asked for. */
export function Lazy({ href, size }) {
  const [state, setState] = useState({});
  if (!href.startsWith("/api/v1/")) return html`<span class="muted">${t("value.cut", { size: bytes(size) })}</span>`;
  const load = async () => {
    setState({ loading: true });
    try {
      const found = await json(href);
      const data = found.items ? found.items[0]?.data : found;
      const value = "text" in (data ?? {}) && "total" in data ? parsed(data) : data;
      setState({ value });
    } catch (error) {
      setState({ error });
    }
  };
  if ("value" in state) return html`<${Value} value=${state.value} depth=${1} />`;
  if (state.error) return html`<span class="error">${state.error.message} <button type="button" class="link" onClick=${load}>${t("action.again")}</button></span>`;
  return html`<button type="button" class="small" disabled=${state.loading} onClick=${load}>${t("value.load", { size: bytes(size) })}</button>`;
}

function parsed(piece) {
  if (piece.next_offset != null) return piece.text;
  try {
    return JSON.parse(piece.text);
  } catch {
    return piece.text;
  }
}

export function Copy({ value }) {
  const [state, setState] = useState("");
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  const copy = () => copyText(text).then(() => setState("copied"), () => setState("failed"));
  return html`<button type="button" class="small" onClick=${copy}>${t(state ? `copy.${state}` : "copy")}</button>`;
}
