// The frame around all pages: where one is, in which language and colours, and how it stands with the service.
import { html, isField, useEffect, useReducer, useRef, useState } from "replan/shell/dom";
import { heard, language, LANGUAGES, speak, t } from "replan/i18n";
import { HelpPage } from "replan/help";
import { ListPage } from "replan/list";
import { json } from "replan/shell/api";
import { paint, pref, prefer, THEMES } from "replan/shell/prefs";
import { NewPage } from "replan/places/new";
import { ToolsPage } from "replan/places/tools";
import { WaitingCount, WaitingPage } from "replan/places/waiting";
import { change, readRoute } from "replan/shell/route";
import { SignIn } from "replan/signin";
import { connectionOf, TaskPage } from "replan/task";
import { openOf } from "replan/panel/waits";
import { sentenceOf } from "replan/sentence";

const NARROW = "(max-width: 759px)";
const SAY_MS = 5000;

function useNarrow() {
  const [narrow, setNarrow] = useState(matchMedia(NARROW).matches);
  useEffect(() => {
    const media = matchMedia(NARROW);
    const look = () => setNarrow(media.matches);
    media.addEventListener("change", look);
    return () => media.removeEventListener("change", look);
  }, []);
  return narrow;
}

function useRoute() {
  const [route, setRoute] = useState(readRoute());
  useEffect(() => {
    const look = () => setRoute(readRoute());
    for (const name of ["hashchange", "popstate", "replan:route"]) addEventListener(name, look);
    return () => {
      for (const name of ["hashchange", "popstate", "replan:route"]) removeEventListener(name, look);
    };
  }, []);
  return route;
}

/** What changes is said to those who do not see it: at most one sentence in five seconds, what is asked and the end at once. */
function useSaid() {
  const [said, setSaid] = useState("");
  const last = useRef({ at: 0, text: "" });
  const say = (text, now) => {
    if (text === last.current.text || (!now && Date.now() - last.current.at < SAY_MS)) return;
    last.current = { at: Date.now(), text };
    setSaid(text);
  };
  return [said, say];
}

export function App({ load, given = null }) {
  const [, redraw] = useReducer((count) => count + 1, 0);
  const route = useRoute();
  const narrow = useNarrow();
  const [theme, setTheme] = useState(pref("theme", "system"));
  const [session, setSession] = useState(null);
  const [signedOut, setSignedOut] = useState(false);
  const [link, setLink] = useState(null);
  const [said, say] = useSaid();

  useEffect(() => heard(redraw), []);
  useEffect(() => paint(theme), [theme]);
  useEffect(() => {
    if (!given) json("/page/session").then(setSession, (error) => setSignedOut(error.status === 401));
  }, [signedOut]);
  useEffect(() => {
    if (route.name !== "task") {
      setLink(null);
      document.title = `${t(`title.${route.name}`)} · Replan`;
    }
  }, [route.name, language()]);
  useEffect(() => {
    const help = (event) => {
      if (event.key === "?" && !isField(event.target) && pref("letters", true)) location.hash = "#/help";
    };
    addEventListener("keydown", help);
    return () => removeEventListener("keydown", help);
  }, []);

  const linked = (state, task, again) => {
    setLink({ state, again });
    const open = openOf(task).length;
    const name = task.description.trim().split("\n")[0].slice(0, 60);
    document.title = `${open ? `⏸ ${open} · ` : ""}${name || t("title.task")} · Replan`;
    const now = sentenceOf(task);
    say(t(now.key, now.values), open > 0 || task.ended > 0);
    if (state.kind === "signed-out") setSignedOut(true);
  };
  const choose = (name) => {
    prefer("theme", name);
    setTheme(name);
  };
  const signOut = () => json("/page/session", { method: "DELETE" }).then(() => setSignedOut(true), () => setSignedOut(true));

  return html`<div class="top" role="banner">
      <button class="skip" onClick=${() => skip(route)}>${t("skip")}</button>
      <a class="brand" href="#/">Replan</a>
      ${given ? html`<span class="muted">${t("export.said")}</span>` : html`<nav aria-label=${t("nav.label")}>
        <a href="#/" aria-current=${route.name === "list" ? "page" : undefined}>${t("nav.tasks")}</a>
        <a href="#/waiting" aria-current=${route.name === "waiting" ? "page" : undefined}>${t("nav.waiting")}${signedOut ? null : html`<${WaitingCount} />`}</a>
        <a href="#/tools" aria-current=${route.name === "tools" ? "page" : undefined}>${t("nav.tools")}</a>
        <a href="#/new" aria-current=${route.name === "new" ? "page" : undefined}>${t("nav.new")}</a>
      </nav>`}
      <span class="spacer"></span>
      <label class="field"><span class="sr">${t("language")}</span><select value=${language()} onChange=${(event) => { prefer("language", event.target.value); speak(event.target.value, load); }}>
        ${Object.entries(LANGUAGES).map(([name, words]) => html`<option key=${name} value=${name} lang=${name}>${words}</option>`)}</select></label>
      <label class="field"><span class="sr">${t("theme")}</span><select value=${theme} onChange=${(event) => choose(event.target.value)}>${THEMES.map((name) => html`<option key=${name} value=${name}>${t(`theme.${name}`)}</option>`)}</select></label>
      ${given ? null : html`<a class="quiet" href="#/help" aria-label=${t("help.title")}>?</a>`}
      ${session?.asked && !signedOut ? html`<button class="quiet" onClick=${signOut}>${t("signout")}</button>` : null}
      ${link && !given ? html`<${Link} link=${link} />` : null}
    </div>
    ${signedOut ? html`<${SignIn} done=${(found) => { setSession(found); setSignedOut(false); }} />` : pageOf(route, { narrow, theme, given, linked, setSignedOut })}
    <div class="sr" aria-live="polite">${said}</div>`;
}

/** To the list: of a task all of its steps, which have what the pictures have. */
function skip(route) {
  if (route.name === "task") change({ pane: "steps" });
  else location.hash = "#/";
  requestAnimationFrame(() => document.querySelector(".rows, table.tasks a")?.focus());
}

function pageOf(route, { narrow, theme, given, linked, setSignedOut }) {
  if (given) return html`<${TaskPage} route=${{ ...route, id: given.task.id }} theme=${theme} narrow=${narrow} given=${given} />`;
  if (route.name === "task") return html`<${TaskPage} key=${route.id} route=${route} theme=${theme} narrow=${narrow} link=${linked} />`;
  const signedOut = () => setSignedOut(true);
  if (route.name === "new") return html`<${NewPage} route=${route} signedOut=${signedOut} />`;
  if (route.name === "waiting") return html`<${WaitingPage} signedOut=${signedOut} />`;
  if (route.name === "tools") return html`<${ToolsPage} route=${route} narrow=${narrow} />`;
  if (route.name === "help") return html`<${HelpPage} />`;
  return html`<${ListPage} route=${route} narrow=${narrow} signedOut=${() => setSignedOut(true)} />`;
}

function Link({ link }) {
  const [, tick] = useReducer((count) => count + 1, 0);
  const { state, again } = link;
  useEffect(() => {
    if (state.kind !== "reconnecting" && state.kind !== "offline") return undefined;
    const timer = setInterval(tick, 500);
    return () => clearInterval(timer);
  }, [state.kind]);
  return html`<span class=${`link-state l-${state.kind}`}><span class="dot" aria-hidden="true"></span>${connectionOf(state, Date.now())}
    ${["reconnecting", "offline"].includes(state.kind) ? html` <button class="link small" onClick=${again}>${t("action.now")}</button>` : null}</span>`;
}
