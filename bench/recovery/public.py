"""Failures that others have recorded: each row as a task that meets just this failure.

What becomes of each kind of row is said in `MEANING`. Rows hold the failed call and the recovery; where the task around
it is recorded too, the whole task is run.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from bench.errors import class_of
from bench.errors import read as read_http_errors
from bench.recovery import troubles
from bench.recovery.gold import golds, lines_of, spec_of
from bench.recovery.inject import world_of
from bench.recovery.task import (
    Again,
    Case,
    MissingSteps,
    OtherSteps,
    Parameters,
    Person,
    Remedy,
    Substitute,
    Wanted,
)
from bench.recovery.world import Trouble
from replan.core.data.schemas import parameter_problems
from replan.core.ids import call_content
from replan.core.types import Category, JsonObject, ToolSpec
from replan.errors import ToolCallError

MEANING = {
    "fix_params": "the call fails as recorded until it is made with the recorded right parameters",
    "insert_step": "the bad plan fails as recorded until the left-out step has been done",
    "alternate_tool": "the plan names a tool that is not there; the recorded other one is right",
    "gold_continuation": "the call never works; the recorded next calls are what the task goes on with",
    "other_action": "as gold_continuation where a recorded next call works, else as give_up",
    "give_up": "the call never works, nothing else is known: the task is to end with a report",
    "none_given": "the call never works, no recovery is recorded: the task is to end with a report",
    "ask_or_report": "nothing can be planned: a value or a tool is missing; the task is to end with a question",
}
UNRESTORED = "inserting the step after the failure did not restore the recorded state where it was tried"


def failures() -> tuple[list[Case], list[str]]:
    """The recorded failures as cases, and those that are left out, with the reason."""
    cases, left_out = [], []
    for row in lines_of("failures_public"):
        resumed = row["recovery"].get("resume_after_failure") or {"outputs_equal_gold": True}
        if not resumed["outputs_equal_gold"]:
            left_out.append(f"{row['id']}: {UNRESTORED}")
        else:
            cases.append(_case_of(row))
    return cases, left_out


def _case_of(row: JsonObject) -> Case:
    match row["recovery"]["kind"]:
        case "fix_params" if row["context"].get("case") in golds():
            return _fixed_in_its_task(row)
        case "fix_params":
            return _fixed(row)
        case "insert_step" if "gold_case" in row["recovery"]:
            return _inserted_in_its_task(row)
        case "insert_step":
            return _inserted(row)
        case "alternate_tool":
            return _alternate(row)
        case "gold_continuation" | "other_action" if rest := _continuation(row):
            return _continued(row, rest)
        case _:
            return _reported(row)


def _made(
    row: JsonObject,
    cause: Category,
    remedy: Remedy,
    tools: Sequence[ToolSpec],
    good: Sequence[Wanted],
    planned: Sequence[JsonObject],
    *,
    trouble: Any = Trouble,
    refusals: Mapping[str, BaseException] | None = None,
    reachable: bool = True,
    ask: str = "",
    forced: int = 1,
) -> Case:
    return Case(
        name=row["id"],
        group="failures",
        kind=row["recovery"]["kind"],
        text=row["context"].get("task") or "do what the plan says",
        tools=tuple(tools),
        good=tuple(good),
        planned=tuple(planned),
        make_world=partial(world_of, tuple(good) if reachable else (), tuple(tools), trouble, {}, refusals),
        cause=cause,
        remedy=remedy,
        ask=ask,
        forced=forced,
    )


def _error(row: JsonObject) -> BaseException:
    """The recorded error, of the recorded kind where it is one of Python's own."""
    kind = getattr(builtins, row["error"].get("exception", ""), None)
    text = row["error"]["message"]
    if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, UnicodeError):
        return kind(text)
    return ToolCallError(text)


def _fits(tools: Sequence[ToolSpec], call: JsonObject) -> bool:
    spec = next((spec for spec in tools if spec.id == call["tool"]), None)
    return spec is not None and not parameter_problems(spec, call["parameters"])


def _wanted(step_id: str, call: JsonObject, needs: Sequence[str] = (), output: Any = "ok") -> Wanted:
    return Wanted(
        step_id,
        call["tool"],
        call["parameters"],
        tuple(needs),
        call["parameters"],
        call.get("output", output),
    )


