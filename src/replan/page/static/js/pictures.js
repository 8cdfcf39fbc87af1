// Graph and Gantt as views of a task's page: one above the other where there is room, each by itself on a narrow one.

import { mountGantt } from "replan/gantt";
import { ROW } from "replan/gantt/chart";
import { mountGraph } from "replan/graph";
import { span, t } from "replan/i18n";
import { pref, prefer } from "replan/shell/prefs";
import { change, readRoute } from "replan/shell/route";

const words = { t, duration: span };
const FEW = 14; // steps: for so many the Gantt is as high as its rows
const SHARE = 0.38; // of the height, for more
const LEAST = 80; // px of either
const NAME = "split";

/** What a picture tells, as changes of the address: it is mounted once, and the address goes on. */
function telling({ open, session }) {
  return {
    words,
    open,
    select: (id) => change({ step: id ?? "", event: "", tab: "" }),
    toggle(group) {
      const opened = new Set(readRoute().open.split(",").filter(Boolean));
      if (!opened.delete(group)) opened.add(group);
      change({ open: [...opened].join(",") });
    },
    range(range) {
      const { created } = session.task;
      change({ range: range ? `${Math.round(range.from - created)}-${Math.round(range.to - created)}` : "" });
    },
    clear: () => change({ q: "", state: "" }),
  };
}

function mountBoth(element, calls) {
  if (calls.narrow) return mountGraph(element, telling(calls));
  element.classList.add("both");
  const [above, handle, below] = ["both-graph", "both-handle", "both-time"].map((name) => {
    const part = document.createElement("div");
    part.className = name;
    element.append(part);
    return part;
  });
  const graph = mountGraph(above, telling(calls));
  const gantt = mountGantt(below, telling(calls));
  let share = pref(NAME);
  let steps = 0;
  let last = null; // what was drawn, for the one that was folded away meanwhile

  const size = () => {
    const whole = element.clientHeight - handle.offsetHeight;
    if (whole <= 0) return;
    const wanted = share === null ? (steps <= FEW ? Math.min((steps + 2) * ROW + 28, whole * 0.55) : whole * SHARE) : whole * share;
    const height = share === 0 ? 0 : Math.round(Math.max(Math.min(LEAST, whole), Math.min(wanted, whole - LEAST)));
    below.style.height = `${height}px`;
    below.hidden = height === 0;
    handle.setAttribute("aria-valuenow", String(Math.round((height / whole) * 100)));
  };
  const choose = (next) => {
    share = next <= 0.04 ? 0 : Math.min(0.9, next);
    prefer(NAME, share);
    size();
    if (last && !below.hidden) gantt.draw(last.task, new Set(), last.view);
  };
  separate(element, handle, {
    now: () => below.offsetHeight / Math.max(1, element.clientHeight),
    choose,
    fold: () => choose(share === 0 ? SHARE : 0),
  });
  const watch = new ResizeObserver(size);
  watch.observe(element);

  return {
    draw(task, marked, view) {
      handle.setAttribute("aria-label", t("gantt.size"));
      if (task.order.length !== steps) {
        steps = task.order.length;
        size();
      }
      last = { task, view };
      graph.draw(task, marked, view);
      if (!below.hidden) gantt.draw(task, marked, view);
    },
    destroy() {
      watch.disconnect();
      graph.destroy();
      gantt.destroy();
      element.replaceChildren();
    },
  };
}

/** The line between the two: dragged, or moved by the arrows; Enter or a double press folds the lower one away. */
function separate(element, handle, { now, choose, fold }) {
  handle.setAttribute("role", "separator");
  handle.setAttribute("aria-orientation", "horizontal");
  handle.setAttribute("aria-valuemin", "0");
  handle.setAttribute("aria-valuemax", "90");
  handle.tabIndex = 0;
  handle.addEventListener("pointerdown", (event) => {
    handle.setPointerCapture(event.pointerId);
    event.preventDefault();
  });
  handle.addEventListener("pointermove", (event) => {
    if (!handle.hasPointerCapture(event.pointerId)) return;
    const box = element.getBoundingClientRect();
    choose((box.bottom - event.clientY) / box.height);
  });
  handle.addEventListener("dblclick", fold);
  handle.addEventListener("keydown", (event) => {
    const by = { ArrowUp: 0.05, ArrowDown: -0.05 }[event.key];
    if (by) choose(now() + by);
    else if (event.key === "Enter") fold();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
}

export const GRAPH = { id: "graph", key: "pane.graph", mount: mountBoth };
export const TIME = { id: "time", key: "pane.time", mount: (element, calls) => mountGantt(element, telling(calls)) };
