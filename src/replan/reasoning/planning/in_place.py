"""What a planner says where a plan was wanted: a question, a refusal, or that nothing is left to be planned.

It is told once how each is said. Steps beside a no or a question are told so, too; said again, the no counts, and the steps do not. What is said in another way after that costs no further request: it is put to a person, or
stands in the reason. Of "nothing is left" nothing is believed: a model that judges is told every word of it and says whether the
task is done; where none judges, only an answer that says nothing else is taken for it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any

from replan.core.data.answers import meant
from replan.core.data.for_readers import folded
from replan.core.data.nothing import has_reservations, is_filler, is_nothing, says_nothing_is_left
from replan.core.data.read_json import Unreadable
from replan.core.data.standing import answers_in
from replan.core.data.taken_back import (
    NAMES_OF_A_NO,
    asks,
    is_a_yes,
    refusal_to_readers,
    said_beside,
    says_no,
    takes_back,
)
from replan.core.plan.fields import INSTEAD_OF_STEPS, PLAN_FIELDS
from replan.core.types import JsonObject, Plan
from replan.core.walk import texts_in
from replan.reasoning.prompting.in_words import asks_for_more, gives_a_reason, last_sentence
from replan.reasoning.prompting.noes import (
    OF_STEPS,
    asked_by_a_step,
    asks_first,
    noes_in,
    parts_of,
    questions_in,
)
from replan.reasoning.prompting.read_values import fold, spoken, text

_SHOWN = 1_000
_READ = 2_000
_MOST = 50
_STEPS = ("steps", *INSTEAD_OF_STEPS)


class InPlace:
    """How an answer that is no plan is read.

    `task`: its text, which an answer may only say again. `rest`: what comes after a first part is asked for, which may be nothing.
    `judged`: a model judges, and so hears of it. `kept`: the steps that stay.
    """

    def __init__(
        self, task: str = "", *, rest: bool = False, judged: bool = False, kept: Collection[str] = ()
    ) -> None:
        self._task = _plain(task)
        self.rest = rest
        self._judged = judged
        self._kept = frozenset(kept)
        self._told = False
        """That steps stand beside a no or a question was sent back before."""

    def __call__(self, text: str, *, again: bool, last: bool = False) -> JsonObject | None:
        """The answer that it stands for; None if that cannot be told.

        `again`: another one has been sent back before. `last`: no further one is asked for.
        """
        said = _said(text)
        if said is None:
            silent = self.rest and self._judged and not text.strip()
            return {"steps": []} if silent and again else None
        if isinstance(said, dict) and not _is_none(said.get("steps")):
            return self._instead_of_both(said)
        if self.rest and self._plans_nothing(said):
            beside = self.told({"reasoning": said} if isinstance(said, str) else said)
            return {"steps": [], "reasoning": beside} if beside else {"steps": []}
        if not again:
            return None
        words = [said] if isinstance(said, str) else list(_texts(said))
        if question := next(filter(self._asks, words), ""):
            return {"steps": [], "ask_first": question[:_SHOWN]}
        if refusal := next(filter(self._refuses, words), ""):
            return {"steps": [], "cannot": refusal[:_SHOWN]}
        if isinstance(said, str):
            return self._in_words(said) if self.rest and last else None
        noes = list(dict.fromkeys([*said_beside(said, PLAN_FIELDS).denying, *_noes(said)]))
        if self.rest and not self._judged and self._holds_nothing(said) and (beside := self.told(said)):
            return {"steps": [], "cannot": "; ".join(dict.fromkeys([beside, *noes]))}
        if not noes:
            return None
        asks = any(asks_first(fold(name), value) for name, value in noes_in(_beginning(said), own=_OWN))
        return {"steps": [], "ask_first" if asks else "cannot": self.told(said) or "; ".join(noes)}

    def _in_words(self, said: str) -> JsonObject | None:
        """What words stand for that nobody here understands, where the rest was asked for: who judges reads them.

        Where nobody does, and where they may say no, they are why nothing is planned.
        """
        if len(said) > _SHOWN or not _LETTER.search(said) or is_filler(said):
            return None
        is_told = self._judged and not takes_back(said) and not has_reservations(said)
        return {"steps": [], "reasoning" if is_told else "cannot": said}

    def _instead_of_both(self, plan: JsonObject) -> JsonObject | None:
        """What is left of steps beside a field that says no or asks, once that was sent back: its word. No step is run."""
        told, self._told = self._told, True
        if not told:
            return None
        if own := {
            name: value for name, value in plan.items() if folded(name) in _DECLINING and spoken(value)
        }:
            return {"steps": [], **own}
        parts = list(parts_of(plan))
        asked = [
            *questions_in(_beginning(plan), own=_OWN, what="The plan"),
            *questions_in(*parts, own=OF_STEPS, what="A step"),
        ]
        return (
            {"steps": [], "ask_first": "; ".join(asked)}
            if asked
            else {"steps": [], "cannot": "; ".join(_noes(plan))}
        )

    def told(self, answer: JsonObject) -> str:
        """What an answer without steps says in any of its fields, but for names of kinds and words for done."""
        found: list[str] = []
        for name, value in islice(answer.items(), _MOST):
            if said := self._said_in(name, value):
                found.append(said if name == "reasoning" else f"{name}: {said}")
        return "; ".join(found)[:_SHOWN]

    def _said_in(self, name: str, value: Any) -> str:
        plain = folded(name)
        if plain in _LABELS:
            return ""
        if isinstance(value, int | float):
            return str(value) if value and said_beside({name: value}, PLAN_FIELDS).unknown else ""
        said = [
            one.strip() for one in islice(texts_in(value), _MOST) if _LETTER.search(one) and not is_a_yes(one)
        ]
        return "; ".join(one for one in said if not is_filler(one) and not self._is_the_task(plain, one))

    def _is_the_task(self, name: str, said: str) -> bool:
        return name in _TASKS and _plain(said) in self._task

    def if_meant(self, plan: JsonObject) -> str:
        """How a no or a question is said, where a plan with steps has fields that there are not and that may be one; else nothing."""
        found = meant(plan, _STEPS)
        plan = found if isinstance(found, dict) else plan
        if _is_none(plan.get("steps")):
            return ""
        parts = [(_beginning(plan), _KNOWN_OF_PLANS), *((part, OF_STEPS) for part in parts_of(plan))]
        said = (said_beside(part, known) for part, known in parts)
        return _NO_OR_QUESTION if any(one.unknown or one.denying for one in said) else ""

    def adds_nothing(self, answer: JsonObject, plan: Plan) -> bool:
        """True if the rest was asked for, and an answer has no step for it."""
        if not self.rest or plan.declined or not _is_none(answer.get("steps")):
            return False
        return all(step.step_id in self._kept for step in plan.steps)

    def nothing_is_left(self, plan: Plan) -> bool:
        """True if a plan declines only because all is done."""
        if not (self.rest and self._judged):
            return False
        if plan.cannot:
            return says_nothing_is_left(plan.cannot) and not gives_a_reason(plan.cannot)
        return says_nothing_is_left(plan.ask_first) and not asks_for_more(plan.ask_first)

    def no_more(self, answer: JsonObject) -> bool:
        """True if what an answer says is still to be planned only says that nothing is."""
        return self.rest and bool(answer.get("more")) and self._is_no_more(answer["more"])

    def doubt(self, answer: JsonObject, plan: Plan) -> str:
        """What an answer without steps says to readers that is no reason to have none: a question, or a refusal; else nothing.

        Of the rest it is all that is said, where no model judges whether it is a reason.
        """
        if self.adds_nothing(answer, plan):
            return self._question(answer) if self._judged else self.told(answer)
        if plan.steps or plan.declined or self.rest:
            return ""
        return next((one for one in _texts(answer) if self._asks(one) or self._refuses(one)), "")

    def _asks(self, said: str) -> bool:
        return asks(said) and _plain(last_sentence(said)) not in self._task

    def _question(self, answer: JsonObject) -> str:
        """The question among the words of an answer that is not only whether anything else is wanted."""
        return next((one for one in _texts(answer) if self._asks(one) and asks_for_more(one)), "")

    def _refuses(self, said: str) -> bool:
        found = bool(refusal_to_readers({"reasoning": said})) or _REFUSES_AT_ALL.search(said[:_SHOWN])
        return bool(found) and _plain(said) not in self._task

    def _plans_nothing(self, said: JsonObject | str) -> bool:
        if isinstance(said, str):
            none = _is_none_in_words(said) or says_nothing_is_left(said)
            return self._judged and none and not self._question({"reasoning": said})
        if not self._holds_nothing(said):
            return False
        beside = said_beside(said, PLAN_FIELDS)
        if beside.denying or _noes(said):
            return False
        return not (self._question(said) if self._judged else beside.unknown or self.told(said))

    def _holds_nothing(self, said: JsonObject) -> bool:
        """True if nothing in an answer without steps may be one, nor is told in place of them."""
        if any(said.get(name) for name in INSTEAD_OF_STEPS):
            return False
        return self._is_no_more(said.get("more")) and not any(map(_holds_more, said.values()))

    def _is_no_more(self, more: Any) -> bool:
        if not more or (isinstance(more, str) and is_filler(more)):
            return True
        return self._judged and isinstance(more, str) and says_nothing_is_left(more)


_KNOWN_OF_PLANS = frozenset(PLAN_FIELDS) | {name for names in PLAN_FIELDS.values() for name in names}
_NO_OR_QUESTION = (
    "if a person has to be asked first, `steps` is [] and `ask_first` is the question; if a person has to agree to a step, it has "
    "`requires_approval`: true; if nothing is to be run, `steps` is [] and `cannot` says why. A question or a no that is said again beside "
    "steps counts, and no step is run"
)
_LABELS = frozenset(
    folded(label)
    for name in ("steps", "task_type", "workflow_id", "plan_id", "version", "estimated_duration")
    for label in (name, *PLAN_FIELDS[name])
) | {"$schema", "taskid", "language"}
"""Fields that only name something, whatever they hold; of steps it is told elsewhere what is wrong with them."""
_DECLINING = frozenset(map(folded, INSTEAD_OF_STEPS))
_NOES = _DECLINING | NAMES_OF_A_NO | {"problem", "problems"}
_TASKS = frozenset(map(folded, ("task_description", *PLAN_FIELDS["task_description"])))
_LETTER = re.compile(r"\w")

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


def _said(text: str) -> JsonObject | str | None:
    """Prose, or the one value that was answered, where it holds no steps; None where there is a plan, or half of one."""
    try:
        found = answers_in(text)
    except Unreadable as error:
        return None if error.begun or not text.strip() else text.strip()
    if len(found) != 1:
        return None
    value = meant(found[0].value, _STEPS)
    if isinstance(value, str):
        return value or {}
    if not isinstance(value, dict):
        return {} if _is_none(value) else None
    steps = value.get("steps")
    if _is_none(steps):
        return asked_by_a_step(value) or value
    return _asked_by(steps) or (value if _noes(value) else None)


def _noes(answer: JsonObject) -> list[str]:
    """What stands in the fields by whose names alone an answer, one of its steps or of their actions says no, or asks."""
    found = [
        (name, value)
        for name, value in islice(answer.items(), _MOST)
        if value and folded(name) in _NOES and spoken(value)
    ]
    found += noes_in(_beginning(answer), own=_OWN) + [
        one for part in parts_of(answer) for one in _noes_of_part(part)
    ]
    told = [f"{name}: {text(value)}"[:_SHOWN] for name, value in found]
    return list(dict.fromkeys(told))


def _beginning(answer: JsonObject) -> JsonObject:
    """Its first fields: of an answer with thousands nobody needs to know which of them say no."""
    return answer if len(answer) <= _MOST else dict(islice(answer.items(), _MOST))


def _noes_of_part(part: JsonObject) -> list[tuple[str, Any]]:
    errors = [
        (name, value) for name, value in part.items() if folded(name) in NAMES_OF_A_NO and spoken(value)
    ]
    return errors + noes_in(part, own=OF_STEPS)


_OWN = frozenset({"steps", "more", "reasoning"})


def _is_none_in_words(said: str) -> bool:
    if is_filler(said):
        return not says_no("status", said)
    return is_a_yes(said) or not _LETTER.search(said)


def _is_none(value: Any) -> bool:
    if isinstance(value, str):
        return is_filler(value)
    return value is None or (isinstance(value, dict | list) and is_nothing(value))


def _asked_by(steps: Any) -> str | None:
    """The question that is the only thing a plan's only step is for: a call of somebody who is no tool."""
    if not isinstance(steps, list) or len(steps) != 1 or not isinstance(steps[0], dict):
        return None
    if asked := asked_by_a_step(steps[0]):
        return asked
    parameters = steps[0].get("parameters")
    values = list(parameters.values()) if isinstance(parameters, dict) else []
    return values[0] if len(values) == 1 and isinstance(values[0], str) and asks(values[0]) else None


def _holds_more(value: Any) -> bool:
    """True of what may be steps by another name."""
    if isinstance(value, dict):
        return bool(value)
    return isinstance(value, list) and any(
        isinstance(one, dict | list) and not is_nothing(one) for one in value
    )


def _texts(value: JsonObject) -> Iterator[str]:
    for one in list(value.values())[:_MOST]:
        for part in one[:_MOST] if isinstance(one, list) else (one,):
            if isinstance(part, str):
                yield part
