// One frame draws what was marked since the last; what is only counted is written four times a second.

const SLOW_MS = 250;

export class Frames {
  constructor(slow) {
    this.slow = slow;
    this.listeners = new Set();
    this.marked = new Set();
    this.asked = 0;
    this.late = 0;
  }

  listen(tell) {
    this.listeners.add(tell);
    return () => this.listeners.delete(tell);
  }

  mark(marked) {
    for (const one of marked) this.marked.add(one);
    if (!this.asked) this.asked = requestAnimationFrame(() => this.draw());
    if (!this.late) this.late = setTimeout(() => this.write(), SLOW_MS);
  }

  draw() {
    this.asked = 0;
    const marked = this.marked;
    this.marked = new Set();
    for (const tell of this.listeners) tell(marked);
  }

  write() {
    this.late = 0;
    this.slow();
  }

  stop() {
    cancelAnimationFrame(this.asked);
    clearTimeout(this.late);
    this.listeners.clear();
  }
}
