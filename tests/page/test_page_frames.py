"""A thousand steps with a hundred events a second stay in hand."""

from __future__ import annotations

from typing import Any

import pytest
from bench.page.frames import Meter
from bench.page.made_up import log_of
from panes import Pane

EVENTS_A_SECOND = 100
MOST_BUSY_MS = 25.0
"""Of the main thread for a frame: half of what would be seen as a jerk. Some 3 to 7 ms are used. (Frame times themselves say
what else runs on the machine; `python -m bench.page` measures them.)"""


@pytest.mark.parametrize("group_by", ["tool", "none"])
def test_the_graph_under_a_hand_that_never_rests(modules: Any, group_by: str) -> None:
    events = log_of(1000)
    pane = Pane(modules, events, until=len(events) // 3, groupBy=group_by)
    pane.run(
        """
        window.eachFrame = (ms) => pane.take(Math.max(0, Math.floor((ms * given) / 1000) + pane.begun - pane.done));
        pane.begun = pane.done;
        """,
        EVENTS_A_SECOND,
    )
    meter = Meter(modules)
    for mode in ("pan, near", "wheel"):
        pane.run("pane.begun = pane.done")
        before = pane.run("return pane.done")
        found = meter.frames(".graph", mode, 2, every=True)
        assert pane.run("return pane.done") - before > EVENTS_A_SECOND
        assert found.busy < MOST_BUSY_MS, (mode, found)


def test_the_gantt_while_events_come(modules: Any) -> None:
    events = log_of(1000)
    pane = Pane(modules, events, graph=False, until=len(events) // 3, groupBy="none")
    pane.run(
        """
        window.eachFrame = (ms) => {
          pane.take(Math.max(0, Math.floor((ms * given) / 1000) + pane.begun - pane.done));
          pane.element.querySelector(".time-scroll").scrollTop += 8;
        };
        pane.begun = pane.done;
        """,
        EVENTS_A_SECOND,
    )
    found = Meter(modules).frames(".time", "still", 2, every=True)
    assert found.busy < MOST_BUSY_MS, found
