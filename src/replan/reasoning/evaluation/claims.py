"""What a judge says of the effects that were planned and not had, in whatever form it is written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from replan.core.data.nothing import is_filler
from replan.core.data.spellings import one_spelling
from replan.core.data.taken_back import said_beside
from replan.core.evaluation.accounts import Claim
from replan.core.recovery.reasons import is_a_reason
from replan.core.types import StepId
from replan.reasoning.prompting.ask import Violations
from replan.reasoning.prompting.read_values import fold, opened, truth

_FIELDS = ("step", "step_id", "made_good_by", "not_needed", "in_one")
_DEEP = 4
_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_BETWEEN = re.compile(r"[,;+&/\n、，；]|\band\b|和")
_ASIDE = re.compile(r"\([^()]*\)")
_STEP = re.compile(r"^(?:steps?\s+)?[\"'`]*(?:\$\{\s*)?([A-Za-z_][A-Za-z0-9_-]*)")
_WHOLE = re.compile(
    r"^(?:steps?\s+)?[\"'`]*(?:\$\{\s*)?([A-Za-z_][A-Za-z0-9_-]*)(?:\.outputs?)?(?:\s*\})?[\"'`.]*$"
)


def read_claims(value: Any) -> dict[StepId, Claim]:
    """What is said, by step: all that is said of one step in several places. What has another form says nothing.

    Nor does what is said of a step of which another entry says that nothing stands for it.
    """
    found: dict[StepId, Claim] = {}
    denied: set[StepId] = set()
    for step, claim in _entries(opened(value), (), _DEEP):
        found[step] = found[step].and_also(claim) if step in found else claim
        if not any(claim):
            denied.add(step)
    return {step: Claim() if step in denied else claim for step, claim in found.items()}


def _entries(value: Any, steps: tuple[StepId, ...], deep: int) -> Iterator[tuple[StepId, Claim]]:
    if isinstance(value, list):
        for one in value if deep else ():
            yield from _entries(one, steps, deep - 1)
    if not isinstance(value, Mapping):
        return
    said, twice = one_spelling(value, _FIELDS)
    if twice:
        raise Violations([f"an entry of left_out_effects has {fault}" for fault in twice])
    if not said.keys() & set(_FIELDS) and not steps:
        for step, of_it in said.items():  # an object of steps
            if isinstance(of_it, str) or _is_names(of_it):
                of_it = {"made_good_by": of_it}
            yield from _entries(of_it, (step,), deep - 1) if deep else ()
        return
    steps = _steps(said.get("step") or said.get("step_id")) or steps
    claim = Claim(
        names_in(said.get("made_good_by")), _reason(said.get("not_needed")), _words(said.get("in_one"))
    )
    if _denies(said):
        claim = Claim()
    if any(claim) or not any(isinstance(part, list) for name, part in said.items() if name not in _FIELDS):
        yield from ((step, claim) for step in steps)
    for name, part in said.items():
        if name not in _FIELDS and isinstance(part, list) and deep:  # item by item
            yield from _entries(part, steps, deep - 1)


def _denies(entry: Mapping[str, Any]) -> bool:
    """True if something beside the fields of an entry says that it is not so, or that the effect is needed."""
    return any(_says_otherwise(name, value) for name, value in entry.items() if name not in _FIELDS)


def _says_otherwise(name: str, value: Any) -> bool:
    beside, words = said_beside({name: value}, ()), set(fold(name).split("_"))
    if beside.denying or not beside.unknown or not isinstance(value, bool | int | float | str):
        return bool(beside.denying)
    if not isinstance(value, bool | str):
        return value == 0 and "confidence" in words
    so = truth(value)
    return so is ("not" not in words) if words & _NEEDED else so is False


_NEEDED = {"needed", "required", "necessary", "outstanding", "missing", "owed", "unpaid", "open"}


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _steps(value: Any) -> tuple[StepId, ...]:
    """Whose effects are accounted for: also `p, item 2` and `p[1]` are of the step."""
    if isinstance(value, list):
        return tuple(dict.fromkeys(step for one in value for step in _steps(one)))
    text = str(value).strip() if isinstance(value, str | int) else ""
    if _ID.fullmatch(text):
        return (text,)
    names = names_in(text)
    if len(names) > 1 and all(map(_ID.fullmatch, names)):
        return names
    first = _STEP.match(text)
    return (first[1],) if first else (text,) if text else ()


def names_in(value: Any) -> tuple[StepId, ...]:
    """The steps that are named: in a list, an object, or a text of several. What is no name of one stays as it is written."""
    return tuple(dict.fromkeys(_names(value, _DEEP)))


def _names(value: Any, deep: int) -> Iterator[str]:
    if isinstance(value, str):
        read = opened(value)
        if not isinstance(read, str):
            yield from _names(read, deep - 1) if deep else ()
            return
        text = value.strip()
        if is_filler(text):
            return
        parts = [text] if _ID.fullmatch(text) else _BETWEEN.split(_ASIDE.sub(" ", text))
        for part in filter(None, map(str.strip, parts)):
            whole = _WHOLE.match(part.strip())
            yield whole[1] if whole else part
    elif isinstance(value, list):
        for one in value if deep else ():
            yield from _names(one, deep - 1)
    elif isinstance(value, Mapping):
        named = next((value[name] for name in ("step", "step_id", "id") if name in value), None)
        for one in [named] if named is not None else list(value.values()) if deep else ():
            yield from _names(one, deep - 1)
    elif value is not None and value is not False:
        yield str(value)


def _words(value: Any) -> str:
    text = "; ".join(value) if isinstance(value, list) and _is_names(value) else value
    text = text.strip() if isinstance(text, str) else ""
    return "" if is_filler(text) else text


def _reason(value: Any) -> str:
    return words if is_a_reason(words := _words(value)) else ""
