// The Gantt of a task: a row for each step, a bar for each try. Told the task, what has changed of it, and the view.

import { criticalNow, typicalOf } from "replan/critical";
import { isFiltering, lookKey, matcher } from "replan/plan/filter";
import { Axis } from "replan/gantt/axis";
import { groupBars, modelBars, stepBars } from "replan/gantt/bars";
import { AXIS_HEIGHT, Chart, ROW, drawHead } from "replan/gantt/chart";
import { gestures } from "replan/gantt/gestures";
import { placeWords } from "replan/gantt/hover";
import { MODEL, rowsOf } from "replan/gantt/rows";
import { groupFace } from "replan/graph/faces";
import { make, put } from "replan/graph/svg";

const SLOW = 250; // ms between two pictures in which only time has passed

/**
 * @param {HTMLElement} element
 * @param {{select: (id: string | null) => void, open?: (id: string) => void, toggle?: (row: string) => void,
 *   range?: (range: {from: number, to: number} | null) => void,
 *   words: {t: (key: string, values?: object) => string, duration: (ms: number) => string}}} tell
 */
export function mountGantt(element, tell) {
  const { words } = tell;
  element.classList.add("time");
  const head = make("svg", { class: "time-head", "aria-hidden": "true" });
  const scroll = document.createElement("div");
  scroll.className = "time-scroll";
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "region");
  const tall = document.createElement("div");
  tall.className = "time-tall";
  const sheet = make("svg", { class: "time-sheet", role: "img", focusable: "false", "aria-label": words.t("pane.time") }); // until it is drawn
  const hint = document.createElement("div");
  hint.className = "time-hint";
  hint.setAttribute("aria-hidden", "true");
  hint.hidden = true;
  const note = document.createElement("p");
  note.className = "time-note";
  note.hidden = true;
  tall.append(sheet);
  scroll.append(tall);
  element.replaceChildren(head, scroll, note, hint);
  const chart = new Chart(sheet);
  const axis = new Axis();
  const state = { task: null, view: {}, marked: new Set(), full: true, rows: [], at: new Map(), key: "", range: null };
  let asked = 0;
  let drawnAt = 0;
  let gone = false;
  let label = "";
  let moved = false; // by a person: from then on the rows do not follow what runs

  const ask = () => {
    if (!asked && !gone) asked = requestAnimationFrame(turn);
  };
  const all = () => {
    state.full = true;
    ask();
  };
  // Asked for when it changes, and not with each frame: whoever asks has all laid out at once that was written before.
  let box = { width: 0, height: 0, names: 0 };
  let top = 0;
  const measure = () => {
    const width = scroll.clientWidth;
    box = { width, height: scroll.clientHeight, names: width < 620 ? 118 : 196 };
    all();
  };

  function turn(time) {
    asked = 0;
    const { task, view } = state;
    if (!task || !box.width) return;
    const now = Math.max(view.now ?? 0, task.last);
    const found = criticalNow(task, now);
    const key = keyOf(task);
    if (key !== state.key || state.full) {
      state.key = key;
      state.rows = rowsOf(task, view);
      state.at = new Map(state.rows.map((row, i) => [row.id, i]));
      tall.style.height = `${Math.max(box.height, state.rows.length * ROW)}px`;
      state.full = true;
    }
    // What runs grows with the time; more than four pictures a second nobody sees.
    if (state.full || time - drawnAt > SLOW) {
      drawnAt = time;
      axis.update(task, now, found.ends);
      state.full = true;
    }
    if (!moved && !task.ended) follow();
    axis.place(box.names, box.width - box.names - 14);
    draw(task, view, now, found);
    state.full = false;
    state.marked.clear();
  }

  function draw(task, view, now, found) {
    const first = Math.max(0, Math.floor(top / ROW) - 2);
    const last = Math.min(state.rows.length, first + Math.ceil(box.height / ROW) + 5);
    const rows = state.rows.slice(first, last);
    const matches = isFiltering(view.filter) ? matcher(view.filter) : null;
    const typical = state.full ? (state.typical = typicalOf(task)) : state.typical;
    const context = { now, found, matches, typical };
    put(sheet, "width", box.width);
    put(sheet, "height", box.height);
    if (state.full) chart.keep(new Set(rows.map((row) => row.id)));
    rows.forEach((row, i) => {
      if (!state.full && !touches(row, state.marked)) return;
      chart.draw(row.id, (first + i) * ROW - top, box, faceOf(task, view, row, context), barsOf(task, row, context));
    });
    chart.drawNow(task.ended || !task.order.length ? null : axis.x(now), box.height);
    if (!state.full) return;
    const versions = task.versions.slice(1).map(({ at, version }) => ({ at, version }));
    chart.drawGrid(axis, box, { versions, range: state.range });
    drawHead(head, axis, box, words, versions);
    const text = state.rows.length ? "" : words.t(task.ended ? "graph.no_steps" : "graph.no_plan");
    if (note.textContent !== text) note.textContent = text;
    if (note.hidden === Boolean(text)) note.hidden = !text;
    const said = words.t("gantt.label", { count: task.order.length });
    if (label !== said) {
      label = said;
      scroll.setAttribute("aria-label", said);
      sheet.setAttribute("aria-label", said);
    }
  }

  function faceOf(task, view, row, { matches }) {
    if (row.kind === "lane") return { kind: "lane", title: words.t("gantt.round", { number: row.round }) };
    if (row.kind === "model") {
      const sign = row.phase ? "" : row.opened ? "▾ " : "▸ ";
      return { kind: "model", inside: row.inside, title: row.phase ? words.t(`phase.${row.phase}`) : sign + words.t("gantt.model") };
    }
    if (row.kind === "group") {
      const face = groupFace(task, { ...row, byState: false }, words);
      return {
        kind: "group", state: face.state, title: `${row.opened ? "▾" : "▸"} ${face.title} ×${row.members.length}`,
        dim: Boolean(matches && !row.members.some((id) => matches(task.steps.get(id)))),
        selected: !row.opened && row.members.includes(view.selected),
      };
    }
    const step = task.steps.get(row.id);
    return {
      kind: "step", state: step.state, inside: row.inside, ghost: Boolean(step.leftOut), title: step.name || step.id,
      dim: Boolean(matches && !matches(step)), selected: view.selected === row.id,
    };
  }

  function barsOf(task, row, { now, found, typical }) {
    if (row.kind === "lane") return null;
    if (row.kind === "model") return modelBars(row.phases, axis, task.ended || now);
    if (row.kind === "group") return groupBars(task, row.members, axis, { now, critical: found.on });
    const step = task.steps.get(row.id);
    return stepBars(task, step, axis, {
      now, expected: task.ended ? 0 : found.expected.get(row.id), typical: typical(step.tool, step), critical: found.on.has(row.id),
    });
  }

  const rowAt = (y) => state.rows[Math.floor((y + top - AXIS_HEIGHT) / ROW)] ?? null;

  function reveal(id) {
    const at = state.at.get(id);
    if (at === undefined) return;
    if (at * ROW < top) scrollTo(at * ROW);
    else if ((at + 1) * ROW > top + box.height) scrollTo((at + 1) * ROW - box.height);
  }

  function scrollTo(y) {
    scroll.scrollTop = y;
    top = scroll.scrollTop;
    state.full = true;
    ask();
  }

  /** The row that began last stays in the window, as long as nobody has moved it. */
  function follow() {
    let begun = 0;
    state.rows.forEach((row, i) => {
      if (row.begun) begun = i + 1;
    });
    const wanted = Math.max(0, Math.ceil(begun + 2 - box.height / ROW) * ROW);
    if (Math.abs(top - wanted) >= ROW) scrollTo(wanted);
  }

  function press(row) {
    if (!row || row.kind === "lane" || (row.kind === "model" && row.phase)) return;
    if (row.kind === "step") tell.select(row.id);
    else tell.toggle?.(row.kind === "model" ? MODEL : row.id);
  }

  function setRange(range, done = true) {
    if (!range && !state.range) return;
    state.range = range;
    if (done) tell.range?.(range);
    all();
  }

  function step(by) {
    const steps = state.rows.filter((row) => row.kind === "step");
    const at = steps.findIndex((row) => row.id === state.view.selected);
    const next = steps[Math.min(steps.length - 1, Math.max(0, at < 0 ? 0 : at + by))];
    if (!next) return;
    tell.select(next.id);
    reveal(next.id);
  }

  const actions = {
    "+": () => axis.zoom(1.5),
    "-": () => axis.zoom(1 / 1.5),
    0: () => axis.whole(),
    ArrowUp: () => step(-1),
    ArrowDown: () => step(1),
    ArrowLeft: () => axis.pan(-80),
    ArrowRight: () => axis.pan(80),
    Enter: () => state.view.selected && tell.open?.(state.view.selected),
    Escape: () => state.range && setRange(null),
  };

  const listening = new AbortController();
  const { signal } = listening;
  element.addEventListener("keydown", (event) => {
    const act = actions[event.key === "=" ? "+" : event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && !state.range) return;
    act();
    event.preventDefault();
    event.stopPropagation();
    all();
  }, { signal });
  scroll.addEventListener("scroll", () => {
    top = scroll.scrollTop;
    all();
  }, { signal, passive: true });
  for (const name of ["wheel", "pointerdown", "keydown", "touchmove"]) {
    element.addEventListener(name, () => {
      moved = true;
    }, { signal, passive: true, capture: true });
  }
  gestures(element, axis, {
    signal,
    changed: all,
    press: (y) => press(rowAt(y)),
    open: (y) => {
      const row = rowAt(y);
      if (row?.kind === "step") tell.open?.(row.id);
    },
    range: setRange,
    hover(x, y) {
      const row = x === null ? null : rowAt(y);
      if (!row || x < axis.left || !state.task) {
        hint.hidden = true;
        return;
      }
      const now = state.task.ended || Math.max(state.view.now ?? 0, state.task.last);
      hint.textContent = placeWords(state.task, row, axis.time(x), now, words);
      hint.hidden = false;
      const right = x > element.clientWidth - 220;
      hint.style.left = right ? "" : `${x + 14}px`;
      hint.style.right = right ? `${element.clientWidth - x + 10}px` : "";
      hint.style.top = `${Math.min(y + 14, element.clientHeight - 34)}px`;
    },
  });
  const watch = new ResizeObserver(measure);
  watch.observe(scroll);

  return {
    draw(task, marked, view) {
      if (task !== state.task) {
        Object.assign(axis, new Axis());
        state.full = true;
        moved = false;
      }
      const key = lookKey(view);
      if (key !== state.look) state.full = true;
      state.look = key;
      const chosen = view.selected !== state.view.selected ? view.selected : null;
      state.task = task;
      state.view = view;
      if (view.range !== undefined && String(view.range) !== state.said) {
        state.said = String(view.range);
        state.range = view.range && { from: task.created + view.range[0], to: task.created + view.range[1] };
      }
      for (const id of marked) state.marked.add(id);
      ask();
      if (chosen) reveal(chosen);
    },
    show: reveal,
    axis,
    get rows() {
      return state.rows;
    },
    destroy() {
      gone = true;
      cancelAnimationFrame(asked);
      watch.disconnect();
      listening.abort();
      element.replaceChildren();
    },
  };
}

function keyOf(task) {
  return `${task.order.length}|${task.rows.length}|${task.versions.length}|${task.rounds?.length}|${Math.min(1, task.phases.length)}`;
}

function touches(row, marked) {
  if (row.kind === "step") return marked.has(row.id);
  if (row.kind === "group") return row.members.some((id) => marked.has(id));
  return marked.has("*");
}
