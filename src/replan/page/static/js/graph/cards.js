// The cards as SVG, in three steps of detail. A card is a group of elements that is kept while it is in the window.

import { cut, width } from "replan/graph/measure";
import { glyph, make, put, write } from "replan/graph/svg";

export const NEAR = "near"; // the whole card
export const MIDDLE = "middle"; // glyph and name
export const FAR = "far"; // a block of colour

export function detailOf(zoom) {
  if (zoom >= 0.62) return NEAR;
  return zoom >= 0.3 ? MIDDLE : FAR;
}

const PAD = 8;
const GLYPH = 12;

/** A pool of cards: `draw` brings one up to date, `keep` drops those that are out of sight. */
export class Cards {
  constructor(layer, prefix) {
    this.layer = layer;
    this.prefix = prefix;
    this.cards = new Map();
    this.detail = NEAR;
    this.size = 0; // of the letters, while only names are shown
  }

  /** Another step of detail: what is drawn is drawn anew. Letters of another size are only written anew. */
  zoomed(zoom) {
    const detail = detailOf(zoom);
    // So large that it is 9 px or more on the screen, in steps lest each turn of the wheel measures all names anew.
    const size = detail === MIDDLE ? Math.ceil(4.55 / zoom) * 2 : 13;
    if (detail === this.detail && size === this.size) return;
    const anew = detail !== this.detail;
    this.detail = detail;
    this.size = size;
    for (const card of this.cards.values()) {
      card.said = "";
      if (!anew) continue;
      card.root.replaceChildren();
      card.parts = null;
    }
  }

  keep(ids) {
    for (const [id, card] of this.cards) {
      if (ids.has(id) || card.root === document.activeElement) continue;
      card.root.remove();
      this.cards.delete(id);
    }
  }

  rootOf(id) {
    return this.cards.get(id)?.root ?? null;
  }

  /**
   * @param face  of `faces`
   * @param look  `{selected, dim, critical, ghost, tag, focus, related, opened, kind}`
   */
  draw(id, spot, face, look) {
    let card = this.cards.get(id);
    if (!card) {
      const root = make("g", { "data-id": id, role: "graphics-symbol" }, this.layer);
      root.id = `${this.prefix}${this.cards.size}-${Math.random().toString(36).slice(2, 8)}`;
      this.cards.set(id, (card = { root, parts: null, said: "" }));
    }
    const { root } = card;
    put(root, "transform", `translate(${spot.x} ${spot.y})`);
    put(root, "tabindex", look.focus ? "0" : "-1");
    const said = JSON.stringify([face, look, spot.h, spot.w]);
    if (card.said === said) return;
    card.said = said;
    put(root, "class", classes(face, look));
    put(root, "aria-label", face.label);
    put(root, "aria-roledescription", look.roleName);
    const parts = (card.parts ??= this.build(root, look));
    put(parts.box, "width", spot.w);
    put(parts.box, "height", spot.h);
    if (parts.behind) put(parts.behind, "width", spot.w - 8);
    if (this.detail === FAR) return;
    glyph(root, face.state, parts.glyph);
    if (this.detail === MIDDLE) this.writeName(parts, spot, face);
    else this.writeAll(parts, spot, face, look);
  }

  build(root, look) {
    const parts = {};
    if (look.kind === "group" && !look.opened) {
      parts.behind = make("rect", { class: "behind", x: 4, y: -4, height: 20, rx: 6 }, root);
    }
    parts.box = make("rect", { class: "box", rx: this.detail === FAR ? 4 : 8 }, root);
    if (this.detail === FAR) return parts;
    parts.glyph = make("g", { class: "glyph" }, root);
    parts.name = make("text", { class: "name", "font-size": 13 }, root);
    if (look.kind === "group") parts.bar = make("g", { class: "parts" }, root);
    if (this.detail === MIDDLE && look.kind === "group") parts.right = make("text", { class: "right", "text-anchor": "end" }, root);
    if (this.detail === MIDDLE) return parts;
    parts.sub = make("text", { class: "sub" }, root);
    parts.right = make("text", { class: "right", "text-anchor": "end", "font-size": 12 }, root);
    parts.corner = make("g", { class: "corner" }, root);
    return parts;
  }

