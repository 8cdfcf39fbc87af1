"""Rows of one kind: a success that is none, a failure that forgets."""

from __future__ import annotations

from bench.conformance.case import Facts
from bench.conformance.row import Row, died, times


def _called(facts: Facts) -> str:
    return "a success" if facts["success"] else "no success"


def _seen(facts: Facts) -> str:
    return f"the model sees “{facts['seen'][:120]}”, {died(facts)}"


def _validated(facts: Facts) -> str:
    corrected = "told, and corrected" if facts["corrected"] else "not corrected"
    return f"{corrected}; wrong for ever: {_called(facts)}"


SUCCESS_ROWS = [
    Row(
        "S1",
        "the judge says “not successful, the amount is wrong, ask Bob” beside a high score",
        "no success, and the question is kept",
        lambda f: f"{_called(f)}{', the question is kept' if f['question'] else ''}",
        lambda f: not f["success"] and f["question"],
    ),
    Row(
        "S2",
        "an answer of `None` where the type allows it",
        "`None`",
        lambda f: f"{_called(f)}, the answer is {f['answer']!r}",
        lambda f: f["success"] and f["answer"] is None,
    ),
    Row(
        "S3",
        "`pay` fails for good; a new plan leaves it out; judged by its steps",
        "no success",
        _called,
        lambda f: not f["success"],
    ),
    Row(
        "S4",
        "a validator of the answer's type refuses it: once, or for ever",
        "the model is told and corrects it; for ever: no success",
        _validated,
        lambda f: f["corrected"] and not f["success"],
    ),
    Row(
        "S5",
        "a step fails and a person is to be asked; then the planner is gone",
        "the end has the step's failure and the question, not only the planner",
        lambda f: ", ".join(f"{name} {'kept' if kept else 'lost'}" for name, kept in f["kept"].items()),
        lambda f: all(f["kept"].values()),
    ),
    Row(
        "S6",
        "a step fails and nobody knows a remedy, while an independent chain has not begun",
        "it runs, or is closed with the reason; nothing is pending in what has ended",
        lambda f: f"{f['pending']} steps pending at the end",
        lambda f: f["pending"] == 0,
    ),
    Row(
        "S7",
        "a generator function as a tool, which yields three rows",
        "three rows",
        _seen,
        lambda f: all(row in f["seen"] for row in ("row 1", "row 2", "row 3")),
    ),
    Row(
        "S8",
        "an MCP result with a structured value, a text and an image",
        "all three",
        lambda f: ", ".join(f"{name} {'kept' if kept else 'lost'}" for name, kept in f["kept"].items()),
        lambda f: all(f["kept"].values()),
    ),
    Row(
        "S9",
        'a tool returns NaN, and a dict with the keys `1` and `"1"`',
        "an error that names them, or all of it",
        _seen,
        lambda f: (
            f["told"]
            or (not f["died"] and "nan" in f["seen"].lower() and "one" in f["seen"] and "uno" in f["seen"])
        ),
    ),
    Row(
        "S10",
        "a function `-> int` returns “many”",
        "an error of the call",
        _seen,
        lambda f: f["told"],
    ),
    Row(
        "S11",
        "a reference selects nothing; the model gives the value itself",
        "the call is made with it",
        lambda f: f"called with {f['given']}; {_called(f)}",
        lambda f: f["given"] == ["Oslo"] and f["success"],
    ),
    Row(
        "S12",
        "a person has answered “take the second Ann”; the work is judged",
        "the judge is shown the question and the answer",
        lambda f: "shown to the judge" if f["shown"] else "not shown to the judge",
        lambda f: f["shown"],
    ),
    Row(
        "S13",
        "a step with an effect is done; a new plan has it no more",
        "its call and its output can be had",
        lambda f: (
            f"the call {'kept' if f['call'] else 'lost'}, the output {'kept' if f['output'] else 'lost'}"
        ),
        lambda f: f["call"] and f["output"],
    ),
    Row(
        "S14",
        "after another tool has stood in, a later step refers to a field that only that one gives",
        "checked against what ran: passes",
        _called,
        lambda f: f["success"],
    ),
    Row(
        "S15",
        "a payment whose answer is lost, behind a service that is gone",
        "the end says what is done, what is not, and what is in doubt",
        lambda f: ", ".join(f"{name}: {', '.join(steps) or 'nothing'}" for name, steps in f["told"].items()),
        lambda f: f["told"] == {"done": ["first"], "undone": ["last"], "in doubt": ["pay"]},
    ),
    Row(
        "S16",
        "twelve calls side by side, of which two fail",
        "the ten are kept and can be used, and both failures are told",
        lambda f: f"{f['kept']} of 10 kept, {f['told']} of 2 failures told, {died(f)}",
        lambda f: f["kept"] == 10 and f["told"] == 2 and not f["died"],
    ),
    Row(
        "S17",
        "the task cannot be done with these tools",
        "a plan can say so: no effect, no success, and the reason at the end",
        lambda f: (
            f"{times(f['effects'])} an effect, {_called(f)}{', the reason is told' if f['reason'] else ''}"
        ),
        lambda f: not f["effects"] and not f["success"] and f["reason"],
    ),
]
