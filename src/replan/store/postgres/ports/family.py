"""Forks, and which of their family makes a call."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from replan.core import events as e
from replan.core.limits import needs
from replan.errors import (
    Overtaken,
    SealedElsewhere,
    StaleWriter,
    TaskExists,
    TaskGivenAway,
    TaskGoneFrom,
    TaskNotFound,
)
from replan.ports import Claim, Counted, Member, Shared, Taken
from replan.store.forks import family_is_elsewhere
from replan.store.moving import EPOCH_BITS
from replan.store.postgres import statements as sql
from replan.store.postgres.line import Params
from replan.store.postgres.ports.task_list import TaskList
from replan.store.postgres.presence import told as notice


class Family(TaskList):
    """Forks, and which of their family makes a call."""

    async def fork(
        self,
        task_id: str,
        event: e.TaskForked,
        told: e.ForkMade,
        ts: float,
        *,
        work: needs.Work | None = None,
        turn: Counted | None = None,
    ) -> bool:
        params: Params = {
            "tenant": None if turn is None else turn.tenant, "seen": None if turn is None else turn.seen,
            "task": task_id, "request": event.request(), "ts": ts, "epoch": secrets.randbits(EPOCH_BITS),
            "at": event.at, "type": event.type, "data": e.dump(event),
            "told_type": told.type, "told_data": e.dump(told), "mark": secrets.token_hex(8),
            "queue": None if work is None else work.line,
            "priority": 0 if work is None else work.priority,
            "needs": "" if work is None else work.needs.model_dump_json(), "mine": self._presence.mine,
        }  # fmt: skip

        async def known() -> bool | None:
            rows = await self._ask_again(sql.KNOWN, {"task": task_id})
            if rows and rows[0][0] != params["request"]:
                raise TaskExists(task_id)
            return rows[0][1] == params["epoch"] if rows else None  # True: ours, the first answer was lost

        async def forked() -> bool:
            if (there := await known()) is not None:
                return there
            if await self._ask_again(sql.GONE, {"task": task_id}):
                raise TaskGoneFrom(task_id)
            which, where = "task_id = %(origin)s::text", {"origin": event.origin, "at": event.at}
            rows = await self._ask_again(sql.ORIGIN.format(which=which), where)
            if not rows:
                raise TaskNotFound(event.origin)
            if rows[0][6] is not None:
                raise SealedElsewhere(event.origin)
            _refuse_given(rows[0])
            event.check_place(rows[0][4], ended=rows[0][3])
            while event.at <= rows[0][2]:  # what is shared is not that task's own
                where = {"parent": rows[0][1], "at": event.at}
                rows = await self._ask_again(sql.ORIGIN.format(which="id = %(parent)s::bigint"), where)
                _refuse_given(rows[0])
            parent, *_, params["round"], _sealed, _given, _name = rows[0]
            params["parent"] = parent
            if elsewhere := await self._ask_again(sql.KIN_GONE, params):
                raise family_is_elsewhere(event.origin, elsewhere[0][0])
            name = await self._ask_again("SELECT task_id FROM task WHERE id = %(parent)s::bigint", params)
            params["told"] = notice(self._presence.mine, [row[0] for row in name], signal=True)
            made = await self._ask_again(sql.FORK, params)
            if made:
                self._ears.changed(made[0][0], signal=True)
                return True
            if (there := await known()) is None:
                again = await self._ask_again(sql.ORIGIN.format(which="id = %(parent)s::bigint"), params)
                _refuse_given(again[0] if again else ())  # just now
                if again and turn is not None:
                    raise Overtaken(turn.seen)
                raise TaskNotFound(event.origin)
            return there

        return await self._do(forked())

    async def rests_on(self, task_id: str) -> list[Shared]:
        await self.summary(task_id)
        rows = await self._do(self._ask_again(sql.RESTS_ON, {"task": task_id, "after": 0}))
        return [Shared(*row) for row in rows]

    async def forks(self, task_id: str) -> list[Shared]:
        await self.summary(task_id)
        return [Shared(*row) for row in await self._do(self._ask_again(sql.FORKS, {"task": task_id}))]

    async def family(self, task_id: str) -> list[Member]:
        rows = await self._do(self._ask_again(sql.FAMILY, {"task": task_id}))
        if not rows:
            raise TaskNotFound(task_id)
        return [Member(*row) for row in rows]

    async def take(self, claim: Claim, key: str, *, over: Taken | None = None) -> Taken:
        params: Params = {
            "task": claim.task_id, "epoch": claim.fence, "key": key,
            "over": None if over is None else over.task_id, "times": -1 if over is None else over.times,
        }  # fmt: skip
        rows = await self._do(self._ask_again(sql.TAKE, params))
        if not rows:
            raise StaleWriter(
                f"task {claim.task_id!r} has been taken over by another driver, or was given back"
            )
        return Taken(rows[0][0] or "", rows[0][1])

    async def who_has(self, task_id: str, keys: Sequence[str]) -> dict[str, str]:
        rows = await self._do(self._ask_again(sql.WHO_HAS, {"task": task_id, "keys": list(keys)}))
        return {key: owner or "" for key, owner in rows}

    async def reserve(self, task_id: str, keys: Sequence[str]) -> None:
        await self._do(self._ask_again(sql.RESERVE, {"task": task_id, "keys": list(keys)}))


def _refuse_given(origin: Sequence[Any]) -> None:
    """`TaskGivenAway` for a row of `statements.ORIGIN` that a file has."""
    if origin and origin[7] is not None:
        raise TaskGivenAway(origin[8], origin[7])
