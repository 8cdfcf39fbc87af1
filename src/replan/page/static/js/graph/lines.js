// The edges, as few paths: one for each gap between columns, one for the critical path, one for those of the chosen card.

import { width } from "replan/graph/measure";
import { make, put, write } from "replan/graph/svg";

export class Lines {
  constructor(layer) {
    this.plain = make("g", {}, layer);
    this.marks = make("path", { class: "line critical" }, layer);
    this.chosen = make("path", { class: "line strong" }, layer);
    this.replaced = make("g", { class: "replaced" }, layer);
    this.paths = new Map();
  }

  /** Those that the window shows; `kept` of the sheet's layer. */
  draw(scene, seen) {
    const used = new Set();
    for (const [key, part] of scene.parts) {
      if (part.x1 < seen.left || part.x0 > seen.right) continue;
      let d = "";
      for (const piece of part.pieces) if (piece.bottom >= seen.top && piece.top <= seen.bottom) d += piece.d;
      if (!d) continue;
      used.add(key);
      let path = this.paths.get(key);
      if (!path) this.paths.set(key, (path = make("path", { class: `line ${part.kind}` }, this.plain)));
      put(path, "d", d);
    }
    for (const [key, path] of this.paths) {
      if (used.has(key)) continue;
      path.remove();
      this.paths.delete(key);
    }
  }

  critical(scene, path) {
    let d = "";
    const nodeOf = (id) => scene.picture.nodeOf.get(id);
    for (let i = 1; i < (path?.length ?? 0); i++) {
      const from = nodeOf(path[i - 1]);
      const to = nodeOf(path[i]);
      const a = scene.spots.get(from);
      const b = scene.spots.get(to);
      if (!a || !b || from === to) continue;
      // A step of a later plan does not need the failure that it is there for.
      d += b.layer > a.layer ? scene.line(from, to) : link(a, b).d;
    }
    put(this.marks, "d", d);
  }

  /** The edges of one card, or of several. */
  strong(scene, id, among = null) {
    let d = "";
    if (among) {
      for (const [from, to] of scene.picture.edges) if (among.has(from) && among.has(to)) d += scene.line(from, to);
    } else if (id) {
      for (const [from, to] of scene.edgesOf(id)) d += scene.line(from, to);
    }
    put(this.chosen, "d", d);
  }

  /** From what failed to what replaced it, with the strategy as a word. */
  replacements(scene, words) {
    const said = JSON.stringify(scene.replaced.map((one) => [one, scene.spots.get(one.from), scene.spots.get(one.to)]));
    if (this.said === said) return;
    this.said = said;
    this.replaced.replaceChildren();
    for (const { from, to, strategy } of scene.replaced) {
      const a = scene.spots.get(from);
      const b = scene.spots.get(to);
      if (!a || !b) continue;
      const { d, x, y } = link(a, b);
      make("path", { class: "line replaced-line", d }, this.replaced);
      const kind = typeof strategy === "string" ? strategy : strategy?.type;
      if (!kind) continue;
      const word = words.t(`strategy.${kind}`);
      make("rect", { class: "replaced-back", x: x - 3, y: y - 10, width: width(word, "400 11px") + 6, height: 14, rx: 3 }, this.replaced);
      write(make("text", { class: "replaced-word", x, y }, this.replaced), word);
    }
  }
}

function link(a, b) {
  if (a.layer === b.layer) {
    const down = b.y > a.y;
    const y0 = down ? a.y + a.h : a.y;
    const y1 = down ? b.y : b.y + b.h;
    const x = a.x + a.w - 22;
    return { d: `M${x} ${y0}L${x} ${y1}`, x: x + 6, y: (y0 + y1) / 2 + 4 };
  }
  const right = b.layer > a.layer;
  const x0 = right ? a.x + a.w : a.x;
  const x1 = right ? b.x : b.x + b.w;
  const y0 = a.y + a.h / 2;
  const y1 = b.y + b.h / 2;
  const half = (x0 + x1) / 2;
  return { d: `M${x0} ${y0}C${half} ${y0} ${half} ${y1} ${x1} ${y1}`, x: half, y: (y0 + y1) / 2 - 5 };
}
