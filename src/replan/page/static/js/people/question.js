// A question: of a step, of the task as a whole, or about what became of a call.
import { html, useState } from "replan/shell/dom";
import { t } from "replan/i18n";
import { Unread, write } from "replan/forms/exact";
import { SchemaForm } from "replan/forms/form";
import { blank, check, filled, kindOf, resolved } from "replan/forms/schema";
import { Act, byKeys, meant, useAwake, useSend, Wrong } from "replan/forms/sending";
import { Gone } from "replan/people/approval";
import { questionPath, useRead } from "replan/people/reading";
import { call } from "replan/shell/api";
import { Glyph } from "replan/shell/glyph";
import { Text } from "replan/shell/values";

const WORDS = ["text", "done", "stop"];
const OUTCOMES = ["yes", "no", "cannot tell"];

/** `asked`: `{about, text, background, answer_schema}`; `tool`: whose call is in doubt; `rests`: the steps that go by the answer. */
export function Question({ task, id, asked, tool, rests, gone: became = null, off = "", readOnly = false, done, children }) {
  const [state, send] = useSend();
  const gone = state.sending || state.done ? null : became;
  const schema = asked.about === "question" && Object.keys(asked.answer_schema ?? {}).length ? asked.answer_schema : { type: "string", minLength: 1 };
  const [value, setValue] = useState(() => first(schema));
  const [chosen, choose] = useState("");
  const [tried, setTried] = useState(false);
  const [output, setOutput] = useState(undefined);
  const awake = useAwake(id);
  const said = asked.about === "outcome" ? chosen : asked.about === "intervention" && chosen !== "text" ? chosen : null;
  const faults = said === null ? check(schema, value === undefined ? undefined : filled(value)).concat(value === undefined ? [{ path: [], key: "form.bad.missing", values: {} }] : []) : [];
  const still = gone || off || !awake || state.sending || state.done;
  const submit = (event) => {
    if (!meant(event)) return;
    setTried(true);
    if (still || faults.length || said === "" || output instanceof Unread) return;
    const body = bodyOf(asked, said, said === null ? filled(value) : undefined, output);
    send(async () => {
      await call(questionPath(task, id), { method: "POST", body, text: write(body) });
      done?.(id);
    });
  };
  return html`<form class="card edge s-waiting ask" aria-labelledby=${`ask-${id}`} onSubmit=${submit} onKeyDown=${byKeys}>
    <div class="panel-head"><${Glyph} state=${asked.about === "outcome" ? "unknown" : "waiting"} size=${20} /><h2 id=${`ask-${id}`} class="ask-title" tabindex="-1">${t(`question.title.${asked.about}`)}</h2></div>
    <p class="lead pre"><${Text} text=${asked.text} /></p>
    ${asked.background ? html`<details open=${asked.about === "outcome"}><summary>${t("question.background")}</summary><p class="pre"><${Text} text=${asked.background} /></p></details>` : null}
    ${rests?.length ? html`<p class="muted small">${t("question.rests", { count: rests.length, names: rests.slice(0, 3).map((step) => step.name).join(", ") })}</p>` : null}
    ${gone || readOnly ? null : html`
      ${asked.about === "outcome" ? html`<${Outcome} tool=${tool} chosen=${chosen} choose=${choose} output=${output} setOutput=${setOutput} id=${id} />` : null}
      ${asked.about === "intervention" ? html`<${Choices} id=${id} words=${WORDS} chosen=${chosen || "text"} choose=${choose} key_="question.as" legend=${t("question.how")} />` : null}
      ${said === null ? html`<${SchemaForm} schema=${schema} value=${value} set=${setValue} faults=${tried ? faults : []} name=${t("question.answer")} />` : null}`}
    ${gone ? html`<${Gone} gone=${gone} />` : null}
    <${Wrong} error=${state.error} />
    ${tried && said === "" ? html`<p class="error small" role="alert">${t("form.bad.missing")}</p>` : null}
    ${gone || state.done || readOnly ? null : html`<p class="buttons"><${Act} type="submit" kind="primary" off=${still} why=${off}>${t("question.send")}<//></p>`}
    ${state.done && !gone ? html`<p class="muted" role="status">${t("send.sent")}</p>` : null}
    ${children}
  </form>`;
}

function first(schema) {
  const one = resolved(schema);
  if (kindOf(one) === "text") return one.default ?? "";
  return kindOf(one) === "object" ? (one.default ?? {}) : one.default ?? (kindOf(one) === "list" ? blank(one, schema) : undefined);
}

function bodyOf(asked, said, value, output) {
  if (asked.about === "outcome") return said === "yes" && output !== undefined ? { text: said, output } : { text: said };
  if (said !== null) return { text: said };
  if (asked.about !== "question" || value === null) return { text: value === null ? "null" : value };
  return { output: value };
}

function Choices({ id, words, chosen, choose, key_, legend }) {
  return html`<fieldset class="f-radios"><legend>${legend}</legend>${words.map((word) => html`<label key=${word}><input type="radio" name=${`how-${id}`} checked=${chosen === word} onChange=${() => choose(word)} /> <span>${t(`${key_}.${word.replace(" ", "_")}`)}</span></label>`)}</fieldset>`;
}

/** Whether a call took effect; with what it gave, where somebody knows. */
function Outcome({ tool, chosen, choose, output, setOutput, id }) {
  const tools = useRead(tool ? "/tools" : null).found ?? [];
  const schema = tools.find((one) => one.id === tool)?.output_schema ?? {};
  return html`<${Choices} id=${id} words=${OUTCOMES} chosen=${chosen} choose=${choose} key_="outcome" legend=${t("question.outcome")} />
    ${chosen === "yes" ? html`<details><summary>${t("question.output")}</summary><${SchemaForm} schema=${schema} value=${output} set=${setOutput} faults=${output === undefined ? [] : check(schema, output)} name=${t("question.outputName")} /></details>` : null}`;
}
