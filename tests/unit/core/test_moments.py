"""What a planned wait for a time can never wait for is told before anything is run."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.waits.moments import due_at, misread


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"seconds": 1e9}, "more than 366 days"),
        ({"until": "tomorrow"}, "'tomorrow' is not a date or time"),
        ({"until": "in 5 minutes", "zone": "UTC"}, "is not a date or time"),
        ({"until": "2031-03-01T09:30", "zone": "Nowhere/X"}, "there is no time zone 'Nowhere/X'"),
        ({"until": "2031-03-01T09:30", "zone": "../x"}, "there is no time zone"),
    ],
    ids=str,
)
def test_a_wait_for_no_time_is_misread(given: Any, says: str) -> None:
    assert says in misread(given)


@pytest.mark.parametrize(
    "given",
    [
        *({"seconds": 0}, {"seconds": "${a.output.secs}"}, {"until": "${a.output.at}"}, {}),
        *({"until": "2001-01-01"}, {"until": "2031-03-01T09:30", "zone": "Europe/Berlin"}),
        {"until": "2031-03-01T09:30", "zone": "${a.output.zone}"},
    ],
    ids=str,
)  # fmt: skip
def test_what_may_be_a_time_is_not(given: Any) -> None:
    assert misread(given) == ""


@given(st.fixed_dictionaries({}, optional={"until": st.text(max_size=20), "zone": st.text(max_size=8)}))
def test_what_is_told_beforehand_is_what_would_be_told_when_it_begins(given: Any) -> None:
    if not given.get("until") or "${" in str(given):
        return
    try:
        due_at(given, 2e9)
        said = ""
    except ValueError as error:
        said = str(error)
    assert misread(given) in ("", said)
