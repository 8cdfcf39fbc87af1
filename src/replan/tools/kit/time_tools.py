"""Tools for moments and durations, which models are bad at."""

from __future__ import annotations

import calendar
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Literal, TypedDict
from zoneinfo import ZoneInfo, available_timezones

from replan.core.words import in_digits
from replan.errors import InputError, ToolCallError
from replan.tools.functions.decorator import tool
from replan.tools.kit.source import KitSource
from replan.tools.names import nearest


class Moment(TypedDict):
    """One moment. `iso` is ISO 8601 with its offset; `date` and `time` are as the clock shows in `zone`."""

    iso: str
    date: str
    time: str
    weekday: str
    week: int
    """Of the year, as in ISO 8601."""
    day_of_year: int
    zone: str
    unix: float


class Span(TypedDict):
    """A duration, negative if the end is before the start; and the whole days between the dates."""

    seconds: float
    hours: float
    days: float
    calendar_days: int


def time(zone: str = "UTC", *, name: str = "time") -> KitSource:
    """The clock and the calendar. `zone`: for moments that name none, such as Europe/Berlin.

    Raises `InputError` for a zone that there is not.
    """
    standard = zone
    _zone_of(zone, of_input=True)

    @tool(effect="reads", volatile=True)
    def now(zone: str | None = None) -> Moment:
        """Tell the present date and time.

        Args:
            zone: such as Europe/Berlin or UTC; nothing for the usual one
        """
        return _moment(datetime.now(UTC), zone or standard)

    @tool(effect="reads")
    def read_time(moment: str, zone: str | None = None) -> Moment:
        """Read a date or time, tell its weekday and week, and how late it is then in another zone.

        Args:
            moment: such as 2026-03-01, 2026-03-01T09:30 or 2026-03-01T09:30:00+02:00
            zone: the zone to show it in, such as America/New_York; nothing for the usual one
        """
        return _moment(_parsed(moment, standard), zone or standard)

    @tool(effect="reads")
    def add_time(
        moment: str,
        amount: float,
        unit: Literal["seconds", "minutes", "hours", "days", "weekdays", "weeks", "months", "years"],
    ) -> Moment:
        """Add a duration to a date or time, or take it away. Days and longer keep the time of the clock.

        Args:
            moment: such as 2026-03-01 or 2026-03-01T09:30
            amount: how many; below zero to go back
            unit: of what; weekdays are Monday to Friday
        """
        given = _parsed(moment, standard)
        shown = standard if _has_no_offset(moment) else None
        try:
            return _moment(_added(given, amount, unit), shown)
        except (OverflowError, ValueError) as error:
            text = (
                f"amount: {in_digits(amount)} {unit} from {moment} is not a date between the years 1 and 9999"
            )
            raise ToolCallError(text, kind="parameter", happened="no") from error

    @tool(effect="reads")
    def time_between(start: str, end: str) -> Span:
        """Tell how much time is between two moments.

        Args:
            start: such as 2026-03-01 or 2026-03-01T09:30
            end: such as 2026-03-08
        """
        first, last = _parsed(start, standard), _parsed(end, standard)
        secs = (last.astimezone(UTC) - first.astimezone(UTC)).total_seconds()
        days = (last.date() - first.date()).days
        return {"seconds": secs, "hours": secs / 3600, "days": secs / 86400, "calendar_days": days}

    return KitSource([now, read_time, add_time, time_between], name=name)


def _added(moment: datetime, amount: float, unit: str) -> datetime:
    whole = int(amount)
    if unit in ("seconds", "minutes", "hours"):  # as time passes, also over a change of the clocks
        return (moment.astimezone(UTC) + timedelta(**{unit: amount})).astimezone(moment.tzinfo)
    if whole != amount:
        raise ToolCallError(f"amount: only whole {unit} can be added", kind="parameter", happened="no")
    if unit in ("days", "weeks"):
        return moment + timedelta(**{unit: whole})
    if unit == "weekdays":
        return weekdays_added(moment, whole)
    months = moment.month - 1 + whole * (12 if unit == "years" else 1)
    year, month = moment.year + months // 12, months % 12 + 1
    if not 1 <= year <= 9999:
        raise OverflowError
    return moment.replace(year=year, month=month, day=min(moment.day, calendar.monthrange(year, month)[1]))


def weekdays_added(moment: datetime, count: int) -> datetime:
    """From a weekend on, the first weekday counts as one."""
    step = 1 if count >= 0 else -1
    while count and moment.weekday() > 4:
        moment -= timedelta(days=step)
    weeks, rest = divmod(abs(count), 5)
    moment += timedelta(weeks=weeks * step)
    while rest:
        moment += timedelta(days=step)
        if moment.weekday() < 5:
            rest -= 1
    return moment


def _parsed(text: str, zone: str) -> datetime:
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError as error:
        right = "2026-03-01, 2026-03-01T09:30 or 2026-03-01T09:30:00+02:00"
        message = f"{text[:100]!r} is not a date or time ({error}); right are {right}"
        raise ToolCallError(message, kind="parameter", happened="no") from error
    return found if found.tzinfo is not None else found.replace(tzinfo=_zone_of(zone))


def _has_no_offset(text: str) -> bool:
    return datetime.fromisoformat(text.strip()).tzinfo is None


def _zone_of(zone: str, *, of_input: bool = False) -> tzinfo:
    if zone == "UTC":
        return UTC
    try:
        return ZoneInfo(zone)
    except (OSError, ValueError, LookupError) as error:
        near = nearest(zone, available_timezones())
        hint = f"; the nearest are: {', '.join(near)}" if near else "; right is Europe/Berlin, for instance"
        text = f"there is no time zone {zone[:100]!r}{hint}"
        raise (
            InputError(text) if of_input else ToolCallError(text, kind="parameter", happened="no")
        ) from error


def _moment(moment: datetime, zone: str | None) -> Moment:
    if zone is not None:
        moment = moment.astimezone(_zone_of(zone))
    return {
        "iso": moment.isoformat(),
        "date": moment.date().isoformat(),
        "time": moment.time().isoformat(timespec="seconds"),
        "weekday": moment.strftime("%A"),
        "week": moment.isocalendar().week,
        "day_of_year": moment.timetuple().tm_yday,
        "zone": zone or moment.strftime("%z") or "UTC",
        "unix": moment.timestamp(),
    }
