// Something that is asked for in a window of its own, over the page. Esc closes it.
import { useId } from "preact/hooks";
import { html, useEffect, useRef } from "replan/shell/dom";
import { t } from "replan/i18n";
import { Act, byKeys, meant, Wrong } from "replan/forms/sending";

/** The keys of the page are not heard in it, and the focus goes back to where it was. */
export function Window({ label, close, wide = false, children }) {
  const box = useRef(null);
  useEffect(() => {
    const element = box.current;
    const before = document.activeElement;
    element.showModal();
    return () => {
      element.close();
      before?.focus?.();
    };
  }, []);
  const cancel = (event) => {
    event.preventDefault();
    close();
  };
  return html`<dialog ref=${box} class=${wide ? "dialog wide" : "dialog"} aria-labelledby=${label} onCancel=${cancel} onKeyDown=${(event) => event.stopPropagation()}>${children}</dialog>`;
}

/** `send(event)`: of its form; `state`: of `useSend`. */
export function Dialog({ title, close, send, state = {}, sendWord, danger = false, off = false, why, children }) {
  const id = useId();
  const submit = (event) => {
    if (meant(event) && !off && !state.sending) send(event);
  };
  return html`<${Window} label=${id} close=${close}>
    <form onSubmit=${submit} onKeyDown=${byKeys}>
      <h2 id=${id}>${title}</h2>
      ${children}
      <${Wrong} error=${state.error} />
      <p class="buttons"><${Act} type="submit" kind=${danger ? "danger" : "primary"} off=${off || state.sending} why=${why}>${sendWord}<//>
        <button type="button" onClick=${close}>${t("dialog.close")}</button></p>
    </form>
  <//>`;
}