def _chain(calls: Sequence[JsonObject]) -> list[Wanted]:
    """Calls one after the other."""
    return [
        _wanted(f"step_{at}", call, [f"step_{at - 1}"] if at > 1 else []) for at, call in enumerate(calls, 1)
    ]


def _content(call: JsonObject) -> str:
    return call_content(call["tool"], call["parameters"])


# ── the kinds ─────────────────────────────────────────────────────────────────


def _fixed_in_its_task(row: JsonObject) -> Case:
    gold, failed, right = golds()[row["context"]["case"]], row["failed_call"], row["recovery"]["call"]
    place = row["context"]["step_id"]
    good = [
        replace(one, parameters=right["parameters"], resolved=right["parameters"])
        if one.step_id == place
        else one
        for one in gold.steps
    ]
    planned = [
        {**one.step(), "parameters": failed["parameters"]} if one.step_id == place else one.step()
        for one in good
    ]
    known = _fits(gold.tools, failed)
    return _made(
        row, "parameter_error", Parameters(), gold.tools, good, planned,
        refusals={_content(failed): _error(row)}, forced=int(known),
    )  # fmt: skip


def _fixed(row: JsonObject) -> Case:
    failed, right = row["failed_call"], row["recovery"]["call"]
    tools = [spec_of(tool) for tool in row["tools"]]
    other = right["tool"] != failed["tool"]
    return _made(
        row,
        "tool_error" if other else "parameter_error",
        Substitute(right["tool"]) if other else Parameters(),
        tools,
        [_wanted("step_1", right)],
        [_wanted("step_1", failed).step()],
        refusals={_content(failed): _error(row)},
    )


def _inserted_in_its_task(row: JsonObject) -> Case:
    gold = golds()[row["recovery"]["gold_case"]]
    insert = row["recovery"]["insert"]
    bad = row["context"]["bad_plan"]["steps"]
    there = {step["step_id"] for step in bad}
    missing = [one for one in gold.steps if one.step_id not in there]
    first = frozenset(call_content(one.tool, one.resolved) for one in missing) or frozenset(
        [_content(insert)]
    )
    texts = {
        call_content(one.tool, one.resolved): result["error"]
        for one in gold.steps
        if isinstance(result := row["context"]["tool_results_bad_plan"].get(one.step_id), dict)
        and isinstance(result.get("error"), str)
    }
    good = [
        replace(one, needs=tuple(dict.fromkeys([*one.needs, *(each.step_id for each in missing)])))
        if one.step_id == insert["before"]
        else one
        for one in gold.steps
    ]
    planned = [
        {**one.step(), "dependencies": step["dependencies"], "parameters": step["parameters"]}
        for step in bad
        for one in good
        if one.step_id == step["step_id"]
    ]
    return _made(
        row, "decomposition_error", MissingSteps(), gold.tools, good, planned,
        trouble=partial(troubles.Needs, first, texts), forced=len(texts),
    )  # fmt: skip


def _inserted(row: JsonObject) -> Case:
    good = _chain(row["recovery"]["plan"])
    naive = {_content(call) for call in row["context"]["naive_plan"]}
    extra = [one for one in good if call_content(one.tool, one.resolved) not in naive]
    there = [one for one in good if one not in extra]
    first = frozenset(call_content(one.tool, one.resolved) for one in extra)
    texts = {_content(row["failed_call"]): row["error"]["message"]}
    return _made(
        row, "decomposition_error", MissingSteps(), [spec_of(tool) for tool in row["tools"]], good,
        [one.step(known=[each.step_id for each in there]) for one in there],
        trouble=partial(troubles.Needs, first, texts),
    )  # fmt: skip


def _alternate(row: JsonObject) -> Case:
    tools = [spec_of(tool) for tool in row["tools"]]
    right = row["recovery"]["call"]
    return _made(
        row, "tool_error", Substitute(right["tool"]), tools, [_wanted("step_1", right)],
        [_wanted("step_1", row["failed_call"]).step()], forced=0,
    )  # fmt: skip


