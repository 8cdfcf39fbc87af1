"""The values that everything is said in: tools, plans, outputs, faults, evaluations."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, ParamSpec, Self, TypeAlias, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field

StepId: TypeAlias = str
ActionId: TypeAlias = str
ToolId: TypeAlias = str
CallKey: TypeAlias = str

JsonObject: TypeAlias = dict[str, Any]

Effect = Literal["reads", "repeatable", "once"]
_STRENGTH: dict[Effect, int] = {"reads": 0, "repeatable": 1, "once": 2}


def strength_of(effect: Effect) -> int:
    """How much a call of that effect may change in the world."""
    return _STRENGTH[effect]


Role = Literal["selection", "planning", "reflection", "evaluation", "step"]
Category = Literal[
    "parameter_error",
    "tool_error",
    "dependency_error",
    "decomposition_error",
    "server_error",
    "external_error",
    "unknown",
]


class Frozen(BaseModel):
    """An immutable value. Fields it does not know are dropped, so that newer data stays readable."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    def put(self, **changes: Any) -> Self:
        """The same value with these fields changed, as `model_copy` makes it; made a tenth as slowly, for thousands at a time."""
        made = self.__class__.__new__(self.__class__)
        put = object.__setattr__
        put(made, "__dict__", self.__dict__ | changes)
        put(made, "__pydantic_fields_set__", self.__pydantic_fields_set__ | changes.keys())
        put(made, "__pydantic_extra__", self.__pydantic_extra__)
        put(made, "__pydantic_private__", self.__pydantic_private__)
        return made

    def lean(self, **changes: Any) -> Self:
        """The same value, with some fields changed, for keeping long: which fields were given is forgotten.

        Fields that are put one by one take a third of the memory: all values of a class share their names.
        """
        if not changes and self.__pydantic_fields_set__ is _NO_FIELDS:
            return self
        made = self.__class__.__new__(self.__class__)
        put = object.__setattr__
        for name, value in {**self.__dict__, **changes}.items():
            put(made, name, value)
        put(made, "__pydantic_fields_set__", _NO_FIELDS)
        put(made, "__pydantic_extra__", None)
        put(made, "__pydantic_private__", None)
        return made

    def like(self, **changes: Any) -> Self:
        """Another lean value like this one, which is lean: made in a quarter of the time, a fifth larger. For thousands at a time."""
        made = self.__class__.__new__(self.__class__)
        put = object.__setattr__
        put(made, "__dict__", self.__dict__ | changes)  # a copy that shares its names
        put(made, "__pydantic_fields_set__", _NO_FIELDS)
        put(made, "__pydantic_extra__", None)
        put(made, "__pydantic_private__", None)
        return made


P = ParamSpec("P")
M = TypeVar("M", bound=BaseModel)


def unchecked(kind: Callable[P, M]) -> Callable[P, M]:
    """Makes values of this class out of what is known to fit it: nothing is checked, converted or copied."""
    made_of = cast("type[M]", kind)
    fields = made_of.model_fields.items()
    defaults = {name: None if field.is_required() else field.default for name, field in fields}
    names = set(defaults)
    new, put = made_of.__new__, object.__setattr__

    def make(*_: P.args, **given: P.kwargs) -> M:
        made = new(made_of)
        put(made, "__dict__", {**defaults, **given})
        put(made, "__pydantic_fields_set__", names)  # shared, as in `lean`
        put(made, "__pydantic_extra__", None)
        put(made, "__pydantic_private__", None)
        return made

    return make


_NO_FIELDS: set[str] = set()
"""Shared by every lean value. A frozen value never changes it; copies of one get a set of their own."""

F = TypeVar("F", bound=Frozen)


def shared(value: F) -> F:
    """An equal value that others hold too, where there is one: thousands of tasks hold one."""
    try:
        return cast("F", _first_of_equals(value))
    except TypeError:  # something in it cannot be hashed
        return value


@lru_cache(maxsize=256)
def _first_of_equals(value: Frozen) -> Frozen:
    return value


VERIFY = ":verify"
"""Ends the name of the function that a tool was given to verify with; no tool can have such an id."""


