"""One earlier task in few words and with its values: what it was, what it did, and what that gave.

Small values stand in the log of the task that follows it; larger ones are artifacts, which that task has from then on, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from replan.beside import beside
from replan.core.data.pieces import AT_ONCE, MANY, weight
from replan.core.evaluation.effects_had import called_or_planned
from replan.core.events import TaskCompleted
from replan.core.following.told import Kept, PreviousStep, PreviousTask
from replan.core.references.refs import ID, NOT_OF_FOLLOWED
from replan.core.report import explain
from replan.core.secrets import MASK, NOTHING_SECRET, KnownSecrets
from replan.core.state.progress import artifacts_of, files_of
from replan.core.state.task import ONLY, CallState, Output, State, StepState
from replan.core.types import Artifact
from replan.core.words import beginning, in_digits, text_of
from replan.errors import InputError, StoreDamaged, ToolCallError
from replan.ports import NewArtifact, Store, TaskSummary
from replan.run.session.context import Run
from replan.run.session.known_secrets import in_clear
from replan.run.session.outputs import Loaded, packed
from replan.run.session.pages import folded

MOST_TEXT = 8_000
"""Characters of a task's description."""
MOST_STEPS = 100
"""Of one task, the latest."""
MOST_CALLS = 20
"""Of a step that has made several, of which it is said what they were made with."""
MOST_DOUBTS = 5
"""Of a task, the calls that are in doubt."""
INLINE_BYTES, ALL_INLINE_BYTES, LEAN_BYTES = 65_536, 1 << 20, 512
"""What may stand in the log of one value, and of all together; from there on what is smaller than that."""
MOST_COMPOSED = 64 << 20
"""Bytes of artifacts that one output may be put together of."""
MOST_TAKEN = 256 << 20
"""Bytes of artifacts that a task takes over."""


class Telling:
    """What is told of all earlier tasks of one task, within its bounds."""

    def __init__(self, run: Run, store: Store, *, keeps: bool = True) -> None:
        """`keeps`: what is large becomes the task's own, as it is stored itself."""
        self._run = run
        self._keeps = keeps
        self._store = store
        self._inline = ALL_INLINE_BYTES
        self._taken = 0
        self._artifacts: dict[str, NewArtifact] = {}

    @property
    def artifacts(self) -> Sequence[NewArtifact]:
        """What the following task has to have of its own."""
        return tuple(self._artifacts.values())

    async def task(self, summary: TaskSummary, name: str) -> PreviousTask:
        """A task that has ended."""
        state = await folded(self._store, summary.task_id)
        known = (
            NOTHING_SECRET if state.submitted is None else in_clear(state.submitted, self._run.parts.tools)
        )
        description = str(known.masked(str(state.description)))
        steps, more = await beside(_steps_of, state) if state.tool_calls > MANY else _steps_of(state)
        outcome = state.outcome
        return PreviousTask(
            name=name,
            task_id=summary.task_id,
            description=description[:MOST_TEXT],
            left_out=max(0, len(description) - MOST_TEXT),
            follows=_follows(state, known),
            status=state.status,
            ended=state.last_ts,
            result=await self._result(state, known) if isinstance(outcome, TaskCompleted) else None,
            why="" if outcome is None or isinstance(outcome, TaskCompleted) else _failure(state, known),
            in_doubt=_in_doubt(state, known),
            steps=tuple([await self._step(state, step, known) for step in steps]),
            more_steps=more,
        )

    async def _result(self, state: State, known: KnownSecrets) -> Kept | None:
        outcome = state.outcome
        assert isinstance(outcome, TaskCompleted)
        if outcome.artifact is None and outcome.final_output is None:
            return None
        output = Output(outcome.final_output, outcome.artifact, outcome.masked)
        return await self._kept(state.task_id, output, known)

    async def _step(self, state: State, step: StepState, known: KnownSecrets) -> PreviousStep:
        made = [call for call in step.every_call() if call.was_made]
        had = [call for call in made if call.effect != "reads" and call.status == "succeeded"]
        one = step.calls.get(ONLY) if len(step.calls) == 1 and step.items is None else None
        output, why = await self._output(state, step, known)
        parameters = None
        if one is not None:
            given = Output(one.parameters, masked=MASK in text_of(one.parameters))
            parameters = await self._kept(state.task_id, given, known)
        return PreviousStep(
            name=_name(step.step.step_id),
            step_id=step.step.step_id,
            title=beginning(step.step.name, 200),
            tool=", ".join(called_or_planned(step)),
            status=step.status,
            effects=len(had),
            in_doubt=sum(call.status == "unknown" for call in made),
            calls=() if one is not None else _calls(list(step.calls.values()), known),
            parameters=parameters,
            output=output,
            why=why,
        )

    async def _output(self, state: State, step: StepState, known: KnownSecrets) -> tuple[Kept | None, str]:
        """The step's output, or why there is none."""
        if not step.has_output:
            fault = step.fault.message if step.fault else step.skip.reason if step.skip else ""
            return None, beginning(str(known.masked(fault)), 500)
        one = step.plain_call() or (step.calls.get(ONLY) if step.items is None else None)
        if one is not None and one.output is not None:
            found = await self._kept(state.task_id, one.output, known)
            return found, "" if found is not None else _TOO_LARGE
        if sum(artifact.size for artifact in artifacts_of(step)) > MOST_COMPOSED:
            return None, _TOO_LARGE
        loaded = Loaded()
        try:
            await loaded.load_steps(self._store, state.task_id, [step])
        except StoreDamaged:
            return None, _DAMAGED
        masked = any(call.output.masked for call in step.calls.values() if call.output)
        files = tuple(files_of(step))
        output = Output(loaded.output_of(step), None, masked, files)
        found = await self._kept(state.task_id, output, known)
        return found, "" if found is not None else _TOO_LARGE

    async def _kept(self, task_id: str, output: Output, known: KnownSecrets) -> Kept | None:
        """The value as the following task has it; None if it is too large to be taken over."""
        for artifact in (*output.files, *([output.artifact] if output.artifact is not None else ())):
            if known.any or not await self._take(task_id, artifact):
                return None
        if output.artifact is not None:
            return Kept(
                artifact=output.artifact, masked=output.masked or output.artifact.masked, files=output.files
            )
        value = known.masked(output.value)
        limit = INLINE_BYTES if self._inline > 0 else LEAN_BYTES
        try:
            made = await packed(value, limit)
        except ToolCallError:
            return None
        masked = output.masked or made.masked or value is not output.value
        if made.artifact is None:
            self._inline -= weight(made.value, AT_ONCE)
            return Kept(value=made.value, masked=masked, files=output.files)
        if self._taken + made.artifact.size > MOST_TAKEN:
            return None
        for one in made.new:
            self._artifacts.setdefault(one.artifact_id, one)
        self._taken += made.artifact.size
        artifact = made.artifact.model_copy(update={"masked": True}) if masked else made.artifact
        return Kept(artifact=artifact, masked=masked, files=output.files)

    async def _take(self, task_id: str, artifact: Artifact) -> bool:
        """Have the following task use an artifact of the earlier one; False if that is too large."""
        if artifact.artifact_id in self._artifacts:
            return True
        if self._taken + artifact.size > MOST_TAKEN:
            return False
        self._taken += artifact.size
        if not self._keeps:
            return True
        try:
            content = await self._store.keep(self._store.pieces(task_id, artifact.artifact_id))
        except (InputError, StoreDamaged):
            return False
        self._artifacts[artifact.artifact_id] = NewArtifact(artifact.artifact_id, kept=content)
        return True


