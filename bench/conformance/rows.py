"""The rows: known faults, then two groups of kinds (`rows_effects`, `rows_success`)."""

from __future__ import annotations

from typing import Any

from bench.conformance.agents import POLLS
from bench.conformance.case import Facts
from bench.conformance.mcp_faults import DEADLINE_SECS
from bench.conformance.row import Row, counted, died, polled, polling, times
from bench.conformance.rows_effects import EFFECT_ROWS
from bench.conformance.rows_success import SUCCESS_ROWS


def _made_and_ended(facts: Facts) -> str:
    if facts["died"] == "no end":
        return f"{facts['calls']} made, and still going when time was up"
    return f"{facts['calls']} made, then {facts['died'] or 'it went on without the tool'}"


def _effects(facts: Facts) -> str:
    made = ", ".join(f"{name} {times(count)}" for name, count in facts["effects"].items())
    return f"{made}; {'resumed' if facts['resumed'] else 'could not be resumed'}"


def _in_bounds(facts: Facts) -> str:
    kept = "what was done is kept" if facts["partial"] else "what was done is not in the outcome"
    how = f", {died(facts)}" if facts["died"] else ""
    return f"ended after {counted(facts['model_calls'], 'model call')}, {kept}{how}"


def _replans(facts: Facts) -> str:
    if not facts["work"]:
        kept = ""
    elif facts["partial"]:
        kept = ", partial results kept"
    else:
        kept = ", partial results only among the stream's events" if facts.get("streamed") else ", none kept"
    end = f"died ({facts['died']})" if facts["died"] else f"said “{facts['told']}”"
    return f"{counted(facts['replans'], 'replan')}, {counted(facts['work'], 'agent call')}, {end}{kept}"


def _bounded(facts: Facts) -> bool:
    return not facts["died"] and facts["partial"] and facts["replans"] <= 4 and bool(facts["told"])


def _cancelled(facts: Facts) -> str:
    went_on = "the tool went on" if facts["went_on"] else "the tool stopped"
    later = f", {facts['started_later']} calls started later" if facts["started_later"] else ""
    return f"ended {facts['secs']:.1f} s after the cancel, {went_on}{later}"


def _next_turn(facts: Facts) -> str:
    if facts["died"]:
        return f"the next turn died ({facts['died']})"
    open_calls = (
        f"{facts['open_calls']} calls without a result" if facts["open_calls"] else "every call closed"
    )
    known = (
        "the finished call is known" if facts["quick_known"] else "the finished call is not known any more"
    )
    return f"next turn: {open_calls}, {known}"


def _references(facts: Facts) -> str:
    missing = "was sent as it stood" if facts["missing_called"] else "stopped the step before its call"
    return f"sum {facts['sum']!r}, nested {facts['nested']}, a missing reference {missing}"


def _circles(facts: Facts) -> str:
    return f"A-B-A-B {_made_and_ended(facts)}; {polling(facts)}"


def _mcp(facts: Facts) -> str:
    return "; ".join(_of_server(fault, one) for fault, one in facts["faults"].items())


def _of_server(fault: str, one: Facts) -> str:
    name = {"hung": "no answer"}.get(fault, fault)
    if one["secs"] is None:
        return f"{name}: the owner of the session died ({one['died']})"
    missing = "the status" if fault.isdigit() else "a reason"
    told = f"an error without {missing}" if one["told"] == "an error" else one["told"]
    paid = f", paid {times(one['paid'])}" if fault == "killed" else ""
    later = ["later calls fail", "later calls work", "the second later call works"][one["later"]]
    return f"{name}: told {told} after {one['secs']:.1f} s{paid}, {later}"


