// One frame of the graph: which cards are in the window, and what each of them says.

import { groupFace, isMoving, stepFace } from "replan/graph/faces";
import { countStates, loudest, marksOf, versionOf } from "replan/graph/picture";

function nodeOf(scene, id) {
  if (!id || !scene.picture) return null;
  if (scene.spots.has(id)) return id;
  return scene.picture.nodeOf.get(id) ?? null;
}

function stateOf(task, node, id) {
  if (node?.kind === "group") return loudest(countStates(task, node.members));
  return task.steps.get(id)?.state ?? "pending";
}

function drawCard(pane, id, spot) {
  const { scene, cards, task, view, look, context } = pane;
  const node = scene.picture.byId.get(id);
  const group = node?.kind === "group" ? node : null;
  const step = group ? null : task.steps.get(id);
  const face = group ? groupFace(task, group, context.words) : stepFace(step, context.now, context.words);
  const { marks, version } = pane.marks;
  const on = (test) => (group ? group.members.some(test) : test(id));
  const sign = group ? null : marks.get(id);
  cards.draw(id, spot, face, {
    kind: group ? "group" : "step",
    opened: Boolean(group?.opened),
    roleName: context.words.t(group ? "graph.role_group" : "graph.role_step"),
    selected: group ? !group.opened && group.members.includes(view.selected) : view.selected === id,
    dim: Boolean(
      (context.matches && !on((one) => context.matches(task.steps.get(one)))) ||
      (look.related && !on((one) => look.related.has(one))),
    ),
    related: Boolean(look.related && on((one) => look.related.has(one))),
    critical: Boolean(context.critical && !group?.opened && on((one) => context.critical.on.has(one))),
    ghost: Boolean(step && isGhost(task, view, step)),
    tag: sign ? `${sign} v${version}` : "",
    focus: pane.tabStop === id,
  });
}

/** What the plan that is shown is without. */
function isGhost(task, view, step) {
  const version = versionOf(task, view.version);
  return version ? !version.steps.includes(step.id) : Boolean(step.leftOut);
}

function tabStopOf(scene, view, look, seen) {
  for (const id of [look.focus, nodeOf(scene, view.selected)]) if (id && scene.spots.has(id)) return id;
  for (const id of seen) return id;
  return scene.picture.nodes[0]?.id ?? null;
}

export const paint = {
  nodeOf,
  stateOf,

  all(pane) {
    const { scene, cards, lines, camera, dom, task, view, look, context } = pane;
    const seen = camera.window();
    cards.zoomed(camera.zoom);
    dom.look(camera.x, camera.y, camera.zoom);
    const shown = new Map();
    for (const [id, spot] of scene.spots) {
      if (spot.x + spot.w < seen.left || spot.x > seen.right || spot.y + spot.h < seen.top || spot.y > seen.bottom) continue;
      shown.set(id, spot);
    }
    pane.tabStop = scene.tabStop = tabStopOf(scene, view, look, shown.keys());
    // The way in by the keyboard is always there, wherever one has moved to.
    if (pane.tabStop && !shown.has(pane.tabStop)) shown.set(pane.tabStop, scene.spots.get(pane.tabStop));
    scene.shown = shown;
    scene.marks = pane.marks = marksOf(task, view);
    cards.keep(shown);
    for (const [id, spot] of shown) drawCard(pane, id, spot);
    lines.draw(scene, seen);
    lines.critical(scene, context.critical?.path);
    const related = look.related && new Set([...look.related].map((id) => nodeOf(scene, id)));
    lines.strong(scene, look.hovered ?? nodeOf(scene, view.selected), related);
    lines.replacements(scene, context.words);
    dom.say(...noteOf(task, context));
    scene.drawnPath = context.critical?.path;
  },

  /** Only what events have touched, where it is in the window. */
  marked(pane, ids) {
    const { scene, lines, context } = pane;
    pane.tabStop = scene.tabStop;
    pane.marks = scene.marks;
    const nodes = new Set();
    for (const id of ids) {
      const group = scene.picture.groupOf.get(id);
      if (group) nodes.add(group.id);
      if (scene.spots.has(id)) nodes.add(id);
    }
    // Another critical path: cards that are on it, or no longer, are others too.
    const path = context.critical?.path;
    if (path !== scene.drawnPath) {
      for (const id of [...(path ?? []), ...(scene.drawnPath ?? [])]) if (nodeOf(scene, id)) nodes.add(nodeOf(scene, id));
      lines.critical(scene, path);
      scene.drawnPath = path;
    }
    for (const id of nodes) if (scene.shown.has(id)) drawCard(pane, id, scene.shown.get(id));
  },

  /** Adds the cards of which the time runs. */
  ticking(task, scene, marked) {
    for (const id of scene.shown?.keys() ?? []) {
      const step = task.steps.get(id);
      if (step && isMoving(step.state)) marked.add(id);
    }
  },
};

function noteOf(task, { matches, words }) {
  if (!task.order.length) return [words.t(task.ended ? "graph.no_steps" : "graph.no_plan")];
  if (matches && !task.order.some((id) => matches(task.steps.get(id)))) return [words.t("graph.no_match"), true];
  return [""];
}
