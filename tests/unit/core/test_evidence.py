"""What in a reading identifies a call in doubt, and what does not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.recovery.evidence import quoted, signs_of, sure
from replan.core.state.step_recovery import Reading

PAID = {"to": "ann@x.org", "cents": 12050}


def read(output: Any, **asked: Any) -> Reading:
    return Reading(call_key="k", tool_id="payments", parameters=asked, output=json.dumps(output))


def shows(output: Any, parameters: dict[str, Any] = PAID, **asked: Any) -> bool:
    return bool(sure(signs_of([read(output, **asked)], "", parameters)))


MINE = {"id": "pm_18", "to": "ann@x.org", "cents": 12050, "state": "done"}


@pytest.mark.parametrize(
    "found",
    [
        MINE,
        [MINE],
        {"query": PAID, "payments": [MINE], "page": 1},
        {"id": "pm_18", "recipient": "ann@x.org", "amount": "120.50"},
        {"id": "pm_18", "recipient": "ann@x.org", "amount": {"value": 120.5, "currency": "EUR"}},
        {"id": "pm_18", "text": "120.50 EUR to ann@x.org"},
    ],
)
@pytest.mark.parametrize("asked", [{}, {"q": "Ann"}, {"to": "ann@x.org"}, PAID, {"filter": json.dumps(PAID)}])
def test_a_record_of_the_call_shows_it_whatever_was_asked(found: Any, asked: dict[str, Any]) -> None:
    assert shows(found, **asked)


@pytest.mark.parametrize(
    "found",
    [
        {"query": PAID, "payments": [], "page": 1},
        {"filter": PAID, "hits": [], "limit": 50, "took_ms": 1234},
        {"request": PAID, "response": None},
        {"self": "/payments?to=ann@x.org&cents=12050", "items": []},
        {"query": PAID, "payments": [MINE | {"to": "bob@x.org"}], "page": 1},
        {"query": PAID, "payments": [MINE | {"cents": 700}], "page": 1},
        {"query": PAID, "payments": [MINE | {"state": "failed"}], "page": 1},
    ],
    ids=lambda found: ", ".join(found),
)
@pytest.mark.parametrize("asked", [PAID, {"filter": json.dumps(PAID)}, {"q": PAID}])
def test_what_was_asked_shows_nothing_where_nothing_was_found(found: Any, asked: dict[str, Any]) -> None:
    assert not shows(found, **asked)


@pytest.mark.parametrize(
    "found",
    [
        {"id": "c-11", "name": "Ann", "mail": "ann@x.org"},
        [{"id": "c-11", "name": "Ann", "mail": "ann@x.org"}],
        {"owner": "ann@x.org", "balance": 0, "account": "DE-4711"},
        {"id": "pm_18", "recipient": "ann@x.org", "amount": 999},
        {"recipient": "ann@x.org", "subject": "hello", "id": "ml-33"},
        MINE | {"type": "draft"},
        MINE | {"test": True},
        MINE | {"planned": True},
    ],
)
def test_what_is_known_of_the_receiver_is_no_record_of_the_call(found: Any) -> None:
    assert not shows(found, q="Ann")


names = st.sampled_from(["page", "limit", "total", "took_ms", "more", "cursor", "count"])
rest = st.dictionaries(names, st.one_of(st.integers(0, 5000), st.booleans(), st.none()), max_size=4)
telling = st.fixed_dictionaries(
    {"to": st.from_regex(r"\A[a-z]{3,8}-[0-9]{3,6}\Z"), "cents": st.integers(2, 10**6)}
)


@given(telling, st.sampled_from(["query", "filter", "params", "criteria", "asked"]), rest)
def test_an_empty_page_never_settles_whatever_it_repeats(
    call: dict[str, Any], name: str, around: dict[str, Any]
) -> None:
    assert not shows({name: call, "items": [], **around}, call, **call)


@given(telling, rest)
def test_the_record_in_a_page_always_does(call: dict[str, Any], around: dict[str, Any]) -> None:
    assert shows({"query": call, "items": [{"id": "pm_7f3a", **call}], **around}, call, **call)


BOB = {"id": "pm_17", "to": "bob@x.org", "cents": 12050}


def test_the_evidence_is_about_the_record_if_it_has_all_texts_that_it_is_known_by() -> None:
    signs = signs_of([read([BOB, MINE])], "", PAID)
    assert [one.found.output for one in signs] == [MINE]
    assert quoted(signs, json.dumps(MINE))
    assert quoted(signs, "a payment to ann@x.org is listed")
    assert quoted(signs, json.dumps([BOB, MINE]))
    for wrong in (json.dumps(BOB), "12050 were paid", "pm_17", ""):
        assert not quoted(signs, wrong)


OLD = {"id": "pm_11", "to": "ann@x.org", "cents": 12050}
FAILED = MINE | {"state": "failed"}


@pytest.mark.parametrize("old", [OLD, OLD | {"state": "done"}, PAID], ids=["of no state", "done", "of no id"])
@pytest.mark.parametrize("state", ["failed", "pending", "done"])
@pytest.mark.parametrize("page", [False, True])
@pytest.mark.parametrize("newest_first", [False, True])
def test_the_record_that_is_quoted_decides_and_no_older_one_like_it(
    old: dict[str, Any], state: str, page: bool, newest_first: bool
) -> None:
    new = MINE | {"state": state}
    both = [new, old] if newest_first else [old, new]
    signs = signs_of([read({"payments": both, "total": 2} if page else both)], "", PAID)
    mine = quoted(signs, f"this one is listed: {json.dumps(new)}")
    assert [one.found.output for one in mine] == [new]
    assert bool(sure(mine)) == (state == "done")


def test_what_speaks_of_several_like_records_needs_all_of_them_to_show_it() -> None:
    signs = signs_of([read([OLD, FAILED])], "", PAID)
    for evidence in (
        "a payment to ann@x.org is listed",
        json.dumps([OLD, FAILED]),
        "pm_18 and pm_11 went to ann@x.org",
    ):
        assert len(quoted(signs, evidence)) == 2
        assert not sure(quoted(signs, evidence))
    assert sure(quoted(signs_of([read([OLD, MINE])], "", PAID), "a payment to ann@x.org is listed"))


def test_one_that_was_there_before_the_call_speaks_neither_for_it_nor_against() -> None:
    before = FAILED | {"id": "pm_11", "created_at": "2026-01-01T00:00:00Z"}
    signs = signs_of([read([before, MINE])], "", PAID, since=1.8e9)
    assert [one.found.output for one in sure(quoted(signs, "a payment to ann@x.org is listed"))] == [MINE]
    assert not sure(quoted(signs, json.dumps(before)))
