// The views of a task below its head. Those that draw by hand are mounted: `mount(element, {select, open, change}) → {draw(task, marked, view), destroy()}`.

export const PANES = [
  { id: "steps", key: "pane.steps" },
  { id: "log", key: "pane.log" },
];
