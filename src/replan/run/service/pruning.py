"""Tasks that nobody needs any more, and what only they kept."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Collection
from typing import NamedTuple, Protocol, cast, get_args

from replan.core.again.had import effects_of
from replan.core.state.task import ENDED, TaskStatus
from replan.errors import ReplanError, StoreError, TaskHeld, TaskNotFound, TaskShared, TaskUnfinished
from replan.ports import KeptTask, Store, Tidy
from replan.run.session.pages import folded

_DAY = 86_400.0
EVERY_SECS = 3_600.0
"""Between two times that a database is looked through, over all processes."""
_FIRST_SECS = 2.0
"""A process that is open for less looks through it when it closes, where tasks are removed for their age."""
_LAST_SECS = 3.0
"""No longer than this."""


_PAGE = 100
_STATUSES = frozenset(get_args(TaskStatus))
_LOG = logging.getLogger("replan.store")


class PrunedTask(NamedTuple):
    """A task that was removed, or would be."""

    task_id: str
    status: str
    updated: float
    size: int
    """Bytes of its log and its large outputs."""


class Pruned(NamedTuple):
    """What was removed, or would be."""

    tasks: tuple[PrunedTask, ...]
    freed: int
    """Bytes; an output that a task which stays uses too is not among them."""
    shared: tuple[str, ...]
    """Tasks that stay, as others that stay rest on their history."""
    undelivered: tuple[str, ...]
    """Tasks that stay until a consumer of the log has got all of them."""
    held: tuple[str, ...]
    """Tasks that somebody drives."""
    known_by: tuple[str, ...] = ()
    """Forks that stay, as others of their family that stay go by the effects that they have had."""


class Tidied(Store, Tidy, Protocol):
    """The store that is looked through."""


async def prune(
    store: Tidied,
    *,
    before: float | None = None,
    status: Collection[TaskStatus] = (),
    larger_than: int | None = None,
    unfinished: bool = False,
    dry_run: bool = True,
) -> Pruned:
    """Remove tasks that have ended, with their logs and what only they use. All that is given has to hold of each.

    `before`: nothing has happened in it since. `unfinished`: also such as have not ended and that nobody drives. `dry_run`: only say which.
    """
    chosen: dict[str, PrunedTask] = {}
    shared, undelivered, held, known_by = list[str](), list[str](), list[str](), list[str]()
    all_chosen: set[str] | None = None
    users: dict[str, int] = {}
    """Tasks that stay, of each content."""
    freed = 0

    def is_chosen(one: KeptTask) -> bool:
        return not one.undelivered and (larger_than is None or _size(one) > larger_than)

    among = frozenset(status) or (_STATUSES if unfinished else ENDED)
    async for task in _pages(store, among if unfinished else among & ENDED, before):
        size = _size(task)
        if larger_than is not None and size <= larger_than:
            continue
        if any(fork not in chosen for fork in task.forks):
            shared.append(task.task_id)
            continue
        if task.undelivered:
            undelivered.append(task.task_id)
            continue
        if family := await _rest_of_family(store, task.task_id):
            if all_chosen is None:
                all_chosen = {
                    one.task_id
                    async for one in _pages(store, among if unfinished else among & ENDED, before)
                    if is_chosen(one)
                }
            if not all_chosen.issuperset(family - chosen.keys()) and await _has_had_effects(
                store, task.task_id
            ):
                known_by.append(task.task_id)
                continue
        if dry_run:
            if task.status not in ENDED and (await store.summary(task.task_id)).held:
                held.append(task.task_id)
                continue
        else:
            try:
                await store.delete(task.task_id, unfinished=unfinished)
            except TaskHeld:
                held.append(task.task_id)
                continue
            except TaskShared:  # a fork was made meanwhile
                shared.append(task.task_id)
                continue
            except (TaskNotFound, TaskUnfinished):  # somebody else was faster
                continue
        chosen[task.task_id] = PrunedTask(task.task_id, task.status, task.updated, size)
        freed += task.log_bytes
        for digest, content_size, used_by in task.contents:
            users[digest] = users.get(digest, used_by) - 1
            if not users[digest]:
                freed += content_size
    return Pruned(
        tuple(chosen.values()), freed, tuple(shared), tuple(undelivered), tuple(held), tuple(known_by)
    )


def _size(task: KeptTask) -> int:
    return task.log_bytes + sum(size for _, size, _ in task.contents)


async def is_gone_by(store: Store, task_id: str) -> list[str]:
    """The others of a fork's family, where it has had effects: by what its log says they know what was made, and what was undone since."""
    family = await _rest_of_family(store, task_id)
    return sorted(family) if family and await _has_had_effects(store, task_id) else []


