"""Diagnoses: why a step failed or a round fell short, and what to do about it. Proposals only: code disposes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, NamedTuple, TypeVar

from replan.core.recovery.substitutes import EFFECT_WORDS
from replan.core.reflection import STRATEGY_TYPES, OverallReflection, StepReflection
from replan.core.types import JsonObject
from replan.errors import AnswerInvalid
from replan.reasoning.diagnosis.beside_action import CALLING, beside_a_step
from replan.reasoning.diagnosis.listed import known_values
from replan.reasoning.diagnosis.offered import offered_strategies, offered_tools, open_actions, stand_ins
from replan.reasoning.diagnosis.quoting import unquoted
from replan.reasoning.diagnosis.read_overall_reflection import (
    at_odds_with_itself,
    beside_a_round,
    read_overall_reflection,
)
from replan.reasoning.diagnosis.read_step_reflection import read_step_reflection
from replan.reasoning.diagnosis.recovery_schemas import overall_reflection_schema, step_reflection_schema
from replan.reasoning.prompting.ask import Talk, Violations, ask_typed
from replan.reasoning.prompting.describe import people_text, shape
from replan.reasoning.prompting.history import shorten
from replan.reasoning.prompting.in_words import InWords, asks_or_refuses, asks_something
from replan.reasoning.prompting.inlined import inline
from replan.reasoning.prompting.large import put_together
from replan.reasoning.prompting.prompts import Rendered, load
from replan.reasoning.prompting.recovery_text import (
    ROOM,
    counters_text,
    done_text,
    evaluation_text,
    fault_text,
    guidance_text,
    joined,
    lines_text,
    once,
    plan_text,
    readings_text,
    section,
    step_text,
    steps_text,
    task_text,
    told_already,
    tools_in_short,
    tools_text,
    tries_text,
)
from replan.reasoning.prompting.recovery_view import FailureView, RoundView
from replan.reasoning.prompting.view import StepReport

R = TypeVar("R")


class StepProposal(NamedTuple):
    """What was proposed for a step, before and after the one correction."""

    first: StepReflection | None
    """The first answer, if it could be read."""
    last: StepReflection | None
    """The last answer, if it could be read."""
    violations: tuple[str, ...]
    """What was wrong with the first; empty if nothing."""
    left: tuple[str, ...]
    """What is still wrong with the last; empty: it may be acted on."""


class RoundProposal(NamedTuple):
    """What was proposed for a round, before and after the one correction; the fields as in `StepProposal`."""

    first: OverallReflection | None
    last: OverallReflection | None
    violations: tuple[str, ...]
    left: tuple[str, ...]


async def reflect_on_step(
    talk: Talk, view: FailureView, check: Callable[[StepReflection], Sequence[str]]
) -> StepProposal:
    """Ask why a step failed and what to do, at most twice.

    `check` says what is wrong with a proposal, in words; all of it goes back in one message. Answers that
    cannot be used end in `left`; a model that cannot be had is raised (`ModelUnavailable`).
    """
    style = talk.style
    tools = [tool for tool in offered_tools(view, style) if view.tool is None or tool.id != view.tool.id]
    if style == "small" and not view.in_doubt:
        tools = [tool for tool in tools if tool.id in stand_ins(view)]
    noes: list[Sequence[str]] = []

    def heard(found: Sequence[str]) -> bool:
        noes.append(found)
        return len(noes) > 1

    answers = _Answers(
        lambda answer: read_step_reflection(answer, view, heard, in_full=style != "small"),
        lambda found: [*unquoted(found.suggested_action, view.readings), *check(found)],
        lambda found: (
            found.suggested_action.type in _CALLING_OR_SETTLING and _settled_one_way(found, answers.said())
        ),
        beside_a_step,
        lambda found: found.suggested_action.type in CALLING,
        in_words=InWords(_handed_on, asks_or_refuses),
        otherwise="if a person has to say something first, or nothing is to be done, the suggested_action is trigger_overall_reflection, "
        "with the question or the reason as its summary",
    )
    await answers.ask(
        talk,
        await put_together(lambda: step_prompt(style, view), view.done),
        "step_reflection",
        step_reflection_schema(
            style,
            open_actions(view, style),
            view.tool,
            tools,
            known_values(view.fault.message, view.parameters) if style == "small" else {},
        ),
    )
    return StepProposal(*answers.proposal())


async def reflect_on_round(
    talk: Talk, view: RoundView, check: Callable[[OverallReflection], Sequence[str]]
) -> RoundProposal:
    """Ask why a round fell short and whether another one has a point, at most twice; as `reflect_on_step`."""
    style = talk.style
    ids = [step.step_id for step in view.plan.steps]
    offered = offered_strategies(view.plan, view.steps) if style == "small" else STRATEGY_TYPES
    answers = _Answers(
        read_overall_reflection,
        check,
        lambda found: found.done_in_substance,
        beside_a_round,
        at_odds=at_odds_with_itself,
        in_words=InWords(_put_to_a_person, asks_something),
        otherwise="if a person has to say something first, should_replan is false and `ask` says what",
    )
    await answers.ask(
        talk,
        await put_together(lambda: round_prompt(style, view), view.steps),
        "overall_reflection",
        overall_reflection_schema(style, ids, offered),
    )
    return RoundProposal(*answers.proposal())


def _handed_on(said: str) -> JsonObject:
    return {"suggested_action": {"type": "trigger_overall_reflection", "data": {"summary": said}}}


def _put_to_a_person(said: str) -> JsonObject:
    return {"should_replan": False, "problem_nature": "external", "reflection_text": said, "ask": said}


_CALLING_OR_SETTLING = (*CALLING, "settle_outcome")


def _settled_one_way(found: StepReflection, said: Sequence[StepReflection]) -> bool:
    """True; `Violations` where one answer settles a call both ways, though only one of them could be acted on."""
    settled = [
        one.suggested_action for one in (found, *said) if one.suggested_action.type == "settle_outcome"
    ]
    if found.suggested_action in settled and len({bool(one.data["happened"]) for one in settled}) > 1:
        raise Violations(
            ["the answer settles the call as happened and as not happened; exactly one is wanted"]
        )
    return True


class _Answers(Generic[R]):
    """The answers of a model that is corrected once: what each said, and what was wrong with it."""

    def __init__(
        self,
        read: Callable[[Any], R],
        check: Callable[[R], Sequence[str]],
        commits: Callable[[R], bool],
        beside: Callable[[Any], Sequence[str]],
        of_a_failure: Callable[[R], bool] = lambda _: False,
        at_odds: Callable[[Any], Sequence[str]] = lambda _: (),
        *,
        in_words: InWords,
        otherwise: str,
    ) -> None:
        self._in_words = in_words
        self._otherwise = otherwise
        self._at_odds = at_odds
        self._torn: list[tuple[R, Sequence[str]]] = []
        """What is at odds with itself in each that could be used: it goes back once."""
        self._commits = commits
        self._beside = beside
        self._of_a_failure = of_a_failure
        self._read = read
        self._check = check
        self._latest: list[tuple[R, tuple[str, ...]]] = []
        """What could be read of the answer at hand: a text may hold several objects."""
        self._answers: list[tuple[R | None, tuple[str, ...]]] = []

    async def ask(self, talk: Talk, prompt: Rendered, schema_name: str, schema: JsonObject) -> None:
        try:
            good = await ask_typed(
                talk,
                "reflection",
                prompt,
                schema_name=schema_name,
                json_schema=schema,
                read=self._take,
                needed=(),
                corrections=1,
                on_rejected=self._refused,
                commits=self._commits,
                beside=self._beside,
                of_a_failure=self._of_a_failure,
                in_place=None if talk.style == "small" else self._in_words,
                otherwise="" if talk.style == "small" else self._otherwise,
                doubts=lambda found: next((torn for one, torn in self._torn if one is found), ()),
            )
        except AnswerInvalid:
            return
        self._answers.append((good, ()))

    def proposal(self) -> tuple[R | None, R | None, tuple[str, ...], tuple[str, ...]]:
        (first, violations), (last, left) = self._answers[0], self._answers[-1]
        return first, last, violations, left

    def said(self) -> list[R]:
        """What could be read of the answer at hand."""
        return [reflection for reflection, _ in self._latest]

    def _take(self, answer: Any) -> R:
        reflection = self._read(answer)
        problems = tuple(self._check(reflection))
        self._latest.append((reflection, problems))
        if problems:
            raise Violations(problems)
        self._torn.append((reflection, self._at_odds(answer)))
        return reflection

    def _refused(self, problems: tuple[str, ...], attempt: int) -> None:
        meant = [reflection for reflection, found in self._latest if found == problems]
        readable = meant or [reflection for reflection, _ in self._latest]
        said = readable[-1] if readable else None
        self._answers.append((said, problems))
        self._latest.clear()


# ── prompts ───────────────────────────────────────────────────────────────────


_PLAN_AS_MADE = (
    "The plan as it was made, one line a step (what became of steps beside this one is not told here):"
)
_TRUSTED = (
    "Here nobody is asked: if you say that it did not happen, and the latest reading still says so after a while, the call "
    "is made again."
)


def step_prompt(style: str, view: FailureView) -> Rendered:
    """The prompt about a failed step, or about a call in doubt, filled in."""
    small = style == "small"
    told = {} if small else told_already(view.task, view.done)
    called = {} if small else {**told, **_as_called(view)}
    tries = [replace(one, parameters=once(one.parameters, called)) for one in view.tries]
    values = {
        "task": task_text(view.task, style),
        "failure": _failure(view, style, told),
        "surroundings": joined(
            _tools(view, style),
            "" if small else _plan(view, style),
            steps_text("Done:" if small else "What stands before it and gave something:", view.done, style),
        ),
        "history": joined(
            section("Tried before for this step, the latest last:", "tries", tries_text(tries, style)),
            section("Readings since:", "readings", readings_text(view.readings, style)),
            ""
            if small
            else section(
                "Like calls that were in doubt too; their records stand for no other call:",
                "settled",
                lines_text(view.settled, style),
            ),
            section("Seen more than once:", "repeats", lines_text(view.repeats, style)),
        ),
        "limits": joined(
            counters_text(view.counters, view.budget),
            _TRUSTED if view.in_doubt and view.trusted and style != "small" else "",
            people_text(view.task, style),
            guidance_text(view.task, style),
        ),
        "allowed": ", ".join(open_actions(view, style)),
    }
    return load("settle" if view.in_doubt else "reflect_step", style).render(**values)


def _as_called(view: FailureView) -> dict[str, str]:
    """Long values of the failed call, which its tries need not repeat."""
    texts = (
        (name, json.dumps(value, ensure_ascii=False, default=str)) for name, value in view.parameters.items()
    )
    return {text: f"({name} as in the failed call)" for name, text in texts if len(text) > 300}


def _tools(view: FailureView, style: str) -> str:
    """The failed tool and those that could stand in for it in full, the others in one line each."""
    shown = offered_tools(view, style)
    if style == "small" or view.in_doubt:
        left = 0 if view.in_doubt else max(0, len(view.tools) - len(shown))
        return joined(tools_text("Tools:", shown, style, left), _others(view, style))
    own = view.tool.id if view.tool is not None else ""
    full = [tool for tool in shown if tool.id == own or tool.id in view.substitutes]
    known = {tool.id for tool in full}
    chosen = [tool for tool in view.tools if tool.id in view.selected and tool.id not in known]
    others = [tool for tool in view.tools if tool.id not in view.selected and tool.id not in known]
    return joined(
        tools_text(
            "The failed tool, and those that are like it:" if own else "Tools with a like name:", full, style
        )
        if full
        else "",
        _others(view, style),
        tools_in_short("The other tools of the plan, in short:", chosen, ROOM[style].short),
        tools_in_short("Further tools that may be used, in short:", others, ROOM[style].short // 3),
    )


def _plan(view: FailureView, style: str) -> str:
    """The plan as it was made, one line a step; what became of the steps beside this one is not told."""
    if view.plan is None:
        return ""
    known = [*view.done, StepReport(view.step.step_id, status="failed")]
    return section(_PLAN_AS_MADE, "plan", plan_text(view.plan, known, style, ""))


def _others(view: FailureView, style: str) -> str:
    if view.in_doubt or not view.substitutes:
        return ""
    effects = {tool.id: EFFECT_WORDS[tool.effect] for tool in view.tools}
    named = [
        name if style == "small" or name not in effects else f"{name} ({effects[name]})"
        for name in view.substitutes[:10]
    ]
    like = (
        "with a like description and schema, the likeliest first"
        if style == "small"
        else "with words or parameters in common (whether one does the same thing is for you to see), the likeliest first"
    )
    return f"Tools {like}: {', '.join(named)}"


def _failure(view: FailureView, style: str, known: Mapping[str, str]) -> str:
    called = None if view.fault.kind == "reference" else once(view.parameters, known)
    step = step_text(view.step, style, called=called, place=view.place)
    unknown = "" if view.tool is not None else f"There is no tool {view.step.tool!r}."
    title = "" if view.in_doubt else "Failed step:" if style == "small" else "The step that failed:"
    told = section(title, "step", step).lstrip()
    error = section(
        "Error:" if style == "small" else "Its error:", "error", fault_text(view.fault, ROOM[style].error)
    )
    parts = [told, error, unknown, _would_give(view)]
    return "\n".join(part for part in parts if part) if style == "small" else joined(*parts)


def _would_give(view: FailureView) -> str:
    """What the output of a call in doubt has to look like, if it is to be told."""
    if not view.in_doubt or view.tool is None or view.tool.output_schema is None:
        return ""
    return f"Had its answer come, the output would be {shorten(shape(inline(view.tool.output_schema)), 400)}"


_OUTDATED = (
    "This verdict was given before a person's latest answer. Where that answer asks for more to be done, plan it now. Where it says "
    "that the result will do as it is, or that nothing more is to be done, `should_replan` is false: the round is judged anew with it."
)


def round_prompt(style: str, view: RoundView) -> Rendered:
    """The prompt about a round, filled in."""
    small = style == "small"
    values = {
        "task": task_text(view.task, style),
        "plan": section(
            "Plan:"
            if small
            else f"The plan (version {view.plan.version}), one line a step, with what became of it:",
            "plan",
            plan_text(view.plan, view.steps, style),
        )
        + (
            ""
            if small
            else "\n\n" + tools_in_short("Tools that another plan may use:", view.tools, ROOM[style].short)
        ),
        "verdict": joined(
            steps_text("Steps:" if small else "What was run:", view.steps, style, latest=True),
            done_text(", and stays", view.done_effects, view.done, style),
            section("Verdict on the round:", "evaluation", evaluation_text(view.evaluation, style)),
            "" if small or view.evaluation is not None else "The round has not been judged yet.",
            _OUTDATED if view.outdated and not small else "",
            section("Why it is looked at now:", "reason", view.trigger[: ROOM[style].words]),
        ),
        "history": joined(
            section(
                "Earlier rounds:" if small else "What has happened so far:",
                "rounds",
                lines_text(view.history, style),
            ),
            section("Seen more than once:", "repeats", lines_text(view.repeats, style)),
        ),
        "limits": joined(
            f"This was round {view.round}.",
            counters_text(view.statistics, view.budget),
            people_text(view.task, style),
            guidance_text(view.task, style),
        ),
    }
    return load("reflect_overall", style).render(**values)
