// The fields of a form, as a JSON Schema asks for them.
import { useId } from "preact/hooks";
import { html, useState } from "replan/shell/dom";
import { t } from "replan/i18n";
import { read, same, Unread, write } from "replan/forms/exact";
import { blank, choicesOf, kindOf, resolved } from "replan/forms/schema";
import { Text } from "replan/shell/values";

const RADIOS = 7;
const starts = (path, other) => path.every((part, index) => String(part) === String(other[index]));

/** `form`: `{root, faults, fixed}` of the whole; `set(undefined)`: it is not given. */
export function Field({ form, schema, name, path, value, set, required = false, depth = 0 }) {
  const id = useId();
  const one = resolved(schema, form.root, depth);
  const kind = kindOf(one, depth);
  const faults = form.faults.filter((fault) => fault.path.length === path.length && starts(path, fault.path));
  const title = one.title ?? name;
  const more = { form, schema: one, path, value, set, required, depth, id, title };
  const notes = html`${one.description ? html`<span id=${`${id}-about`} class="muted small block"><${Text} text=${one.description} /></span>` : null}
    ${faults.length ? html`<span id=${`${id}-bad`} class="error small block">${faults.map((fault) => t(fault.key, fault.values)).join(" ")}</span>` : null}`;
  const about = [one.description && `${id}-about`, faults.length && `${id}-bad`].filter(Boolean).join(" ") || undefined;
  const said = { id, "aria-describedby": about, "aria-invalid": faults.length ? "true" : undefined };
  const label = html`<${Text} text=${title} />${required || !depth ? null : html` <span class="muted small">${t("form.optional")}</span>`}`;
  if (form.fixed?.(path)) {
    return html`<div class="field-block"><span class="f-label">${label}</span> <span class="mono">${write(value)}</span><span class="muted small block">${t("form.fixed")}</span></div>`;
  }
  if (kind === "object") return html`<fieldset class="f-group" aria-describedby=${about}><legend>${label}</legend>${notes}<${Fields} ...${more} /></fieldset>`;
  if (kind === "list") return html`<fieldset class="f-group" aria-describedby=${about}><legend>${label}</legend>${notes}<${List} ...${more} /></fieldset>`;
  if (kind === "boolean" || (kind === "choice" && choicesOf(one).length <= RADIOS)) {
    return html`<fieldset class="f-radios" aria-describedby=${about}><legend>${label}</legend>${notes}<${Radios} ...${more} /></fieldset>`;
  }
  const Input = { choice: Choice, number: Amount, integer: Amount, date: Plain, text: Words, json: Json }[kind];
  return html`<div class="field-block"><label class="f-label" for=${id}>${label}</label><${Input} ...${more} said=${said} />${notes}</div>`;
}

/** Those of an object. */
export function Fields({ form, schema, path, value, set, depth }) {
  const given = value && typeof value === "object" && !(value instanceof Unread) ? value : {};
  const names = Object.keys(schema.properties ?? {});
  const others = Object.keys(given).filter((name) => !names.includes(name));
  const put = (name) => (next) => {
    const { [name]: before, ...rest } = given;
    set(next === undefined ? rest : { ...given, [name]: next });
  };
  return [...names, ...others].map((name) => html`<${Field} key=${name} form=${form} schema=${schema.properties?.[name] ?? {}} name=${name} path=${[...path, name]}
    value=${given[name]} set=${put(name)} required=${(schema.required ?? []).includes(name)} depth=${depth + 1} />`);
}

function List({ form, schema, path, value, set, depth }) {
  const items = Array.isArray(value) ? value : [];
  const put = (index) => (next) => set(items.map((one, at) => (at === index ? next : one)));
  const full = items.length >= (schema.maxItems ?? Infinity);
  return html`${items.map((one, index) => html`<div key=${index} class="f-item">
      <${Field} form=${form} schema=${schema.items} name=${t("form.item", { number: index + 1 })} path=${[...path, index]} value=${one} set=${put(index)} required=${true} depth=${depth + 1} />
      <button type="button" class="small" onClick=${() => set(items.filter((_, at) => at !== index))}>${t("form.remove")}<span class="sr"> ${t("form.item", { number: index + 1 })}</span></button></div>`)}
    <p><button type="button" class="small" disabled=${full} onClick=${() => set([...items, blank(schema.items, form.root)])}>${t("form.add")}</button></p>`;
}

