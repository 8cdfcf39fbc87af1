"""What in a reading identifies one call."""

from __future__ import annotations

import json
from typing import Any

import pytest

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
