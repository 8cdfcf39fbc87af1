// A new task: what is to be done, within which limits; what it would do, before it is begun.
import { html, useEffect, useState } from "replan/shell/dom";
import { t } from "replan/i18n";
import { Unread, write } from "replan/forms/exact";
import { Json } from "replan/forms/fields";
import { SchemaForm } from "replan/forms/form";
import { check, filled } from "replan/forms/schema";
import { Act, byKeys, meant, useSend, Wrong } from "replan/forms/sending";
import { useRead } from "replan/people/reading";
import { Preview } from "replan/places/preview";
import { call } from "replan/shell/api";
import { Text } from "replan/shell/values";

const LIMITS = { timeout_secs: ["number", "task_timeout_secs"], max_llm_calls: ["integer"], max_tokens: ["integer"], max_cost_usd: ["number"], max_tool_calls: ["integer"], max_rounds: ["integer"] };
const CHOICES = { approval: ["never", "destructive", "all"], evaluation: ["model", "steps"] };
const EMPTY = { text: "", options: {}, workflow: "", slots: {}, context: {}, secrets: [] };
// What was typed stays while the page is open, also when somebody has to sign in again.
let draft = { ...EMPTY };

/** The options of a task as a schema, so that they are a form like any other. */
export function optionsSchema() {
  const choice = (name) => ({ title: t(`new.${name}`), oneOf: CHOICES[name].map((one) => ({ const: one, title: t(`new.${name}.${one}`) })) });
  const limit = ([name, [type, word = name]]) => [name, { title: t(type === "number" && word !== name ? "new.mostSecs" : "new.most", { limit: t(`limit.${word}`) }), type, minimum: 0 }];
  return { type: "object", properties: { approval: choice("approval"), review_plan: { type: "boolean", title: t("new.reviewPlan") }, interactive: { type: "boolean", title: t("new.interactive") }, evaluation: choice("evaluation"), ...Object.fromEntries(Object.entries(LIMITS).map(limit)) } };
}

const contextSchema = () => ({ type: "object", properties: { session_id: { type: "string", title: t("list.session"), maxLength: 200 }, previous_task_id: { type: "string", title: t("new.previous"), maxLength: 128 } } });

/** The body of the request; `plan`: the one that was shown. */
export function requestOf(said, plan) {
  const options = { ...said.options, ...(said.workflow ? { workflow: said.workflow, slots: filled(said.slots) } : {}), ...(said.plan === undefined ? {} : { plan: said.plan }), ...(said.output === undefined ? {} : { output_schema: said.output }) };
  const whole = plan ? { ...options, workflow: undefined, slots: undefined, plan } : options;
  const secrets = Object.fromEntries(said.secrets.filter((one) => one.name.trim()).map((one) => [one.name.trim(), one.value]));
  return filled({
    task_description: said.text.trim(), options: whole, context: said.context,
    ...(said.metadata === undefined ? {} : { metadata: said.metadata }), ...(Object.keys(secrets).length ? { secrets } : {}),
  });
}