  writeName(parts, spot, face) {
    const scale = this.size / 13;
    const group = parts.bar && spot.h >= 40;
    const middle = group ? spot.h * 0.36 : spot.h / 2;
    put(parts.glyph, "transform", `translate(${PAD} ${middle - (GLYPH * scale) / 2}) scale(${scale})`);
    const from = PAD + GLYPH * scale + 5;
    put(parts.name, "x", from);
    put(parts.name, "y", middle + this.size * 0.36);
    put(parts.name, "font-size", this.size);
    write(parts.name, cut(face.title, spot.w - from - 5, `600 ${this.size}px`));
    if (!parts.bar) return;
    const small = Math.min(this.size, 20);
    const right = width(face.right, `400 ${small}px`) + 6;
    put(parts.right, "x", spot.w - PAD);
    put(parts.right, "y", spot.h - 6);
    put(parts.right, "font-size", small);
    write(parts.right, group ? face.right : "");
    this.drawBar(parts.bar, from, spot.h - 15, spot.w - from - PAD - right, group ? face : null);
  }

  writeAll(parts, spot, face, look) {
    const line = spot.h < 40 ? spot.h / 2 + 4.5 : 19.5;
    put(parts.glyph, "transform", `translate(${PAD + 1} ${line - 10})`);
    const left = PAD + GLYPH + 7;
    const below = line + 17;
    const inHead = spot.h < 40;
    const right = face.right ? width(face.right, "400 12px") + 8 : 0;
    put(parts.name, "x", left);
    put(parts.name, "y", line);
    write(parts.name, cut(face.title, spot.w - left - PAD - (inHead ? right : 0), "600 13px"));
    put(parts.sub, "x", left);
    put(parts.sub, "y", below);
    write(parts.sub, inHead ? "" : cut(face.sub, spot.w - left - PAD - right, "400 12px"));
    put(parts.right, "x", spot.w - PAD);
    put(parts.right, "y", inHead ? line : below);
    write(parts.right, face.right);
    if (parts.bar) this.drawBar(parts.bar, left, below - 8, spot.w - left - PAD - right, inHead ? null : face);
    this.drawCorner(parts.corner, spot, face.dots, look.tag);
  }

  drawBar(bar, x, y, room, face) {
    const said = face?.bar ? `${x} ${y} ${room} ${face.bar}` : "";
    if (bar.$said === said) return;
    bar.$said = said;
    bar.replaceChildren();
    if (!said) return;
    let from = x;
    for (const [state, count] of face.bar) {
      const wide = (room * count) / face.total;
      make("rect", { class: `part s-${state}`, x: from, y, width: Math.max(1, wide - (wide > 3 ? 1 : 0)), height: 6 }, bar);
      from += wide;
    }
  }

  /** At the upper right a dot for each try, at the upper left what a version has made of the step. */
  drawCorner(corner, spot, dots, tag) {
    const said = dots || tag ? JSON.stringify([dots, tag, spot.w]) : "";
    if (corner.$said === said) return;
    corner.$said = said;
    corner.replaceChildren();
    let x = spot.w - 8;
    for (const dot of [...(dots ?? [])].reverse()) {
      const count = dot.count > 1 ? String(dot.count) : "";
      const wide = 15 + (count ? width(count, "600 10px") + 3 : 0);
      const one = make("g", { class: `dot s-${dot.state}`, transform: `translate(${x - wide + 7} -7)` }, corner);
      make("rect", { class: "dot-box", width: wide, height: 15, rx: 7.5 }, one);
      const mark = glyph(one, dot.state);
      put(mark, "transform", "translate(3.2 3.2) scale(0.72)");
      if (count) write(make("text", { class: "dot-count", x: 13, y: 11 }, one), count);
      x -= wide + 1;
    }
    if (!tag) return;
    const wide = width(tag, "600 10px") + 10;
    make("rect", { class: "tag-box", x: 8, y: -8, width: wide, height: 15, rx: 7.5 }, corner);
    write(make("text", { class: "tag", x: 13, y: 3 }, corner), tag);
  }
}

function classes(face, look) {
  const names = ["card", `s-${face.state}`];
  if (look.kind === "group") names.push(look.opened ? "opened" : "group");
  for (const name of ["selected", "dim", "critical", "ghost", "related"]) if (look[name]) names.push(name);
  if (look.tag) names.push(`mark-${{ "+": "added", "~": "changed", "−": "removed" }[look.tag[0]]}`);
  return names.join(" ");
}
