"""By which fields an answer asks a person first, or says no, in whichever of its objects they stand.

One table for what planners, reflectors and judges write: a reader leaves out the fields that it has itself. A name decides by its
words; that there is none of it (`spoken`), or that it was given already, is no question and no no.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any

from replan.core.data.taken_back import asks
from replan.core.plan.fields import DECLINING, STEP_FIELDS
from replan.core.types import JsonObject
from replan.reasoning.prompting.read_values import fold, opened, said, spoken, text, truth

_APPROVAL = frozenset({"requires_approval", *STEP_FIELDS["requires_approval"]})
CONDITIONS = _APPROVAL | {"when", *STEP_FIELDS["when"]}
"""What a step may be bound to; what is done at once has none, so beside it one says that it is not meant so."""
STOPPING = frozenset(
    {"abort", "stop", "give_up", "halt", "cancel", "terminate", "escalate", "no_replan", "do_not_replan"}
)
"""Where one of these is true, nothing is to be done any more."""
_QUESTIONS = frozenset({"ask_first", "ask_user", *DECLINING["ask_first"]})
_REFUSALS = frozenset({*DECLINING["cannot"], "cannot", "refusal", "objection"})
_OF_QUESTIONS = frozenset({"clarify", "clarification", "clarifications", "clarifying"})
_OF_PEOPLE = frozenset({"user", "human", "person"})
_ASKING_TOOLS = ("ask", "ask_first", "clarify", "ask_clarification", "request_clarification", "ask_question")
_OF_INPUT = frozenset({"input", "action", "intervention", "question", "questions", "decision", "answer"})
_OF_LEAVE = frozenset({"approval", "approve", "confirm", "confirmation", "permission", "consent", "human"})
_AS_DATA = frozenset(
    {"number", "id", "code", "email", "mail", "message", "text", "summary", "name", "readable", "url", "link", "answered", "date", "error", "errors", "mistake", "invalid", "wrong"}
)  # fmt: skip
"""With one of these words it is a value of the task: `confirmation_number`."""
_GRANTED = frozenset(
    {"approved", "granted", "given", "confirmed", "obtained", "received", "done", "agreed", "accepted"}
)
_ALLOWING = frozenset({
    "approved", "is_approved", "accepted", "allowed", "permitted", "confirmed", "authorized", "authorised", "enabled", "proceed",
    "can_replan", "may_replan", "replan_allowed",
})  # fmt: skip
_DECIDING = frozenset({"status", "state", "decision", "verdict", "action", "recommendation"})
_JUDGING = frozenset({"decision", "verdict"})
_STATES = _JUDGING | {"status", "state"}
_WORDS_OF_A_STATE = 4
_REFUSED = STOPPING | {
    *("rejected", "reject", "refused", "refuse", "declined", "decline", "denied", "deny", "forbidden"),
    *("aborted", "cancelled", "canceled", "stopped", "blocked"),
}


def asks_first(name: str, value: Any) -> bool:
    """True of a field in which something is asked, or a person's yes is wanted: by its name, or as a status."""
    if name in _STATES and isinstance(value, str):
        word = fold(value)
        return word.count("_") < _WORDS_OF_A_STATE and (_is_a_question(word) or _wants_a_yes(word, value))
    return bool(spoken(value)) and (_is_a_question(name) or _wants_a_yes(name, value))


def says_no(name: str, value: Any) -> bool:
    """True of a field that refuses, stops, or withholds leave."""
    if name in STOPPING or name.startswith("escalate_"):
        return bool(truth(value)) or (name.startswith("escalate_") and bool(spoken(value)))
    if name in _ALLOWING and truth(value) is False:
        return True
    if name in _DECIDING and isinstance(value, str):
        word = fold(value)
        return word in _REFUSED or (name in _JUDGING and _orders_not_to(value))
    return name in _REFUSALS and bool(spoken(value))


def noes_in(*parts: JsonObject, own: Collection[str] = ()) -> list[tuple[str, Any]]:
    """The fields of these objects by which they ask first, or say no, but for those of the reader's `own`."""
    return [
        (key, value)
        for part in parts
        for key, value in part.items()
        if (name := fold(key)) not in own and (asks_first(name, value) or says_no(name, value))
    ]


