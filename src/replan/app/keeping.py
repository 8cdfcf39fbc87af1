"""What a store keeps, seen as a whole: tasks that move to another store, and large outputs as streams."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from replan.core.state.task import TaskStatus
from replan.errors import InputError
from replan.ports import Movable, Tidy
from replan.run.service.pruning import Pruned, Tidied, prune
from replan.run.service.tasks import Service

if TYPE_CHECKING:
    from replan.store.transfer.incoming import Imported


class Keeping:
    """A part of `Replan`."""

    @property
    @abstractmethod
    def service(self) -> Service: ...

    async def output_pieces(
        self, task_id: str, step_id: str, *, item: int | None = None, path: str | None = None
    ) -> AsyncIterator[bytes]:
        """The output of a step as bytes, piece by piece: as they are where it is a file, text as text, all else as JSON.

        `path`: a part of it (JMESPath), such as a file that stands in it.
        """
        from replan.core.references.binary import as_bytes
        from replan.run.service.results import part_at

        service = self.service
        streamed = await service.streamed_output(task_id, step_id, item, path)
        if streamed is None:
            value = await service.output(task_id, step_id, item)
            yield as_bytes(value if path is None else part_at(value, path))
            return
        async for piece in service.parts.store.pieces(task_id, streamed.artifact_id):
            yield piece

    @contextlib.asynccontextmanager
    async def export_tasks(
        self, task_ids: Sequence[str], *, move: bool = False
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Tasks with their logs and artifacts as one file, piece by piece, for `import_tasks` of another store.

        `move`: also tasks that have not ended; all are gone from here once the block is left without an error. Before the last pieces
        come they are marked as given away, so that nobody goes on with them here, whenever this process ends: `finish_export` and
        `take_back` are for those.
        """
        from replan.run.session.said import clear
        from replan.store.transfer.outgoing import exported

        if isinstance(task_ids, str) or not task_ids:
            raise InputError("task_ids: expected a list of task ids, at least one")
        for task_id in task_ids:
            if await self.service.in_clear(task_id):
                raise InputError(
                    f"task {task_id!r} was stored by an older release, with secrets in clear: whoever gets the file could "
                    "read them, so it cannot be exported"
                )
            await clear(self.service.parts, task_id)
        async with exported(self._movable(), task_ids, move=move) as pieces:
            yield pieces

    async def finish_export(self, task_ids: Sequence[str], pieces: AsyncIterable[bytes]) -> list[str]:
        """Remove all tasks that were given away to this file, which is safe, where `export_tasks(move=True)` came to no end; those of it
        that are gone from here now. `InputError` where it is not whole, or one of `task_ids` is here and was not given away to it: then
        nothing is removed."""
        from replan.store.transfer.outgoing import finished

        return await finished(self._movable(), task_ids, pieces)

    async def take_back(self, task_ids: Sequence[str]) -> list[str]:
        """Let tasks go on here that were given away to a file which is lost, and was imported nowhere. Those that were given away."""
        found: list[str] = await self._movable().take_back(list(task_ids))
        return found

    async def import_tasks(
        self, pieces: AsyncIterable[bytes], *, not_gone_on: bool = False
    ) -> list[Imported]:
        """Take in the tasks of such a file, all of them or none; what is here already, the very same or further on, stays as it is.

        An unfinished one that came in before, or was given away from here, and is here no more, may have gone on since: it is refused.
        `not_gone_on=True` says that it has not, anywhere."""
        from replan.store.transfer.incoming import taken_in

        if not isinstance(pieces, AsyncIterable):
            raise InputError(
                f"pieces: expected an async iterator of bytes, as `export_tasks` gives; got {type(pieces).__name__}"
            )
        return await taken_in(self._movable(), pieces, self.service.has_in_clear, not_gone_on=not_gone_on)

    async def prune(
        self,
        *,
        older_than_days: float | None = None,
        status: Sequence[TaskStatus] = (),
        larger_than: int | None = None,
        unfinished: bool = False,
        dry_run: bool = True,
    ) -> Pruned:
        """Tell which ended tasks would be removed; with `dry_run=False` remove them, with their logs and what only they use.

        All that is given has to hold of each: nothing has happened in it for so many days, its status, more bytes than that. Tasks
        that others rest on, that are being driven, or of which a consumer has not got all, stay; so do those that have not
        ended, unless `unfinished`.
        """
        store = self.service.parts.store
        if not isinstance(store, Tidy):
            raise InputError("tasks of this store cannot be pruned; delete them one by one")
        if older_than_days is None and not status and larger_than is None:
            raise InputError("say which: older_than_days, status or larger_than")
        shared = await store.now()
        now = self.service.parts.clock.now() if shared is None else shared
        pruned = await prune(
            cast("Tidied", store),
            before=None if older_than_days is None else now - older_than_days * 86_400.0,
            status=status,
            larger_than=larger_than,
            unfinished=unfinished,
            dry_run=dry_run,
        )
        if not dry_run:
            await store.sweep()
            await store.give_back()
        return pruned

    def _movable(self) -> Any:
        store = self.service.parts.store
        if not isinstance(store, Movable):
            raise InputError("tasks of this store cannot be moved to another, nor others to it")
        return store
