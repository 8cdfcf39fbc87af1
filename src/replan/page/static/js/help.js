// The keys, what the signs mean, and what is kept here.
import { html, useReducer } from "replan/shell/dom";
import { t } from "replan/i18n";
import { Glyph } from "replan/shell/glyph";
import { KEYS } from "replan/shell/keys";
import { pref, prefer } from "replan/shell/prefs";
import { STATES } from "replan/store";

export function HelpPage() {
  const [, redraw] = useReducer((count) => count + 1, 0);
  const letters = pref("letters", true);
  return html`<main class="alone help">
    <h1>${t("help.title")}</h1>
    <h2>${t("help.states")}</h2>
    <ul class="plain legend">${STATES.map((state) => html`<li key=${state}><${Glyph} state=${state} /> <b>${t(`state.${state}`)}</b> <span class="muted">${t(`state.${state}.means`)}</span></li>`)}</ul>
    <h2>${t("help.keys")}</h2>
    <table class="keys"><tbody>${KEYS.map(([keys, words]) => html`<tr key=${words}><th scope="row"><kbd>${keys}</kbd></th><td>${t(words)}</td></tr>`)}</tbody></table>
    <label class="check"><input type="checkbox" checked=${letters} onChange=${(event) => { prefer("letters", event.target.checked); redraw(); }} /> ${t("help.letters")}</label>
  </main>`;
}
