"""What the events of a task add up to.

The state is changed in place by `core.state.fold`; whoever folds owns it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from replan.core import events as e
from replan.core.calls.names import bases, names_before, reading_base, written
from replan.core.calls.site import Slot as Slot
from replan.core.calls.told_alike import CallsTold, Told
from replan.core.ids import base_of, digest
from replan.core.kinds.scene import Scene
from replan.core.kinds.workflow import UsedWorkflow
from replan.core.limits.policy import Policy
from replan.core.plan.constant import ConstantCall
from replan.core.plan.graph import Graph
from replan.core.plan.receivers import SecretMetadata, secret_metadata
from replan.core.references.metadata import Metadata
from replan.core.secrets import NOTHING_SECRET, KnownSecrets
from replan.core.state.human_input import Word
from replan.core.state.ledger import Ledger, LedgerEntry
from replan.core.state.made_instead import EveryStep, MadeInstead, Tries, mended, takes_effect
from replan.core.state.progress import ALONE_AFTER
from replan.core.state.progress import ENDED as ENDED
from replan.core.state.progress import ONLY as ONLY
from replan.core.state.progress import CallState as CallState
from replan.core.state.progress import CallStatus as CallStatus
from replan.core.state.progress import Output as Output
from replan.core.state.progress import StepState as StepState
from replan.core.state.progress import StepStatus as StepStatus
from replan.core.state.progress import TaskStatus as TaskStatus
from replan.core.state.progress import status_of as status_of
from replan.core.state.recovery import Recovery, Reviews
from replan.core.state.restated import Again, Restated
from replan.core.state.unique import Unique
from replan.core.tools.versions import Versions
from replan.core.trace import Parent
from replan.core.types import (
    ActionId,
    Artifact,
    CallKey,
    Effect,
    Fault,
    JsonObject,
    Plan,
    Step,
    StepId,
    ToolId,
    ToolSpec,
    Usage,
)
from replan.core.waits.state import Wait


class TaskName(NamedTuple):
    """A task for good: its id alone may come again, once it has been deleted."""

    task_id: str
    created: float
    """Unix seconds."""


_NOTHING: JsonObject = {}
"""Shared by all states: nobody writes into what was submitted."""
_NOTHING_USED = Usage()
_NO_FILES: dict[str, Artifact] = {}
_NO_STEPS: dict[str, StepState] = {}
LIKE = "like:"
"""Before the keys of what is in doubt elsewhere, where it has other keys than the call here."""
_NO_TRIES: dict[CallKey, tuple[str, bool]] = {}
_NO_KEYS: set[CallKey] = set()
_NO_FAULTS: dict[StepId, Fault] = {}
_NO_WAITS: dict[CallKey, Wait] = {}
_NO_CALLBACKS: dict[str, e.CallbackReceived] = {}
"""Likewise: a task that waits for something gets one of its own."""
OLD_SECS = 60.0
"""After so long a reading of an earlier round is made anew."""


def of_likes(tries: Mapping[CallKey, int]) -> str:
    """The name of what is in doubt elsewhere: each key, and which try of it that is. (A release that knows of no tries takes it for several
    calls, of which it cannot tell.)"""
    return LIKE + ",".join(f"{key},#{tries[key]}" for key in sorted(tries))


def like_tries(of_try: str) -> dict[CallKey, int]:
    """What such a name says; nothing if it is none. Without a try: as an older release wrote it."""
    found: dict[CallKey, int] = {}
    key = ""
    for part in of_try.removeprefix(LIKE).split(",") if of_try.startswith(LIKE) else ():
        if part.startswith("#"):
            found[key] = int(part[1:])
        else:
            key = part
            found[key] = 0
    return found


@dataclass(slots=True)
class State:
    """A task, as its log tells it."""

    task_id: str = ""
    submitted: e.TaskSubmitted | None = None
    caller: Parent | None = None
    """Whose trace the task belongs to."""
    status: TaskStatus = "queued"
    created: float = 0.0
    last_seq: int = 0
    last_ts: float = 0.0
    active_secs: float = 0.0
    """Time in which somebody drove the task: neither the wait before its start nor a gap before a resumption."""
    started: bool = False
    driver: str = ""
    """Who has driven it last."""
    round: int = 0
    selection: e.ToolSelectionCompleted | None = None
    scene: Scene | None = None
    """The guidance for tasks of its kind; None: nobody has any."""
    workflow: UsedWorkflow | None = None
    """What the first plan was built from, where it was not made by a model or given as it is."""
    plan: Plan | None = None
    begun: Plan | None = None
    """The plan as it was made: without the steps that were written anew since."""
    plans: int = 0
    continued: frozenset[int] = frozenset()
    """Versions of the plan whose new steps go on from a first part (`more`): they make up for nothing."""
    rejections: list[e.PlanRejected] = field(default_factory=list)
    steps: dict[StepId, StepState] = field(default_factory=dict)
    earlier: dict[StepId, StepState] = field(default_factory=dict)
    """Steps with an output that a later plan has left out: their outputs and metadata stay."""
    left_out: list[StepState] = field(default_factory=list)
    """Every step that a later plan has left out, in the order of the plans."""
    open_steps: int = 0
    """Steps that have not come to an end."""
    mode: e.ExecutionMode | None = None
    ledger: Ledger = field(default_factory=Ledger)
    kept_apart: bool = False
    """Some output is an artifact."""
    files: dict[str, Artifact] = field(default_factory=lambda: _NO_FILES)
    """Every file that calls have given, by its artifact."""
    any_skipped: bool = False
    any_reused: bool = False
    """Some step has the output of a call that was made before it."""
    in_doubt: dict[str, CallState] = field(default_factory=dict)
    took_effect: dict[CallKey, CallState] = field(default_factory=dict)
    """Every `once` call of the task that has succeeded, whatever became of its step."""
    made: dict[ToolId, list[CallState]] = field(default_factory=dict)
    """The `once` calls of each tool that were begun, in their order."""
    resumed: bool = False
    fruitless: int = 0
    """How often it was taken up again since anything of it came to an end, less the times that it was let go of in good order; -1: it came
    to wait, so that the next time is the first."""
    yes_by_rules: tuple[tuple[str, bool], ...] = ()
    """Patterns of tools, and whether calls of those need a person's yes by the rules that the task was begun with (`core.begun.wants_yes`)."""
    approval_said: bool = False
    """Somebody has said, as it was gone on with, which calls need a person's yes."""
    left: int = 0
    """How often it was let go of in good order: that it was taken up again after that counts for nothing."""
    beside: bool = False
    """Other tasks that may end the process go on beside it."""
    said_in_clear: bool = field(default=False, compare=False, repr=False)
    """The log has something that was said with a secret in it, which only its driver knows."""
    any_settled: bool = False
    """Of some call it was found out that it took effect; what it gave may not be known."""
    records: dict[CallKey, str] = field(default_factory=dict)
    """The record that each settled call was known by."""
    undone: dict[CallKey, int] = field(default_factory=dict)
    """How often it was found that a call had not happened."""
    tries_elsewhere: dict[CallKey, tuple[str, bool]] = field(default_factory=lambda: _NO_TRIES)
    """Of calls that another task has made and that are in doubt here: which try, and whether it was found that it did not happen."""
    stood_for: set[CallKey] = field(default_factory=lambda: _NO_KEYS)
    """Calls of other tasks of the family that stand for calls of this one which have other keys."""
    ask_for: frozenset[ToolId] = frozenset()
    """Tools that a plan has wanted a person's yes for: what later plans, or recovery, call of them needs one too."""
    reworded: dict[str, list[tuple[int, Step]]] = field(default_factory=dict)
    """By the ids of a step and of its actions: what it was before it was written anew or left out, with the last version that has it so."""
    yes_left_out: int = 0
    """The latest version of the plan that left out a call which was to get a yes and was not made; 0: none did."""
    given: bool = False
    """The first plan was given by whoever submitted the task."""
    given_at: float = 0.0
    """When a plan was given that has yet to be taken; 0: none was."""
    versions: tuple[float, ...] = ()
    """When each version of the plan was made, or given."""
    given_as: int = 0
    """The version of the plan that somebody has given, with the task or with the fork; 0: none was."""
    modelled: bool = True
    """False: the plan was given and the steps judge themselves, so that no model is there to mend anything."""
    failures: int = 0
    """How often something was noted of its steps that has failed, or that a person has changed."""
    escalation: e.OverallReflectionTriggered | None = None
    """A step's recovery has ended: no step is started until the plan is made anew."""
    reflection: e.ReflectionCompleted | None = None
    """Of this round."""
    replanning: e.ReplanningStarted | None = None
    """The plan is being made anew."""
    impasse: e.PlanningStopped | None = None
    """Why there is no plan, or none anew; gone once a person has spoken."""
    waiting: e.TaskWaiting | None = None
    waits: dict[CallKey, Wait] = field(default_factory=lambda: _NO_WAITS)
    """The waits that calls of the plan have begun."""
    made_with: Versions | None = None
    """What the plan was made with, or has been gone on with since; None: the log is older than that."""
    unfit: dict[StepId, Fault] = field(default_factory=lambda: _NO_FAULTS)
    """Steps that no longer fit the tools as they are, until recovery has looked at them."""
    held: dict[ToolId, JsonObject] = field(default_factory=lambda: _NOTHING)
    """What of tools stays as strict as it was when the plan was made."""
    callbacks: dict[str, e.CallbackReceived] = field(default_factory=lambda: _NO_CALLBACKS)
    """What somebody outside has said, by token: the first word of each."""
    recovery: Recovery | None = None
    """What recovery has done so far; None: nothing yet."""
    reviews: Reviews | None = None
    """How it stands with plans that a person has to agree to; None: nobody was asked."""
    evaluation: e.EvaluationCompleted | None = None
    cancel: e.CancelRequested | None = None
    pause: e.PauseRequested | None = None
    """A person wants it to stand still, and nobody has said since that it may go on."""
    wishes: tuple[e.Wish, ...] = ()
    """What people have asked for that the driver has not taken up yet."""
    following: e.PreviousTasksRead | None = None
    """The tasks that it follows, as they were at its beginning."""
    previous: dict[str, StepState] = field(default_factory=lambda: _NO_STEPS)
    """What references name of these: like steps that were done before."""
    fork: e.TaskForked | None = None
    """Where it goes on from another task's history."""
    kin: bool = False
    """It is a fork or has some: calls that must not be made twice are shared with these."""
    by_kin: Sequence[Any] = field(default=(), compare=False, repr=False)
    """The effects of others of its family that are no part of it, as whoever drives a fork with a plan of its own has learned."""
    counted: frozenset[StepId] = frozenset()
    """Steps that a person had tried again after they were not made, as something that they come after was taken back: they are wanted all the same."""
    rounds_before: int = 0
    """Rounds that the other task has used."""
    outcome: e.TaskCompleted | e.TaskFailed | e.TaskCancelled | e.TaskTimedOut | None = None
    llm_running: dict[str, e.LlmCallStarted] = field(default_factory=dict)
    llm_since: dict[str, float] = field(default_factory=dict)
    """When each of them was asked."""
    tool_calls: int = 0
    """Calls made; the rest of what was used is in `_asked`."""
    secrets: KnownSecrets = field(default=NOTHING_SECRET, compare=False, repr=False)
    """What whoever drives the task knows to be secret; a reading of the log knows nothing."""
    seal_key: bytes = field(default=b"", compare=False, repr=False)
    """Of what the log names but must not give away (`core.calls.seals`, `core.calls.names`); there is none where it is not needed."""
    any_lost: bool = False
    """The log has masks of which nobody knows any more what they stand for."""
    _asked: Usage = _NOTHING_USED
    _graph: Graph | None = field(default=None, compare=False, repr=False)
    _constants: dict[StepId, ConstantCall] | None = field(default=None, compare=False, repr=False)
    """Calls that the check of the plan has found to be constant, as long as they were not made."""
    _metadata: Metadata | None = None
    _secret: tuple[e.TaskSubmitted, SecretMetadata | None] | None = field(
        default=None, compare=False, repr=False
    )
    """Of which request, and what is secret of its metadata."""
    _words: dict[ToolId, dict[str, int]] = field(default_factory=dict, compare=False, repr=False)
    """The calls in `made` by their words, as far as somebody has asked; under "" how many of them were gone through."""
    _restated: Restated | None = field(default=None, compare=False, repr=False)
    """The calls in `made` by how they were written, as far as somebody has asked."""
    _instead: dict[ToolId, MadeInstead] = field(default_factory=dict, compare=False, repr=False)
    """The failed ones among them, and what was made instead."""
    _unique: Unique = field(default_factory=Unique, compare=False, repr=False)
    """All of them, by what their tools say tells them apart."""
    _by_words: EveryStep | None = field(default=None, compare=False, repr=False)
    """Every step, as far as somebody has asked."""
    taken_back: tuple[int, Any] | None = field(default=None, compare=False, repr=False)
    """What the plan of this version leaves out of what was done; None: not looked at."""
    sessions: tuple[int, Any] | None = field(default=None, compare=False, repr=False)
    """What the plan of this version has found of what calls are made on behalf with; None: not looked at."""
    _told: dict[ToolId, CallsTold] = field(default_factory=dict, compare=False, repr=False)
    _specs: dict[ToolId, ToolSpec] = field(default_factory=dict, compare=False, repr=False)
    """Tools as somebody has asked about their calls, by whose word these are told apart."""
    """The calls in `made` by what they are told, of tools that do the same as others, as far as somebody has asked."""
    _ids: frozenset[str] = frozenset()
    """Ids of steps and actions that a later plan has left out."""
    _owners: dict[ActionId, StepState] | None = field(default=None, compare=False, repr=False)
    _calls: dict[CallKey, CallState] = field(default_factory=dict)
    """The latest try of each call that has not succeeded, even of steps that a new plan has left out."""

    # ── readings ──

    @property
    def name(self) -> TaskName:
        """What a process keeps of the task lies under this."""
        return TaskName(self.task_id, self.created)

    @property
    def rounds(self) -> int:
        """The rounds that it has used itself."""
        return self.round - self.rounds_before

    @property
    def keyed_by(self) -> str:
        """The task whose id its calls' keys are made of."""
        return self.fork.root if self.fork is not None else self.task_id

    @property
    def trace(self) -> str:
        """Of whoever has submitted it (W3C Trace Context); empty: its own."""
        return "" if self.caller is None or self.fork is not None else self.caller.trace

    @property
    def policy(self) -> Policy:
        return self.submitted.policy if self.submitted else Policy()

    @property
    def description(self) -> str:
        return self.submitted.description if self.submitted else ""

    @property
    def metadata(self) -> JsonObject:
        """The task's metadata with what finished steps added; the last writer in plan order wins."""
        return self._all_metadata().all

    def metadata_of(self, step_id: StepId) -> JsonObject:
        """The metadata that a step sees: of the steps of its plan, only those before it have added to it."""
        return self._all_metadata().before(step_id)

    def secret_metadata(self, step_id: StepId | None = None) -> SecretMetadata | None:
        """The metadata that a step sees, or all, where some that were given with the task are secret; else None."""
        given = self.submitted
        if given is None or not self.hides:
            return None
        if self._secret is None or self._secret[0] is not given:
            self._secret = (given, secret_metadata(given.metadata, given.secrets))
        found = self._secret[1]
        if found is None:
            return None
        current = self.metadata if step_id is None else self.metadata_of(step_id)
        return found.within(current, given.metadata)

    def _all_metadata(self) -> Metadata:
        if self._metadata is None:
            submitted = self.submitted.metadata if self.submitted else {}
            earlier = (one.metadata for one in self.earlier.values())
            self._metadata = Metadata(
                submitted, earlier, ((name, one.metadata) for name, one in self.steps.items())
            )
        return self._metadata

    @property
    def paused(self) -> bool:
        """It stands still, and a person has to say that it may go on, whatever it waits for beside that."""
        return self.pause is not None and self.status == "waiting"

    @property
    def heals(self) -> bool:
        """True if failed steps are reflected upon at once."""
        return self.modelled and self.policy.enable_step_level_reflection

    @property
    def reflects(self) -> bool:
        """True if a round that did not do is reflected upon."""
        return self.modelled and self.policy.enable_auto_reflection

    @property
    def word(self) -> Word:
        """The word of a person that decides by itself, if one was said."""
        return self.recovery.word if self.recovery is not None else ""

    def mending(self) -> Recovery:
        """What recovery has done so far, to be added to."""
        if self.recovery is None:
            self.recovery = Recovery()
        return self.recovery

    @property
    def hides(self) -> bool:
        """True if values of this state may be masked."""
        return self.any_lost or self.secrets.any

    @property
    def ended(self) -> bool:
        return self.outcome is not None

    @property
    def usage(self) -> Usage:
        """What was used so far."""
        return self._asked.model_copy(update={"tool_calls": self.tool_calls})

    def graph(self) -> Graph:
        """The plan as a graph; nobody changes it."""
        if self._graph is None:
            self._graph = Graph.of(self.plan) if self.plan else Graph((), {})
        return self._graph

    def checked(self, graph: Graph | None, constants: Mapping[StepId, ConstantCall]) -> None:
        """The plan is as its check has left it: what that has found need not be found again."""
        self._graph = graph
        self._constants = dict(constants)

    def constant_call(self, step: StepState) -> ConstantCall | None:
        """The only call of a step, if it was found to be constant and nothing has changed about the step. It is told once."""
        if self._constants is None or step.healing is not None or self.any_lost or self.secrets.any:
            return None
        found = self._constants.pop(step.step.step_id, None)
        if not self._constants:
            self._constants = None  # thousands of tasks wait
        return found if found is not None and found.parameters is step.step.parameters else None

    def every_step(self) -> list[StepState]:
        """Every step of every plan: those that later plans have left out, then those of the plan."""
        return [*self.left_out, *self.steps.values()]

    def meant_at(self, version: int) -> float:
        """When the plan of this version was meant: made by a model, or given with the task or with the fork."""
        return self.versions[version - 1] if 0 < version <= len(self.versions) else self.last_ts

    def step_of_action(self, action_id: ActionId) -> StepState | None:
        """The step that has this action, of the plan or of those that it has left out."""
        if self._owners is None:
            steps = (*self.earlier.values(), *self.steps.values())
            self._owners = {action.action_id: one for one in steps for action in one.step.actions}
        return self._owners.get(action_id)

    def named(self, name: str) -> StepState | None:
        """The step that a reference of this head is to."""
        found = self.steps.get(name) or self.earlier.get(name) or self.step_of_action(name)
        return found or self.previous.get(name)

    def made_as_written(
        self, step: StepState, slot: Slot, tool: ToolSpec, parameters: JsonObject
    ) -> Again | None:
        """A call that an earlier plan has made in the words in which this one is written, where what they refer to has changed.

        What goes on from a first part means another effect where it goes by a reading that was made anew (the next open invoice).
        """
        made = self.made.get(tool.id)
        if made is None:
            return None
        goes_on = step.meant in self.continued
        return self.restated.find(
            step, slot, tool, parameters, made, step.planned, self.plans, goes_on=goes_on
        )

    def meant_by(self, call: CallState) -> int:
        """The version of the plan that meant what this call was made for, under whatever version it was made: a later plan may have kept
        its step."""
        step = self.named(call.step_id)
        return step.planned if step is not None and step.planned <= call.plan else call.plan

    @property
    def restated(self) -> Restated:
        """The calls that were made, by how plans have written them."""
        self._restated = self._restated or Restated(
            self.named, self.words_of, self.effect_for, self._was_given, self._is_part, self.meant_by
        )
        return self._restated

    def made_of(self, tool: ToolSpec, parameters: JsonObject) -> Sequence[CallState]:
        """The calls of the tool, in their order, that nothing tells from one with these parameters, as the log would have them."""
        made = self.made.get(tool.id)
        return self._unique.calls(tool, parameters, made) if made else ()

    def made_of_text(self, tool: ToolSpec, text: str) -> Sequence[CallState]:
        """The same, by what tells it (`core.calls.telling.unique_text`)."""
        made = self.made.get(tool.id)
        return self._unique.of_text(tool, text, made) if made else ()

    def has_had(self, effect: CallKey) -> bool:
        """True if the effect of this key is one of the task's: it was had here, or stands for a call of it."""
        if effect in self.stood_for:
            return True
        call = self.took_effect.get(effect)
        return effect in self.ledger.entries and (call is None or call.effect_key == effect)

    def made_instead(
        self, tool: ToolSpec, bases: Collection[str], before: int
    ) -> tuple[CallState, CallState] | None:
        """A failed call of one of these contents, and the effect that a later plan, before this version, may have had instead."""
        made = self.made.get(tool.id)
        failed = self._tried(tool.id).failed(made, bases) if made else None
        instead = None if failed is None else self._instead_of(failed, before, tool)
        return None if failed is None or instead is None else (failed, instead)

    def made_in_place(
        self, failed: CallState, tool: ToolSpec, counts: Callable[[CallState], bool]
    ) -> CallState | None:
        """The latest call that counts, and that a later plan may have made in place of this one."""
        return self._instead_of(failed, self.plans + 1, tool, counts)

    def begun_for(self, failed: CallState, tool: ToolSpec) -> CallState | None:
        """What a later plan has begun in place of this call, and nobody has seen the end of."""
        return self._instead_of(failed, self.plans + 1, tool, self.is_under_way)

    def like_in_doubt(self, key: CallKey) -> list[CallKey]:
        """The keys of other tasks' calls that make this one a doubt, where it is one for what is like it."""
        of_try, told = self.tries_elsewhere.get(key, ("", True))
        return [] if told else list(like_tries(of_try))

    def waits_for_likes(self, call: CallState) -> list[CallKey]:
        """The keys of other tasks' calls that this one, which is in doubt for nothing but these, waits to know of: it was not made itself."""
        return self.like_in_doubt(call.key) if call.status == "unknown" and not call.unsure else []

    def likes_not_had(self, key: CallKey) -> dict[CallKey, int]:
        """Other tasks' calls like this one, and which try of each, of which this task was told that they did not happen."""
        of_try, told = self.tries_elsewhere.get(key, ("", False))
        return like_tries(of_try) if told else {}

    def is_under_way(self, call: CallState) -> bool:
        """True if it was started and is not at its end: it runs, or waits to be tried again."""
        return call.status in ("running", "retrying") and self.latest_try(call.key) is call

    def _instead_of(
        self,
        failed: CallState,
        before: int,
        tool: ToolSpec,
        counts: Callable[[CallState], bool] = takes_effect,
    ) -> CallState | None:
        """By the same tool, or by one that does the same."""
        as_of, specs = (self.plans, len(self.left_out)), self._specs
        specs[tool.id] = tool
        name, tries = failed.tool_id, Tries()
        if made := self.made.get(name):
            failed = self._tried(name).tried_last(made, failed, before, specs.get(name))
            tries = self._tried(name).tries_of(made, failed, specs.get(name))
        if counts(failed):
            return failed
        for name in dict.fromkeys((failed.tool_id, tool.id, *tool.counterparts)):
            made = self.made.get(name)
            tried, spec = self._tried(name), specs.get(name)
            found = (
                tried.new(made, failed, tries, before, self._for_whom, as_of, spec, counts) if made else None
            )
            if found is not None:
                return found
        return None

    def effect_for(self, call: CallState, before: int, tool: ToolSpec) -> CallState | None:
        """What stands for this call, whoever asks: the effect that it has had, or may have had; where it failed, or a person has changed it,
        what was made in its place, by its own step, by a like one before this version, or by a plan before it that called the tool or one
        that does the same."""
        if call.status in ("running", "retrying") and self.latest_try(call.key) is not call:
            return None  # it was tried once more since, and that try tells
        if call.status != "failed":
            return call
        mended = self.mended({base_of(call.key)}, before, call.step_id)
        return mended[1] if mended is not None else self._instead_of(call, before, tool)

    def made_like(
        self, tool_id: ToolId, spec: ToolSpec | None, told: Told, but_for: Collection[str] = ()
    ) -> Iterator[tuple[CallState, Told]]:
        """The `once` calls of this tool that nothing tells from such a one, the latest first; `but_for`: these may differ. `spec`: None,
        if it is not here any more."""
        if (made := self.made.get(tool_id)) is None:
            return
        known = self._told.setdefault(tool_id, CallsTold())
        known.learn(spec, [one.parameters for one in made[known.count :]])
        if spec is not None:
            self._specs[tool_id] = spec
        for at, theirs in known.like(told, but_for):
            yield made[at], theirs

    def latest_call(self, tool_id: ToolId, base: str) -> CallState | None:
        """The latest `once` call of this content."""
        made = self.made.get(tool_id)
        return self._tried(tool_id).latest(made, base) if made else None

    def _tried(self, tool_id: ToolId) -> MadeInstead:
        return self._instead.setdefault(tool_id, MadeInstead())

    def _for_whom(self, call: CallState, version: int) -> Collection[StepId] | None:
        """For the calls of which failed steps of this plan the call of a later one may be there; None: of any. No part makes up for
        anything, a plan may say what for it is, and what was planned beside a failed one is there for itself."""
        step = self.words_of(call.step_id, call.plan)
        if step is not None and step.instead_of:
            return step.instead_of
        if call.plan in self.continued:
            return ()
        beside = set(self._every().like(step, version)) if step is not None else ()
        return None if not beside else beside if len(beside) == 1 else ()

    def was_planned_beside(self, step: Step, failed: CallState) -> bool:
        """True if the plan that meant this call had such a step beside it."""
        return any(name != failed.step_id for name in self._every().like(step, self.meant_by(failed)))

    def _every(self) -> EveryStep:
        as_of = self.plans, len(self.left_out), self.failures
        if self._by_words is None or self._by_words.as_of != as_of:
            self._by_words = EveryStep(as_of, self.every_step())
        return self._by_words

    def _is_part(self, version: int) -> bool:
        return version in self.continued

    def _was_given(self, name: str) -> bool:
        return self.submitted is None or name in self.submitted.metadata

    def mended(
        self, bases: Collection[str], before: int, own: StepId = ""
    ) -> tuple[StepState, CallState] | None:
        """A step in which a call of one of these contents had failed, or was changed by a person, and the effect that it had in other words
        before this version; of its `own` at any time."""
        for step in self._every().tried(bases):
            for call in mended(step, bases):
                if call.plan < before or call.step_id == own:
                    return step, call
        return None

    def words_of(self, name: str, version: int) -> Step | None:
        """The step, or that of the action, of this name, as the plan of this version has it."""
        for until, step in self.reworded.get(name, ()):
            if until >= version:
                return step
        found = self.named(name)
        return found.step if found is not None else None

    def effect_of_gone(self, name: str) -> Effect | None:
        """The effect that a tool had when the plan was made, which is not there any more; None if nobody knows."""
        known = self.made_with.tools.get(name) if self.made_with is not None else None
        return None if known is None else known.effect

    def latest_try(self, key: CallKey) -> CallState | None:
        """The latest try of a call that has not succeeded."""
        return self._calls.get(key)

    def holds(self, call: CallState) -> bool:
        """True if a step of the plan has this very call."""
        step = self.steps.get(call.step_id)
        return step is not None and step.calls.get(call.slot) is call

    def left_with(self, call: CallState) -> StepState | None:
        """The step that a later plan has left out with this very call; None if the plan has that step."""
        return next((one for one in self.left_out if any(made is call for made in one.every_call())), None)

    def ids_used(self) -> frozenset[str]:
        """Every step and action id that this task has used."""
        steps = (state.step for state in self.steps.values())
        return self._ids.union(*map(ids_of, steps))

    @property
    def fruitless_next(self) -> int:
        """What `fruitless` will be once it is taken up again."""
        return 0 if self.waiting is not None else self.fruitless + 1

    @property
    def alone(self) -> bool:
        """Something of it may end the process: it makes one call at a time, beside no other such task."""
        return self.fruitless >= ALONE_AFTER and not self.beside

    def under_way(self) -> list[CallState]:
        """The calls that are."""
        return list(filter(self.is_under_way, self._calls.values()))

    def open_questions(self) -> list[e.QuestionAsked]:
        """What people were asked and have not answered; of steps as long as their calls wait for it."""
        asked = self.recovery.open_questions() if self.recovery is not None else []
        return [one for one in asked if one.kind != "question" or self.still_asks(one)]

    @property
    def may_carry_out(self) -> bool:
        """A person has agreed to the plan, or none has to."""
        if not self.policy.review_plan or self.begun is None:
            return True
        return self.reviews is not None and self.reviews.agreed == self.begun.version

    def open_review(self) -> e.PlanReviewRequested | None:
        """The plan of now, as a person is asked about it; None: nobody is, or that is about an earlier one."""
        asked = self.reviews.open() if self.reviews is not None else None
        if asked is None or self.begun is None or self.replanning is not None or self.ended:
            return None
        return asked if asked.plan_version == self.begun.version else None

    def still_asks(self, question: e.QuestionAsked) -> bool:
        """True of a step's question while a call waits for it: the one that has asked it, or a like one."""
        token, asker = question.question_id, question.call_key or ""
        if self._waits_for(asker, token):
            return True
        return any(wait.token == token and self._waits_for(key, token) for key, wait in self.waits.items())

    def _waits_for(self, key: CallKey, token: str) -> bool:
        wait, call = self.waits.get(key), self._calls.get(key)
        if wait is None or wait.token != token or call is None or call.status != "running":
            return False
        step = self.steps.get(call.step_id)
        return step is not None and not step.closed

    def asked_by(self, step_id: StepId) -> set[str]:
        """The ids of the questions that the step waits for."""
        calls = self._calls.items()
        keys = [key for key, call in calls if call.step_id == step_id and call.status == "running"]
        return {wait.token for key in keys if (wait := self.waits.get(key)) is not None}

    def running_calls(self) -> list[CallState]:
        """Calls that were started and have no result."""
        return [call for call in self._calls.values() if call.status == "running"]

    def bases(self, tool: ToolSpec, parameters: JsonObject) -> list[str]:
        """Every name that the log may have for the content of this call."""
        return bases(self.seal_key, self.keyed_by, tool, parameters)

    def base(self, tool: ToolSpec, parameters: JsonObject) -> str:
        """What identifies the call by its content; as an older release wrote it, where the log has it so."""
        return self.known_base(self.bases(tool, parameters), tool, parameters)

    def known_base(self, names: list[str], tool: ToolSpec, parameters: JsonObject) -> str:
        """The one of these names (`bases`) of a call that the log has, or would have."""
        found = next(filter(self.ledger.knows, names), None)
        if found is None and tool.effect == "once" and (self.resumed or self.plans > 1):
            found = self._name_before(tool, parameters)
        return found or names[0]

    def _name_before(self, tool: ToolSpec, parameters: JsonObject) -> str | None:
        """What the log calls it where the tool's schema was another when it was made: another release of the tool is no other call."""
        made = self.made.get(tool.id)
        if made is None:
            return None
        words = self._words.setdefault(tool.id, {})
        for at in range(words.setdefault("", 0), len(made)):
            words[written(tool.id, made[at].parameters)] = at
        words[""] = len(made)
        if (found := words.get(written(tool.id, parameters))) is not None:
            return base_of(made[found].key)
        return next(filter(self.ledger.knows, names_before(self.keyed_by, tool, parameters)), None)

    def constant_base(self, call: ConstantCall) -> str:
        """The same of a constant call."""
        if self.seal_key or not call.as_written:
            return self.base(call.tool, call.parameters)
        keyed_by = self.task_id if self.fork is None else self.fork.root
        return digest(f"{keyed_by}\x00{call.content}")

    def reading_base(self, tool: ToolSpec, parameters: JsonObject, about: str) -> str:
        """The same of a reading that finds out about something."""
        return reading_base(self.seal_key, self.keyed_by, tool, parameters, about)

    def reusable(self, key: CallKey, tool: ToolSpec, step: Step | None = None) -> LedgerEntry | None:
        """The recorded output of this very call, if it may stand for a new one that the step would make."""
        entry = self.ledger.reusable(key, tool)
        if entry is None or tool.effect != "reads" or tool.stable or entry.round == self.round:
            return entry
        return None if self._waited_since(entry, step) else entry

    def _waited_since(self, entry: LedgerEntry, step: Step | None) -> bool:
        """True if a reading of an earlier round may be old by now.

        A person was waited for, some time has passed, or the plan has the reading wait for what this round has done.
        """
        if entry.waits != self.ledger.waits or self.last_ts - entry.at >= OLD_SECS:
            return True
        after = [self.steps[need] for need in step.dependencies if need in self.steps] if step else []
        calls = [call for one in after for call in one.calls.values()]
        return any(not call.reused and call.ended is not None and call.ended > entry.at for call in calls)


def ids_of(step: Step) -> tuple[str, ...]:
    """Its own id and those of its actions."""
    return (step.step_id, *(action.action_id for action in step.actions))


def actions_of(step: Step) -> list[ActionId | None]:
    """The ids of the step's actions; None for its only call."""
    return [action.action_id for action in step.actions] or [None]
