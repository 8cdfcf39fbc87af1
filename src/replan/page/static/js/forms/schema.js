// What a JSON Schema asks for, as far as a form can show it; and what is wrong with a value, before it is sent. The service's word counts.
import { same, Unread } from "replan/forms/exact";

const DEEP = 20;
export const NESTED = 4; // deeper than that a form is no help: it is JSON
const MOST_FAULTS = 50;
const SIMPLE = { string: "text", number: "number", integer: "integer", boolean: "boolean" };

/** The schema itself in place of a reference, of a choice with only one other than null, and of an `allOf` of one. */
export function resolved(schema, root = schema, depth = 0) {
  if (schema === true || typeof schema !== "object" || schema === null || depth > DEEP) return {};
  const { $ref, anyOf, oneOf, allOf, ...rest } = schema;
  if (typeof $ref === "string") return { ...resolved(pointed($ref, root), root, depth + 1), ...rest };
  const choices = anyOf ?? oneOf;
  if (Array.isArray(choices)) {
    const real = choices.filter((one) => one?.type !== "null");
    const nullable = real.length < choices.length || undefined;
    if (real.length === 1) return { ...resolved(real[0], root, depth + 1), ...rest, ...(nullable && { nullable }) };
    if (real.length && real.every((one) => one && "const" in one)) {
      return { ...rest, enum: real.map((one) => one.const), labels: real.map((one) => one.title), ...(nullable && { nullable }) };
    }
    return schema;
  }
  if (Array.isArray(allOf) && allOf.length === 1) return { ...resolved(allOf[0], root, depth + 1), ...rest };
  if (Array.isArray(schema.type)) {
    const real = schema.type.filter((one) => one !== "null");
    if (real.length === 1) return { ...schema, type: real[0], ...(real.length < schema.type.length && { nullable: true }) };
  }
  return schema;
}

function pointed(ref, root) {
  if (!ref.startsWith("#")) return {};
  let found = root;
  for (const part of ref.slice(1).split("/").filter(Boolean)) {
    found = found?.[decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~")];
  }
  return found ?? {};
}

/** How it is shown: `choice`, `text`, `number`, `integer`, `boolean`, `date`, `list`, `object`, else `json`. Of a resolved schema. */
export function kindOf(schema, depth = 0) {
  if (Array.isArray(schema.enum) && schema.enum.length) return "choice";
  if ("const" in schema) return "choice";
  if (schema.anyOf || schema.oneOf || schema.allOf || schema.not || schema.if) return "json";
  if (schema.type === "string") return schema.format === "date" ? "date" : "text";
  if (schema.type in SIMPLE) return SIMPLE[schema.type];
  if (depth >= NESTED) return "json";
  if (schema.type === "array" && schema.items && !Array.isArray(schema.items) && !schema.prefixItems) return "list";
  if ((schema.type === "object" || schema.type === undefined) && Object.keys(schema.properties ?? {}).length) return "object";
  return "json";
}

export const choicesOf = (schema) => ("const" in schema && !schema.enum ? [schema.const] : schema.enum);

const TYPES = {
  string: (value) => typeof value === "string",
  number: (value) => typeof value === "number" || typeof value === "bigint",
  integer: (value) => typeof value === "bigint" || Number.isInteger(value),
  boolean: (value) => typeof value === "boolean",
  array: Array.isArray,
  object: (value) => typeof value === "object" && value !== null && !Array.isArray(value),
  null: (value) => value === null,
};

/** What is wrong: `{path, key, values}` each, `key` of the words that say it. */
export function check(schema, value, root = schema, path = [], found = []) {
  const one = resolved(schema, root, path.length);
  const say = (key, values = {}) => found.push({ path, key: `form.bad.${key}`, values });
  if (found.length >= MOST_FAULTS || path.length > DEEP) return found;
  if (value instanceof Unread) say("json");
  else if (value === null && one.nullable) return found;
  else if (choicesOf(one)) choicesOf(one).some((choice) => same(choice, value)) || say("choice");
  else if (TYPES[one.type] && !TYPES[one.type](value)) say(one.type);
  else if (typeof value === "string") text(one, value, say);
  else if (typeof value === "number" || typeof value === "bigint") amount(one, value, say);
  else if (Array.isArray(value)) list(one, value, root, path, found, say);
  else if (TYPES.object(value)) fields(one, value, root, path, found);
  return found;
}

function text(schema, value, say) {
  const length = [...value].length;
  if (length < schema.minLength) say(value ? "short" : "empty", { least: schema.minLength });
  if (length > schema.maxLength) say("long", { most: schema.maxLength });
}

function amount(schema, value, say) {
  if (value < schema.minimum || value <= schema.exclusiveMinimum) say("small", { least: schema.minimum ?? schema.exclusiveMinimum });
  if (value > schema.maximum || value >= schema.exclusiveMaximum) say("large", { most: schema.maximum ?? schema.exclusiveMaximum });
}

function list(schema, value, root, path, found, say) {
  if (value.length < schema.minItems) say("few", { least: schema.minItems });
  if (value.length > schema.maxItems) say("many", { most: schema.maxItems });
  if (schema.items) value.forEach((one, index) => check(schema.items, one, root, [...path, index], found));
}

function fields(schema, value, root, path, found) {
  for (const name of schema.required ?? []) {
    if (value[name] === undefined) found.push({ path: [...path, name], key: "form.bad.missing", values: {} });
  }
  for (const [name, one] of Object.entries(value)) {
    if (one === undefined) continue;
    if (schema.properties && Object.hasOwn(schema.properties, name)) check(schema.properties[name], one, root, [...path, name], found);
    else if (schema.additionalProperties === false) found.push({ path: [...path, name], key: "form.bad.unknown", values: {} });
  }
}

/** What a new item of a list begins as. */
export function blank(schema, root) {
  const one = resolved(schema, root);
  if (one.default !== undefined) return one.default;
  const kind = kindOf(one);
  if (kind === "text" || kind === "date") return "";
  if (kind === "list") return [];
  return kind === "object" ? {} : undefined;
}

/** A value without what was not filled in. */
export function filled(value) {
  if (Array.isArray(value)) return value.filter((one) => one !== undefined).map(filled);
  if (typeof value !== "object" || value === null || value instanceof Unread) return value;
  return Object.fromEntries(Object.entries(value).filter(([, one]) => one !== undefined).map(([name, one]) => [name, filled(one)]));
}