async def _rest_of_family(store: Store, task_id: str) -> set[str]:
    """Of a fork; empty for any other task."""
    with contextlib.suppress(TaskNotFound):
        if line := await store.rests_on(task_id):
            members = [line[0].task_id]
            for one in members:
                with contextlib.suppress(TaskNotFound):
                    members += [fork.task_id for fork in await store.forks(one)]
            return {*members} - {task_id}
    return set()


async def _has_had_effects(store: Store, task_id: str) -> bool:
    """Whether it has made some itself, or may have."""
    with contextlib.suppress(TaskNotFound):
        state = await folded(store, task_id)
        return any(call.started >= state.created for call in effects_of(state))
    return False


async def _pages(store: Tidied, status: Collection[str], before: float | None) -> AsyncIterator[KeptTask]:
    """Newest first: forks come before what they rest on."""
    below: int | None = None
    while page := await store.sizes(status=status, before=before, below=below, limit=_PAGE):
        for task in page:
            yield task
        below = page[-1].number


class Tidying:
    """Looks through the database once in a while, on behalf of all processes that have it open."""

    def __init__(self, store: Store, retention_days: float | None, now: Callable[[], float]) -> None:
        self._store = store
        self._days = retention_days
        self._now = now
        self._task: asyncio.Task[None] | None = None
        self._looked = False

    def begin(self) -> None:
        if isinstance(self._store, Tidy):
            self._task = asyncio.get_running_loop().create_task(self._go_on())

    async def aclose(self) -> None:
        task = self._task
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            return  # a loop that has ended has taken it along
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if (
            not self._looked and self._days is not None
        ):  # else nobody would, where every process is open for a moment
            with contextlib.suppress(ReplanError, TimeoutError):
                async with asyncio.timeout(_LAST_SECS):
                    await self._tidy()

    async def _go_on(self) -> None:
        await asyncio.sleep(_FIRST_SECS)
        while True:
            self._looked = True
            with contextlib.suppress(StoreError):  # at the next time
                await self._tidy()
            await asyncio.sleep(EVERY_SECS)

    async def _tidy(self) -> None:
        await tidy(cast("Tidied", self._store), self._days, self._now())


async def tidy(
    store: Tidied, retention_days: float | None, now: float, *, every_secs: float = EVERY_SECS
) -> bool:
    """Remove what half-written outputs and removed tasks have left, and ended tasks that are older than that; False if another
    process has lately."""
    if not await store.tidy_due(every_secs):
        return False
    try:
        await store.sweep()
        if retention_days is not None and await _trusted(store, retention_days, now):
            shared = await store.now()
            pruned = await prune(
                store, before=(now if shared is None else shared) - retention_days * _DAY, dry_run=False
            )
            if pruned.tasks:
                _LOG.info(
                    "%d tasks removed that had ended more than %g days ago", len(pruned.tasks), retention_days
                )
        await store.give_back()
    except BaseException:
        with contextlib.suppress(ReplanError):
            await asyncio.shield(store.not_tidied())
        raise
    return True


async def _trusted(store: Tidied, retention_days: float, now: float) -> bool:
    """Whether the age of tasks can be told: by the clock of a server, or by one's own where the log says that it is no new one.

    One that was set ahead makes all tasks old at once. So there has to be something that stays, and happened a day ago or more.
    """
    if await store.now() is not None:
        return True
    before = now - retention_days * _DAY
    since = await store.lived_since(before)
    if since is not None and since <= now - min(_DAY, retention_days * _DAY / 2):
        return True
    if await store.sizes(status=ENDED, before=before, limit=1):
        _LOG.warning(
            "no task is removed for its age (%g days): by this machine's clock nothing has happened in the database for so long until "
            "just now, so the clock may be wrong; it is looked at again by and by, and `replan tasks prune` does it at once",
            retention_days,
        )
    return False
