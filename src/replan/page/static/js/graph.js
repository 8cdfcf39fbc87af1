// The graph of a task: a pane that is told the task, what has changed of it, and how it is looked at.
//
// Cards and edges are SVG by hand, and only those in the window and a margin around it. Events only mark what they touch;
// one frame draws all that is marked, and writes only what differs.

import { criticalNow } from "replan/critical";
import { isFiltering, lookKey, matcher } from "replan/plan/filter";
import { Camera, gestures } from "replan/graph/camera";
import { Cards } from "replan/graph/cards";
import { frame } from "replan/graph/frame";
import { neighbour, sibling } from "replan/graph/keys";
import { Lines } from "replan/graph/lines";
import { Minimap } from "replan/graph/minimap";
import { paint } from "replan/graph/paint";
import { lineage } from "replan/graph/picture";
import { Scene } from "replan/graph/scene";

const GLIDE = 200; // ms
const FOLLOW = 500; // ms between two looks whether what runs is still in the window
let panes = 0;

const still = () => window.matchMedia("(prefers-reduced-motion: reduce)").matches;

/**
 * @param {HTMLElement} element
 * @param {{select: (id: string | null) => void, open?: (id: string) => void, toggle?: (group: string) => void,
 *   clear?: () => void, words: {t: (key: string, values?: object) => string, duration: (ms: number) => string}}} tell
 */
