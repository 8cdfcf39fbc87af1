"""What the manifest of an export says of a task and only its log knows."""

from __future__ import annotations

from typing import Protocol

from replan.core.state.task import ENDED, status_of
from replan.ports import Movable, Store, StoredTask, TaskSummary
from replan.store.rows import records_of
from replan.store.transfer.manifest import MovedTask, seal_mark


class _Source(Store, Movable, Protocol):
    """The store that tasks leave."""


async def come_to(store: _Source, summary: TaskSummary) -> str:
    """What its log comes to: with what people have said since it was let go of, which its row in the store does not show."""
    if summary.status in ENDED:
        return summary.status
    status, after = "queued", 0
    while after < summary.last_seq and (rows := await store.rows(summary.task_id, after, 200)):
        for record in records_of(summary.task_id, rows, 0):
            if record.seq <= summary.last_seq:
                status = status_of(record.event) or status
        after = rows[-1].seq
    return status


async def marked(
    store: _Source, tasks: list[tuple[StoredTask, MovedTask]]
) -> list[tuple[StoredTask, MovedTask]]:
    """With the mark of this store on those that may have calls with secrets in them, and on their families."""
    roots: dict[str, str] = {}
    secret: set[str] = set()
    for stored, moved in tasks:
        root = roots[moved.task_id] = roots[stored.parent] if stored.parent is not None else moved.task_id
        if root not in secret and await _may_hold_secrets(store, moved):
            secret.add(root)
    if not secret:
        return tasks
    mark = seal_mark(await store.seal_key())
    return [
        (
            stored,
            moved.model_copy(update={"sealed_by": moved.sealed_by or mark})
            if roots[moved.task_id] in secret
            else moved,
        )
        for stored, moved in tasks
    ]


async def _may_hold_secrets(store: _Source, moved: MovedTask) -> bool:
    after = 0
    while rows := await store.rows(moved.task_id, after):
        if any('"masked":true' in row.data or '"secrets":{' in row.data for row in rows):
            return True
        after = rows[-1].seq
    return False
