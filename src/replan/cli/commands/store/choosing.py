"""`replan tasks list`, and which of the stored tasks are meant: by how they stand, and by what they wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from replan.cli.terminal import options
from replan.cli.terminal.remote.meant import is_service, shown
from replan.cli.terminal.terminal import Out, own_stdout, say
from replan.core.waits import WAITS_FOR
from replan.errors import InputError

if TYPE_CHECKING:
    from replan.app import Replan
    from replan.ports import TaskSummary

UNFINISHED = "unfinished"
_AT_ONCE = 200
"""Logs that are looked at in one reading."""
MOST = 10_000_000
ONLY_STATUS = "Only these (`unfinished`: all that have not ended); may be given several times."
ONLY_WAITING = f"Only tasks that wait for this: {', '.join(WAITS_FOR)}. May be given several times."

Status = Annotated[list[str] | None, typer.Option("--status", metavar="STATUS", help=ONLY_STATUS)]
WaitingFor = Annotated[list[str] | None, typer.Option("--waiting-for", metavar="WHAT", help=ONLY_WAITING)]

_IN_WORDS = {
    "person": "for a person", "time": "for a time", "callback": "for a callback", "pause": "paused",
    "key": "for a key that its model takes, or for its secrets", "model": "for its model", "process": "as its process ended each time",
}  # fmt: skip


class Chosen(NamedTuple):
    """A task, and what it waits for: of `WAITS_FOR`, empty for one that does not wait or has got its answer."""

    row: TaskSummary
    waits_for: tuple[str, ...]

    @property
    def stands(self) -> str:
        """How it stands, in words."""
        row = self.row
        if row.given_away:
            return f"{row.status} (given away to a file)"
        if row.held:
            return f"{row.status} (running)"
        if row.status != "waiting":
            return f"{row.status} (paused)" if self.waits_for else row.status
        said = ", ".join(_IN_WORDS[kind] for kind in self.waits_for)
        return f"waiting ({said or 'answered'})"


def statuses(named: list[str] | None) -> tuple[str, ...]:
    """The statuses that are meant by these words; empty: all."""
    from typing import get_args

    from replan.core.state.task import ENDED, TaskStatus

    every = get_args(TaskStatus)
    for name in named or ():
        if name not in (*every, UNFINISHED):
            raise InputError(f"--status {name!r}: there are {', '.join((*every, UNFINISHED))}")
    wanted = [name for name in named or () if name != UNFINISHED]
    if len(wanted) < len(named or ()):
        wanted += [name for name in every if name not in (*ENDED, *wanted)]
    return tuple(wanted)


async def chosen(
    replan: Replan,
    status: list[str] | None,
    waiting_for: list[str] | None,
    *,
    session: str | None = None,
    most: int = MOST,
) -> list[Chosen]:
    """The tasks that are meant, newest first, at most so many."""
    wanted = statuses(status)
    for name in waiting_for or ():
        if name not in WAITS_FOR:
            raise InputError(f"--waiting-for {name!r}: there are {', '.join(WAITS_FOR)}")
    if waiting_for:
        if wanted and "waiting" not in wanted:
            raise InputError(f"--waiting-for: tasks that are {' or '.join(status or ())} do not wait")
        wanted = statuses([UNFINISHED]) if "pause" in waiting_for else ("waiting",)
    found: list[Chosen] = []
    rows = await replan.tasks(wanted, limit=MOST if waiting_for else most, session_id=session)
    left = await _left_paused(replan, rows)
    for row in rows:
        one = Chosen(row, ("pause",)) if row.task_id in left else await standing(replan, row)
        if not waiting_for or set(waiting_for) & set(one.waits_for):
            found.append(one)
        if len(found) == most:
            break
    return found


async def standing(replan: Replan, row: TaskSummary) -> Chosen:
    """The task with what it waits for."""
    return Chosen(row, await _waits_for(replan, row) if row.status == "waiting" else ())


async def _left_paused(replan: Replan, rows: list[TaskSummary]) -> set[str]:
    """Those that somebody has paused and whose driver was gone before they stood still: nobody drives them until they are resumed."""
    from replan.core.state.task import ENDED

    if is_service(replan):  # which drives them to where they stand still
        return set()
    gone = [row.task_id for row in rows if row.status not in (*ENDED, "waiting") and not row.held]
    paused: set[str] = set()
    for at in range(0, len(gone), _AT_ONCE):
        some = dict.fromkeys(gone[at : at + _AT_ONCE], 0)
        found = await replan.service.parts.store.picked(some, ("pause_requested",))
        for task_id in found:
            if (await replan.service.state(task_id)).pause is not None:
                paused.add(task_id)
    return paused


async def _waits_for(replan: Replan, row: TaskSummary) -> tuple[str, ...]:
    """By the last event of its log; by all of it where somebody has said something since, or just before."""
    from replan.core.events import PauseRequested, TaskWaiting
    from replan.run.service.results import waiting_for

    if is_service(replan):
        view = await replan.task(row.task_id)  # type: ignore[attr-defined]
        return _of_kinds({one.kind for one in view.waiting_for} if view.status == "waiting" else set())
    last = await replan.service.parts.store.read(row.task_id, max(0, row.last_seq - 3))
    asked = any(isinstance(one.event, PauseRequested) for one in last)
    if last and isinstance(event := last[-1].event, TaskWaiting) and (event.paused or not asked):
        return event.waits_for
    state = await replan.service.state(row.task_id)
    kinds = {one.kind for one in waiting_for(state)} if state.status == "waiting" else set()
    if state.pause is not None:  # also of one that has been answered since: only a person ends that
        kinds.add("pause")
    return _of_kinds(kinds)


def _of_kinds(kinds: set[str]) -> tuple[str, ...]:
    if kinds & {"approval", "review", "outcome", "intervention", "question"}:
        kinds.add("person")
    return tuple(kind for kind in WAITS_FOR if kind in kinds)


def list_tasks(
    status: Status = None,
    waiting_for: WaitingFor = None,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="Only tasks of this session.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=0, help="How many at most; 0: all. What is left out is said.")
    ] = 20,
    config: options.Config = None,
    db: options.Db = None,
    server: options.Server = None,
    json: options.Json = False,
) -> None:
    """List tasks, newest first."""
    import asyncio

    from replan.cli.terminal.opening import open_stored, settings_of

    async def read() -> tuple[list[Chosen], str]:
        async with open_stored(settings_of(config), db) as replan:
            most = limit + 1 if limit else MOST
            found = await chosen(replan, status, waiting_for, session=session, most=most)
            return found, shown(replan)

    with own_stdout() as out:
        found, where = asyncio.run(read())
        if limit and len(found) > limit:
            del found[limit:]
            say(f"these are the {limit} newest, and there are more: `--limit 0` lists all")
        if json:
            out.json([{**one.row._asdict(), "waits_for": one.waits_for} for one in found])
            return
        if not found:
            what = [f"are {' or '.join(status)}"] if status else []
            what += [f"wait for {' or '.join(waiting_for)}"] if waiting_for else []
            what += [f"belong to the session {session!r}"] if session else []
            say(f"no tasks{' that ' if what else ''}{' and '.join(what)} in {where}")
        for one in found:
            tell_row(out, one)


def tell_row(out: Out, one: Chosen) -> None:
    """A line of the list."""
    from datetime import datetime

    from replan.cli.terminal.words import clean

    when = datetime.fromtimestamp(one.row.created).strftime("%Y-%m-%d %H:%M:%S")
    out.line(f"{one.row.task_id}  {when}  {one.stands}  {clean(one.row.description, 80)}")
