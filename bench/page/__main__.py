"""The page in a real Chromium, beside a service that drives a task of a thousand steps, on the same machine.

python -m bench.page               everything (some five minutes); CHROMIUM names another browser
python -m bench.page --only paint  until something is seen, and until it can be used
python -m bench.page --only frames how long frames take while a hundred events come a second, best of three
python -m bench.page --only memory after ten thousand events
python -m bench.page --only layout how long it takes to lay out a plan
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import time
from typing import Any

from bench.ending import clear_up_when_told
from bench.page import served
from bench.page.frames import MODES, Frames, Meter, chromium
from bench.page.made_up import plan_of

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
SIZE = {"width": 1440, "height": 900}
STEPS = 1000
EVENTS_A_SECOND = 100
TIMES = 3
SECS = 5.0
THROTTLED = 4
MANY_EVENTS = 10_000
_USED = "() => document.querySelectorAll('.graph .card').length > 0"
_PAINT = """() => Object.fromEntries(performance.getEntriesByType("paint").map((one) => [one.name, one.startTime]))"""
_LAYOUT = """
async (steps) => {
  const { layout, place } = await import("replan/layout");
  const nodes = steps.map((step) => ({ id: step.step_id }));
  const edges = steps.flatMap((step) => step.dependencies.map((from) => [from, step.step_id]));
  const timed = (work) => { const from = performance.now(); const made = work(); return [performance.now() - from, made]; };
  const [cold] = timed(() => layout(nodes, edges));
  let warm = Infinity;
  let made;
  for (let i = 0; i < 10; i++) { const [ms, done] = timed(() => layout(nodes, edges)); warm = Math.min(warm, ms); made = done; }
  const early = nodes.slice(0, Math.ceil(nodes.length * 0.95));
  const known = new Set(early.map((node) => node.id));
  const { at } = layout(early, edges.filter(([from, to]) => known.has(from) && known.has(to)));
  let placing = Infinity;
  let moved = 0;
  for (let i = 0; i < 10; i++) {
    const [ms, later] = timed(() => place(at, nodes, edges));
    placing = Math.min(placing, ms);
    moved = [...at].filter(([id, spot]) => later.get(id) !== spot).length;
  }
  return { edges: edges.length, cold, warm, placing, moved, height: made.height, crossings: made.crossings };
}
"""


def opened(
    browser: Any, url: str, task_id: str, throttle: float = 1, more: str = ""
) -> tuple[Any, Meter, dict[str, float]]:
    """The page of a task, and what it took to be there, in milliseconds from the call."""
    context = browser.new_context(viewport=SIZE)
    page = context.new_page()
    meter = Meter(page, throttle)
    begun = time.perf_counter()
    page.goto(f"{url}/#/task/{task_id}?pane=graph{more}", wait_until="commit")
    page.wait_for_function(_USED, polling="raf", timeout=60_000)
    used = (time.perf_counter() - begun) * 1000
    page.wait_for_function("() => performance.getEntriesByType('paint').length > 0")
    return page, meter, {**page.evaluate(_PAINT), "used": used}


def paint(browser: Any, url: str) -> None:
    print("\nUntil it is seen, and until it can be used (milliseconds, nothing cached, best of three)\n")
    print("| steps | processor | first paint | first graph |\n| --- | --- | --- | --- |")
    for steps in (12, STEPS):
        task_id = served.hand_in(url, steps)
        time.sleep(1)
        for throttle in (1, THROTTLED):
            found = []
            for _ in range(TIMES):
                page, _, times = opened(browser, url, task_id, throttle)
                found.append(times)
                page.context.close()
            first = min(one["first-paint"] for one in found)
            used = min(one["used"] for one in found)
            print(
                f"| {steps:,} | {'whole' if throttle == 1 else f'÷{throttle}'} | {first:.0f} | {used:.0f} |",
                flush=True,
            )


def frames(browser: Any, url: str) -> None:
    print(
        f"\nFrames, {STEPS:,} steps, {EVENTS_A_SECOND} events a second (95th percentile in ms, best of {TIMES};"
    )
    print("in brackets the longest, and the main thread's own time for a frame)\n")
    print(f"| drawn | processor | {' | '.join(MODES)} |\n| --- | --- |{' --- |' * len(MODES)}")
    for drawn, more in (("in groups", ""), ("every card", "&group=none")):
        for throttle in (1, THROTTLED):
            cells = []
            for mode in MODES:
                task_id = served.hand_in(url, STEPS)
                page, meter, _ = opened(browser, url, task_id, throttle, more)
                page.wait_for_timeout(1500)
                runs = [meter.frames(".graph", mode, SECS) for _ in range(TIMES)]
                best: Frames = min(runs, key=lambda one: one.p95)
                cells.append(f"{best.p95:.0f} ({best.most:.0f}; {best.busy:.1f})")
                page.context.close()
                served.cancel(url, task_id)
            print(
                f"| {drawn} | {'whole' if throttle == 1 else f'÷{throttle}'} | {' | '.join(cells)} |",
                flush=True,
            )


def memory(browser: Any, url: str) -> None:
    steps = MANY_EVENTS // served.EVENTS_A_STEP
    task_id = served.hand_in(url, steps)
    page, meter, _ = opened(browser, url, task_id)
    before = meter.heap()
    page.wait_for_function("() => document.querySelector('.badge.s-done')", timeout=600_000)
    counted = meter.counted()
    print(
        f"\nMemory: {before:.1f} MB as it was opened, {meter.heap():.1f} MB after {served.events(url, task_id):,} events of {steps:,} steps,"
    )
    print(f"of which it keeps 5,000; {counted['Nodes']:.0f} nodes of the document")
    page.context.close()


def laid_out(browser: Any, url: str) -> None:
    print("\nLayout (milliseconds in Chromium)\n")
    print(
        "| steps / edges | cold / warm | 5 % more placed | moved by it | height | crossings |\n| --- | --- | --- | --- | --- | --- |"
    )
    for steps in (12, 150, STEPS, 3000):
        page = browser.new_context().new_page()
        page.goto(url)
        got = page.evaluate(_LAYOUT, plan_of(steps))
        page.context.close()
        print(
            f"| {steps:,} / {got['edges']:,} | {got['cold']:.1f} / {got['warm']:.1f} | {got['placing']:.1f} | {got['moved']} "
            f"| {got['height']:,.0f} | {got['crossings']:,} |",
            flush=True,
        )


PARTS = {
    "layout": (laid_out, EVENTS_A_SECOND),
    "paint": (paint, EVENTS_A_SECOND),
    "frames": (frames, EVENTS_A_SECOND),
    "memory": (memory, 1000),
}


def main() -> None:
    clear_up_when_told()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=sorted(PARTS))
    only = parser.parse_args().only
    executable = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if executable is None:
        raise SystemExit("Chromium is not here (Debian: apt-get install chromium; or set CHROMIUM to one)")
    with chromium(executable, FLAGS) as browser:
        print(
            f"Chromium {browser.version}, {os.cpu_count()} cores, {platform.platform()}, no GPU, load {os.getloadavg()[0]:.1f}"
        )
        for name, (part, events_a_second) in PARTS.items():
            if only in (None, name):
                with served.service(events_a_second) as url:
                    part(browser, url)


if __name__ == "__main__":
    main()