const wordOf = (schema, choice, index) => schema.labels?.[index] ?? (typeof choice === "boolean" ? t(`form.${choice}`) : typeof choice === "string" ? choice : write(choice));

function Radios({ schema, value, set, required, id }) {
  const choices = schema.type === "boolean" && !schema.enum ? [true, false] : choicesOf(schema);
  return html`${choices.map((choice, index) => html`<label key=${index}><input type="radio" name=${id} checked=${same(choice, value)} onChange=${() => set(choice)} /> <span><${Text} text=${wordOf(schema, choice, index)} /></span></label>`)}
    ${required ? null : html`<label><input type="radio" name=${id} checked=${value === undefined} onChange=${() => set(undefined)} /> <span class="muted">${t("form.notGiven")}</span></label>`}`;
}

/** Many choices: a list, and words to look for in it. */
function Choice({ schema, value, set, said }) {
  const [words, setWords] = useState("");
  const choices = choicesOf(schema).map((choice, index) => [index, wordOf(schema, choice, index)]);
  const at = choicesOf(schema).findIndex((choice) => same(choice, value));
  const fit = choices.filter(([index, text]) => index === at || text.toLowerCase().includes(words.toLowerCase()));
  return html`<span class="f-choice"><input type="search" aria-label=${t("form.find")} placeholder=${t("form.find")} value=${words} onInput=${(event) => setWords(event.target.value)} />
    <select ...${said} value=${at < 0 ? "" : String(at)} onChange=${(event) => set(event.target.value === "" ? undefined : choicesOf(schema)[Number(event.target.value)])}>
      <option value="">${t("form.choose")}</option>${fit.map(([index, text]) => html`<option key=${index} value=${String(index)}>${text}</option>`)}</select></span>`;
}

const emptied = (schema, required) => (required ? (schema.nullable ? null : "") : undefined);

function Words({ schema, value, set, required, said }) {
  const take = (event) => set(event.target.value === "" ? emptied(schema, required) : event.target.value);
  if (schema.format === "password" || schema.writeOnly) return html`<input type="password" autocomplete="off" ...${said} value=${value ?? ""} onInput=${take} />`;
  return html`<textarea rows="1" ...${said} value=${typeof value === "string" ? value : value == null ? "" : write(value)} onInput=${take}></textarea>`;
}

function Plain({ schema, value, set, required, said }) {
  return html`<input type=${schema.format} ...${said} value=${value ?? ""} onInput=${(event) => set(event.target.value === "" ? emptied(schema, required) : event.target.value)} />`;
}

/** Numbers as they are typed: a text that is none stays, and is said to be none. */
function Amount({ value, set, required, said }) {
  const [typed, setTyped] = useState(null);
  const take = (event) => {
    const text = event.target.value.trim();
    setTyped(event.target.value);
    if (text === "") return set(required ? "" : undefined);
    const found = read(text);
    return set(typeof found === "number" || typeof found === "bigint" ? found : text);
  };
  const shown = value === undefined || value === null ? "" : String(value);
  const kept = typed !== null && same(read(typed.trim()), value);
  return html`<input type="text" inputmode="decimal" ...${said} value=${kept ? typed : shown} onInput=${take} />`;
}

export function Json({ value, set, said, rows = 3 }) {
  const [typed, setTyped] = useState(null);
  const take = (event) => {
    setTyped(event.target.value);
    set(event.target.value.trim() === "" ? undefined : read(event.target.value));
  };
  const own = typed !== null && (value instanceof Unread ? value.text === typed : value === undefined ? !typed.trim() : same(read(typed), value));
  return html`<textarea class="mono" spellcheck=${false} rows=${rows} ...${said} value=${own ? typed : value === undefined ? "" : write(value, 2)} onInput=${take}></textarea>`;
}
