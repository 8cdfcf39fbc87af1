"""What a model's diagnosis of a round says; as `read_step_reflection`: any form that leaves no doubt.

`Violations` where the decision cannot be made out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from replan.core.data.nothing import is_filler
from replan.core.data.taken_back import said_beside
from replan.core.reflection import (
    NATURES,
    STRATEGY_TYPES,
    Adjustment,
    OverallReflection,
    ProblemNature,
    Strategy,
    StrategyType,
)
from replan.core.types import JsonObject
from replan.core.words import beginning
from replan.reasoning.diagnosis.action_names import GIVING_UP
from replan.reasoning.prompting.ask import Violations
from replan.reasoning.prompting.noes import CONDITIONS, asked_at_last, noes_in, question_of, questions_in
from replan.reasoning.prompting.read_values import fold, inside, named, opened, spoken, text, texts, truth

_ROUND_FIELDS = {
    "should_replan": ("replan", "needs_replan", "need_replan", "needs_replanning"),
    "problem_nature": ("nature", "problem_type", "nature_of_problem"),
    "reflection_text": ("reflection", "analysis", "reasoning", "text", "summary"),
    "root_causes": ("root_cause", "causes"),
    "incorrect_assumptions": ("wrong_assumptions", "assumptions"),
    "alternative_approaches": ("alternatives",),
    "optimization_suggestions": ("optimizations",),
    "improvement_suggestions": ("improvements", "suggestions"),
    "lessons_learned": ("lessons",),
    "replanning_strategy": ("strategy", "replan_strategy"),
    "done_in_substance": ("done", "is_done"),
    "ask": ("ask_user", "user_action", "needed_from_user"),
    "final_output": ("final_answer", "partial_output"),
}
_STRATEGIES: dict[str, StrategyType] = {
    **{name: name for name in STRATEGY_TYPES},
    "full": "full_replan",
    "replan": "full_replan",
    "replan_all": "full_replan",
    "complete_replan": "full_replan",
    "partial_replan": "replan_from_step",
    "replan_from": "replan_from_step",
    "skip_step": "skip_steps",
    "skip": "skip_steps",
    "add_remediation": "add_remediation_steps",
    "add_remediation_step": "add_remediation_steps",
    "remediation": "add_remediation_steps",
    "remediate": "add_remediation_steps",
    "adjust_dependency": "adjust_dependencies",
}
_STRATEGY_FIELDS = {
    "step_id": ("step", "from_step", "from_step_id", "failed_step", "failed_step_id", "start_step"),
    "step_ids": ("steps", "skip", "steps_to_skip"),
    "reason": ("why", "rationale"),
    "suggestions": ("suggestion", "remediation_steps", "new_steps", "steps_to_add"),
    "adjustments": ("adjustment", "changes"),
}
_NATURES: dict[str, ProblemNature] = {
    **{name: name for name in NATURES},
    "parameter": "parameters",
    "params": "parameters",
    "tool": "tools",
    "plan": "decomposition",
    "planning": "decomposition",
    "dependency": "decomposition",
    "dependencies": "decomposition",
}


_TOLD_ONCE = ("should_replan", "done_in_substance")
_KNOWN = (*_ROUND_FIELDS, *(name for names in _ROUND_FIELDS.values() for name in names))


_ASKED = ("ask", "user_action", "needed_from_user")
"""Beside another round it says what a person could do if that comes to nothing; what stands anywhere else asks one first."""
_MOST_TOLD = 5
_MOST_OUTPUT = 20_000
"""Characters of an answer that no judge has written."""


def read_overall_reflection(answer: Any) -> OverallReflection:
    """The diagnosis of a round. An unknown strategy is noted where it would be followed.

    Beside what asks a person or says no, another round is not taken for decided: then it is none (`at_odds_with_itself`).
    """
    said = inside(answer, _ROUND_FIELDS, "should_replan")
    found = named(said, _ROUND_FIELDS, _TOLD_ONCE)
    problems: list[str] = []
    should = truth(found.get("should_replan"))
    if "should_replan" not in found:
        problems.append("the answer has no should_replan: true or false")
    elif should is None:
        problems.append(f"should_replan has to be true or false, not {str(found['should_replan'])[:40]!r}")
    done = bool(truth(found.get("done_in_substance")))
    if done and (no := said_beside(said, _KNOWN).denying):
        problems.append(
            f"done_in_substance is true beside {', '.join(map(repr, no[:5]))}, which says otherwise"
        )
    strategy, unread = None, ""
    try:
        strategy = _strategy(found.get("replanning_strategy"))
    except Violations as error:
        unread = str(error) if should else ""
    if problems or should is None:
        raise Violations(problems)
    ask, why = question_of("ask", found.get("ask")), text(found.get("reflection_text"))
    if torn := _torn(said) if should else []:
        should = done = False
        why = "; ".join(filter(None, (why, *torn)))
    if not should:
        ask = _put_together(ask, said)
    return OverallReflection(
        problem_nature=_nature(found.get("problem_nature")),
        should_replan=should,
        reflection_text=why,
        root_causes=texts(found.get("root_causes")),
        incorrect_assumptions=texts(found.get("incorrect_assumptions")),
        alternative_approaches=texts(found.get("alternative_approaches")),
        optimization_suggestions=texts(found.get("optimization_suggestions")),
        improvement_suggestions=texts(found.get("improvement_suggestions")),
        lessons_learned=texts(found.get("lessons_learned")),
        replanning_strategy=strategy,
        unread_strategy=unread,
        done_in_substance=done,
        ask=ask,
        final_output="" if should else beginning(text(found.get("final_output")), _MOST_OUTPUT),
    )


def at_odds_with_itself(answer: Any) -> list[str]:
    """That another round is to be made, beside what asks a person for something first, or says no."""
    said = inside(answer, _ROUND_FIELDS, "should_replan")
    found = named(said, _ROUND_FIELDS)
    if not truth(found.get("should_replan")):
        return []
    return [
        f"should_replan is true beside {one!r}, which says otherwise: if another round is to be made now, leave that out; if a person has to "
        "say or do something first, should_replan is false and `ask` says what. Said again, there is no other round"
        for one in _torn(said)[:_MOST_TOLD]
    ]


def _torn(said: JsonObject) -> list[str]:
    """What stands beside a decision for another round, or in its strategy, and does not go with it. What tells of the failure does."""
    parts = _of_strategy(said)
    found = [*noes_in(said, *parts, own=_ASKED), *_conditions(parts)]
    return [*dict.fromkeys(f"{key}: {text(value)[:_SHOWN]}" for key, value in found), *_no_strategy(said)]


def _conditions(parts: Sequence[JsonObject]) -> list[tuple[str, Any]]:
    return [
        (key, value)
        for part in parts
        for key, value in part.items()
        if fold(key) in CONDITIONS and spoken(value)
    ]


def _of_strategy(said: JsonObject) -> list[JsonObject]:
    """The objects that a strategy is written in."""
    raw = opened(named(said, _ROUND_FIELDS).get("replanning_strategy"))
    raw = raw[0] if isinstance(raw, list) and len(raw) == 1 else raw
    if not isinstance(raw, dict):
        return []
    return [raw, *(one for one in map(opened, raw.values()) if isinstance(one, dict))]


def _no_strategy(said: JsonObject) -> list[str]:
    """A strategy by whose name there is no other round, or a person is asked first."""
    raw = opened(named(said, _ROUND_FIELDS).get("replanning_strategy"))
    word = named(raw, {"type": _TYPES}).get("type") if isinstance(raw, dict) else raw
    if not isinstance(word, str) or fold(word) in _STRATEGIES or (word is raw and is_filler(word)):
        return []
    first = fold(word).partition("_")[0]
    return [f"replanning_strategy: {word[:200]}"] if fold(word) in GIVING_UP or first in _FIRST_WORDS else []


_TYPES = ("strategy", "strategy_type", "name")
_FIRST_WORDS = {"ask", "stop", "abort", "escalate", "wait", "terminate"}
"""Words that a strategy which is none begins with: "ask the user first"."""


def _put_together(ask: str, said: JsonObject) -> str:
    """What a person is asked by one that makes no other round: in `ask`, in any field that asks, or else at the end of any text."""
    parts = _of_strategy(said)
    found = [ask, *questions_in(said, *parts, own=_ASKED, what="Another plan")]
    found += [f"Another plan wants a yes first ({key}: {text(value)})." for key, value in _conditions(parts)]
    if not any(found):
        words = [one.partition(": ")[2] for one in _no_strategy(said)]
        found = [one for one in words if fold(one).startswith("ask_") and one not in GIVING_UP]
    if not any(found):
        found = asked_at_last(said, _KNOWN)
    return "; ".join(dict.fromkeys(filter(None, found)))


_SHOWN = 500


def beside_a_round(answer: Any) -> Sequence[str]:
    """What is said beside the fields of such a diagnosis and may say otherwise."""
    return said_beside(inside(answer, _ROUND_FIELDS, "should_replan"), _KNOWN).unknown


def _nature(value: Any) -> ProblemNature:
    """Unknown words are taken for a fault of the plan: the one reading that excuses nothing."""
    return _NATURES.get(fold(value).removesuffix("_error").removesuffix("_errors"), "decomposition")


def _strategy(raw: Any) -> Strategy | None:
    raw = opened(raw)
    if isinstance(raw, list) and len(raw) == 1:
        raw = raw[0]
    if raw in (None, "", {}, []) or fold(raw) in ("none", "null", "n_a"):
        return None
    body: JsonObject = {}
    word: Any = raw
    if isinstance(raw, dict):
        word = named(raw, {"type": _TYPES}).get("type")
        body = raw
        if word is None and len(raw) == 1:  # {"skip_steps": {…}}
            ((word, inner),) = raw.items()
            body = inner if isinstance(inner, dict) else {}
    kind = _STRATEGIES.get(fold(word))
    if kind is None:
        raise Violations(
            [f"replanning_strategy.type {str(word)[:60]!r} is none of {', '.join(STRATEGY_TYPES)}"]
        )
    return _filled(kind, named(_flat(body), _STRATEGY_FIELDS))


def _flat(body: JsonObject) -> JsonObject:
    """The fields also where they stand one level down, in `data`."""
    inner = opened(body.get("data"))
    return {**inner, **body} if isinstance(inner, dict) else body


def _filled(kind: StrategyType, found: JsonObject) -> Strategy:
    ids = _ids(found.get("step_ids")) or (_ids(found.get("step_id")) if kind == "skip_steps" else ())
    one = next(iter(_ids(found.get("step_id"))), None)
    suggestions = found.get("suggestions")
    if kind == "replan_from_step" and one is None and len(ids) == 1:
        one = ids[0]
    if kind == "add_remediation_steps" and suggestions is None:
        suggestions = found.get("step_ids")  # called `steps`, and they are no ids
    return Strategy(
        type=kind,
        step_id=one if kind != "skip_steps" else None,
        step_ids=ids if kind == "skip_steps" else (),
        reason=text(found.get("reason")),
        suggestions=texts(suggestions),
        adjustments=tuple(_adjustments(opened(found.get("adjustments")))),
    )


def _ids(value: Any) -> tuple[str, ...]:
    value = opened(value)
    if isinstance(value, str):
        value = re.split(r"[,\s]+", value.strip())
    items = value if isinstance(value, list) else [value]
    found: dict[str, None] = {}
    for item in items:
        one = named(item, {"step_id": ("id", "step")}).get("step_id") if isinstance(item, dict) else item
        if isinstance(one, int) and not isinstance(one, bool):
            one = f"step_{one}"
        if isinstance(one, str) and one.strip():
            found[one.strip()] = None
    return tuple(found)


def _adjustments(raw: Any) -> Iterator[Adjustment]:
    fields = {
        "step_id": ("step", "id"),
        "add": ("add_dependencies", "added", "dependencies_to_add"),
        "remove": ("remove_dependencies", "removed", "dependencies_to_remove"),
    }
    if isinstance(raw, dict) and not named(raw, {"step_id": fields["step_id"]}):
        raw = [{"step_id": key, **value} for key, value in raw.items() if isinstance(value, dict)]
    for item in raw if isinstance(raw, list) else [raw]:
        found = named(item, fields) if isinstance(item, dict) else {}
        if ids := _ids(found.get("step_id")):
            yield Adjustment(step_id=ids[0], add=_ids(found.get("add")), remove=_ids(found.get("remove")))