def questions_in(*parts: JsonObject, own: Collection[str] = (), what: str = "It") -> list[str]:
    """What these objects ask, or want a yes for, as a person is asked. `what` wants it."""
    found = [
        question_of(key, value, what)
        for part in parts
        for key, value in part.items()
        if (name := fold(key)) not in own and asks_first(name, value)
    ]
    return list(dict.fromkeys(filter(None, found)))


def question_of(key: str, value: Any, what: str = "It") -> str:
    """A field that asks, as a person is asked; empty where it says no more than that something is to be asked."""
    if _wants_a_yes(fold(key), value) or fold(key) in _STATES:
        return f"{what} wants a yes first ({key}: {text(value)})."
    return "; ".join(_questions(opened(value)))


def _questions(value: Any) -> Iterator[str]:
    for one in value if isinstance(value, list) else [value]:
        one = opened(one)
        if isinstance(one, dict):
            plain = {fold(name): part for name, part in one.items()}
            asked = next((text(plain[name]) for name in _TEXTS if plain.get(name)), "")
            options = plain.get("options") or plain.get("choices")
            told = ", ".join(text(part) for part in options) if isinstance(options, list) else ""
            if one:
                yield f"{asked} ({told})" if asked and told else asked or said(one)
        elif truth(one) is None:
            yield from spoken(one)


_TEXTS = ("question", "text", "message", "ask", "prompt", "clarification")


OF_STEPS = frozenset(STEP_FIELDS) | {name for names in STEP_FIELDS.values() for name in names}


def parts_of(plan: JsonObject) -> Iterator[JsonObject]:
    """The steps of a plan as it was written, and their actions."""
    steps = plan.get("steps")
    for step in islice(steps, _MOST) if isinstance(steps, list) else ():
        if isinstance(step, dict):
            yield step
            actions = step.get("actions")
            yield from (
                (one for one in actions[:_MOST] if isinstance(one, dict)) if isinstance(actions, list) else ()
            )


def asked_by_a_step(step: JsonObject) -> str:
    """The question of a step that calls a person, who is no tool: `ask_user`."""
    tool = next((fold(step[name]) for name in ("tool", "name", "tool_id", "tool_name") if step.get(name)), "")
    if tool not in _ASKING_TOOLS and not (
        tool.startswith("ask_") and _OF_PEOPLE.intersection(tool.split("_"))
    ):
        return ""
    given = (step.get(name) for name in ("parameters", "arguments", "args", "input"))
    return "; ".join(_questions(next((one for one in given if one), {})))


def asked_at_last(part: JsonObject, own: Collection[str]) -> list[str]:
    """What is asked in texts under any other name, the last word of each."""
    return [text(value) for key, value in part.items() if fold(key) not in own and asks(text(value)[-_LAST:])]


_LAST = 500


def words_beside(answer: Mapping[str, Any], own: Collection[str]) -> list[str]:
    """What is said in words in fields that are none of its own, whatever they are called."""
    names = set(map(fold, own))
    told = [
        f"{key}: {text(value)[:_LAST]}"
        for key, value in answer.items()
        if fold(key) not in names and isinstance(value, str | list) and len(text(value)) > _ONE_WORD
    ]
    return told[:_MOST_WORDS]


_ONE_WORD, _MOST_WORDS = 8, 10
_MOST = 50


def _is_a_question(name: str) -> bool:
    if name in _QUESTIONS:
        return True
    words = set(name.split("_"))
    if not words.isdisjoint(_AS_DATA):
        return False
    asking = not words.isdisjoint(_OF_QUESTIONS) or words == {"open", "questions"}
    return asking or not (words.isdisjoint(_OF_PEOPLE) or words.isdisjoint(_OF_INPUT))


def wants_leave(name: str) -> bool:
    """True of the name of a field in which a person's yes is wanted."""
    words = set(name.split("_"))
    return not words.isdisjoint(_OF_LEAVE) and words.isdisjoint(_AS_DATA | _GRANTED)


def _wants_a_yes(name: str, value: Any) -> bool:
    return wants_leave(name) and fold(value) not in _GRANTED


def _orders_not_to(value: str) -> bool:
    return fold(value).startswith(("do_not_", "don_t_", "dont_"))
