// A key, given once for a cookie that no script can read.
import { html, useState } from "replan/shell/dom";
import { t } from "replan/i18n";
import { json } from "replan/shell/api";

export function SignIn({ done }) {
  const [state, setState] = useState({});
  const send = async (event) => {
    event.preventDefault();
    const key = new FormData(event.target).get("key").trim();
    setState({ sending: true });
    try {
      done(await json("/page/session", { method: "POST", body: { key } }));
    } catch (error) {
      setState({ error });
    }
  };
  return html`<main class="alone"><form class="card" onSubmit=${send}>
    <h1>${t("signin.title")}</h1>
    <p>${t("signin.why")}</p>
    <label class="field-block">${t("signin.key")}<input name="key" type="password" autocomplete="off" required spellcheck=${false} aria-describedby=${state.error ? "signin-error" : undefined} /></label>
    ${state.error ? html`<p id="signin-error" class="error" role="alert">${state.error.status === 401 ? t("signin.wrong") : state.error.message}</p>` : null}
    <p><button class="primary" disabled=${state.sending}>${t("signin.send")}</button></p>
    <p class="muted small">${t("signin.how")} <code>replan keys create</code></p>
  </form></main>`;
}