def _continuation(row: JsonObject) -> list[JsonObject]:
    """The recorded next calls that worked."""
    known = {tool["id"] for tool in row["tools"]}
    return [
        {"tool": call["tool"], "parameters": call["parameters"], "output": call.get("output")}
        for call in row["recovery"].get("next_calls") or ()
        if call["tool"] in known
        and not call.get("error")
        and not str(call.get("output")).startswith("Error")
        and _content(call) != _content(row["failed_call"])
    ]


def _continued(row: JsonObject, rest: Sequence[JsonObject]) -> Case:
    tools = [spec_of(tool) for tool in row["tools"]]
    before = [call for call in row["context"].get("calls_before", ()) if _fits(tools, call)]
    distinct = list({_content(call): call for call in (*before, *rest)}.values())
    good = _chain(distinct)
    there = good[: len({_content(call) for call in before})]
    failed = _wanted(f"step_{len(there) + 1}", row["failed_call"], [one.step_id for one in there[-1:]])
    return _made(
        row, "tool_error", OtherSteps(), tools, good, [*(one.step() for one in there), failed.step()],
        refusals={_content(row["failed_call"]): _error(row)},
    )  # fmt: skip


def _reported(row: JsonObject) -> Case:
    tools = [spec_of(tool) for tool in row["tools"]]
    failed = row["failed_call"]
    if failed is None:
        return _made(row, "unknown", Person(), tools, (), (), ask=_question(row), forced=0)
    ask = f"say what {failed['tool']} is to be called with, or what to do without it"
    step = _wanted("step_1", failed)
    if not _fits(tools, failed):
        return _made(row, "unknown", Person(), tools, (), [step.step()], ask=ask, forced=0)
    return _made(
        row, "unknown", Person(), tools, [step], [step.step()],
        refusals={_content(failed): _error(row)}, reachable=False, ask=ask,
    )  # fmt: skip


def _question(row: JsonObject) -> str:
    match row["kind"]:
        case "miss_func":
            return f"provide the tool {', '.join(row['context']['missed_function'])}"
        case "special_incomplete":
            names = [name for each in row["recovery"]["gold"].values() for name in each]
            return f"say {', '.join(names)}"
        case "special_error_param":
            return f"give a valid value for {', '.join(row['recovery']['gold'])}"
        case _:
            return "say what is missing in the request"


# ── errors of HTTP services ───────────────────────────────────────────────────

READ = ToolSpec(
    id="read",
    description="Read a record of a service.",
    parameters={"type": "object", "properties": {"record": {"type": "string"}}, "required": ["record"]},
    effect="reads",
    source="service",
)
_RIGHT, _WRONG = {"record": "first"}, {"record": "firts"}


def http_errors() -> list[Case]:
    """The recorded answers of services whose label is beyond doubt, each met by a call that only reads."""
    return [_http_case(dict(row)) for row in read_http_errors()]


def _http_case(row: JsonObject) -> Case:
    def error() -> BaseException:
        text = f"{row['error_code']}: {row['message']}"
        return ToolCallError(text, kind="http" if row["status"] else "tool", status=row["status"])

    good = _wanted("step_1", {"tool": READ.id, "parameters": _RIGHT})
    planned, ask, trouble, refusals = good, "", partial(Trouble), {}
    content = call_content(READ.id, _RIGHT)
    kind = class_of(row["label"])
    remedy: Remedy
    cause: Category
    match kind:
        case "transient" | "throttled":
            remedy, cause, trouble = Again(), "server_error", partial(troubles.Passing, content, error)
        case "caller":
            remedy, cause = Parameters(), "parameter_error"
            planned, refusals = replace(good, parameters=_WRONG), {call_content(READ.id, _WRONG): error()}
        case _:
            remedy, cause, trouble = Person(), "external_error", partial(troubles.Dead, READ.id, error)
            ask = "give this account what the service asks for"
    return Case(
        name=row["id"], group="http", kind=kind, text="Read the first record.", tools=(READ,), good=(good,),
        planned=(planned.step(),), make_world=partial(world_of, (good,), (READ,), trouble, {}, refusals),
        cause=cause, remedy=remedy, ask=ask,
    )  # fmt: skip
