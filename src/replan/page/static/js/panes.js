// The views of a task below its head. Those that draw by hand are mounted: `mount(element, {select, open, change}) → {draw(task, marked, view), destroy()}`.

import { GRAPH, TIME } from "replan/pictures";

export const PANES = [
  GRAPH,
  TIME,
  { id: "steps", key: "pane.steps" },
  { id: "log", key: "pane.log" },
];
