// The sign of a state: a shape first, its colour by its class.
import { html } from "replan/shell/dom";

const PATHS = {
  pending: "M8 3.2a4.8 4.8 0 1 1 0 9.6a4.8 4.8 0 1 1 0-9.6",
  ready: "M8 2.8a5.2 5.2 0 1 1 0 10.4a5.2 5.2 0 1 1 0-10.4M8 5v3.2l2.2 1.4",
  running: "F M5 3.2v9.6l7.4-4.8z",
  recovering: "M12.6 8a4.6 4.6 0 1 1-1.5-3.4M12.8 2.6v3h-3",
  waiting: "F M4.6 3.4h2.3v9.2H4.6zM9.1 3.4h2.3v9.2H9.1z",
  done: "M3.2 8.6l3.2 3.2 6.4-7.2",
  reused: "M2.4 8.4l2.6 2.6 4.4-5.4M12.4 6.2a3 3 0 1 0 .8 2.6M13.2 4.6v2.2h-2.2",
  failed: "M4 4l8 8M12 4l-8 8",
  skipped: "M3.6 4l4 4-4 4M8.4 4l4 4-4 4",
  cancelled: "M3.6 3.6h8.8v8.8H3.6z",
  unknown: "M5.6 6a2.5 2.5 0 1 1 3.6 2.2c-.8.4-1.2.9-1.2 1.7M8 12.2v.6",
};

/** Decoration: the state's word stands beside it, or is the name of what it is in. */
export function Glyph({ state, size = 16 }) {
  const path = PATHS[state] ?? PATHS.pending;
  const filled = path.startsWith("F ");
  return html`<svg class=${`glyph s-${state}`} viewBox="0 0 16 16" width=${size} height=${size} aria-hidden="true" focusable="false">
    <path d=${filled ? path.slice(2) : path} class=${filled ? "fill" : "stroke"} />
  </svg>`;
}

const OF_TASK = {
  queued: "ready", planning: "running", executing: "running", evaluating: "running", reflecting: "recovering",
  replanning: "recovering", waiting: "waiting", succeeded: "done", failed: "failed", cancelled: "cancelled", timed_out: "failed",
};

/** How a whole task is shown, as steps are. */
export const stateOfTask = (status) => OF_TASK[status] ?? "pending";