def _server_faults_pass(facts: Facts) -> bool:
    faults = facts["faults"]
    bounded = all(
        one["secs"] is not None and one["secs"] < 2 * DEADLINE_SECS and one["later"]
        for one in faults.values()
    )
    told = all(one["told"] not in ("nothing", "a cancellation") for one in faults.values())
    killed = faults["killed"]
    return (
        bounded
        and told
        and killed["told"] in ("a lost connection", "a timeout")
        and killed["paid"] == 1
        and not faults["401"]["paid"]
    )


TEXT = "budget is $100 or $1"
INSIDE = 'got {"k": [1, null, true]}'


def _text_and_object(facts: Facts) -> str:
    kept = "kept its types" if _dollar(facts["value"]) else f"became {facts['value']!r}"
    return f"“{facts['text']}”; the object {kept}; in a text: “{facts['inside']}”"


def _dollar(value: Any) -> bool:
    return bool(value == {"k": [1, None, True]})


ROWS = [
    Row(
        "R1",
        "`pay`, a slow one and one that fails at first, in parallel; then resume",
        "two results stay, only the failed one is tried again, `pay` once",
        lambda f: (
            f"{died(f)}, {f['kept']} of 2 results kept; in all: pay {times(f['pay'])}, "
            f"slow {times(f['slow'])}{'' if f['resumed'] else ', could not be resumed'}"
        ),
        lambda f: f["kept"] == 2 and f["pay"] == f["slow"] == 1 and f["resumed"] and f["failing"] == 2,
    ),
    Row(
        "R2",
        "A 0.1 s, B 1 s, A→C→D 0.1 s each",
        "C starts when A ends; 1.0 s in all",
        lambda f: f"C started at {f['c_at']:.2f} s, {f['secs']:.2f} s in all",
        lambda f: f["c_at"] < 0.5 and f["secs"] < 1.15,
    ),
    Row(
        "R4 R7 R9",
        "`pay`, a slow one and one that raises, in parallel",
        "the other two end and their results are kept",
        lambda f: f"{died(f)}, {f['kept']} of 2 results kept, pay ran {times(f['pay'])}",
        lambda f: not f["died"] and f["kept"] == 2 and f["pay"] == 1,
    ),
    Row(
        "R5 R8 R10",
        "the model asks for the same `pay` call again and again",
        "made once, then told that it is done; ends in bounds",
        _made_and_ended,
        lambda f: f["calls"] == 1,
    ),
    Row(
        "R6",
        "the model calls a tool that does not exist",
        "told which exist; goes on",
        lambda f: f"{'told which exist' if f['told'] else 'not told which exist'}, {died(f)}",
        lambda f: f["told"] and f["went_on"],
    ),
    Row(
        "R11",
        "the check of progress always fails",
        "ends within bounds, a typed failure, partial results",
        _replans,
        _bounded,
    ),
    Row(
        "R12",
        "the check of progress always says “none”",
        "as R11",
        _replans,
        _bounded,
    ),
    Row(
        "R13 C11",
        "a new plan after three steps",
        "new steps get new ids; each result lands on its own step",
        lambda f: f"the first new step ran {times(f['new_runs'])}, {died(f)}",
        lambda f: f["new_runs"] == 1 and not f["died"] and f["old_kept"],
    ),
    Row(
        "R14 C11",
        "a step fails on which another depends",
        "the dependent never runs, and it is said why",
        lambda f: (
            ("the dependent ran all the same" if f["dependent_ran"] else "the dependent did not run")
            + (", reason given" if f["reason"] else "")
            + (f", {died(f)}" if f["died"] else "")
        ),
        lambda f: not f["dependent_ran"] and f["reason"] and not f["died"],
    ),
    Row(
        "R15",
        "one of two tools raises",
        "the step fails, the rest goes on, the scheduler returns",
        lambda f: (
            f"{'the scheduler returned' if f['returned'] else 'the scheduler never returned'}, "
            f"the other result {'kept' if f['other_kept'] else 'lost'}"
        ),
        lambda f: f["returned"] and f["other_kept"] and not f["died"],
    ),
    Row(
        "R16",
        "an output that holds a reference (`$1`) goes into a text",
        "outputs are never scanned again",
        lambda f: f"passed on as “{f['got']}”",
        lambda f: f["got"] == f["right"],
    ),
    Row(
        "R17",
        f"“{TEXT}”; an object as reference, alone and inside a text",
        "the text stays; the object keeps its types, and is JSON in a text",
        _text_and_object,
        lambda f: f["text"] == TEXT and _dollar(f["value"]) and f["inside"] == INSIDE,
    ),
    Row(
        "C1",
        "two effects and one that raises, in parallel; killed, resumed",
        "each effect once; the run can be resumed",
        _effects,
        lambda f: set(f["effects"].values()) == {1} and f["resumed"],
    ),
    Row(
        "C2",
        "`pay` takes effect, then times out; the model tries again",
        "one effect; that it is in doubt is said",
        lambda f: f"paid {times(f['effects'])}, {'in doubt is said' if f['in_doubt'] else died(f)}",
        lambda f: f["effects"] == 1 and f["in_doubt"],
    ),
    Row(
        "C8",
        "the planner is gone when a new plan is wanted",
        "ends within bounds, keeps what was done",
        _in_bounds,
        lambda f: f["partial"] and not f["died"] and f["model_calls"] < 30,
    ),
    Row(
        "C9",
        "an answer of the model in a Markdown fence",
        "read, and nothing lost",
        lambda f: "read" if f["read"] else f"not read, {died(f)}",
        lambda f: f["read"] and not f["died"],
    ),
    Row(
        "C10",
        "the one that judges a step or the result cannot be had",
        "unknown is not taken for done",
        lambda f: "taken as done, and the plan as valid" if f["taken_as_done"] else "not taken as done",
        lambda f: not f["taken_as_done"] and f["died"] in ("", "failed"),
    ),
    Row(
        "C12",
        "`${1}+${2}`, a nested reference, a missing one",
        "`1+2`; nested ones replaced with their types; a missing one fails before the call",
        _references,
        lambda f: f["sum"] == "1+2" and f["nested"] == {"rows": [{"x": 1}]} and not f["missing_called"],
    ),
    Row(
        "C16",
        f"A-B-A-B with equal answers; {POLLS} polls whose answers change",
        "the circle is noticed; the polls may go on",
        _circles,
        lambda f: f["calls"] <= 6 and polled(f),
    ),
    Row(
        "C19",
        "the reader of a run is cancelled while a tool runs",
        "an end within 2 s, the tool is stopped, nothing starts later",
        _cancelled,
        lambda f: f["secs"] < 2 and not f["went_on"] and not f["started_later"],
    ),
    Row(
        "C20",
        "a tool raises, the model raises, while somebody reads the stream",
        "exactly one end each",
        lambda f: "; ".join(f"{where} raises: {how}" for where, how in f["ends"].items()),
        lambda f: "no end" not in f["ends"].values(),
    ),
    Row(
        "C22",
        "one of two calls is done, then cancelled; then the next turn",
        "open calls closed, the finished one known",
        _next_turn,
        lambda f: not f["died"] and not f["open_calls"] and f["quick_known"],
    ),
    Row(
        "C23",
        f"an MCP server that answers a call with 401, with 504, never (deadline {DEADLINE_SECS} s), or is killed in "
        "mid-call and started again",
        "a failure in time and no cancellation; the killed call is said to be lost and not repeated; later calls work",
        _mcp,
        _server_faults_pass,
    ),
    Row(
        "C25",
        "a limit of 0 model calls",
        "0 means none",
        lambda f: (
            f"{f['model_calls']} model calls"
            + {"": "", "no end": ", and still going when time was up"}.get(f["died"], f", then {f['died']}")
        ),
        lambda f: f["model_calls"] == 0,
    ),
    *EFFECT_ROWS,
    *SUCCESS_ROWS,
]
BY_KEY = {row.key: row for row in ROWS}
