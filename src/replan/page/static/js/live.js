// The events of one task: what there is by page, then what comes as a stream; it goes on from its last number after every cut.
import { call, clockOffset, json, Problem, taskPath } from "replan/shell/api";
import { apply, ENDED, newTask } from "replan/store";

const PAGE = 500;
export const KEPT = 5000; // events in memory; older ones are read again by page
const SILENT_MS = 40_000;
const HIDDEN_MS = 10_000;
const ASK_MS = 30_000;
const BACKOFF = [1000, 2000, 5000, 10_000];

export class Session {
  /** `told(marked)`: something is otherwise; `changed()`: the state of the connection is. */
  constructor(id, { told, changed, fresh = () => {} }) {
    Object.assign(this, { id, told, changed, fresh });
    this.task = newTask(id);
    this.events = [];
    this.state = { kind: "loading" };
    this.offset = null;
    this.tries = 0;
    this.stopped = false;
    this.lastHeard = Date.now();
    this.visible = () => this.onVisible();
    this.online = () => ["reconnecting", "offline"].includes(this.state.kind) && this.go();
    this.offline = () => this.state.kind === "live" && this.cut(new Error("offline"));
  }

  now() {
    return Date.now() + (this.offset ?? clockOffset());
  }

  start() {
    document.addEventListener("visibilitychange", this.visible);
    addEventListener("online", this.online);
    addEventListener("offline", this.offline);
    this.onVisible();
    this.go();
  }

  stop() {
    this.stopped = true;
    document.removeEventListener("visibilitychange", this.visible);
    removeEventListener("online", this.online);
    removeEventListener("offline", this.offline);
    for (const timer of [this.timer, this.hiding, this.asking, this.watch]) clearTimeout(timer);
    this.abort?.abort();
  }

  set(kind, more = {}) {
    this.state = { kind, ...more };
    this.changed();
  }

  onVisible() {
    clearTimeout(this.hiding);
    clearInterval(this.asking);
    if (document.hidden) {
      this.hiding = setTimeout(() => this.sleep(), HIDDEN_MS);
    } else if (this.state.kind === "asleep") {
      this.go();
    }
  }

  /** Nobody looks: no stream is held open, of which a browser has few. */
  sleep() {
    if (this.stopped || ["ended", "signed-out", "missing"].includes(this.state.kind)) return;
    this.set("asleep");
    this.abort?.abort();
    this.asking = setInterval(() => this.catchUp().catch(() => {}), ASK_MS);
  }

  take(event, live) {
    if (event.seq && event.seq <= this.task.seq) return true;
    if (event.seq && event.seq > this.task.seq + 1) return false; // some are missing
    const marked = apply(this.task, event);
    if (event.seq) {
      this.events.push(event);
      if (this.events.length > KEPT * 1.2) this.events.splice(0, this.events.length - KEPT);
      if (live) {
        const ahead = event.ts * 1000 - Date.now();
        this.offset = this.offset === null ? Math.max(ahead, clockOffset()) : Math.max(this.offset, ahead);
        this.fresh(event);
      }
    }
    this.told(marked);
    return true;
  }

  /** All that there is, page by page. */
  async catchUp(signal) {
    for (;;) {
      const after = this.task.seq;
      const page = await json(taskPath(this.id, `/events?view=light&limit=${PAGE}&after=${after}`), { signal });
      for (const event of page.items) this.take(event, false);
      if (page.next_after == null || this.task.seq === after) return;
    }
  }

  /** Reads what came before the events that are kept, a page of it. */
  async older() {
    const first = this.events[0]?.seq ?? 1;
    const found = [];
    let after = Math.max(0, first - 1 - PAGE);
    while (after < first - 1) {
      const page = await json(taskPath(this.id, `/events?view=light&limit=${first - 1 - after}&after=${after}`));
      if (!page.items.length) break;
      found.push(...page.items);
      after = page.items.at(-1).seq;
    }
    this.events.unshift(...found);
    this.told(new Set(["*"]));
  }

  async go() {
    if (this.stopped) return;
    clearTimeout(this.timer);
    this.abort?.abort();
    const abort = (this.abort = new AbortController());
    if (this.state.kind !== "loading") this.set("connecting", { since: this.lastHeard });
    try {
      await this.catchUp(abort.signal);
      this.tries = 0;
      while (!this.over()) {
        if (document.hidden) return this.sleep(); // opened behind another page: it has time until it is seen
        this.set("live");
        await this.stream(abort);
        await this.catchUp(abort.signal);
        if (!this.over()) await new Promise((resolve) => setTimeout(resolve, 200));
      }
      this.set("ended");
    } catch (error) {
      if (this.stopped || abort !== this.abort || this.state.kind === "asleep") return;
      this.failed(error);
    } finally {
      clearTimeout(this.watch);
    }
  }

  over() {
    return ENDED.has(this.task.status) && this.task.ended > 0;
  }

  failed(error) {
    if (error instanceof Problem && error.status === 401) return this.set("signed-out");
    if (error instanceof Problem && (error.status === 404 || error.status === 403 || error.status === 422)) {
      return this.set("missing", { error });
    }
    const wait = BACKOFF[Math.min(this.tries, BACKOFF.length - 1)];
    const ms = Math.max(error.retryAfter ? error.retryAfter * 1000 : 0, wait * (0.75 + Math.random() / 2));
    this.tries += 1;
    this.set(this.tries > 6 ? "offline" : "reconnecting", { at: Date.now() + ms, since: this.lastHeard, error });
    this.timer = setTimeout(() => this.go(), ms);
    return undefined;
  }

  async stream(abort) {
    const response = await call(taskPath(this.id, `/events?view=light&after=${this.task.seq}`), {
      accept: "text/event-stream",
      signal: abort.signal,
    });
    if (response.status === 204) return;
    const alive = () => {
      this.lastHeard = Date.now();
      clearTimeout(this.watch);
      this.watch = setTimeout(() => this.silent(abort), SILENT_MS);
    };
    alive();
    for await (const event of framesOf(response.body, alive)) {
      if (!this.take(event, true)) return;
      if (this.over()) return;
    }
  }

  silent(abort) {
    if (abort === this.abort) this.cut(new Error("silent"));
  }

  cut(error) {
    if (this.stopped) return;
    this.abort?.abort();
    this.abort = null;
    this.failed(error);
  }
}

/** Server-sent events, as they come; `alive` is told of every byte. */
export async function* framesOf(body, alive = () => {}) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      alive();
      rest += value;
      const frames = rest.split("\n\n");
      rest = frames.pop();
      for (const frame of frames) {
        const lines = frame.split("\n").filter((line) => line.startsWith("data:"));
        if (lines.length) yield JSON.parse(lines.map((line) => line.slice(line[5] === " " ? 6 : 5)).join("\n"));
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
