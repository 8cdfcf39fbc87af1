"""How long frames take while a graph is looked at, moved and zoomed, by a hand that never rests."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

MODES = ("still", "pan, all", "pan, near", "wheel")
_HAND = """
async ([selector, mode, secs, every]) => {
  const box = document.querySelector(selector);
  const turn = (more) => box.dispatchEvent(new WheelEvent("wheel", { cancelable: true, bubbles: true, clientX: 500, clientY: 300, ...more }));
  const key = (name) => box.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
  if (mode !== "still") key("0");
  if (mode === "pan, near" || mode === "wheel") for (let i = 0; i < 40 && box.querySelectorAll(".card .right").length === 0; i++) {
    key("+");
    await new Promise((resolve) => setTimeout(resolve, 60));
  }
  await new Promise((resolve) => setTimeout(resolve, 300));
  const times = [];
  const begun = performance.now();
  let last = begun;
  return new Promise((resolve) => {
    const frame = () => {
      const now = performance.now();
      times.push(now - last);
      last = now;
      if (every) window.eachFrame?.(now - begun);
      if (mode !== "still") turn({ deltaX: Math.sin(now / 300) * 6, deltaY: Math.cos(now / 400) * 4 });
      if (mode === "wheel") turn({ deltaY: Math.sin(now / 500) * 12, ctrlKey: true });
      if (now - begun < secs * 1000) requestAnimationFrame(frame);
      else resolve(times.slice(1));
    };
    requestAnimationFrame(frame);
  });
}
"""


class Frames(NamedTuple):
    count: int
    p95: float
    """Milliseconds from one to the next."""
    most: float
    busy: float
    """Milliseconds of processor time of the page's main thread for each frame, whatever else the machine does."""
    slow: float
    """Of all frames, those that took longer than 50 ms."""


class Meter:
    """Reads what Chromium counts of a page."""

    def __init__(self, page: Any, throttle: float = 1) -> None:
        self.page = page
        self._devtools = page.context.new_cdp_session(page)
        self._devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
        if throttle != 1:
            self._devtools.send("Emulation.setCPUThrottlingRate", {"rate": throttle})

    def counted(self) -> dict[str, float]:
        found = self._devtools.send("Performance.getMetrics")["metrics"]
        return {one["name"]: one["value"] for one in found}

    def heap(self) -> float:
        """MB that are in use, once what is not has been cleared away."""
        self._devtools.send("HeapProfiler.collectGarbage")
        return self.counted()["JSHeapUsedSize"] / 1e6

    def frames(self, selector: str, mode: str, secs: float, *, every: bool = False) -> Frames:
        before = self.counted()["TaskDuration"]
        times = sorted(self.page.evaluate(_HAND, [selector, mode, secs, every]))
        busy = (self.counted()["TaskDuration"] - before) * 1000 / len(times)
        slow = sum(1 for one in times if one > 50) / len(times)
        return Frames(len(times), times[int(len(times) * 0.95)], times[-1], busy, slow)


@contextlib.contextmanager
def chromium(executable: str, flags: tuple[str, ...]) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=executable, args=list(flags))
        try:
            yield browser
        finally:
            browser.close()
