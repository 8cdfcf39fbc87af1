"""What the loop is given to work with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from replan.core.kinds.known import NOTHING, Known
from replan.core.limits.policy import Policy
from replan.core.plain_calls import Recorded
from replan.core.plan.check import Checked
from replan.core.secrets import KnownSecrets
from replan.core.state.task import State, TaskName
from replan.core.types import JsonObject, Role, ToolSpec
from replan.ports import Clock, Ids, Kinds, Model, Question, Store, Tools
from replan.run.session.answer_checks import AnswerChecks
from replan.run.session.feed import Feed, UnderWay
from replan.run.session.given import Given
from replan.run.session.late_answers import LATE, LateAnswers
from replan.run.session.tool_record import ToolRecord
from replan.run.turns import Turns


class Tap(Protocol):
    """Looks at what is recorded: metrics and traces. It is told in the event loop, and has to be quick."""

    def landed(self, state: State, events: Sequence[Recorded], ts: float) -> None:
        """These events of the task are in the log now. `state`: as it is by now, which may be further on."""
        ...


class Passed(NamedTuple):
    """What the checks of a plan that came with a task have found as the task was stored; it holds as long as they would find the same."""

    checked: Checked
    policy: Policy
    tools: Sequence[ToolSpec]


class Leaving:
    """That this process is about to end: said once. Whoever drives begins nothing more; what runs may come to its end."""

    def __init__(self) -> None:
        self.now = False
        self._told: list[Callable[[], None]] = []

    def set(self) -> None:
        self.now = True
        for tell in list(self._told):
            tell()

    def heard_by(self, tell: Callable[[], None]) -> None:
        """From now on it is called when it is said, or at once if it was."""
        self._told.append(tell)
        if self.now:
            tell()

    def forget(self, tell: Callable[[], None]) -> None:
        """Say nothing more to this one."""
        self._told.remove(tell)


class NoKinds:
    """No scenes and no workflows."""

    def at_hand(self) -> Known:
        return NOTHING

    def scenes_at_hand(self) -> Known:
        return NOTHING

    async def current(self) -> Known:
        return NOTHING


@dataclass(slots=True)
class Parts:
    """The running parts of one Replan."""

    store: Store
    tools: Tools
    models: Mapping[Role, Model]
    clock: Clock
    ids: Ids
    feed: Feed = field(default_factory=Feed)
    under_way: UnderWay = field(default_factory=UnderWay)
    driver: str = ""
    """Who drives, for the log."""
    version: str = ""
    """Of Replan, likewise."""
    record: ToolRecord = field(default_factory=ToolRecord)
    """How the tools do."""
    answer_checks: AnswerChecks = field(default_factory=AnswerChecks)
    late: LateAnswers = LATE
    """Answers to calls that were given up, still on their way: all that there are in the process."""
    secrets: KnownSecrets = field(default_factory=KnownSecrets)
    """The keys of models and sources: secret in every task."""
    given: Given = field(default_factory=Given)
    """Requests of this process with their secrets."""
    light: dict[TaskName, Passed | None] = field(default_factory=dict)
    """Tasks that were stored here lately, small enough to be read and planned in the event loop; with what is known of their plans."""
    turns: Turns = field(default_factory=Turns)
    """Of the tasks that may be what ends this process."""
    gives_back: bool = False
    """A task whose model cannot be asked here goes back to the queue that it came from."""
    approval: str = "never"
    """Which calls need a person's yes by what is configured here: of this and of what a task says the stricter counts."""
    leaving: Leaving = field(default_factory=Leaving)
    """Whether this process is about to end."""
    kinds: Kinds = field(default_factory=NoKinds)
    """The scenes and workflows that there are."""
    taps: tuple[Tap, ...] = ()
    """Told what tasks that are driven here have recorded, once it is in the log."""
    ask: Callable[[str, str, Question], Awaitable[JsonObject | None]] | None = None
    """Asks a person on behalf of a running tool; gets the task's id, the step's, and the question."""
