// Sending something, and what may be said of it meanwhile.
import { html, useEffect, useRef, useState } from "replan/shell/dom";
import { t } from "replan/i18n";
import { Text } from "replan/shell/values";

const SLEEP_MS = 500;

/** `[{sending, error, done}, send, clear]`: `send(work)` does it once, and no second time meanwhile. */
export function useSend() {
  const [state, setState] = useState({});
  const busy = useRef(false);
  const send = async (work) => {
    if (busy.current) return undefined;
    busy.current = true;
    setState({ sending: true });
    try {
      const done = await work();
      setState({ done: done ?? true });
      return done ?? true;
    } catch (error) {
      setState({ error });
      return undefined;
    } finally {
      busy.current = false;
    }
  };
  return [state, send, () => setState({})];
}

/** False for half a second after what is shown has changed, so that no click meant for one thing hits another. */
export function useAwake(shown) {
  const [awake, setAwake] = useState(null);
  useEffect(() => {
    const timer = setTimeout(() => setAwake(shown), SLEEP_MS);
    return () => clearTimeout(timer);
  }, [shown]);
  return awake === shown;
}

/** A button that keeps the focus while nothing may be done with it. */
export function Act({ off, why, act, kind = "", type = "button", children }) {
  const click = (event) => {
    if (off) event.preventDefault();
    else act?.(event);
  };
  return html`<button type=${type} data-send=${type === "submit" ? "" : undefined} class=${kind} aria-disabled=${off ? "true" : undefined} title=${off && why ? why : undefined} onClick=${click}>${children}</button>`;
}

/** What the service says went wrong, with each place and rule that it names. */
export function Wrong({ error, again }) {
  if (!error) return null;
  const { document = {}, kind } = error;
  const places = (document.problems ?? []).map((one) => `${one.where.replace(/^body\./, "")}: ${one.what}`);
  const points = places.length ? places : (document.violations ?? []);
  return html`<div class="wrong" role="alert">
    <p class="error">${points.length && places.length ? document.title : html`<${Text} text=${error.message} />`}</p>
    ${points.length ? html`<ul class="error small">${points.map((one) => html`<li><${Text} text=${one} /></li>`)}</ul>` : null}
    ${kind === "not-allowed" ? html`<p class="small">${t("send.scope")}</p>` : null}
    ${again ? html`<p><button type="button" class="small" onClick=${again}>${t("action.again")}</button></p>` : null}
  </div>`;
}

/** Whether a form is sent by its own button or by keys: nothing that is shown in it can send it. */
export function meant(event) {
  event.preventDefault();
  return !event.submitter || "send" in event.submitter.dataset;
}

/** Ctrl+Enter sends the form that has the focus. */
export function byKeys(event) {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  event.currentTarget.requestSubmit();
}