_DAMAGED = "what that step has given is damaged in the database"
_TOO_LARGE = (
    "what that step has given cannot be had any more, or is too large: at most "
    f"{in_digits(MOST_TAKEN >> 20)} MiB are taken over of earlier tasks"
)


def _steps_of(state: State) -> tuple[list[StepState], int]:
    """The steps that have done something or were to, each once, the latest of many; and how many are left out."""
    found = {
        step.step.step_id: step
        for step in state.every_step()
        if ID.fullmatch(step.step.step_id) and (not step.gone or step.every_call())
    }
    steps = list(found.values())
    return steps[-MOST_STEPS:], max(0, len(steps) - MOST_STEPS)


def _name(step_id: str) -> str:
    """How references name the step: its id may be one of their words."""
    return f"{step_id}_step" if step_id in NOT_OF_FOLLOWED else step_id


def _calls(calls: Sequence[CallState], known: KnownSecrets) -> tuple[str, ...]:
    """What each of several calls was made with, and what came of it."""
    told = [
        f"{call.slot.words() or 'call'}: {call.tool_id}({beginning(text_of(known.masked(call.parameters)), 300)}), {call.status}"
        for call in calls[:MOST_CALLS]
    ]
    more = [f"and {in_digits(len(calls) - MOST_CALLS)} more"] if len(calls) > MOST_CALLS else []
    return (*told, *more)


def _follows(state: State, known: KnownSecrets) -> str:
    """What it was about, where its own words say that only with those of the one before."""
    before = next(iter(state.following.tasks), None) if state.following is not None else None
    return "" if before is None else beginning(str(known.masked(before.description)), 500)


def _in_doubt(state: State, known: KnownSecrets) -> tuple[str, ...]:
    failure: Any = getattr(state.outcome, "failure", None)
    told = failure.in_doubt[:MOST_DOUBTS] if failure is not None else ()
    return tuple(beginning(str(known.masked(text)), 1_000) for text in told)


def _failure(state: State, known: KnownSecrets) -> str:
    failure: Any = getattr(state.outcome, "failure", None)
    said = failure.reason if failure is not None else explain.shortfall(state)
    return beginning(str(known.masked(said)), 2_000)