export function mountGraph(element, tell) {
  const dom = frame(element, tell.words);
  const scene = new Scene();
  const cards = new Cards(dom.cards, `card${++panes}-`);
  const lines = new Lines(dom.lines);
  const look = { hovered: null, related: null, focus: null, came: null, reveal: null };
  const state = { task: null, view: {}, marked: new Set(), structure: true, full: true, tidy: false };
  let asked = 0;
  let gone = false;
  let moved = false; // by a person: from then on nothing moves by itself
  let glide = null;
  let followed = 0;
  let mapped = 0;

  const ask = () => {
    if (!asked && !gone) asked = requestAnimationFrame(turn);
  };
  const all = () => {
    state.full = true;
    ask();
  };
  const camera = new Camera(element, dom.sheet, { commit: all });
  const map = new Minimap(element, (x, y) => {
    moved = true;
    camera.x = camera.w / 2 - x * camera.zoom;
    camera.y = camera.h / 2 - y * camera.zoom;
    camera.commit();
  });
  const touched = () => {
    moved = true;
  };

  function turn(time) {
    asked = 0;
    const { task, view } = state;
    if (!task || !camera.w) return;
    if (state.structure || scene.isOther(task, view, state.marked)) rebuild(task, view);
    if (glide) glideOn(time);
    if (look.reveal) reveal(look.reveal);
    const context = contextOf(task, view);
    if (state.full) {
      camera.settle();
      paint.all({ scene, cards, lines, camera, dom, task, view, look, context, element });
    } else if (state.marked.size) {
      paint.marked({ scene, cards, lines, camera, task, view, look, context }, state.marked);
    }
    if (state.full || time - mapped > 250) {
      mapped = time;
      map.draw(scene.spots, scene.area, (id) => paint.stateOf(task, scene.picture.byId.get(id), id), camera.window(0));
    }
    state.full = false;
    state.marked.clear();
    if (glide) all();
    else if (!moved && !task.ended && time - followed > FOLLOW) {
      followed = time;
      follow(task);
    }
  }

  function rebuild(task, view) {
    const first = !scene.at.size;
    const before = scene.spots;
    const anew = scene.update(task, view, state.tidy);
    state.structure = state.tidy = false;
    state.full = true;
    if (scene.spots.size && first) camera.fit(scene.area);
    else if (anew && before.size && !still()) glide = { from: before, to: scene.spots, start: 0 };
  }

  /** After a new layout the cards go to their new places in sight. */
  function glideOn(time) {
    glide.start ||= time;
    const part = Math.min(1, (time - glide.start) / GLIDE);
    const eased = 1 - (1 - part) ** 3;
    scene.spots = part === 1 ? glide.to : mixed(glide.from, glide.to, eased);
    scene.wire();
    if (part === 1) glide = null;
    state.full = true;
  }

  function contextOf(task, view) {
    const now = Math.max(view.now ?? 0, task.last);
    const found = view.critical === undefined || view.critical ? criticalNow(task, now) : null;
    const matches = isFiltering(view.filter) ? matcher(view.filter) : null;
    return { now, critical: found, matches, words: tell.words };
  }

  /** What runs stays in the window, as long as nobody has moved it. */
  function follow(task) {
    const running = [];
    for (const id of scene.picture?.ids ?? []) {
      if (task.steps.get(id).state === "running") running.push(scene.spots.get(scene.picture.nodeOf.get(id)));
    }
    const found = running.filter(Boolean);
    if (!found.length) return;
    const x = found.reduce((sum, spot) => sum + spot.x + spot.w / 2, 0) / found.length;
    const y = found.reduce((sum, spot) => sum + spot.y + spot.h / 2, 0) / found.length;
    const [dx, dy] = camera.wayTo(x, y, scene.area);
    if (!dx && !dy) return;
    camera.slide(dx, dy, still() ? 0 : GLIDE);
  }

  /** What was chosen elsewhere comes into the window; the card itself, or the group that it is in. */
  function reveal(id) {
    look.reveal = null;
    const node = paint.nodeOf(scene, id);
    if (!node) return;
    moved = true;
    look.focus = node;
    camera.reveal(scene.spots.get(node));
  }

  function go(id, focus = true) {
    if (id === null || !scene.spots.has(id)) return;
    look.focus = id;
    moved = true;
    camera.reveal(scene.spots.get(id));
    if (scene.picture.byId.get(id)?.kind !== "group") tell.select(id);
    state.full = true;
    cancelAnimationFrame(asked);
    turn(performance.now());
    if (focus) cards.rootOf(id)?.focus({ preventScroll: true });
  }

  function tap(event) {
    const id = event.target.closest?.("[data-id]")?.dataset.id ?? null;
    const node = id && scene.picture.byId.get(id);
    look.related = null;
    look.focus = id ?? look.focus;
    if (node?.kind === "group") tell.toggle?.(id);
    else if (id && event.shiftKey) look.related = lineage(state.task, id);
    else tell.select(id);
    if (id) {
      moved = true;
      cards.rootOf(id)?.focus({ preventScroll: true });
    }
    all();
  }

  const actions = {
    "+": () => camera.zoomAt(1.25),
    "-": () => camera.zoomAt(0.8),
    0: () => camera.fit(scene.area, 0),
    T: () => {
      state.tidy = state.structure = true;
      all();
    },
  };

  function keyed(event) {
    if (event.ctrlKey || event.metaKey || event.target.closest("button, input")) return;
    const key = event.key === "=" ? "+" : event.key;
    const id = look.focus;
    if (actions[key]) {
      moved = true;
      actions[key]();
    } else if (key.startsWith("Arrow") && scene.picture) {
      const next = event.altKey && look.came ? sibling(scene, look.came, id, key) : neighbour(scene, id, key, look.came);
      if (next && !event.altKey && (key === "ArrowLeft" || key === "ArrowRight")) look.came = id;
      go(next);
    } else if (key === " " && scene.picture?.byId.get(id)?.kind === "group") tell.toggle?.(id);
    else if (key === " " && scene.picture?.groupOf.get(id)?.opened) tell.toggle?.(scene.picture.groupOf.get(id).id);
    else if (key === "Enter" && id) {
      if (scene.picture.byId.get(id)?.kind === "group") tell.toggle?.(id);
      else tell.open?.(id);
    } else if (key === "Escape" && look.related) {
      look.related = null;
      all();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  function hovered(event) {
    const id = event.target.closest?.("[data-id]")?.dataset.id ?? null;
    if (id === look.hovered || camera.moving) return;
    look.hovered = id;
    if (scene.picture) lines.strong(scene, look.hovered ?? paint.nodeOf(scene, state.view.selected));
  }

  const forget = gestures(element, camera, { tap, moved: touched });
  const listening = new AbortController();
  const { signal } = listening;
  element.addEventListener("keydown", keyed, { signal });
  element.addEventListener("pointerover", hovered, { signal });
  element.addEventListener("pointerleave", hovered, { signal });
  element.addEventListener("dblclick", (event) => {
    const id = event.target.closest?.("[data-id]")?.dataset.id;
    if (id && scene.picture.byId.get(id)?.kind !== "group") tell.open?.(id);
  }, { signal });
  dom.sheet.addEventListener("focusin", (event) => {
    look.focus = event.target.dataset?.id ?? look.focus;
  }, { signal });
  dom.onTool((name) => {
    moved = true;
    actions[name]();
  });
  dom.onClear(() => tell.clear?.());
  const watch = new ResizeObserver(() => {
    camera.measure(element);
    dom.size(camera.w, camera.h);
    if (!moved && scene.spots.size) camera.fit(scene.area);
    else all();
  });
  watch.observe(element);
  // The map is painted, not styled: it has to be told of other colours.
  const recolour = () => {
    map.themed();
    all();
  };
  const theme = new MutationObserver(recolour);
  theme.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour, { signal });

  return {
    draw(task, marked, view) {
      if (task !== state.task) {
        state.structure = true;
        if (state.task) scene.at.clear();
        moved = false;
      }
      const before = state.view;
      if (before.language !== view.language) dom.relabel();
      const key = lookKey(view);
      if (key !== state.look) state.full = true;
      state.look = key;
      if (view.selected && view.selected !== before.selected && view.selected !== look.focus) look.reveal = view.selected;
      state.task = task;
      state.view = view;
      for (const id of marked) state.marked.add(id);
      // Times that run are written four times a second.
      if (Math.floor((before.now ?? 0) / 250) !== Math.floor((view.now ?? 0) / 250)) paint.ticking(task, scene, state.marked);
      ask();
    },
    fit() {
      camera.fit(scene.area, 0);
    },
    zoom(factor) {
      moved = true;
      camera.zoomAt(factor);
    },
    tidy: actions.T,
    scene,
    camera,
    destroy() {
      gone = true;
      cancelAnimationFrame(asked);
      watch.disconnect();
      theme.disconnect();
      listening.abort();
      forget();
      camera.destroy();
      element.replaceChildren();
    },
  };
}

function mixed(from, to, part) {
  const spots = new Map();
  for (const [id, spot] of to) {
    const was = from.get(id);
    spots.set(id, was ? { ...spot, x: was.x + (spot.x - was.x) * part, y: was.y + (spot.y - was.y) * part } : spot);
  }
  return spots;
}
