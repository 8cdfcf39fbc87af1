"""What in a reading identifies one call."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.recovery.evidence import quoted, signs_of
from replan.core.state.step_recovery import Reading

PAID = {"iban": "DE02 1203 0000 0000 2020 51", "amount": 812.4, "reference": "Invoice 4711"}


def reading(*records: Any, **asked: Any) -> Reading:
    return Reading("k", "payments", asked, json.dumps(list(records)))


@pytest.mark.parametrize(
    ("record", "identified"),
    [
        pytest.param(
            {"id": "P-1", "iban": "DE02120300000000202051", "cents": 81240, "reference": "Invoice 4711"},
            True,
            id="an account number without its blanks",
        ),
        pytest.param(
            {"id": "P-1", "iban": "de02 1203 0000 0000 2020 51", "reference": "Invoice  4711"},
            True,
            id="other blanks and small letters",
        ),
        pytest.param(
            {"id": "P-1", "iban": "DE02120300000000202052", "reference": "Invoice 4711"},
            False,
            id="another account",
        ),
        pytest.param(
            {"id": "P-1", "iban": "DE02120300000000202051", "reference": "Invoice 4712"},
            False,
            id="another reference",
        ),
        pytest.param(
            {"id": "P-1", "iban": "DE02120300000000202051"}, False, id="the account alone, asked for"
        ),
    ],
)
def test_blanks_make_no_other_call_of_it(record: dict[str, Any], identified: bool) -> None:
    found = signs_of([reading(record, iban="DE02120300000000202051")], "key-1", PAID)
    assert bool(found) is identified
    if identified:
        assert quoted(found, json.dumps(record)) == found


PAY = {"amount": 40, "to": "kay@example.org", "order": "O-5517"}
RECORD = {"id": 9, "amount": 40, "to": "kay@example.org", "order": "O-5517"}
STARTED = datetime(2026, 3, 4, 12, 30, tzinfo=UTC).timestamp()


def objections(output: Any, since: float | None = STARTED) -> list[str]:
    return [
        one.objection
        for one in signs_of([Reading("k", "payments", {}, json.dumps(output))], "key-1", PAY, (), since)
    ]


@pytest.mark.parametrize("state", ["succeeded", "Paid", "SENT", "payment completed", "ok", 201, None, True])
def test_a_state_that_affirms_is_no_objection(state: Any) -> None:
    assert objections([{**RECORD, "status": state}]) == [""]


@pytest.mark.parametrize("name", ["status", "state", "paymentStatus", "payment_state", "outcome"])
@pytest.mark.parametrize(
    "state",
    ["failed", "rejected", "CANCELLED", "pending", "in review", "not paid", "unpaid", "payment failed", "xyz", 402, False,
     "partially refunded", "refunded", "authorized", "awaiting approval"],
)  # fmt: skip
def test_a_state_that_does_not_affirm_is_for_a_person_whatever_it_is(name: str, state: Any) -> None:
    assert all(objections([{**RECORD, name: state}]))
    assert all(objections([{**RECORD, "payment": {name: state}}]))


@pytest.mark.parametrize(
    ("output", "known"),
    [
        pytest.param([{**RECORD, "error": "card declined"}], False, id="an error"),
        pytest.param([{**RECORD, "error": None, "refunded": False}], True, id="no error"),
        pytest.param([{**RECORD, "cancelled_at": "2026-03-04T12:31:00Z"}], False, id="cancelled since"),
        pytest.param([{**RECORD, "cancelled_at": None}], True, id="not cancelled"),
        pytest.param([{**RECORD, "success": False}], False, id="no success"),
        pytest.param({"failed": [RECORD], "succeeded": []}, False, id="under what failed"),
        pytest.param({"failed": [], "succeeded": [RECORD]}, True, id="under what succeeded"),
        pytest.param({"status": "error", "data": [RECORD]}, False, id="in an answer that failed"),
        pytest.param({"status": "ok", "data": [RECORD]}, True, id="in an answer that is good"),
        pytest.param("O-5517 kay@example.org 40.00 booked", True, id="a line of a text"),
        pytest.param("O-5517 kay@example.org 40.00 FAILED", False, id="a line that says failed"),
    ],
)
def test_what_a_record_says_of_itself_and_where_it_stands_counts(output: Any, known: bool) -> None:
    found = objections(output)
    assert found
    assert ("" in found) is known


@pytest.mark.parametrize(
    ("times", "known"),
    [
        pytest.param({"created_at": "2026-03-04T12:30:01Z"}, True, id="after it"),
        pytest.param({"created_at": "2026-03-04T12:29:59Z"}, True, id="another clock"),
        pytest.param({"created_at": "2026-03-04T12:20:00Z"}, False, id="minutes before"),
        pytest.param({"createdAt": "2026-03-04T14:20:00+02:00"}, False, id="minutes before, elsewhere"),
        pytest.param({"created_at": "2026-03-04T09:00:00"}, True, id="of a zone that nobody knows"),
        pytest.param({"created_at": "2026-03-02T09:00:00"}, False, id="of whatever zone"),
        pytest.param({"date": "2026-03-04"}, True, id="the same day"),
        pytest.param({"date": "2026-03-01"}, False, id="days before"),
        pytest.param({"ts": STARTED + 1}, True, id="seconds"),
        pytest.param({"ts": int((STARTED - 60) * 1000)}, False, id="milliseconds"),
        pytest.param({"created": "2026-03-01", "updated_at": "2026-03-05"}, False, id="changed since"),
        pytest.param({"created_at": "2026-03-01", "due_date": "2026-09-01"}, False, id="due later"),
        pytest.param({"due_date": "2026-01-01"}, True, id="only due"),
        pytest.param({"date": "last week"}, True, id="what cannot be read"),
    ],
)  # fmt: skip
def test_a_record_that_was_there_before_the_call_is_none_of_it(times: dict[str, Any], known: bool) -> None:
    assert bool(objections([{**RECORD, **times}])[0]) is not known


@pytest.mark.parametrize(
    ("amount", "same"),
    [
        ("40.00", True),
        ("40", True),
        (40.0, True),
        ("40.01", False),
        ("4000", False),
        ("040", False),
        (" 40 ", True),
    ],
)
def test_an_amount_is_compared_by_its_value(amount: Any, same: bool) -> None:
    assert bool(objections([{**RECORD, "amount": amount}])) is same


@pytest.mark.parametrize("missing", ["to", "order"])
def test_a_record_that_lacks_an_identifier_of_the_call_may_be_anothers(missing: str) -> None:
    record = {name: value for name, value in RECORD.items() if name != missing}
    assert not objections([record])
    asked = Reading("k", "payments", {missing: PAY[missing]}, json.dumps([record]))
    assert signs_of([asked], "key-1", PAY), "but for one that was asked for"


def test_a_key_identifies_the_call_and_its_state_still_counts() -> None:
    assert objections([{"key": "key-1"}]) == [""]
    assert all(objections([{"key": "key-1", "status": "failed"}]))


@given(st.decimals(min_value=-(10**9), max_value=10**9, allow_nan=False, places=2), st.integers(0, 3))
def test_zeros_at_the_end_change_no_amount(amount: Decimal, zeros: int) -> None:
    call = {"amount": float(amount), "order": "O-5517"}
    record = {"order": "O-5517", "amount": f"{amount}" + "0" * zeros}
    assert signs_of([Reading("k", "payments", {}, json.dumps([record]))], "", call)
