// Pan and zoom. While the hand moves, the finished picture is moved as a whole (a transform, which costs no layout);
// when it rests, or has come far, the picture is drawn for the new place.

export const MARGIN = 200; // drawn beyond the window, on each side
const REST = 120; // ms
const FAR = MARGIN - 10;
const SCALE = 1.35;
export const LEAST = 0.04;
export const MOST = 2.5;

export class Camera {
  /**
   * @param {HTMLElement} box  the window
   * @param {SVGElement} sheet  what is moved
   * @param {{commit: () => void, moved: () => void}} tell  `commit`: draw for where we are; `moved`: a person has moved it
   */
  constructor(box, sheet, tell) {
    this.measure(box);
    this.sheet = sheet;
    this.tell = tell;
    this.x = 0;
    this.y = 0;
    this.zoom = 1;
    this.drawn = { x: 0, y: 0, zoom: 1 };
    this.timer = 0;
    this.moving = false;
    this.sliding = 0;
  }

  /** Asked for when it changes, and not with each frame: whoever asks has all laid out at once that was written before. */
  measure(box) {
    this.w = box.clientWidth;
    this.h = box.clientHeight;
  }

  /** The part of the plan that is drawn: the window and a margin. */
  window(margin = MARGIN) {
    const { w, h } = this;
    const k = this.zoom;
    return { left: (-this.x - margin) / k, top: (-this.y - margin) / k, right: (w + margin - this.x) / k, bottom: (h + margin - this.y) / k };
  }

  set(x, y, zoom = this.zoom) {
    this.x = x;
    this.y = y;
    this.zoom = Math.min(MOST, Math.max(LEAST, zoom));
    const s = this.zoom / this.drawn.zoom;
    const dx = this.x - s * this.drawn.x;
    const dy = this.y - s * this.drawn.y;
    if (Math.abs(dx) > FAR || Math.abs(dy) > FAR || s > SCALE || s < 1 / SCALE) {
      this.commit();
      return;
    }
    this.moving = true;
    this.sheet.style.transform = `translate(${dx}px, ${dy}px) scale(${s})`;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.commit(), REST);
  }

  commit() {
    clearTimeout(this.timer);
    this.moving = false;
    this.tell.commit();
  }

  /** What is drawn is now for this place. */
  settle() {
    this.drawn = { x: this.x, y: this.y, zoom: this.zoom };
    if (this.sheet.style.transform !== "none") this.sheet.style.transform = "none";
  }

  by(dx, dy) {
    this.set(this.x + dx, this.y + dy);
  }

  /** Zooms so that what is under this point of the window stays there. */
  zoomAt(factor, px = this.w / 2, py = this.h / 2) {
    const zoom = Math.min(MOST, Math.max(LEAST, this.zoom * factor));
    const f = zoom / this.zoom;
    this.set(px - (px - this.x) * f, py - (py - this.y) * f, zoom);
  }

  /** All of `area` in the window, but no smaller than `least` and no larger than life. */
  fit(area, least = 0.55) {
    const { w, h } = this;
    const pad = 26;
    const whole = Math.min((w - 2 * pad) / Math.max(1, area.w), (h - 2 * pad) / Math.max(1, area.h), 1);
    const zoom = Math.max(whole, least, LEAST);
    const wide = area.w * zoom <= w - 2 * pad + 1;
    const x = wide ? (w - area.w * zoom) / 2 - area.x * zoom : pad - area.x * zoom;
    const y = (h - area.h * zoom) / 2 - area.y * zoom;
    this.zoom = zoom;
    this.x = x;
    this.y = y;
    this.commit();
  }

  /** Brings `spot` into the window, by the shortest way. */
  reveal(spot, pad = 40) {
    const { w, h } = this;
    const k = this.zoom;
    const left = spot.x * k + this.x;
    const top = spot.y * k + this.y;
    let dx = 0;
    let dy = 0;
    if (left < pad) dx = pad - left;
    else if (left + spot.w * k > w - pad) dx = w - pad - left - spot.w * k;
    if (top < pad) dy = pad - top;
    else if (top + spot.h * k > h - pad) dy = h - pad - top - spot.h * k;
    if (dx || dy) {
      this.x += dx;
      this.y += dy;
      this.commit();
    }
    return Boolean(dx || dy);
  }

  /**
   * How far to move so that this point is well in the window: not at all where it is already, or where all of `area` is,
   * and never so far that the window shows what lies beyond it.
   */
  wayTo(x, y, area) {
    const { w, h } = this;
    const k = this.zoom;
    return [
      way(x * k + this.x, w, area.x * k + this.x, (area.x + area.w) * k + this.x),
      way(y * k + this.y, h, area.y * k + this.y, (area.y + area.h) * k + this.y),
    ];
  }

  /** Moves by itself, in sight; a hand that moves it meanwhile has its way. */
  slide(dx, dy, ms) {
    cancelAnimationFrame(this.sliding);
    if (!ms) {
      this.x += dx;
      this.y += dy;
      this.commit();
      return;
    }
    let begun = 0;
    let done = 0;
    const on = (time) => {
      begun ||= time;
      const part = Math.min(1, (time - begun) / ms);
      const eased = 1 - (1 - part) ** 3;
      this.set(this.x + dx * (eased - done), this.y + dy * (eased - done));
      done = eased;
      if (part < 1) this.sliding = requestAnimationFrame(on);
    };
    this.sliding = requestAnimationFrame(on);
  }

  destroy() {
    clearTimeout(this.timer);
    cancelAnimationFrame(this.sliding);
  }
}

