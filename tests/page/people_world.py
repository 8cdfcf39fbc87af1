"""What tests of people who act in the page stand on: a service, tasks that wait for them, and ways to wait for what the page shows."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from page_world import Served, served
from shop import LETTER, Gate, model, step, tools

from replan.core.events import Record

Opens = Any
SECS = 15.0
AXE = (Path(__file__).parent / "vendor" / "axe" / "axe.min.js").read_text("utf-8")
NOT_YET = """const real = setTimeout;
window.held = [];
window.setTimeout = (act, ms, ...more) => (ms === 500 && !window.soon ? window.held.push(act) : real(act, ms, ...more));"""
"""Buttons sleep for half a second: until the test lets them wake."""
HIDDEN = "anna@ex\u0430mple.org\u202e moc.live\u202c"
"""A Cyrillic letter in an address, and words that run the other way."""


class World:
    """A service, and tasks of it that a test begins for itself."""

    def __init__(self, served: Served, gate: Gate) -> None:
        self.served, self.gate = served, gate

    def begin(self, steps: list[dict[str, Any]], text: str = "Do it") -> str:
        replan = self.served.replan
        return self.served.do(replan.submit(text, plan={"steps": steps}, evaluation="steps"))

    def url(self, task_id: str, more: str = "") -> str:
        return f"{self.served.url}/#/task/{task_id}{more}"

    def log(self, task_id: str) -> list[Record]:
        return self.served.do(self.served.replan.service.history(task_id, 0, 500))

    def said(self, task_id: str, kind: str) -> list[Any]:
        return [record.event for record in self.log(task_id) if record.event.type == kind]

    def sent(self, task_id: str) -> list[dict[str, Any]]:
        """The parameters of the letters that were sent."""
        calls = self.said(task_id, "call_started")
        return [call.parameters for call in calls if call.tool_id == "send_mail"]

    def result(self, task_id: str) -> Any:
        ends = time.monotonic() + SECS
        while (found := self.served.do(self.served.replan.wait(task_id))).status in ("executing", "waiting"):
            assert time.monotonic() < ends, found.reason
        return found


@contextlib.contextmanager
def people(folder: Path, **more: Any) -> Iterator[World]:
    gate = Gate()
    with served(
        folder, tools=tools(gate), model=model(), approval="destructive", interactive=True, **more
    ) as found:
        yield World(found, gate)
        found.do(gate.let_go())


def mail(step_id: str = "mail", **more: Any) -> dict[str, Any]:
    return step(step_id, "Send the letter", "send_mail", parameters={**LETTER, **more})


def ask(step_id: str, question: str, *needs: str, **form: Any) -> dict[str, Any]:
    return step(step_id, f"Ask {step_id}", "ask_user", *needs, parameters={"question": question, **form})


def until(page: Any, holds: Callable[[], Any]) -> Any:
    ends = time.monotonic() + SECS
    while not (found := holds()):
        assert time.monotonic() < ends, page.inner_text("body")
        page.wait_for_timeout(20)
    return found


def awake(page: Any, name: str) -> Any:
    """That button, once it does something."""
    button = page.get_by_role("button", name=name, exact=True).first
    until(page, lambda: button.get_attribute("aria-disabled") is None)
    return button
