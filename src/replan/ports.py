"""Every seam: what the loop needs from the outside, as small protocols."""

from __future__ import annotations

import asyncio
import json
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from concurrent.futures import Future
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from pydantic import Field

from replan.core.events import AnyEvent, ForkMade, Record, TaskForked, TaskSubmitted
from replan.core.kinds.known import Known
from replan.core.limits.needs import Work
from replan.core.limits.prices import Price as Price
from replan.core.limits.prices import tokens_in
from replan.core.plain_calls import Recorded
from replan.core.references.kept import id_of, name_of
from replan.core.secrets import KnownSecrets
from replan.core.state.task import ENDED
from replan.core.tools.rules import Named
from replan.core.tools.stats import ToolKey, ToolStats
from replan.core.types import Artifact, Effect, Frozen, JsonObject, Role, ToolId, ToolSpec, Usage


class Clock(Protocol):
    """Wall time in Unix seconds, and waiting. Deadlines use the event loop's own time."""

    def now(self) -> float: ...
    async def sleep(self, secs: float) -> None: ...


class Ids(Protocol):
    """New unique ids."""

    def new(self, prefix: str) -> str: ...


# ── tools ─────────────────────────────────────────────────────────────────────


class Progress(NamedTuple):
    message: str = ""
    progress: float | None = None
    total: float | None = None


class Question(NamedTuple):
    """What a tool asks a person while it runs. `json_schema`: of the answer, an object."""

    message: str
    json_schema: JsonObject


class Content(NamedTuple):
    """What `Contents.keep` has stored."""

    digest: str
    """SHA-256, as hex."""
    size: int


class KeptOutput(NamedTuple):
    """What a source gives in place of a value that it has had stored piece by piece (`ToolCall.keep`)."""

    content: Content
    media_type: str
    head: str = ""
    tail: str = ""
    shape: str = ""
    masked: bool = False
    """A secret was cut out of it."""

    @property
    def name(self) -> str:
        """What stands for it in a value that holds it (`WithFiles`)."""
        return name_of(id_of(self.content.digest))


class WithFiles(NamedTuple):
    """What a source gives whose value holds files: they stand in it by their names."""

    value: Any
    files: tuple[KeptOutput, ...]


class ToolCall(NamedTuple):
    """One call as a source gets it. `parameters` have passed the tool's schema."""

    tool_id: str
    parameters: JsonObject
    key: str
    """The idempotency key: the same for every attempt of the same call."""
    task_id: str = ""
    step_id: str = ""
    attempt: int = 1
    deadline_secs: float | None = None
    """Seconds left when the call was made."""
    report: Callable[[Progress], None] | None = None
    ask: Callable[[Question], Awaitable[JsonObject | None]] | None = None
    """Asks a person; None, or an answer of None: nobody answers, and the tool is told so."""
    effect: Effect | None = None
    """The tool's effect as the user has decided it; None: as its source says. It binds a source that sends again."""
    late: Callable[[asyncio.Future[Any] | Future[Any]], None] | None = None
    """Told of what will end as the call's work ends, by a source whose work goes on after the call was stopped."""
    keep: Callable[[AsyncIterable[bytes], str], Awaitable[KeptOutput]] | None = None
    """Stores an output that comes piece by piece, of that media type; what it gives is what the call gives."""
    open: Callable[[str], AsyncIterator[bytes]] | None = None
    """The bytes of an artifact of the task, for a parameter that stands for one (`core.references.kept`)."""
    known_file: Callable[[str], Artifact | None] | None = None
    """What is known of such an artifact: how large it is, and of which type."""
    trace: str = ""
    """Of whoever has submitted the task (32 hexadecimal digits); empty: the task's own."""
    keys_in: str | None = None
    """The memory of keys (`ToolSpec.keys_in`) that an earlier attempt of the call has relied on; empty: none. None: nobody knows."""


class ToolProblem(NamedTuple):
    """Why a source, or one of its tools, cannot be used as it is."""

    message: str
    tool: str | None = None


class ToolSource(Protocol):
    """Some tools and how to call them.

    `call` returns a value that JSON can hold. It raises `ToolCallError` (or any exception, which counts as an
    error that the tool itself reports), and passes an `asyncio.CancelledError` on to the tool.
    """

    name: str

    def tools(self) -> Coroutine[Any, Any, Sequence[ToolSpec]]: ...
    def call(self, call: ToolCall) -> Coroutine[Any, Any, Any]: ...
    def aclose(self) -> Coroutine[Any, Any, None]: ...


