// The whole plan in a corner, by state, with the window on it. A click goes there.

const WIDTH = 150;
const HEIGHT = 84;
const PAD = 5;
export const FROM = 20; // cards
const ALIKE = { reused: "done", cancelled: "skipped" };

export class Minimap {
  constructor(parent, go) {
    this.canvas = document.createElement("canvas");
    this.canvas.className = "graph-map";
    this.canvas.setAttribute("aria-hidden", "true");
    this.canvas.hidden = true;
    parent.append(this.canvas);
    this.colours = new Map();
    this.area = null;
    const move = (event) => {
      if (!this.area || (event.type === "pointermove" && !event.buttons)) return;
      const edge = this.canvas.getBoundingClientRect();
      const { k, x, y } = this.scale();
      go((event.clientX - edge.left - x) / k, (event.clientY - edge.top - y) / k);
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      move(event);
    });
    this.canvas.addEventListener("pointermove", move);
  }

  scale() {
    const k = Math.min((WIDTH - 2 * PAD) / Math.max(1, this.area.w), (HEIGHT - 2 * PAD) / Math.max(1, this.area.h));
    return { k, x: (WIDTH - this.area.w * k) / 2 - this.area.x * k, y: (HEIGHT - this.area.h * k) / 2 - this.area.y * k };
  }

  /** @param stateOf  by id of a card */
  draw(spots, area, stateOf, seen) {
    const shown = spots.size >= FROM;
    if (this.canvas.hidden === shown) this.canvas.hidden = !shown;
    if (!shown) return;
    this.area = area;
    const ratio = window.devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(WIDTH * ratio)) {
      this.canvas.width = Math.round(WIDTH * ratio);
      this.canvas.height = Math.round(HEIGHT * ratio);
    }
    const pen = this.canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, WIDTH, HEIGHT);
    const { k, x, y } = this.scale();
    const byState = new Map();
    for (const [id, spot] of spots) {
      const state = stateOf(id);
      if (!byState.has(state)) byState.set(state, []);
      byState.get(state).push(spot);
    }
    for (const [state, all] of byState) {
      pen.fillStyle = this.colour(state);
      for (const spot of all) pen.fillRect(spot.x * k + x, spot.y * k + y, Math.max(1.5, spot.w * k - 0.5), Math.max(1.5, spot.h * k));
    }
    pen.strokeStyle = this.colour("frame");
    pen.lineWidth = 1.5;
    const left = Math.max(1, seen.left * k + x);
    const top = Math.max(1, seen.top * k + y);
    pen.strokeRect(left, top, Math.min(WIDTH - 1, seen.right * k + x) - left, Math.min(HEIGHT - 1, seen.bottom * k + y) - top);
  }

  /** Of the style sheet, read once: another theme asks for them anew. */
  colour(state) {
    let found = this.colours.get(state);
    if (!found) {
      const style = getComputedStyle(this.canvas);
      found = style.getPropertyValue(state === "frame" ? "--text" : `--c-${ALIKE[state] ?? state}`).trim() || "gray";
      this.colours.set(state, found);
    }
    return found;
  }

  themed() {
    this.colours.clear();
  }
}
