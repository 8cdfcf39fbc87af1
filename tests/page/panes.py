"""Graph and Gantt of a log, mounted by themselves in a page that has nothing else."""

from __future__ import annotations

from typing import Any

_SET_UP = """
async ({ events, until, graph, view, size }) => {
  const { newTask, apply } = await import("replan/store");
  const { mountGraph } = await import("replan/graph");
  const { mountGantt } = await import("replan/gantt");
  window.pane?.mounted.destroy();
  document.body.replaceChildren();
  const element = document.createElement("div");
  element.style.width = `${size[0]}px`;
  element.style.height = `${size[1]}px`;
  document.body.append(element);
  const said = { select: [], open: [], toggle: [], range: [] };
  const words = {
    t: (key, values) => [key, ...Object.values(values ?? {})].join(" "),
    duration: (ms) => `${Math.round(ms)} ms`,
  };
  const tell = { words };
  for (const name of Object.keys(said)) tell[name] = (value) => {
    said[name].push(value);
    if (name === "select") pane.look({ selected: value });
    if (name === "toggle") {
      const open = new Set(pane.view.open);
      if (!open.delete(value)) open.add(value);
      pane.look({ open });
    }
  };
  const frame = () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
  const pane = (window.pane = {
    task: newTask(), element, said, frame, events, done: 0, marked: new Set(),
    view: { selected: null, filter: null, version: null, diff: false, groupBy: "tool", open: new Set(), now: 0, ...view },
    take(count = 1) {
      for (let i = 0; i < count && this.done < events.length; i++) {
        for (const id of apply(this.task, events[this.done++])) this.marked.add(id);
      }
      return this.draw();
    },
    draw() {
      this.view = { ...this.view, now: this.task.last };
      this.mounted.draw(this.task, this.marked, this.view);
      this.marked = new Set();
    },
    look(change) {
      this.view = { ...this.view, ...change };
      this.draw();
    },
    card: (id) => element.querySelector(`[data-id="${id}"]`),
    row: (id) => element.querySelector(`[data-row="${id}"]`),
  });
  pane.mounted = graph ? mountGraph(element, tell) : mountGantt(element, tell);
  pane.take(until ?? events.length);
  await frame();
  await frame();
}
"""


class Pane:
    """One of them, and what it has told."""

    def __init__(
        self,
        page: Any,
        events: list[dict[str, Any]],
        *,
        graph: bool = True,
        until: int | None = None,
        size: tuple[int, int] = (1200, 700),
        **view: Any,
    ) -> None:
        self.page = page
        page.evaluate(_SET_UP, {"events": events, "until": until, "graph": graph, "view": view, "size": size})

    def run(self, body: str, value: Any = None) -> Any:
        """`given` is the value, `pane` the pane; what is awaited may be `pane.frame()`."""
        return self.page.evaluate(f"async (given) => {{ const pane = window.pane; {body} }}", value)

    def after(self, body: str, value: Any = None) -> Any:
        """What holds once this is done and drawn."""
        return self.run(f"{body}; await pane.frame(); await pane.frame();", value)

    def said(self, kind: str) -> list[Any]:
        told: list[Any] = self.run("return pane.said[given]", kind)
        return told

    def places(self) -> dict[str, str]:
        """Where each card in the window stands."""
        body = "return Object.fromEntries([...pane.element.querySelectorAll('.card')].map((one) => [one.dataset.id, one.getAttribute('transform')]))"
        told: dict[str, str] = self.run(body)
        return told

    def classes(self, card: str) -> list[str]:
        told: list[str] = self.run("return [...pane.card(given).classList]", card)
        return told

    def texts(self, card: str) -> list[str]:
        told: list[str] = self.run(
            "return [...pane.card(given).querySelectorAll('text')].map((one) => one.textContent)", card
        )
        return told