class Verifier(Frozen):
    """How it is found out whether a call of a `once` tool took effect: declared by the user, decided by code."""

    tool: ToolId
    """The tool that reads; `NAME:verify` is the function that a Python tool was given."""
    parameters: JsonObject = {}
    """May refer to `${call.key}` and `${call.parameters.NAME}`."""
    happened: str = ""
    """A JMESPath over `{output, call}`: true, or the records of this call. Empty for a function."""
    output: str | None = None
    """A JMESPath over `{output, call, record}`: what the call has given. None: the record."""
    after_secs: float | None = None
    """How long after the doubt arose a "no" counts; None: the tool's own limit once more."""
    regardless_of: tuple[str, ...] = Field(default=(), exclude_if=lambda value: not value)
    """Fields of the reading that do not say, in it, that it is not the whole."""
    by_key: bool = False
    """A function that is told the call's key."""
    function: str = Field(default="", exclude=True, repr=False)
    """Which function of this process looks: calls of tools that have the same one are looked for among the same records."""


class ToolSpec(Frozen):
    """What a tool is and promises. `parameters` and `output_schema` are JSON Schema 2020-12 objects."""

    id: ToolId
    name: str = ""
    description: str = ""
    parameters: JsonObject = {"type": "object", "properties": {}}
    output_schema: JsonObject | None = None
    effect: Effect = "once"
    source: str = ""
    in_process: bool = False
    """A function of this process: others of the same source are not out of reach with it."""
    aliases: tuple[str, ...] = ()
    timeout_secs: float | None = None
    max_retries: int | None = None
    """Further tries of a call after a passing fault, where it may be repeated at all. None: as the policy says."""
    output_params: tuple[str, ...] = ()
    """Fields of a successful output that become task metadata."""
    secrets: tuple[str, ...] = ()
    """Names of parameters that are masked in events and prompts."""
    volatile: bool = False
    """Its readings change by themselves: never answered from the ledger."""
    stable: bool = False
    """Its readings do not change by themselves: one from before a wait is as good as a new one."""
    errors_are_clean: bool | None = None
    """An error that it reports means that its effect did not happen. None: so it is taken, unless its words speak of a
    time-out or a lost connection."""
    honours_key: bool = False
    """It honours the idempotency key: calling again with the same key is safe."""
    keys_in: str = Field(default="", exclude=True, repr=False)
    """The memory in which its service keeps these keys, where there may be others: a key that is in another one is not known there."""
    requires_approval: bool = False
    """A person has to agree to each call, whatever the task's own setting."""
    verify: Verifier | None = None
    """How a call in doubt is settled by code."""
    substitutes: tuple[str, ...] = ()
    """Names of tools that do the very same thing: the effect of one may stand for this one's, with nobody asked."""
    unique_by: tuple[str, ...] = ()
    """Parameters (`invoice`, `body.title`) by which its effects are told apart: two calls where these are the same have one effect. Empty:
    all parameters do, but for those on whose behalf it is called."""
    counterparts: tuple[ToolId, ...] = Field(default=(), exclude=True, repr=False)
    """The tools that do the very same thing (`core.tools.families`): whoever lists all tools has found them."""
    sample: Any = Field(default=None, exclude_if=lambda value: value is None)
    """A little of the data behind it, for whoever plans: a few rows, or what there is (`core.tools.samples`). None: nothing is told."""
    plain_description: str = Field(default="", exclude=True, repr=False)
    """Its description without what the sample has of it; empty: that has nothing of it."""
    waits: Literal["", "time", "condition", "callback", "question"] = Field(
        default="", exclude=True, repr=False
    )
    """What a call of it waits for: such a tool is Replan's own, and the loop carries it out."""
    asks_model: bool = Field(default=False, exclude=True, repr=False)
    """A call of it is a question to a model, which the loop asks: what it gives depends on its parameters alone."""

    @property
    def from_metadata(self) -> tuple[str, ...]:
        """The parameters that are taken from metadata of their name where a call leaves them out. None of Replan's own tools': an order to
        a model, a question to a person are the plan's to say, and metadata may be what some tool has written."""
        return () if self.asks_model or self.waits else tuple(self.parameters.get("required", ()))

    @property
    def shaped_by_call(self) -> bool:
        """What it gives is for each call to say (`core.own_tools.called`)."""
        return self.asks_model or self.waits == "question"

    def is_stronger_than(self, effect: Effect) -> bool:
        """True if a call of it may change more in the world than one of that effect."""
        return _STRENGTH[self.effect] > _STRENGTH[effect]

    @property
    def may_verify(self) -> bool:
        """It may be called to find out what has happened, with nobody asked."""
        return self.effect == "reads" and not self.requires_approval and not self.asks_model


