"""Rows of one kind: an effect that is made twice, or that is taken for done."""

from __future__ import annotations

from bench.conformance.case import Facts
from bench.conformance.row import Row, died, times


def _paid(facts: Facts) -> str:
    if facts.get("in_doubt"):
        return f"paid {times(facts['effects'])}, in doubt is said"
    return f"paid {times(facts['effects'])}, {died(facts)}"


def _each(facts: Facts) -> str:
    return "; ".join(f"{how}: paid {times(count)}" for how, count in facts["effects"].items())


def _of_calls(facts: Facts) -> str:
    return f"called {times(facts['calls'])}, {died(facts)}"


EFFECT_ROWS = [
    Row(
        "E1",
        "`pay` outlasts its time limit and takes effect later; the model looks, finds nothing yet, and pays again",
        "paid once: nothing is settled while our own call still runs",
        _paid,
        lambda f: f["effects"] == 1,
    ),
    Row(
        "E2",
        "`pay` times out and has done nothing; the records are an envelope around nothing; the model says that it is paid",
        "no success",
        lambda f: f"paid {times(f['effects'])}, {'a success' if f['success'] else 'no success'}",
        lambda f: not f["success"],
    ),
    Row(
        "E3",
        "`pay` takes effect, then raises what hides a timeout: an error out of `except TimeoutError`, a group with a lost "
        "connection, a command that timed out; it is tried again",
        "once each: nobody can tell, so it is not repeated",
        _each,
        lambda f: set(f["effects"].values()) == {1},
    ),
    Row(
        "E4",
        "an MCP server makes the payment and answers with a JSON-RPC error that speaks of a session",
        "one call: only the protocol's own signal means an expired session",
        _of_calls,
        lambda f: f["calls"] == 1,
    ),
    Row(
        "E5",
        "a tool refuses: “Seat 7 is temporarily blocked; choose another seat”; the model chooses seat 8",
        "a refusal is no doubt: seat 8 is booked, once",
        lambda f: f"seats asked for: {f['asked']}; {died(f)}",
        lambda f: f["asked"] == [7, 8] and not f["died"],
    ),
    Row(
        "E6",
        '`pay(n=1)`, and later `pay(n=1, memo="")` with the default spelt out',
        "the same call: paid once",
        _paid,
        lambda f: f["effects"] == 1,
    ),
    Row(
        "E7",
        "the same payment twice in one answer of the model",
        "paid once, and the model is told how to say that it means both",
        _paid,
        lambda f: f["effects"] == 1,
    ),
    Row(
        "E8",
        "“pay twice”: one is made, and the model asks for the second on purpose",
        "paid twice",
        _paid,
        lambda f: f["effects"] == 2 and not f["died"],
    ),
    Row(
        "E9",
        "A and B write the same state side by side, B first; the payment after A and the payment after B read it",
        "each reads what stands before it: A, B",
        lambda f: f"paid to {', '.join(f['paid']) or 'nobody'}; {died(f)}",
        lambda f: f["paid"] == ["A", "B"],
    ),
    Row(
        "E10",
        "a condition on a field of an output that is a text with JSON in it: `blocked`",
        "not paid",
        _paid,
        lambda f: f["effects"] == 0,
    ),
    Row(
        "E11",
        "a condition that cannot be worked out: the field is not there",
        "not paid, and the reason is told",
        _paid,
        lambda f: f["effects"] == 0 and bool(f["died"]),
    ),
    Row(
        "E12",
        "`pay(5, “EUR”, “rent”)` waits for a person, who gives another amount only: 10",
        "10, EUR, rent",
        lambda f: f"paid {f['paid'] or 'nothing'}; {died(f)}",
        lambda f: f["paid"] == [10, "EUR", "rent"],
    ),
    Row(
        "E13",
        "a person agrees to a call with a secret account; it fails, and the model proposes another account",
        "another yes is asked for",
        lambda f: (
            f"paid to {', '.join(f['paid']) or 'nobody'}{', a second yes was asked for' if f['asked'] else ''}"
        ),
        lambda f: f["asked"] and f["paid"] == ["the right one"],
    ),
    Row(
        "E14",
        "`get_ticket` fails; the model takes `delete_ticket` instead",
        "not deleted: a stand-in has no stronger effect",
        lambda f: f"deleted {times(f['deleted'])}, {died(f)}",
        lambda f: f["deleted"] == 0,
    ),
]
