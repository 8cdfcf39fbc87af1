// The page's own words, in the language that was chosen. Names of steps and tools and the words of models stay as they are.

export const LANGUAGES = { en: "English", zh: "中文" };
const PLURAL = ["one", "other"];

const state = { language: "en", words: {}, plural: new Intl.PluralRules("en"), listeners: new Set() };

export const language = () => state.language;

/** The language that the page begins in: what was chosen before, else the browser's. */
export function preferred(chosen) {
  const wanted = [chosen, ...(navigator.languages ?? [navigator.language])].filter(Boolean);
  for (const one of wanted) {
    const short = one.toLowerCase().split("-")[0];
    if (short in LANGUAGES) return short;
  }
  return "en";
}

export async function speak(name, load) {
  const words = await load(name);
  Object.assign(state, { language: name, words, plural: new Intl.PluralRules(name) });
  document.documentElement.lang = name === "zh" ? "zh-CN" : name;
  for (const tell of state.listeners) tell();
}

export function heard(tell) {
  state.listeners.add(tell);
  return () => state.listeners.delete(tell);
}

/** The words of that key, with these values in their places; the form goes by `values.count`. */
export function t(key, values = {}) {
  let text = state.words[key];
  if (text === undefined) return key;
  if (typeof text === "object") {
    const form = state.plural.select(Number(values.count ?? 0));
    text = text[PLURAL.includes(form) ? form : "other"] ?? text.other;
  }
  return text.replace(/\{(\w+)\}/g, (_, name) => (name === "count" ? number(values.count) : String(values[name] ?? "")));
}

export const has = (key) => key in state.words;

const formats = new Map();

/** Making a format takes a hundred times as long as using it. */
function formatOf(Kind, how) {
  const key = `${Kind.name} ${state.language} ${JSON.stringify(how)}`;
  if (!formats.has(key)) formats.set(key, new Kind(state.language, how));
  return formats.get(key);
}

export const number = (value, how = {}) => formatOf(Intl.NumberFormat, how).format(value);

/** A span of time as people read it: `450 ms`, `1.4 s`, `2 min 5 s`, `3 h 2 min`. */
export function span(ms) {
  if (!(ms >= 0)) return "";
  if (ms < 1000) return `${number(Math.round(ms))} ms`;
  const secs = ms / 1000;
  if (secs < 10) return `${number(secs, { minimumFractionDigits: 1, maximumFractionDigits: 1 })} s`;
  if (secs < 60) return `${number(Math.round(secs))} s`;
  const units = [[86_400, "time.d"], [3_600, "time.h"], [60, "time.min"], [1, "time.s"]];
  let rest = Math.round(secs);
  const parts = [];
  for (const [size, unit] of units) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count || parts.length) parts.push(`${number(count)} ${t(unit)}`);
    if (parts.length === 2) break;
  }
  return parts.join(" ");
}

export function moment(ms, how = { dateStyle: "medium", timeStyle: "medium" }) {
  return ms ? formatOf(Intl.DateTimeFormat, how).format(new Date(ms)) : "";
}

/** How long ago, roughly. */
export function ago(ms, now) {
  const secs = Math.round((ms - now) / 1000);
  const format = formatOf(Intl.RelativeTimeFormat, { numeric: "auto", style: "narrow" });
  for (const [size, unit] of [[86_400, "day"], [3_600, "hour"], [60, "minute"]]) {
    if (Math.abs(secs) >= size) return format.format(Math.trunc(secs / size), unit);
  }
  return format.format(Math.trunc(secs / 5) * 5, "second");
}

export function bytes(count) {
  if (count < 1000) return `${number(count)} B`;
  if (count < 1e6) return `${number(count / 1000, { maximumFractionDigits: 1 })} kB`;
  return `${number(count / 1e6, { maximumFractionDigits: 1 })} MB`;
}

export function money(usd) {
  const small = usd > 0 && usd < 0.01;
  return `${number(usd, small ? { maximumSignificantDigits: 1 } : { minimumFractionDigits: 2, maximumFractionDigits: 2 })} $`;
}