class Action(Frozen):
    """One of several calls that a step makes: side by side, but where one uses what another has given, or depends on it."""

    action_id: ActionId
    name: str = ""
    tool: ToolId
    parameters: JsonObject = {}
    dependencies: tuple[ActionId, ...] = ()
    """Other actions of its step that come first; a reference to one implies it."""
    repeat: bool = False
    repeat_reason: str = ""
    unread: bool = Field(default=False, exclude=True, repr=False)
    """Its parameters could not be read: what they lack is not known. No plan with such a call is run."""


class Step(Frozen):
    """One call, or several side by side, made once everything it needs is done."""

    step_id: StepId
    name: str = ""
    tool: ToolId = ""
    parameters: JsonObject = {}
    dependencies: tuple[StepId, ...] = ()
    expected_output: str = ""
    actions: tuple[Action, ...] = ()
    when: str | None = None
    for_each: str | None = None
    timeout_secs: float | None = None
    estimated_secs: float | None = None
    """How long it is thought to take: only the order of those who wait for a place goes by it."""
    requires_approval: bool = False
    repeat: bool = False
    """This identical effect is meant: do it again."""
    repeat_reason: str = ""
    """Why it is meant again."""
    allow_failed_items: bool = False
    """Of a `for_each`: items that fail are left out of its output, as long as one succeeds."""
    instead_of: tuple[StepId, ...] = Field(default=(), exclude_if=lambda value: not value)
    """The steps of earlier plans for whose effects, which they have not had, those of this one stand."""
    unread: bool = Field(default=False, exclude=True, repr=False)
    """Of its own call, as of an action's."""
    order: float | None = Field(default=None, exclude=True, repr=False)
    """Its place by a field that says one (`order`, `phase`), until the plan has been checked: only `dependencies` order steps."""


class Plan(Frozen):
    """A graph of steps. Every change to a plan is a new version."""

    plan_id: str
    version: int = 1
    task_description: str = ""
    steps: tuple[Step, ...] = ()
    estimated_duration: float | None = None
    reasoning: str = ""
    cannot: str = ""
    """Why the task cannot be done; such a plan has no steps."""
    ask_first: str = ""
    """What a person has to be asked before anything can be planned; such a plan has no steps."""
    more: str = Field(default="", exclude_if=lambda value: not value)
    """What is still to be planned once these steps have run: the plan is a first part, and the task is not done with it."""

    @property
    def declined(self) -> bool:
        """True if it says why there is no plan, in place of one."""
        return bool(self.cannot or self.ask_first)

    def _repr_html_(self) -> str:
        """How a notebook shows it."""
        from html import escape

        from replan.core.html import MOST_TEXT, short, table

        rows = [
            (
                step.step_id,
                step.name,
                step.tool or ", ".join(action.tool for action in step.actions),
                short(step.parameters) if step.parameters else "",
                ", ".join(step.dependencies),
                step.when or "",
                short(step.for_each) if step.for_each else "",
            )
            for step in self.steps
        ]
        title = f"<p><b>Plan, version {self.version}</b> {escape(self.task_description[:MOST_TEXT])}</p>"
        return title + table(("step", "name", "tool", "parameters", "after", "when", "for each"), rows)


class Artifact(Frozen):
    """A large output that is kept apart: enough of it to talk about, and where the rest is."""

    artifact_id: str
    size: int
    """Bytes of its JSON text in UTF-8; of the bytes themselves where there is a `media_type`."""
    head: str = ""
    tail: str = ""
    shape: str = ""
    media_type: str | None = Field(default=None, exclude_if=lambda value: value is None)
    """It came as a stream: what is kept are the bytes as they are, not the JSON of a value."""
    masked: bool = Field(default=False, exclude_if=lambda value: not value)
    """A secret was cut out of what is kept."""


class Fault(Frozen):
    """Why a call or a step failed, as code sees it."""

    category: Category
    kind: str
    message: str
    transient: bool = False
    happened: Literal["no", "unknown"] = "no"
    """Whether the effect may have taken place nonetheless."""
    status: int | None = None
    retry_after: float | None = None
    turned_away: bool = False
    """The answer's own header says when to come back (`Retry-After`): the call was not taken."""
    unsure: bool = False
    """It was not made since its effect is meant elsewhere, and nobody knows whether it was had there."""


