// Names cut to a width, by how wide their letters really are. Measured once for each text, width and font.

const LONGEST = 160; // no card shows more; measuring a megabyte would stop the page
const MOST = 20000;

let context = null;
let family = "";
const cuts = new Map();

function pen(font) {
  context ??= document.createElement("canvas").getContext("2d");
  family ||= getComputedStyle(document.body).fontFamily || "sans-serif";
  const whole = `${font} ${family}`;
  if (context.font !== whole) context.font = whole;
  return context;
}

export function width(text, font) {
  return pen(font).measureText(text).width;
}

/** @param {string} font  size and weight as in CSS, without the family: `600 12px` */
export function cut(text, room, font) {
  const line = String(text ?? "").slice(0, LONGEST).replace(/\s/g, " ");
  const key = `${font}|${room}|${line}`;
  const known = cuts.get(key);
  if (known !== undefined) return known;
  if (cuts.size > MOST) cuts.clear();
  const result = fitting(line, room, font, String(text ?? "").length > LONGEST);
  cuts.set(key, result);
  return result;
}

function fitting(line, room, font, more) {
  const draw = pen(font);
  if (!more && draw.measureText(line).width <= room) return line;
  const letters = Array.from(line);
  let low = 0;
  let high = letters.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (draw.measureText(`${letters.slice(0, middle).join("").trimEnd()}…`).width <= room) low = middle;
    else high = middle - 1;
  }
  return low ? `${letters.slice(0, low).join("").trimEnd()}…` : "";
}