function way(at, room, first, last) {
  if ((at > room * 0.15 && at < room * 0.8) || (first >= 0 && last <= room)) return 0;
  const pad = 26;
  const wanted = room * 0.55 - at;
  return Math.max(Math.min(wanted, pad - first), Math.min(0, room - pad - last));
}

/** Mouse, wheel, pen and fingers. Returns what takes the listeners away. */
export function gestures(box, camera, { tap, moved }) {
  const down = new Map();
  let from = null;
  let dragged = false;
  const at = (event) => {
    const edge = box.getBoundingClientRect();
    return [event.clientX - edge.left, event.clientY - edge.top];
  };
  const listeners = {
    pointerdown(event) {
      if (event.button > 0 || event.target.closest("button, .graph-map")) return;
      cancelAnimationFrame(camera.sliding);
      down.set(event.pointerId, at(event));
      if (down.size === 1) {
        dragged = false;
        from = at(event);
      }
    },
    pointermove(event) {
      const before = down.get(event.pointerId);
      if (!before) return;
      const now = at(event);
      if (down.size === 1) {
        if (!dragged && Math.hypot(now[0] - from[0], now[1] - from[1]) < 5) return;
        if (!dragged) box.setPointerCapture(event.pointerId);
        dragged = true;
        camera.by(now[0] - before[0], now[1] - before[1]);
      } else if (down.size === 2) {
        dragged = true;
        const other = [...down].find(([id]) => id !== event.pointerId)[1];
        const was = Math.hypot(before[0] - other[0], before[1] - other[1]);
        const is = Math.hypot(now[0] - other[0], now[1] - other[1]);
        camera.zoomAt(is / Math.max(1, was), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
      }
      down.set(event.pointerId, now);
      moved();
    },
    pointerup(event) {
      if (down.delete(event.pointerId) && !dragged) tap(event);
    },
    pointercancel(event) {
      down.delete(event.pointerId);
    },
    wheel(event) {
      event.preventDefault();
      const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
      const [px, py] = at(event);
      if (event.ctrlKey || event.metaKey) camera.zoomAt(Math.exp(-event.deltaY * unit * 0.002), px, py);
      else if (event.shiftKey && !event.deltaX) camera.by(-event.deltaY * unit, 0);
      else camera.by(-event.deltaX * unit, -event.deltaY * unit);
      moved();
    },
  };
  for (const [name, listen] of Object.entries(listeners)) box.addEventListener(name, listen, { passive: false });
  return () => {
    for (const [name, listen] of Object.entries(listeners)) box.removeEventListener(name, listen);
  };
}
