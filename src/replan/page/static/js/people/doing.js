// What a person can do to a task that goes on: tell it something, hold it, go on, end it, have it judged, fork it.
import { html, useState } from "replan/shell/dom";
import { t } from "replan/i18n";
import { Dialog } from "replan/forms/dialog";
import { Act, useSend } from "replan/forms/sending";
import { ForkDialog } from "replan/people/fork";
import { call, taskPath } from "replan/shell/api";
import { connectionOf } from "replan/task";

/** Why nothing can be done now; empty where it can. */
export function offOf(session) {
  if (session.readOnly) return t("act.file");
  const { kind } = session.state;
  return ["live", "asleep", "ended"].includes(kind) ? "" : connectionOf(session.state, Date.now());
}

export const tell = (task, what, body = {}) => call(taskPath(task, `/${what}`), { method: "POST", body });

/** `narrow`: behind one button, so that what waits stands higher. */
export function Doing({ session, narrow = false }) {
  const [open, setOpen] = useState(false);
  const [asked, ask] = useState(null);
  const { task } = session;
  if (session.readOnly || !task.seq) return null;
  const off = offOf(session);
  const close = () => ask(null);
  const held = task.pause || task.halt?.until_resumed;
  const button = (name, key, kind = "") => html`<${Act} key=${name} kind=${kind} off=${off} why=${off} act=${() => ask(name)}>${t(key)}<//>`;
  if (narrow && !open) return html`<div class="doing"><button type="button" aria-expanded="false" onClick=${() => setOpen(true)}>${t("act.more")}</button></div>`;
  return html`<div class="doing" role="group" aria-label=${t("act.title")}>
    ${narrow ? html`<button type="button" aria-expanded="true" onClick=${() => setOpen(false)}>${t("act.more")}</button>` : null}
    ${task.ended ? null : html`${button("hint", "act.hint")} ${held ? button("resume", "act.resume", "primary") : button("pause", "act.pause")} ${button("cancel", "act.cancel")} ${button("judge", "act.judge")}`}
    ${button("fork", "act.fork")}
    ${asked === "hint" ? html`<${HintDialog} session=${session} close=${close} />` : null}
    ${asked === "pause" ? html`<${PauseDialog} session=${session} close=${close} />` : null}
    ${asked === "resume" ? html`<${ResumeDialog} session=${session} close=${close} />` : null}
    ${asked === "cancel" ? html`<${ReasonDialog} session=${session} what="cancel" danger=${true} close=${close} />` : null}
    ${asked === "judge" ? html`<${HintDialog} session=${session} what="judge" close=${close} />` : null}
    ${asked === "fork" ? html`<${ForkDialog} session=${session} close=${close} />` : null}
  </div>`;
}

const Area = ({ name, value, set, required = false }) => html`<label class="field-block"><span class="f-label">${name}</span><textarea rows="2" required=${required} value=${value} onInput=${(event) => set(event.target.value)}></textarea></label>`;

export function HintDialog({ session, what = "hint", close }) {
  const [text, setText] = useState("");
  const [state, send] = useSend();
  const body = () => (what === "hint" ? { text: text.trim() } : { hint: text.trim() });
  const post = () => send(() => tell(session.task.id, what, body()).then(close));
  return html`<${Dialog} title=${t(`act.${what}Title`)} close=${close} send=${post} state=${state} sendWord=${t(`act.${what}Send`)} off=${what === "hint" && !text.trim()}>
    <p>${t(`act.${what}About`)}</p><${Area} name=${t("act.hintText")} value=${text} set=${setText} required=${what === "hint"} /><//>`;
}

function PauseDialog({ session, close }) {
  const [reason, setReason] = useState("");
  const [now, setNow] = useState(false);
  const [state, send] = useSend();
  const post = () => send(() => tell(session.task.id, "pause", { reason: reason.trim(), now }).then(close));
  return html`<${Dialog} title=${t("act.pauseTitle")} close=${close} send=${post} state=${state} sendWord=${t("act.pauseSend")}>
    <p>${t("act.pauseAbout")}</p><${Area} name=${t("act.reason")} value=${reason} set=${setReason} />
    <label class="f-check"><input type="checkbox" checked=${now} onChange=${() => setNow(!now)} /> ${t("act.pauseNow")}</label><//>`;
}

export function ResumeDialog({ session, close }) {
  const { task } = session;
  const names = task.halt?.secrets ?? [];
  const [reason, setReason] = useState("");
  const [secrets, setSecrets] = useState({});
  const [state, send] = useSend();
  const lacking = names.some((name) => !secrets[name]);
  const post = () => send(() => tell(task.id, "resume", { reason: reason.trim(), ...(names.length ? { secrets } : {}) }).then(close));
  return html`<${Dialog} title=${t("act.resumeTitle")} close=${close} send=${post} state=${state} sendWord=${t("act.resumeSend")} off=${lacking}>
    <p>${t(names.length ? "act.resumeSecrets" : "act.resumeAbout")}</p>
    ${names.map((name) => html`<label key=${name} class="field-block"><span class="f-label">${t("new.secret", { name })}</span><input type="password" autocomplete="off" onInput=${(event) => setSecrets({ ...secrets, [name]: event.target.value })} /></label>`)}
    ${names.length ? null : html`<${Area} name=${t("act.reason")} value=${reason} set=${setReason} />`}<//>`;
}

/** `what`: a call that takes a reason. */
export function ReasonDialog({ session, what, path = what, danger = false, close }) {
  const [reason, setReason] = useState("");
  const [state, send] = useSend();
  const post = () => send(() => tell(session.task.id, path, { reason: reason.trim() }).then(close));
  return html`<${Dialog} title=${t(`act.${what}Title`)} close=${close} send=${post} state=${state} sendWord=${t(`act.${what}Send`)} danger=${danger}>
    <p>${t(`act.${what}About`)}</p><${Area} name=${t("act.reason")} value=${reason} set=${setReason} /><//>`;
}
