// Names that look like others: letters of several scripts in one address.

const BETWEEN = /([\s,;<>()"']+)/;
const LATIN = /\p{Script=Latin}/u;
const ALIKE = /[\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Armenian}\p{Script=Cherokee}\uff01-\uff5e]/u;
const SIGNS = ["@", "://", "."];

/** `[text, mixed]` each: the parts of a text, and whether a part is an address with letters that look like others. */
export function mixedParts(text) {
  if (!ALIKE.test(text)) return [[text, false]];
  const parts = [];
  for (const part of text.split(BETWEEN)) {
    const mixed = LATIN.test(part) && ALIKE.test(part) && SIGNS.some((sign) => part.includes(sign));
    if (mixed || !parts.length || parts.at(-1)[1]) parts.push([part, mixed]);
    else parts.at(-1)[0] += part;
  }
  return parts;
}
