// JSON without loss: a whole number that the browser cannot hold exactly stays as it was sent, digit by digit.

/** What somebody has typed that is no JSON (yet). */
export class Unread {
  constructor(text, at = 0) {
    this.text = text;
    this.at = at; // where it ends to be JSON, in characters; 0: nobody knows
  }
}

const DIGITS = /^-?\d+$/;

export function parse(text) {
  return JSON.parse(text, (_, value, context) => {
    if (typeof value !== "number" || Number.isSafeInteger(value)) return value;
    const source = context?.source ?? "";
    return DIGITS.test(source) ? BigInt(source) : value;
  });
}

/** The value, or what was typed where it is none. */
export function read(text) {
  try {
    return parse(text);
  } catch (error) {
    const found = /position (\d+)/.exec(error.message);
    return new Unread(text, found ? Number(found[1]) : text.length);
  }
}

export function write(value, space = 0) {
  if (value instanceof Unread) return value.text;
  return JSON.stringify(value, (_, one) => (typeof one === "bigint" ? raw(one) : one), space);
}

function raw(value) {
  return JSON.rawJSON ? JSON.rawJSON(String(value)) : Number(value);
}

/** The line of a text where that character stands, from 1. */
export const lineAt = (text, at) => text.slice(0, at).split("\n").length;

export function same(one, other) {
  if (one === other) return true;
  if (typeof one !== "object" || typeof other !== "object" || !one || !other) return Number.isNaN(one) && Number.isNaN(other);
  if (Array.isArray(one) !== Array.isArray(other)) return false;
  const names = Object.keys(one);
  return names.length === Object.keys(other).length && names.every((name) => Object.hasOwn(other, name) && same(one[name], other[name]));
}