@runtime_checkable
class Watched(Protocol):
    """A source whose list may change while it is open."""

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` in the event loop when the tools may be others than those last listed."""
        ...


@runtime_checkable
class Reporting(Protocol):
    """A source that can tell what it left out."""

    def problems(self) -> Sequence[ToolProblem]:
        """What went wrong with the latest listing, apart from what `tools` has raised."""
        ...


@runtime_checkable
class Discreet(Protocol):
    """A source that has keys or passwords of its own, which nobody may see."""

    secrets: KnownSecrets
    """What it knows, added to when it comes to know more (a token, say)."""


class Gate(Protocol):
    """The limits of one tool: how many calls side by side, how many in a time."""

    def try_enter(self) -> bool:
        """Take a call's right to be made, if there is one now and nobody waits for it."""
        ...

    async def enter(self, urgency: float = 0.0) -> None:
        """Wait for it; of those who wait, the most urgent comes first."""
        ...

    def opens_in_time(self) -> bool:
        """True if whoever waits is let in as time passes, whatever becomes of the calls inside."""
        ...

    def begin(self) -> None:
        """The call is made now."""
        ...

    def leave(self) -> None:
        """The call has ended."""
        ...

    def give_back(self) -> None:
        """The right is not used: the call is not made after all."""
        ...


class Tools(Protocol):
    """Many sources as one: what the loop sees of them."""

    def specs(self) -> list[ToolSpec]: ...
    def resolve(self, name: str) -> ToolSpec | None:
        """The tool of that id, name or alias, whatever its case and separators."""
        ...

    def nearest(self, name: str, n: int = 3) -> list[str]: ...
    @property
    def problems(self) -> Sequence[object]:
        """Sources and tools that cannot be used, each with the reason as its text."""
        ...

    def gate(self, tool_id: ToolId) -> Gate | None:
        """The tool's limits, where it has any; whoever calls it enters first, begins, and leaves."""
        ...

    async def call(self, call: ToolCall) -> Any: ...


class Kinds(Protocol):
    """The scenes and workflows that there are."""

    def at_hand(self) -> Known | None:
        """Those that there are now, where nothing has to be looked at for it; None: ask `current`."""
        ...

    def scenes_at_hand(self) -> Known | None:
        """The same where only scenes matter."""
        ...

    async def current(self) -> Known: ...


@runtime_checkable
class Denies(Protocol):
    """`Tools` that know of tools which are there and may not be used."""

    def denied(self, name: str) -> bool:
        """True for the id of such a tool."""
        ...


@runtime_checkable
class Names(Protocol):
    """`Tools` that know by which names each may be meant in a pattern."""

    def named(self, tool_id: ToolId) -> Named | None: ...


# ── models ────────────────────────────────────────────────────────────────────


class Turn(Frozen):
    """One message of a conversation with a model."""

    role: Literal["user", "assistant"]
    text: str


class Watcher(Protocol):
    """Whoever asks a model, told of what happens on the way to the answer."""

    def sending(self, because: str = "") -> None:
        """A request goes out now, `because` the one before came to nothing. Raises what forbids it."""
        ...

    def room(self) -> int | None:
        """About how many tokens the answer to the request under way may have by the limits; None where none is set."""
        ...

    def came(self, tokens: int) -> None:
        """So many tokens of that answer have come, by estimate. Raises what forbids more."""
        ...

    def used(self, usage: Usage) -> None:
        """What a request has used whose answer is no answer."""
        ...

    def tell(self, message: str, *, once: bool = False) -> None:
        """A sentence for people; `once`: not again in this task."""
        ...


class ModelRequest(Frozen):
    """One structured question. `schema_name` is the contract name of the answer (see the specification, §13)."""

    role: Role
    schema_name: str
    json_schema: JsonObject
    instructions: str
    turns: tuple[Turn, ...]
    temperature: float | None = None
    timeout_secs: float | None = None
    max_tokens: int | None = None
    watcher: Any = Field(default=None, exclude=True, repr=False)
    """A `Watcher`, or None. A model that makes several requests for one answer tells it of each."""

    unread: int = Field(default=0, exclude=True, repr=False)
    """So many ways of asking this have brought nothing that has the form of an answer. No part of the request."""

    @property
    def tokens(self) -> int:
        """About how many tokens are asked."""
        return tokens_in(
            (
                self.instructions,
                json.dumps(self.json_schema, default=str),
                *(turn.text for turn in self.turns),
            )
        )

    hide: Callable[[str], str] | None = Field(default=None, exclude=True, repr=False)
    """Takes the secrets out of a text that is to be written down: the answer, an error. No part of the request."""


class ModelReply(Frozen):
    """A model's answer as it came: text that should be JSON, and what it cost."""

    text: str
    model: str = ""
    usage: Usage = Usage()
    endpoint: str = ""
    """Which of several models or endpoints answered, where there are several."""
    other_ways: bool = Field(default=False, exclude_if=lambda value: not value, repr=False)
    """The same may be asked in another way, should this not have the form of an answer (`ModelRequest.unread`)."""
    could_be_read: Callable[[], None] | None = Field(default=None, exclude=True, repr=False)
    """Told by whoever has read the answer that it had the form of one."""


class Model(Protocol):
    """Something that answers. `ask` raises `ModelUnavailable`; `on_text` is told each piece as it comes."""

    name: str
    style: Literal["standard", "small"]
    """Which prompts suit it: `small` for models that need few words and typed schemas."""

    async def ask(
        self, request: ModelRequest, on_text: Callable[[str], None] | None = None
    ) -> ModelReply: ...
    async def aclose(self) -> None: ...


@runtime_checkable
class Priced(Protocol):
    """A model that can say beforehand what it costs, or that nobody knows."""

    name: str

    def price(self) -> Price | None: ...


@runtime_checkable
class Replayed(Protocol):
    """A model that answers from a recording, which has what was read of earlier tasks, too."""

    name: str

    def previous_read(self, task: str) -> JsonObject | None:
        """What a task of these words has read, the next time it did; None where that was not recorded."""
        ...

    def knows_previous(self, task: str) -> bool:
        """Whether there is such a reading left."""
        ...


@runtime_checkable
class Records(Protocol):
    """A model whose answers are recorded, with what is read of earlier tasks."""

    name: str

    def keep_previous(self, task: str, read: JsonObject) -> None: ...


@runtime_checkable
class Warmable(Protocol):
    """A model that takes long to load and may be told to begin."""

    style: Literal["standard", "small"]

    def warm(self, instructions: str = "") -> None: ...


# ── event log ─────────────────────────────────────────────────────────────────


class Claim(NamedTuple):
    """The right to write a task's log, until somebody claims it anew."""

    task_id: str
    fence: int


class Appended(NamedTuple):
    """Where the events of one `append` went. A gap before `first` means that others have written signals."""

    first: int
    last: int


class Landing(asyncio.Future[Any]):
    """What a store may give for an append that another thread carries out: it tells of its end as that comes.

    Callbacks are called a turn of the event loop later.
    """

    told: Callable[[asyncio.Future[Any]], None] | None = None
    """Called in the event loop as it is done, and forgotten: whoever keeps what was settled keeps nobody who was told."""

    def cancel(self, msg: Any = None) -> bool:
        cancelled = super().cancel(msg)
        told, self.told = self.told, None
        if cancelled and told is not None:
            told(self)
        return cancelled


class NewArtifact(NamedTuple):
    """A large output to be stored with the events that name it."""

    artifact_id: str
    data: bytes = b""
    kept: Content | None = None
    """It is stored already, without being a task's."""


class TaskSummary(NamedTuple):
    """One row of the task list, a reading of the log."""

    task_id: str
    status: str
    description: str
    created: float
    updated: float
    last_seq: int
    held: bool
    """A living process drives it."""
    queue: str = ""
    """Of a task that workers take."""
    due: bool = False
    """Something was asked of the workers that none has taken up yet."""
    given_away: str = ""
    """A file of an export has it, and nobody goes on with it here: the SHA-256 in the end of that file."""
    tenant: str = ""
    """Whose it is, in a service."""
    session: str = ""
    """`context.session_id` of the request."""
    rewritten: int = 0
    """It grows when stored events of its history are written anew (`EventLog.redact`): what was read of them before is out of date."""
    left: bool = False
    """Whoever has driven it last is gone, and had not let go of it."""

    @property
    def lacks_worker(self) -> bool:
        """A worker should drive it, and none does."""
        idle = self.status in ENDED or (self.status == "waiting" and not self.due)
        return self.queue != "" and not self.held and not idle and not self.given_away


class Listening(Protocol):
    """Being told of something, until it is closed."""

    def close(self) -> None: ...


class Redaction(Protocol):
    """What is taken out of stored things; called in a thread of the store's, artifacts first."""

    def artifact(self, artifact_id: str, data: bytes) -> bytes:
        """The artifact as it should have been stored; the same if nothing is to be taken out."""
        ...

    def event(self, event: AnyEvent) -> AnyEvent:
        """The event as it should have been recorded; the same object if nothing is to be taken out."""
        ...


class Counted(NamedTuple):
    """Leave to store a task of a tenant, as long as no other process has stored one by a later count."""

    tenant: str
    seen: int
    """How many had been let in when it was counted what the tenant may still do."""


class EventLog(Protocol):
    """The append-only log of every task. Raises `StoreError` and its kinds."""

    async def create(
        self, task_id: str, event: TaskSubmitted, ts: float, *, turn: Counted | None = None
    ) -> bool:
        """Store a new task; True if it was new, False if the same request was there, else `TaskExists`
        (`TaskGoneFrom` where it was given away).

        `turn`: of a tenant with limits; `Overtaken`, and nothing is stored, where it does not hold any more.
        """
        ...

    async def claim(self, task_id: str, *, steal: bool = False) -> Claim:
        """Take the task; `TaskHeld` if a living driver has it, unless `steal`. The older fence is void."""
        ...

    async def confirm(self, claim: Claim) -> None:
        """`StaleWriter` if the claim does not hold any more."""
        ...

    async def release(self, claim: Claim) -> None:
        """Give the task back, if the claim still holds."""
        ...

    def append(
        self,
        claim: Claim,
        events: Sequence[Recorded],
        *,
        ts: float,
        round: int,
        artifacts: Sequence[NewArtifact] = (),
        heard: int | None = None,
    ) -> asyncio.Future[Appended]:
        """Queue events in order, all or none; done when they are durable. `StaleWriter` if fenced out.

        Some may stand for two (`core.plain_calls.spelled_out`): the log has each by itself. `heard`: only if nobody has written to the
        task after that event; else `NotHeard`, nothing of it is written, and the claim holds on.
        """
        ...

    def redact(self, claim: Claim, redaction: Redaction) -> asyncio.Future[None]:
        """Queue a rewriting of what the task's log and artifacts hold so far; done when nothing else is left of it.

        The one exception to a log that only grows: for what turns out to be secret after it was stored.
        """
        ...

    async def signal(self, task_id: str, event: AnyEvent, ts: float, *, heard: int | None = None) -> Record:
        """A person's event: needs no claim. `TaskEnded` once the task has ended.

        `heard`: only if nobody has written to the task after that event; else `NotHeard`, and nothing is written.
        """
        ...

    async def read(
        self, task_id: str, after: int = 0, limit: int | None = None, *, signals_only: bool = False
    ) -> list[Record]: ...

    async def picked(self, after: Mapping[str, int], kinds: Collection[str]) -> dict[str, list[Record]]:
        """Of many tasks, each with the last event that is known of it: their own later events of these kinds, in order.

        What a fork shares is not its own. A task that is not there, or has none, is left out.
        """
        ...

    def follow(self, task_id: str, after: int = 0) -> AsyncIterator[Record]:
        """Every record from `after` on, live, from any process; ends after the task's last event."""
        ...

    def listen(self, task_id: str, tell: Callable[[], None]) -> Listening:
        """Call `tell` in the event loop whenever people have written to the task, from any process.

        What they wrote can then be read with `signals_only`. It may be called once too often, never once too few.
        """
        ...


class TaskIndex(Protocol):
    """The list of tasks, newest first."""

    async def list_tasks(
        self,
        *,
        status: Sequence[str] = (),
        limit: int = 100,
        before: str | None = None,
        tenant: str | None = None,
        session: str | None = None,
    ) -> list[TaskSummary]:
        """`tenant`: of that one alone; None: of all. `before`: those that are older than this task, which has to be of that tenant."""
        ...

    async def let_in(self, tenant: str) -> int:
        """How many tasks of the tenant were stored with a `Counted`."""
        ...

    async def count_tasks(self, tenant: str | None = None, *, unfinished: bool = False) -> int:
        """How many there are; `unfinished`: of those that have not ended."""
        ...

    async def summary(self, task_id: str) -> TaskSummary: ...
    def others(self) -> bool:
        """True if another living process has this database open, or if that cannot be told."""
        ...

    async def delete(self, task_id: str, *, unfinished: bool = False) -> None:
        """Remove a task with its log and artifacts. `TaskHeld` if somebody drives it; `InputError` if it has not ended,
        unless `unfinished` ones may go too; `TaskShared` if forks rest on it."""
        ...


class Shared(NamedTuple):
    """Of two tasks that share a history, the other one; and the last event that is shared."""

    task_id: str
    upto: int


class Member(NamedTuple):
    """One of a family of forks, and the last event that its log has by now."""

    task_id: str
    created: float
    last_seq: int


class Taken(NamedTuple):
    """Which task of a family makes a call."""

    task_id: str
    """Empty: one that was deleted."""
    times: int
    """How often it was taken so far: it goes up with each try."""


class Forks(Protocol):
    """Tasks that share the beginning of their logs, by reference: what is read of a fork begins with the other task's events.

    A family is a task with its forks and theirs. A call that must not be made twice is made by one of them.
    """

    async def fork(
        self,
        task_id: str,
        event: TaskForked,
        told: ForkMade,
        ts: float,
        *,
        work: Work | None = None,
        turn: Counted | None = None,
    ) -> bool:
        """Store a new task that goes on from `event.at` of `event.origin`; `told` goes to the log that it rests on, if that has not
        ended. True if it was new, False if the same fork was there; `InputError` if there is no such event.

        `work`: how it waits for a worker. `turn`: as of `create`.
        """
        ...

    async def rests_on(self, task_id: str) -> list[Shared]:
        """The tasks whose events this one's log begins with, the oldest first: they cannot be deleted before it."""
        ...

    async def forks(self, task_id: str) -> list[Shared]:
        """The tasks that rest on this one's own events, in the order they came."""
        ...

    async def family(self, task_id: str) -> list[Member]:
        """All tasks that share some history with this one, and itself: each after the one that it was forked from."""
        ...

    async def take(self, claim: Claim, key: str, *, over: Taken | None = None) -> Taken:
        """Take a call for this task, unless another one of its family has it; who has it now.

        `over`: also where that one has it, if it has not taken it once more since. `StaleWriter` if fenced out.
        """
        ...

    async def reserve(self, task_id: str, keys: Sequence[str]) -> None:
        """These calls are that task's, unless one of its family has taken them: made before it had forks."""
        ...


class ArtifactStore(Protocol):
    """Large outputs, by task and id; those of the tasks that it rests on are a fork's, too."""

    async def artifact(self, task_id: str, artifact_id: str) -> bytes:
        """`StoreDamaged` if it is not what was stored."""
        ...


class Contents(Protocol):
    """The same in pieces, for what no memory should have whole."""

    def pieces(self, task_id: str, artifact_id: str) -> AsyncIterator[bytes]:
        """An artifact, in order; `StoreDamaged` at its end if it is not what was stored."""
        ...

    async def part(self, task_id: str, artifact_id: str, start: int, size: int) -> bytes:
        """So many bytes from there on, less at the end. Whether it is what was stored shows only where all of it is read."""
        ...

    async def keep(self, pieces: AsyncIterable[bytes]) -> Content:
        """Store a content that a task is about to use (`NewArtifact.kept`); what is not used within the hour may be
        removed. Of one that breaks off nothing is left."""
        ...


class StoredRow(NamedTuple):
    """Some events of a task as they lie in the store: one of a kind, or several of the kind `+` (`seq`: of the last)."""

    seq: int
    ts: float
    round: int
    type: str
    data: str


class StoredTask(NamedTuple):
    """What a store keeps of a task beside its own rows, and another one has to know."""

    task_id: str
    request: str
    """The digest of what was asked."""
    created: float
    artifacts: tuple[tuple[str, Content], ...] = ()
    parent: str | None = None
    """Of a fork: the task whose events, up to `shared`, its log begins with."""
    shared: int = 0
    taken: tuple[tuple[str, str | None, int], ...] = ()
    """The calls that its family has taken, of the first of their line: key, who has it, how often it was taken."""
    sealed_by: str | None = None
    """Of a task that came from another store, and has calls with secrets in it: that store (`seal_mark`)."""


class Admission(NamedTuple):
    """A task that comes from another store: checked, its contents kept already, after the one that it rests on."""

    task: StoredTask
    rows: Callable[[], Iterable[StoredRow]]
    """Each time from the first."""
    status: str
    ended: bool
    description: str
    work: Work | None
    """How it waits for a worker."""
    due: bool
    """Something is to be done for it now: it neither has ended nor waits for a person."""
    last_seq: int = 0
    """The number of its last event."""
    tenant: str = ""
    session: str = ""


@runtime_checkable
class Movable(Protocol):
    """A store whose tasks can be moved to another."""

    async def stored(self, task_id: str) -> StoredTask: ...
    async def rows(self, task_id: str, after: int = 0, limit: int = 500) -> list[StoredRow]: ...
    async def admit(self, admissions: Sequence[Admission], digest: str, *, not_gone_on: bool = False) -> None:
        """Take the tasks of the file with this digest in, all or none. `TaskExists` if one of them is there.

        `InputError` if one that has not ended came in or was given away before with more of its history than here, or with this very
        file, and is gone: it may have gone on, here or where it went. `not_gone_on`: somebody knows that it has not."""
        ...

    async def undelivered(self, task_ids: Collection[str]) -> list[tuple[str, str]]:
        """Which of the tasks some consumer of the log has not got all of, and which consumer."""
        ...

    async def give_away(self, claims: Mapping[Claim, int], digest: str) -> None:
        """Mark tasks whose logs end there, all or none: from now on a file has them, nobody claims them, writes to them or forks them
        here. Their claims are void. `StaleWriter` if a claim holds no more or a log goes on, `TaskShared` if another task rests on one."""
        ...

    async def remove_given(self, task_ids: Sequence[str], digest: str) -> None:
        """Remove tasks that are marked so, all or none; some may be gone already. `StaleWriter` if one is here that is not marked so."""
        ...

    async def take_back(self, task_ids: Sequence[str], digest: str | None = None) -> list[str]:
        """Take the marks off, so that the tasks go on here; `digest`: only this mark. Those that had it."""
        ...


class KeptTask(NamedTuple):
    """What a task takes up in the store."""

    task_id: str
    status: str
    updated: float
    log_bytes: int
    contents: tuple[tuple[str, int, int], ...]
    """Its large outputs: digest, size, and how many tasks use it."""
    forks: tuple[str, ...]
    """Tasks that rest on its history."""
    undelivered: bool
    """Some consumer of the log has not got all of it yet."""
    number: int
    """The store's own: the newer, the higher."""


@runtime_checkable
class Tidy(Protocol):
    """A store that can be freed of what nobody needs any more."""

    async def sizes(
        self,
        *,
        status: Collection[str],
        before: float | None = None,
        below: int | None = None,
        limit: int = 100,
    ) -> list[KeptTask]:
        """Tasks with one of these statuses in which nothing has happened since `before`, newest first; `below`: those with a
        lower number. One that somebody drives may be among them."""
        ...

    async def sweep(self) -> int:
        """Remove contents that no task uses: half-written ones, and those of tasks that are gone. How many."""
        ...

    async def give_back(self) -> None:
        """Give free space back to the disk, as far as the database can while others use it."""
        ...

    async def now(self) -> float | None:
        """The clock that all who use the database share, which the age of tasks goes by; None: there is none but each one's own."""
        ...

    async def lived_since(self, before: float) -> float | None:
        """Of the tasks in which something has happened since `before`: when that was in the one where it is the longest ago."""
        ...

    async def tidy_due(self, secs: float) -> bool:
        """Whether the last time is so long ago, over all processes; if it is, this is the next one."""
        ...

    async def not_tidied(self) -> None:
        """It came to nothing: whoever asks next is to do it."""
        ...


class ToolMemory(Protocol):
    """How tools have done so far, across tasks and processes."""

    async def add_tool_stats(self, more: Mapping[ToolKey, ToolStats]) -> None:
        """Add what was counted since the last time."""
        ...

    async def tool_stats(self) -> dict[ToolKey, ToolStats]: ...
    async def remember_tools(self, names: Mapping[str, Collection[str]]) -> None:
        """Keep the names that sources have listed, in place of those that were kept before."""
        ...

    async def remembered_tools(self) -> dict[str, tuple[str, ...]]: ...


class Store(EventLog, TaskIndex, Forks, ArtifactStore, Contents, ToolMemory, Protocol):
    """One database that does all of it."""

    shown: str
    """Where it is, for people: a file, or an address without its password."""

    async def seal_key(self) -> bytes:
        """The key of this database's seals (`core.calls.seals`), made when it is asked for first; the same ever after."""
        ...

    async def aclose(self) -> None: ...


# ── who may call a service ─────────────────────────────────────────────────────


class StoredKey(NamedTuple):
    """An API key, without its secret."""

    key_id: str
    tenant: str
    name: str
    digest: str
    """SHA-256 of the secret, as hex."""
    scopes: tuple[str, ...]
    created: float
    expires: float | None = None
    revoked: float | None = None
    last_used: float | None = None
    """Not to the second."""


class Keys(Protocol):
    """API keys, and what tenants may use."""

    async def add_key(self, key: StoredKey) -> None:
        """`InputError`: the tenant has another key of that name, which is not revoked."""
        ...

    async def key(self, key_id: str) -> StoredKey | None: ...
    async def list_keys(self, tenant: str | None = None) -> list[StoredKey]:
        """Of one tenant, or all; the revoked ones too, newest first."""
        ...

    async def revoke_key(self, key_id: str, ts: float) -> bool:
        """False: it was revoked before. `InputError`: there is none."""
        ...

    async def key_used(self, key_id: str, ts: float) -> None: ...
    async def tenant_limits(self, tenant: str) -> JsonObject | None:
        """None: it has none of its own."""
        ...

    async def set_tenant_limits(self, tenant: str, limits: JsonObject | None) -> None: ...


@runtime_checkable
class HasKeys(Protocol):
    """A store that keeps keys."""

    def keys(self) -> Keys: ...


# ── delivery of the log ────────────────────────────────────────────────────────


class Delivered(NamedTuple):
    """How far a batch goes in one task."""

    task: int
    """The store's own number of it."""
    seq: int
    ts: float
    ends: bool
    """Nothing can come after it."""


class Batch(NamedTuple):
    """What a consumer gets next: each task's events in order, several tasks one after the other."""

    records: Sequence[Record]
    reached: Sequence[Delivered]


class Reading(NamedTuple):
    """The right to move a consumer's cursor, until somebody else takes it over."""

    consumer: str
    fence: int


class ConsumerState(NamedTuple):
    """How a consumer is doing."""

    name: str
    read: bool
    """A living process delivers to it."""
    events_behind: int
    tasks_behind: int
    """Tasks with events that it has not got. At most `MOST_BEHIND` are counted, with their events."""
    behind_since: float | None
    """When the oldest of these events was stored, in Unix seconds."""
    delivered: float | None
    """When it last took something."""
    failures: int
    """Batches that it has refused in a row."""
    error: str | None


MOST_BEHIND = 1_000


class Outbox(Protocol):
    """Where the log is delivered from: every stored event of every task, to each consumer that is registered, at least once.

    A consumer's cursor is a number in each task. Events of a task are seen in their order whatever else is under way, so
    that none is passed over; between tasks there is no order. What stands in a task that is deleted goes with it. Of a fork
    its own events are delivered: those that it shares are the other task's.
    """

    async def register(self, name: str, *, from_now: bool = False) -> bool:
        """Begin to keep a cursor; False if there is one. `from_now`: it gets what is stored from now on, else all there is."""
        ...

    async def forget(self, name: str) -> bool:
        """Keep no cursor any more; False if there was none."""
        ...

    async def take(self, name: str) -> Reading | None:
        """Become the one who delivers to it; None while another living process does. `InputError`: it is not registered."""
        ...

    async def beat(self, reading: Reading, *, failures: int = 0, error: str | None = None) -> None:
        """Say that this process lives, and how it is doing. `StaleWriter`: another has taken it over."""
        ...

    async def next(self, reading: Reading) -> Batch:
        """Some of what it has not got yet; empty if there is nothing. `StaleWriter`: another has taken it over."""
        ...

    async def delivered(self, reading: Reading, batch: Batch) -> None:
        """Move the cursor; may be said twice. `StaleWriter`: another has taken it over, who delivers the batch again."""
        ...

    async def leave(self, reading: Reading) -> None:
        """Let another process deliver, if this one still does."""
        ...

    async def consumers(self) -> list[ConsumerState]: ...


@runtime_checkable
class HasOutbox(Protocol):
    """A store that keeps cursors."""

    def outbox(self) -> Outbox: ...


class Consumer(Protocol):
    """Somebody who is delivered the log: `name` is what the cursor is kept under.

    `deliver` takes a batch as a whole: what it raises has the same batch come again, after a pause. The same event may come
    twice, with the same `task_id` and `seq`; so may a task's last events before those that came already.
    """

    name: str

    def deliver(self, records: Sequence[Record]) -> Coroutine[Any, Any, None]: ...


# ── an engine whose queue lies beside the log ────────────────────────────────────


Ask = Callable[[str, Mapping[str, Any] | None], Awaitable[list[dict[str, Any]]]]
"""What one statement gives, each row by the names of its columns."""


class Database(Protocol):
    """What a store shares with such an engine: its thread with all connections, and its number among the processes.

    Heartbeats go the way that the log goes, and a tool that holds up the event loop of the tasks does not hold them up.
    """

    shown: str
    holder: int
    """What a task's row names its driver by."""
    given: Mapping[str, Any]
    """What another process connects with, the password included."""

    def run(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        """Run it in that thread."""
        ...

    async def ask(self, sql: str, params: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """What one statement gives, in a few seconds; from within the thread. `StoreBusy`: it may have been done or not."""
        ...

    async def listen(self, channel: str, heard: Callable[[str], None]) -> None:
        """Call `heard`, within the thread, with what is said there; with an empty text when something may have been missed."""
        ...

    def deafen(self, channel: str) -> None:
        """Hear that channel no more."""
        ...

    async def prepare(self, name: str, script: str) -> None:
        """Run the script if the table of that name is not there: one process at a time, all of it or nothing."""
        ...


# ── registries of services ────────────────────────────────────────────────────


class Instance(NamedTuple):
    """One of those that offer a service. `scheme` and `path`: empty where the registry does not say."""

    host: str
    port: int
    scheme: str = ""
    path: str = ""
    weight: int = 1
    """How much of the load it is to bear, beside others."""
    priority: int = 0
    """Those of a higher number are asked when none of a lower one answers."""


class Look(NamedTuple):
    """What a registry says of a service."""

    instances: tuple[Instance, ...]
    mark: object
    """To be given with the next look, which then waits for news. Never None."""
    odd: tuple[str, ...] = ()
    """Why others that it lists cannot be used."""


class Registry(Protocol):
    """Knows who offers a service now."""

    name: str
    """In words, for messages: without passwords."""

    async def look(self, service: str, mark: object) -> Look:
        """All instances that are said to be well. With the `mark` of an earlier look it may wait, for a minute or so, for others than then.

        `RegistryUnavailable` where it does not say.
        """
        ...

    async def aclose(self) -> None: ...


class ServiceState(NamedTuple):
    """How the search for a service stands."""

    service: str
    registry: str
    instances: int
    """Known last."""
    problem: str
    """Why the registry says nothing new; empty: it answers."""
    looks: int
    changes: int
    failures: int


class Endpoints(Protocol):
    """Where a service can be reached, as it changes."""

    service: str

    async def begin(self) -> None:
        """Look for it from now on; the first time, wait a little for an answer."""
        ...

    def order(self) -> Sequence[str]:
        """The addresses in the order in which one call is to try them."""
        ...

    def known(self) -> Sequence[str]:
        """All of them, in an order that stays from call to call."""
        ...

    def answered(self, url: str) -> None:
        """A call has been answered there."""
        ...

    def watch(self, changed: Callable[[], None]) -> None:
        """Tell when others than before are known."""
        ...

    def state(self) -> ServiceState: ...

    async def aclose(self) -> None:
        """Look no more; what is known stays."""
        ...