export function NewPage({ route, signedOut }) {
  const [said, setSaid] = useState(() => (route.q ? { ...draft, text: route.q } : draft));
  const [tried, setTried] = useState(false);
  const [shown, setShown] = useState(null);
  const workflows = useRead("/workflows").found ?? [];
  const [looking, look] = useSend();
  const [state, send] = useSend();
  const put = (name) => (value) => {
    draft = { ...draft, ...said, [name]: value };
    setSaid(draft);
    setShown(null);
  };
  useEffect(() => {
    if ([looking, state].some((one) => one.error?.status === 401)) signedOut();
  }, [looking.error, state.error]);
  const workflow = workflows.find((one) => one.id === said.workflow);
  const slots = workflow ? { type: "object", properties: workflow.slots, required: workflow.required } : null;
  const faults = { options: check(optionsSchema(), said.options), slots: slots ? check(slots, said.slots) : [], context: check(contextSchema(), said.context) };
  const unread = ["plan", "metadata", "output"].filter((name) => said[name] instanceof Unread);
  const empty = !said.text.trim();
  const bad = empty || unread.length || Object.values(faults).some((one) => one.length);
  const seen = (name) => (tried ? faults[name] : faults[name].filter((fault) => fault.key !== "form.bad.missing"));

  const post = async (body) => (await call("/tasks", { method: "POST", body, text: write(body) })).json();
  const dry = () => {
    setTried(true);
    if (!bad) look(async () => setShown(await post({ ...requestOf(said), dry_run: true })));
  };
  const begin = (plan) => {
    setTried(true);
    if (bad) return;
    send(async () => {
      const made = await post(requestOf(said, plan));
      draft = { ...EMPTY };
      location.hash = `#/task/${encodeURIComponent(made.task_id)}`;
    });
  };
  const submit = (event) => {
    if (meant(event)) begin();
  };
  const busy = looking.sending || state.sending;
  return html`<main class="alone wide new"><form onSubmit=${submit} onKeyDown=${byKeys}>
    <h1>${t("title.new")}</h1>
    <label class="field-block"><span class="f-label">${t("new.what")}</span><textarea id="new-text" rows="4" value=${said.text} aria-invalid=${tried && empty ? "true" : undefined} onInput=${(event) => put("text")(event.target.value)}></textarea></label>
    ${tried && empty ? html`<p class="error small" role="alert">${t("form.bad.missing")}</p>` : null}
    ${workflows.length ? html`<label class="field-block"><span class="f-label">${t("new.workflow")}</span><select value=${said.workflow} onChange=${(event) => put("workflow")(event.target.value)}><option value="">${t("new.noWorkflow")}</option>${workflows.map((one) => html`<option key=${one.id} value=${one.id}>${one.id}</option>`)}</select></label>` : null}
    ${workflow ? html`<fieldset class="f-group"><legend>${workflow.id}</legend><p class="muted small"><${Text} text=${workflow.description} /></p><${SchemaForm} key=${workflow.id} schema=${slots} value=${said.slots} set=${put("slots")} faults=${seen("slots")} name=${t("new.slots")} /></fieldset>` : null}
    <details><summary>${t("new.options")}</summary><${SchemaForm} schema=${optionsSchema()} value=${said.options} set=${put("options")} faults=${seen("options")} name=${t("new.options")} /></details>
    <details><summary>${t("new.follows")}</summary><${SchemaForm} schema=${contextSchema()} value=${said.context} set=${put("context")} faults=${seen("context")} name=${t("new.follows")} /></details>
    <details><summary>${t("new.secrets")}</summary><p class="muted small">${t("new.secretsAbout")}</p><${Secrets} list=${said.secrets} set=${put("secrets")} /></details>
    <details open=${unread.length > 0}><summary>${t("new.json")}</summary>
      ${["metadata", "plan", "output"].map((name) => html`<label key=${name} class="field-block"><span class="f-label">${t(`new.${name}Json`)}</span><${Json} value=${said[name]} set=${put(name)} rows=${4} said=${{ "aria-invalid": unread.includes(name) ? "true" : undefined }} />${unread.includes(name) ? html`<span class="error small block">${t("form.bad.json")}</span>` : null}</label>`)}</details>
    <${Wrong} error=${looking.error ?? state.error} />
    <p class="buttons"><${Act} type="submit" kind="primary" off=${busy}>${t("new.begin")}<//> <${Act} off=${busy} act=${dry}>${t(looking.sending ? "new.looking" : "new.dry")}<//></p>
  </form>
  ${shown ? html`<${Preview} found=${shown} begin=${() => begin(shown.plan)} off=${busy} />` : null}
  </main>`;
}

function Secrets({ list, set }) {
  const put = (index, change) => set(list.map((one, at) => (at === index ? { ...one, ...change } : one)));
  return html`${list.map((one, index) => html`<div key=${index} class="f-item secret">
      <label>${t("new.secretName")} <input value=${one.name} autocomplete="off" spellcheck=${false} onInput=${(event) => put(index, { name: event.target.value })} /></label>
      <label>${t("new.secretValue")} <input type="password" autocomplete="off" value=${one.value} onInput=${(event) => put(index, { value: event.target.value })} /></label>
      <button type="button" class="small" onClick=${() => set(list.filter((_, at) => at !== index))}>${t("form.remove")}</button></div>`)}
    <p><button type="button" class="small" onClick=${() => set([...list, { name: "", value: "" }])}>${t("form.add")}</button></p>`;
}
