"""Tasks that wait for somebody or have ended, told to an HTTP endpoint: signed, in order per task, at least once.

What an endpoint has not taken comes again with its batch; what it has taken of that is not sent again by this process. One that is down is tried with one
message at a time, for as long as it is. What it refuses because of what stands in it, while it takes others, is passed over in the end.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, NamedTuple

from pydantic_core import to_json

from replan import __version__
from replan.core.events import Record
from replan.core.ids import digest
from replan.core.report.notice import Kind, Notice, notice_of
from replan.core.secrets.signing import signature
from replan.core.types import JsonObject
from replan.core.words import in_digits
from replan.errors import ReplanError
from replan.ports import NotTaken

if TYPE_CHECKING:
    import httpx2

PREFIX = "webhook."
"""Of the name that a cursor is kept under."""
_BESIDE = 4
"""Tasks that an endpoint is told of at a time."""
_MOST_SENT = _MOST_KNOWN = 20_000
_OF_THE_ENDPOINT = frozenset({401, 402, 403, 404, 405, 407, 408, 410, 421, 425, 426, 429, 451, 511})
"""Answers that say nothing of what stands in the message; so do all from 500 on."""
log = logging.getLogger("replan.webhooks")


class Whose(NamedTuple):
    """What is known of a task beside its log."""

    tenant: str = ""
    description: str = ""


class Unfit(NotTaken):
    """The endpoint wants none of this message."""


class Waiting(NamedTuple):
    """An event that is to be told."""

    record: Record
    notice: Notice

    @property
    def place(self) -> tuple[str, int]:
        return self.record.task_id, self.record.seq

    @property
    def message_id(self) -> str:
        """The same whenever it is sent, and by whom."""
        task_id, seq, ts = self.record.task_id, self.record.seq, self.record.ts
        return "msg_" + digest(f"{task_id}\n{seq}\n{ts!r}")


class Webhook:
    """A consumer (`ports.Consumer`). `client`: makes a client that connects where it may; `whose`: None for a task that is gone;
    `masked`: the value without what is known to be secret here."""

    def __init__(
        self,
        name: str,
        url: str,
        keys: Sequence[bytes],
        *,
        client: Callable[[], httpx2.AsyncClient],
        whose: Callable[[str], Awaitable[Whose | None]],
        events: Sequence[Kind] = ("waiting", "ended"),
        tenants: Sequence[str] = (),
        timeout_secs: float = 15.0,
        give_up_secs: float = 900.0,
        masked: Callable[[JsonObject], JsonObject] | None = None,
    ) -> None:
        self.name = f"{PREFIX}{name}"
        self._url = url
        self._keys = keys
        self._client = client
        self._whose = whose
        self._events = frozenset(events)
        self._tenants = frozenset(tenants)
        self._timeout_secs = timeout_secs
        self._give_up_secs = give_up_secs
        self._masked = masked
        self._sent: dict[tuple[str, int], None] = {}
        """What it has taken of batches that come again."""
        self._unfit: dict[tuple[str, int], float] = {}
        """What it does not want, and since when."""
        self._well = float("-inf")
        """When it has taken something last."""
        self._down = False
        self._waits: dict[str, tuple[int, tuple[str, ...]]] = {}
        """By which event of each task it was told last what that waits for."""

    async def deliver(self, records: Sequence[Record]) -> None:
        tasks: dict[str, list[Waiting]] = {}
        for record in records:
            notice = notice_of(record.event)
            news = self._is_news(record, notice)
            if notice is not None and news and notice.kind in self._events:
                tasks.setdefault(record.task_id, []).append(Waiting(record, notice))
        if not tasks:
            return
        async with self._client() as client:
            if (trouble := await self._send_all(client, tasks)) is not None:
                raise trouble
        for told in tasks.values():
            for each in told:
                self._sent.pop(each.place, None)
                self._unfit.pop(each.place, None)

    def _is_news(self, record: Record, notice: Notice | None) -> bool:
        """False of a task that waits as it did before: it had looked at something else meanwhile, or another process has it."""
        task_id = record.task_id
        if notice is None:
            if record.event.signal:  # a person has said something
                self._waits.pop(task_id, None)
            return True
        before = self._waits.pop(task_id, None)
        if notice.kind == "ended":
            return True
        if before is not None and before[1] == notice.waits_on and before[0] < record.seq:
            self._waits[task_id] = before
            return False
        self._waits[task_id] = record.seq, notice.waits_on
        while len(self._waits) > _MOST_KNOWN:
            del self._waits[next(iter(self._waits))]
        return True

    async def _send_all(self, client: httpx2.AsyncClient, tasks: dict[str, list[Waiting]]) -> NotTaken | None:
        """What was in the way, if anything. Once the endpoint is down no other task is tried."""
        left = iter(list(tasks.values()))
        beside = 1 if self._down else min(_BESIDE, len(tasks))
        self._down = False
        troubles: list[NotTaken] = []

        async def some() -> None:
            for told in left:
                if self._down:
                    return
                try:
                    await self._send_in_order(client, told)
                except Unfit as trouble:
                    troubles.append(trouble)
                except ReplanError as trouble:
                    troubles.insert(0, trouble if isinstance(trouble, NotTaken) else NotTaken(str(trouble)))
                    self._down = True

        async with asyncio.TaskGroup() as group:
            for _ in range(beside):
                group.create_task(some())
        return troubles[0] if troubles else None

    async def _send_in_order(self, client: httpx2.AsyncClient, told: Sequence[Waiting]) -> None:
        for each in told:
            if each.place in self._sent:
                continue
            whose = await self._whose(each.record.task_id)
            if not self._tenants or (whose is not None and whose.tenant in self._tenants):
                try:
                    await self._send(client, each, whose or Whose())
                except Unfit as trouble:
                    if not self._gives_up(each, trouble):
                        raise
            self._sent[each.place] = None
            while len(self._sent) > _MOST_SENT:
                del self._sent[next(iter(self._sent))]

    def _gives_up(self, each: Waiting, trouble: Unfit) -> bool:
        """Whether it is passed over: it has come often enough, and others were taken meanwhile."""
        now = time.monotonic()
        since = self._unfit.setdefault(each.place, now)
        if now - since < self._give_up_secs or self._well <= since:
            return False
        log.error(
            "%s does not take message %s (event %d of task %s), which is passed over: %s",
            self.name,
            each.message_id,
            each.record.seq,
            each.record.task_id,
            trouble,
        )
        return True

    async def _send(self, client: httpx2.AsyncClient, each: Waiting, whose: Whose) -> None:
        import httpx2

        said = each.notice.message(each.record, tenant=whose.tenant, description=whose.description)
        body = to_json(
            self._masked(said) if self._masked is not None else said,
            inf_nan_mode="null",
            serialize_unknown=True,
        )
        now = int(time.time())
        headers = {
            "content-type": "application/json",
            "user-agent": f"replan/{__version__}",
            "webhook-id": each.message_id,
            "webhook-timestamp": str(now),
            "webhook-signature": signature(self._keys, each.message_id, now, body),
        }
        try:
            async with (
                asyncio.timeout(self._timeout_secs),
                client.stream("POST", self._url, content=body, headers=headers) as answer,
            ):
                status, wanted = answer.status_code, answer.headers.get("retry-after", "")
        except TimeoutError:
            raise NotTaken(f"no answer within {in_digits(self._timeout_secs)} s") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise NotTaken(f"not reached: {error or type(error).__name__}") from None
        _taken(status, wanted)
        self._well = time.monotonic()


def _taken(status: int, retry_after: str) -> None:
    """`NotTaken` where the answer is no yes."""
    if 200 <= status < 300:
        return
    after = _secs(retry_after)
    if 300 <= status < 400:
        raise NotTaken(
            f"answered {status}: it sends on to another place, which is not followed; name that place as its url"
        )
    if status == 410:
        raise NotTaken(
            "answered 410: it is gone for good; take it out of [webhooks.endpoints], and forget its cursor"
        )
    if status in _OF_THE_ENDPOINT or not 400 <= status < 500:
        raise NotTaken(f"answered {status}", after_secs=after)
    raise Unfit(f"answered {status}", after_secs=after)


def _secs(retry_after: str) -> float:
    """Seconds, or a date."""
    text = retry_after.strip()
    if text.isascii() and text.isdecimal() and len(text) < 10:
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return 0.0
