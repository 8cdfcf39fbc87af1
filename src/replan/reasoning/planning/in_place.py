"""What a planner says where a plan was wanted: a question, a refusal, or that nothing is left to be planned.

It is told once how each is said. What is said in another way after that costs no further request: it is put to a person, or
stands in the reason. Of "nothing is left" nothing is believed: whoever judges the task says whether it is done.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from replan.core.data.answers import meant
from replan.core.data.for_readers import NOTHING
from replan.core.data.nothing import is_filler, says_nothing_is_left
from replan.core.data.read_json import Unreadable
from replan.core.data.standing import answers_in
from replan.core.data.taken_back import asks, refusal_to_readers, said_beside
from replan.core.plan.fields import INSTEAD_OF_STEPS, PLAN_FIELDS
from replan.core.types import JsonObject, Plan

_SHOWN = 1_000
_MOST = 50
_STEPS = ("steps", *INSTEAD_OF_STEPS)


class InPlace:
    """How an answer that is no plan is read.

    `task`: its text, which an answer may only say again. `rest`: what comes after a first part is asked for, which may be nothing.
    `judged`: a model judges, and so hears of it.
    """

    def __init__(self, task: str = "", *, rest: bool = False, judged: bool = False) -> None:
        self._task = _plain(task)
        self._rest = rest
        self._judged = judged

    def __call__(self, text: str, *, again: bool) -> JsonObject | None:
        """The answer that it stands for; None if that cannot be told. `again`: another one has been sent back before."""
        said = _said(text)
        if said is None:
            return None
        if self._rest and self._plans_nothing(said):
            return {"steps": []}
        if not again:
            return None
        words = [said] if isinstance(said, str) else list(_texts(said))
        if question := next(filter(self._asks, words), ""):
            return {"steps": [], "ask_first": question[:_SHOWN]}
        if refusal := next(filter(self._refuses, words), ""):
            return {"steps": [], "cannot": refusal[:_SHOWN]}
        if not isinstance(said, str) and (noes := said_beside(said, PLAN_FIELDS).denying):
            return {"steps": [], "cannot": "; ".join(noes)}
        return None

    def nothing_is_left(self, plan: Plan) -> bool:
        """True if a plan declines only because all is done."""
        return self._rest and self._judged and says_nothing_is_left(plan.cannot or plan.ask_first)

    def no_more(self, answer: JsonObject) -> bool:
        """True if what an answer says is still to be planned only says that nothing is."""
        return self._rest and bool(answer.get("more")) and self._is_no_more(answer["more"])

    def doubt(self, answer: JsonObject, plan: Plan) -> str:
        """What an answer without steps says to readers that is no reason to have none: a question, or a refusal; else nothing."""
        if plan.steps or plan.declined or self._rest:
            return ""
        return next((one for one in _texts(answer) if self._asks(one) or self._refuses(one)), "")

    def _asks(self, said: str) -> bool:
        return asks(said) and _plain(_SENTENCE.split(said.strip())[-1]) not in self._task

    def _refuses(self, said: str) -> bool:
        found = bool(refusal_to_readers({"reasoning": said})) or _REFUSES_AT_ALL.search(said[:_SHOWN])
        return bool(found) and _plain(said) not in self._task

    def _plans_nothing(self, said: JsonObject | str) -> bool:
        if isinstance(said, str):
            return self._judged and says_nothing_is_left(said)
        if any(said.get(name) for name in INSTEAD_OF_STEPS):
            return False
        if not self._is_no_more(said.get("more")) or any(map(_holds_more, said.values())):
            return False
        beside = said_beside(said, PLAN_FIELDS)
        return not beside.denying and (self._judged or not beside.unknown)

    def _is_no_more(self, more: Any) -> bool:
        if not more or (isinstance(more, str) and is_filler(more)):
            return True
        return self._judged and isinstance(more, str) and says_nothing_is_left(more)


_REFUSES_AT_ALL = re.compile(
    r"\b(?:i|we)(?:['’]m|\s+am|['’]re|\s+are)\s+(?:not\s+(?:able|allowed|permitted|willing)|un(?:able|willing))\b"
    r"|\b(?:i|we)\s*(?:can|will|must|shall|could|may|wo|ca)(?:\s*not|n['’]t)\s+(?:help|comply|assist|plan|do|make|run|pay|send)\b",
    re.IGNORECASE,
)
"""Where there is nothing else to be read: beside a plan the same words may only explain it."""


def prose_of(text: str) -> str:
    """What was said where there is no object in it at all."""
    said = _said(text) if len(text) <= _SHOWN else ""
    return said[:_SHOWN] if isinstance(said, str) else ""


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .!?\"'")


_SENTENCE = re.compile(r"[.!:;\n]\s+|\n")


def _said(text: str) -> JsonObject | str | None:
    """Prose, or the one value that was answered, where it holds no steps; None where there is a plan, or half of one."""
    try:
        found = answers_in(text)
    except Unreadable as error:
        return None if error.begun or not text.strip() else text.strip()
    if len(found) != 1:
        return None
    value = meant(found[0].value, _STEPS)
    if not isinstance(value, dict):
        return {} if value in NOTHING else None
    steps = value.get("steps")
    return value if steps in NOTHING else _asked_by(steps)


def _asked_by(steps: Any) -> str | None:
    """The question that is the only thing a plan's only step is for: a call of somebody who is no tool."""
    if not isinstance(steps, list) or len(steps) != 1 or not isinstance(steps[0], dict):
        return None
    parameters = steps[0].get("parameters")
    values = list(parameters.values()) if isinstance(parameters, dict) else []
    return values[0] if len(values) == 1 and isinstance(values[0], str) and asks(values[0]) else None


def _holds_more(value: Any) -> bool:
    """True of what may be steps by another name."""
    if isinstance(value, dict):
        return bool(value)
    return isinstance(value, list) and any(isinstance(one, dict | list) for one in value)


def _texts(value: JsonObject) -> Iterator[str]:
    for one in list(value.values())[:_MOST]:
        for part in one[:_MOST] if isinstance(one, list) else (one,):
            if isinstance(part, str):
                yield part
