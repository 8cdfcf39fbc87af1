"""Taking out of a task's rows what nobody should have been able to read in them."""

from __future__ import annotations

import json

from replan.core import events as e
from replan.core.data.strict_json import storable
from replan.errors import StaleWriter, TaskEnded, TaskNotFound
from replan.ports import Claim, Redaction
from replan.store.postgres.kept import artifacts
from replan.store.postgres.line import LONG_SECS, Line
from replan.store.postgres.statements import LOOK, PIECES
from replan.store.redact import rewritten

_LISTED = """UPDATE task SET description = %(text)s::text, session = %(session)s::text
 WHERE id = %(task)s::bigint OR family = %(task)s::bigint"""
"""The list of tasks has both once more, for the forks too."""


async def redact(line: Line, claim: Claim, redaction: Redaction) -> None:
    """Rewrite the rows that hold something to take out, and no others, in one transaction; their numbers stay.

    The server removes the old versions of these rows when it next cleans the table, which is asked for at once.
    """
    found = await line.ask(
        "SELECT id FROM task WHERE task_id = %(task)s::text AND epoch = %(epoch)s::bigint AND NOT ended",
        {"task": claim.task_id, "epoch": claim.fence},
    )
    if not found:
        known = await line.ask(LOOK, {"task": claim.task_id})
        if not known:
            raise TaskNotFound(claim.task_id)
        if known[0][0] == claim.fence:
            raise TaskEnded(f"task {claim.task_id!r} has ended ({known[0][4]}); an ended task never changes")
        raise StaleWriter(f"task {claim.task_id!r} has been taken over by another driver, or was given back")
    shared = await line.ask(f"{PIECES} SELECT id FROM line", {"task": claim.task_id, "after": 0})
    for (task,) in (found[0], *shared):  # what a fork shares shows the same secrets
        await _redact(line, claim, task, redaction)
    await line.ask("VACUUM event, task, artifact_piece", more_secs=LONG_SECS)


async def _redact(line: Line, claim: Claim, task: int, redaction: Redaction) -> None:
    connection = await line.connected()
    changed: list[tuple[str, bytes, bytes]] = []
    for name, digest in await line.ask(
        "SELECT artifact_id, digest FROM artifact_use WHERE task = %(task)s::bigint", {"task": task}
    ):
        data = await artifacts.get(line, bytes(digest))
        if (new := redaction.artifact(name, data)) != data:
            changed.append((name, bytes(digest), await artifacts.put(line, new)))
    async with connection.transaction():
        locked = await line.ask(
            "SELECT 1 FROM task WHERE task_id = %(task)s::text AND epoch = %(epoch)s::bigint FOR UPDATE",
            {"task": claim.task_id, "epoch": claim.fence},
        )
        if not locked:
            raise StaleWriter(
                f"task {claim.task_id!r} has been taken over by another driver, or was given back"
            )
        for name, _, digest in changed:
            await line.ask(
                "UPDATE artifact_use SET digest = %(digest)s::bytea WHERE task = %(task)s::bigint AND artifact_id = %(name)s::text",
                {"task": task, "name": name, "digest": digest},
            )
        rows = await line.ask(
            "SELECT seq, type, data FROM event WHERE task = %(task)s::bigint ORDER BY seq", {"task": task}
        )
        for seq, kind, data in rows:
            made = rewritten(kind, data, redaction)
            if made is None:
                continue
            await line.ask(
                "UPDATE event SET data = %(data)s::text WHERE task = %(task)s::bigint AND seq = %(seq)s::bigint",
                {"task": task, "seq": seq, "data": made.data},
            )
            for event in made.events:
                if isinstance(event, e.TaskSubmitted):
                    text = json.dumps(storable(event.description), ensure_ascii=False)
                    await line.ask(_LISTED, {"task": task, "text": text, "session": event.session})
    if changed:
        await artifacts.unused(line, [old for _, old, _ in changed], "0 seconds")
