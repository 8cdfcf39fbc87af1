"""What a judge says of the effects that were planned and not had, in whatever form it is written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from replan.core.data.nothing import is_filler
from replan.core.data.spellings import one_spelling
from replan.core.evaluation.accounts import Claim
from replan.core.types import StepId
from replan.reasoning.prompting.ask import Violations
from replan.reasoning.prompting.read_values import opened

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
    """What is said, by step: all that is said of one step in several places. What has another form says nothing."""
    found: dict[StepId, Claim] = {}
    for step, claim in _entries(opened(value), (), _DEEP):
        found[step] = found[step].and_also(claim) if step in found else claim
    return found


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
        names_in(said.get("made_good_by")), _words(said.get("not_needed")), _words(said.get("in_one"))
    )
    if any(claim) or not any(isinstance(part, list) for part in said.values()):
        yield from ((step, claim) for step in steps)
    for name, part in said.items():
        if name not in _FIELDS and isinstance(part, list) and deep:  # item by item
            yield from _entries(part, steps, deep - 1)


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
    text = value.strip() if isinstance(value, str) else ""
    return "" if is_filler(text) else text
