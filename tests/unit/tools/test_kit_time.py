"""Moments and durations."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.errors import InputError, ToolCallError
from replan.ports import ToolCall
from replan.tools.kit import time
from replan.tools.kit.time_tools import weekdays_added

pytestmark = pytest.mark.anyio


async def call(tool: str, /, zone_of_source: str = "UTC", **parameters: Any) -> Any:
    return await time(zone_of_source).call(ToolCall(tool, parameters, "key"))


async def test_effects() -> None:
    specs = {spec.id: (spec.effect, spec.volatile) for spec in await time().tools()}
    assert specs == {
        "now": ("reads", True),
        "read_time": ("reads", False),
        "add_time": ("reads", False),
        "time_between": ("reads", False),
    }


async def test_now_is_now() -> None:
    before = datetime.now(UTC).timestamp()
    found = await call("now", zone="Asia/Tokyo")
    assert before <= found["unix"] <= datetime.now(UTC).timestamp()
    assert found["iso"].endswith("+09:00")


@pytest.mark.parametrize(
    ("moment", "zone", "iso", "weekday", "week"),
    [
        ("2026-03-01", None, "2026-03-01T00:00:00+01:00", "Sunday", 9),
        ("2026-07-01T12:00:00Z", None, "2026-07-01T14:00:00+02:00", "Wednesday", 27),
        ("2026-07-01T12:00", "America/New_York", "2026-07-01T06:00:00-04:00", "Wednesday", 27),
        ("2024-12-30", "Europe/Berlin", "2024-12-30T00:00:00+01:00", "Monday", 1),
    ],
)
async def test_reading(moment: str, zone: str | None, iso: str, weekday: str, week: int) -> None:
    found = await call("read_time", "Europe/Berlin", moment=moment, zone=zone)
    assert (found["iso"], found["weekday"], found["week"]) == (iso, weekday, week)


@pytest.mark.parametrize(
    ("moment", "amount", "unit", "iso"),
    [
        ("2026-01-31", 1, "months", "2026-02-28T00:00:00+01:00"),
        ("2024-02-29", 1, "years", "2025-02-28T00:00:00+01:00"),
        ("2026-03-31", -1, "months", "2026-02-28T00:00:00+01:00"),
        ("2026-11-30", 14, "months", "2028-01-30T00:00:00+01:00"),
        ("2026-03-28T12:00", 1, "days", "2026-03-29T12:00:00+02:00"),
        ("2026-03-28T12:00", 24, "hours", "2026-03-29T13:00:00+02:00"),
        ("2026-03-28T12:00:00+05:00", 1.5, "hours", "2026-03-28T13:30:00+05:00"),
        ("2026-03-27", 1, "weekdays", "2026-03-30T00:00:00+02:00"),
        ("2026-03-28", 5, "weekdays", "2026-04-03T00:00:00+02:00"),
        ("2026-03-29", -1, "weekdays", "2026-03-27T00:00:00+01:00"),
        ("2026-03-28", 0, "weekdays", "2026-03-28T00:00:00+01:00"),
        ("2026-03-28", 2, "weeks", "2026-04-11T00:00:00+02:00"),
    ],
)
async def test_adding(moment: str, amount: float, unit: str, iso: str) -> None:
    assert (await call("add_time", "Europe/Berlin", moment=moment, amount=amount, unit=unit))["iso"] == iso


@given(st.dates(date(2000, 1, 1), date(2030, 1, 1)), st.integers(-60, 60))
def test_weekdays_are_counted_one_by_one(start: date, count: int) -> None:
    day, left = start, abs(count)
    while left:
        day += timedelta(days=1 if count > 0 else -1)
        left -= day.weekday() < 5
    moment = datetime(start.year, start.month, start.day, tzinfo=UTC)
    assert weekdays_added(moment, count).date() == day


async def test_between() -> None:
    found = await call("time_between", "Europe/Berlin", start="2026-03-28T12:00", end="2026-03-29T12:00")
    assert (found["hours"], found["calendar_days"]) == (23.0, 1)
    back = await call("time_between", start="2026-03-02", end="2026-03-01")
    assert (back["seconds"], back["calendar_days"]) == (-86400.0, -1)


@pytest.mark.parametrize(
    ("tool", "parameters", "match"),
    [
        ("read_time", {"moment": "tomorrow"}, "is not a date or time"),
        ("read_time", {"moment": "2026-02-30"}, "is not a date or time"),
        ("read_time", {"moment": "2026-03-01", "zone": "Europe/Berln"}, "nearest are: Europe/Berlin"),
        ("now", {"zone": "../etc/passwd"}, "there is no time zone"),
        ("now", {"zone": "\0"}, "there is no time zone"),
        ("add_time", {"moment": "2026-03-01", "amount": 1e9, "unit": "years"}, "is not a date"),
        ("add_time", {"moment": "9999-12-31", "amount": 1, "unit": "days"}, "is not a date"),
        ("add_time", {"moment": "2026-03-01", "amount": 0.5, "unit": "days"}, "only whole days"),
        ("add_time", {"moment": "2026-03-01", "amount": 1, "unit": "fortnights"}, "unit"),
    ],
)
async def test_errors_say_what_is_right(tool: str, parameters: dict[str, Any], match: str) -> None:
    with pytest.raises(ToolCallError, match=match) as caught:
        await call(tool, **parameters)
    assert (caught.value.kind, caught.value.happened) == ("parameter", "no")


def test_a_zone_that_there_is_not_is_refused_at_once() -> None:
    with pytest.raises(InputError, match="nearest are"):
        time("Europe/Berln")