class Dimensions(Frozen):
    """Four judgements, 0 to 100 each."""

    completeness: float
    correctness: float
    efficiency: float
    reliability: float


class LeftOutEffect(Frozen):
    """An effect that was planned and not had, and how the judge accounts for it."""

    step_id: StepId
    what: str
    """What became of it, in words."""
    made_good_by: StepId = ""
    """The step whose effect it accepts in its place, where that can be so."""
    and_by: tuple[StepId, ...] = Field(default=(), exclude_if=lambda value: not value)
    """Where several effects of the step were not had: the other steps whose effects it accepts in their place."""
    not_needed: str = ""
    """Why the task is done without it; beside steps that made some of it good: without the rest."""
    in_one: str = Field(default="", exclude_if=lambda value: not value)
    """Why the one effect of that step is several that were planned."""
    refused: str = ""
    """Why what the judge named in its place is none."""
    stand_in: bool = Field(default=False, exclude_if=lambda value: not value)
    """The step itself has had the effect of another tool in its place."""
    allowed: bool = Field(default=False, exclude_if=lambda value: not value)
    """It is one of an item that failed, and the plan lets the step do without."""

    @property
    def told(self) -> str:
        """What became of it and how it is accounted for, in words."""
        if self.made_good_by:
            by = ["it" if name == self.step_id else name for name in (self.made_good_by, *self.and_by)]
            how = f", several in one: {self.in_one}" if self.in_one else ""
            rest = f"; the rest is not needed: {self.not_needed}" if self.not_needed else ""
            return f"{self.what}; made good by {' and '.join(by)}{how}{rest}"
        return f"{self.what}; not needed: {self.not_needed}" if self.not_needed else self.what

    @property
    def missing(self) -> bool:
        """True if nothing accounts for it."""
        return not self.made_good_by and not self.not_needed

    def by_steps(self) -> LeftOutEffect:
        """The same where no judge is asked: what a step has done in its own place, or its plan lets it do without, counts, and is told."""
        if self.allowed:
            return self.model_copy(update={"not_needed": "its plan allows for that"})
        return self.model_copy(update={"made_good_by": self.step_id}) if self.stand_in else self


class Evaluation(Frozen):
    """A judge's view of a finished round. Scores are 0 to 100."""

    evaluation_id: str = ""
    overall_score: float
    is_successful: bool
    dimensions: Dimensions
    successes: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    improvement_suggestions: tuple[str, ...] = ()
    wrong_results: tuple[str, ...] = ()
    """What is wrong, not merely missing: with anything here the task is not done in substance."""
    left_out: tuple[LeftOutEffect, ...] = ()
    """Effects that were planned and not had: with one of them missing the task is not done."""
    wrong_form: tuple[str, ...] = Field(default=(), exclude_if=lambda value: not value)
    """What keeps the answer from the form that was asked for: then the score is 0, whatever the judge gave."""
    final_output: Any = None


class Usage(Frozen):
    """What was used so far."""

    llm_calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    cached_tokens: int = Field(default=0, exclude_if=lambda value: not value)
    """Of the input: read from the provider's cache."""


class Failure(Frozen):
    """Why a task ended without success, for a person."""

    kind: str
    """`user_intervention_required` (a person can mend it), `planning`, `step`, `outcome_unknown`, `judgement`, `unjudged`,
    `reflection` (the reflector failed), `expired` (nobody has reviewed the plan in time), `budget`, `timeout`, `cancelled`, `model`,
    `internal`."""
    reason: str
    root_causes: tuple[str, ...] = ()
    tried: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    violations: tuple[str, ...] = ()
    call_key: CallKey | None = None
    limit: str | None = None
    """The name of the budget that ended it."""
    question: str = ""
    """What only a person can say or do, alone; empty if there is no such thing."""
    done: tuple[str, ...] = ()
    """The effects that have taken place: calls with their parameters."""
    undone: tuple[str, ...] = ()
    """Of a task with calls in doubt: what is known not to have happened."""
    in_doubt: tuple[str, ...] = ()
    """Calls of which nobody knows whether they took effect, with what was read about them."""
