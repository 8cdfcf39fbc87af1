"""The use cases of every front end: submit, watch, result, cancel, resume, list."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from typing import Any

from replan.beside import beside
from replan.core.data.pieces import AT_ONCE, MANY, PLAN_AT_ONCE, PLAN_BYTES, weight
from replan.core.events import (
    TERMINAL,
    ApprovalRequested,
    CancelRequested,
    PlanReviewRequested,
    QuestionAsked,
    Record,
    TaskSubmitted,
)
from replan.core.limits.needs import Work, work_of
from replan.core.references.kept import KeptBytes, artifact_named
from replan.core.report.held_plan import HeldPlan
from replan.core.report.result import TaskResult
from replan.core.secrets import NOTHING_SECRET, KnownSecrets, is_said, text_without_secrets
from replan.core.state.fold import fold
from replan.core.state.task import ENDED, State, TaskName
from replan.core.types import Artifact, JsonObject, Plan, Usage
from replan.errors import (
    InputError,
    PlanInvalid,
    ReplanError,
    TaskEnded,
    TaskGivenAway,
    TaskHeld,
    TaskNotFound,
)
from replan.ports import Listening
from replan.run.following import wanted as following
from replan.run.following.recorded import recorded_before
from replan.run.human_input.overhearing import Overhearing
from replan.run.human_input.signals import People
from replan.run.orchestrator import drive
from replan.run.service import forking
from replan.run.service.asleep import OVERDUE_SECS, due_by_itself, until_it_goes_on
from replan.run.service.event_stream import Line
from replan.run.service.forking import Forking, Kin
from replan.run.service.people import answering, interventions, reviewing
from replan.run.service.people.callbacks import receive
from replan.run.service.preview import check_given, plan_unstored
from replan.run.service.results import part_at, part_of, result_of, step_of
from replan.run.service.resumable import CannotGoOn, cannot_go_on, tools_missing, why_missing
from replan.run.service.submission import Submission, built, check_submission
from replan.run.session.dependencies import Parts, Passed
from replan.run.session.given import read_secret, source_of
from replan.run.session.known_secrets import in_clear, known_to, places_of
from replan.run.session.outputs import Loaded
from replan.run.session.pages import folded
from replan.run.session.said import known_here, say
from replan.run.session.shielding import noticed

LOOK_SECS = 1.0
"""Between two looks at whether somebody still drives a task."""


class Service:
    """One store, its tools and models, and what can be done with them."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.overhearing = Overhearing(parts)

    async def built(self, wanted: Submission) -> Submission:
        """The request with the plan that its workflow comes to now, where it names one."""
        if wanted.workflow is None and not wanted.slots:
            return wanted
        known = await self.parts.kinds.current()
        if weight(wanted.slots, AT_ONCE) > AT_ONCE:
            return await beside(built, wanted, known)
        return built(wanted, known)

    async def submit(
        self, wanted: Submission, plan_bytes: int | None = None, *, check_plan: bool = False
    ) -> tuple[str, bool]:
        """Store a task; its id, and whether it is new. Nothing is accepted before it is stored.

        `plan_bytes`: what `check_submission` has given, if it has been asked. `check_plan`: a plan that is given has to pass every check
        of this process now (`PlanInvalid`), and not only where it is carried out.
        """
        task_id, event, seen = await self._received(wanted, plan_bytes)
        name = TaskName(task_id, self.parts.clock.now())
        here = work_of(event.settings) is None
        if not here and (own := [secret for secret, source in event.secrets.items() if not source]):
            raise InputError(
                f"{', '.join(own)}: a worker cannot have a secret that only this process was given: give it as "
                "env:VARIABLE or file:PATH, which the worker reads"
            )
        if here and seen.masked:  # before it is stored: whoever drives it may begin at once
            self.parts.given.keep(name, event)
        new, passed = False, None
        try:
            await self._check_followed(wanted)
            if check_plan and event.plan is not None:
                passed = await self._check_plan(wanted, event, task_id, plan_bytes)
            new = await self.parts.store.create(task_id, seen, name.created, turn=wanted.turn)
            if (
                not new and seen.masked and here
            ):  # the same request again, for a task that may still be driven from here
                known = await self.parts.store.summary(task_id)
                if known.status not in ENDED:
                    self.parts.given.keep(TaskName(task_id, known.created), event)
            if new and here and plan_bytes is not None and plan_bytes <= PLAN_BYTES:
                self.parts.light[name] = None if seen.masked else passed
                if len(self.parts.light) > _MOST_LIGHT:
                    del self.parts.light[next(iter(self.parts.light))]
        finally:
            if not new:
                self.parts.given.forget(name)
        return task_id, new

    async def _check_plan(
        self, wanted: Submission, event: TaskSubmitted, task_id: str, plan_bytes: int | None
    ) -> Passed | None:
        """What was accepted once stays accepted."""
        large = plan_bytes is None or plan_bytes > PLAN_BYTES
        try:
            return await check_given(event, self.parts, task_id, large=large)
        except PlanInvalid:
            if wanted.task_id is None or not await self._is_there(wanted.task_id):
                raise
            return None

    async def _check_followed(self, wanted: Submission) -> None:
        """`InputError` if it is to follow a task that it cannot; what was accepted once stays accepted."""
        try:
            await following.check(self.parts.store, wanted.context, wanted.task_id, wanted.tenant)
        except (InputError, TaskGivenAway):
            if recorded_before(self.parts.models, wanted.description):
                return  # a replay needs no earlier task
            if wanted.task_id is None or not await self._is_there(wanted.task_id):
                raise

    async def _is_there(self, task_id: str) -> bool:
        try:
            await self.parts.store.summary(task_id)
        except TaskNotFound:
            return False
        return True

    async def name_of(self, task_id: str) -> TaskName:
        """What this process keeps of the task lies under this: its id may come again."""
        return TaskName(task_id, (await self.parts.store.summary(task_id)).created)

    async def _received(
        self, wanted: Submission, plan_bytes: int | None = None
    ) -> tuple[str, TaskSubmitted, TaskSubmitted]:
        """The checked request: its id, as it was made, and as it is kept."""

        def receive() -> tuple[str, TaskSubmitted, TaskSubmitted]:
            if plan_bytes is None:
                check_submission(wanted)
            task_id = wanted.task_id or self.parts.ids.new("task")
            event = self._event(wanted)
            known = known_to(event, self.parts.tools, self.parts.secrets)
            return task_id, event, known.masked_event(event)

        large = (
            bool(wanted.secrets)  # files are read, and may hold many
            or len(wanted.description) > AT_ONCE
            or len(self.parts.tools.specs()) > MANY
            or (
                weight(wanted.plan, PLAN_AT_ONCE) > PLAN_AT_ONCE
                if plan_bytes is None
                else plan_bytes > PLAN_BYTES
            )
            or weight([wanted.metadata, wanted.context], AT_ONCE) > AT_ONCE
        )
        return await beside(receive) if large else receive()

    def _event(self, wanted: Submission) -> TaskSubmitted:
        """The request as it was made, with its secrets; the log gets it without."""
        given = {name: read_secret(name, source) for name, source in wanted.secrets.items()}
        event = TaskSubmitted(
            description=wanted.description,
            metadata={**wanted.metadata, **given},
            context=wanted.context,
            policy=wanted.policy,
            plan=wanted.plan,
            tools=tuple(map(text_without_secrets, wanted.tools)),
            settings=wanted.settings,
            secrets={name: source_of(source) for name, source in wanted.secrets.items()},
            tenant=wanted.tenant,
            by=wanted.by,
            workflow=wanted.used,
            asked=dict(wanted.asked),
        )
        places = places_of(event, self.parts.tools)
        return event.model_copy(update={"secrets": {**dict.fromkeys(places, ""), **event.secrets}})

    async def drive(self, task_id: str) -> State:
        state = await drive(task_id, self.parts)
        if state.secrets.any:
            self.overhearing.attend(state)
        return state

    def until_it_goes_on(self, state: State) -> Coroutine[Any, Any, bool]:
        """See `asleep`."""
        return until_it_goes_on(state, self.parts)

    async def state(self, task_id: str) -> State:
        return await folded(self.parts.store, task_id)

    async def result(self, task_id: str, state: State | None = None) -> TaskResult:
        """What the task has come to so far; `status` says whether it has ended. `state`: the task's, where that is at hand."""
        state = await self.state(task_id) if state is None else state
        known = self._in_clear(state.submitted)
        if not known.any:
            return await self.result_from(state)
        result = await self.result_from(fold(await self.history(task_id)))
        return result.model_copy(update={"final_output": known.masked(result.final_output)})

    async def result_from(self, state: State) -> TaskResult:
        """The same of a state that is at hand, as `drive` gives it."""
        return await result_of(state, self.parts.store)

    async def output(self, task_id: str, step_id: str, item: int | None = None) -> Any:
        """The whole output of a step of any plan, what is kept apart included; `item`: of one item only, from 1.

        Of a `for_each` whose items partly failed, what the others gave.
        """
        state = await self.state(task_id)
        step = step_of(state, step_id)
        loaded = Loaded()
        await loaded.load_steps(self.parts.store, task_id, [step])
        found = loaded.output_of(step) if item is None and step.has_output else part_of(step, item, loaded)
        if isinstance(found, KeptBytes):
            raise InputError(
                f"the output of step {step_id!r} is too large for a value: write it to a file (`replan tasks output … -o FILE`), or "
                "read it piece by piece (output_pieces)"
            )
        return self._in_clear(state.submitted).masked(found)

    async def streamed_output(
        self, task_id: str, step_id: str, item: int | None = None, path: str | None = None
    ) -> Artifact | None:
        """The output of the step, of one item of it, or the part at a path, if that is a file: its bytes are kept as they are."""
        state = await self.state(task_id)
        step = step_of(state, step_id)
        if path is not None:
            if not state.files:
                return None
            part = part_at(await self.output(task_id, step_id, item), path)
            return state.files.get(artifact_named(part) or "") if isinstance(part, str) else None
        found = [
            call.output.artifact
            for call in step.every_call()
            if call.output is not None and (item is None or call.slot.item == item - 1)
        ]
        one = found[0] if len(found) == 1 else None
        return one if one is not None and one.media_type is not None else None

    async def history(self, task_id: str, after: int = 0, limit: int | None = None) -> list[Record]:
        """The task's log as it may be shown: without what an older release has kept in clear, or what was said where nobody knew better."""
        return await self.shown(task_id, await self.parts.store.read(task_id, after, limit))

    async def shown(self, task_id: str, records: list[Record]) -> list[Record]:
        """Some of a task's records in the same way."""
        begins = bool(records) and records[0].seq == 1
        first = records[:1] if begins else await self.parts.store.read(task_id, 0, 1)
        known, heard = self._in_clear_of_first(first), await known_here(self.parts, task_id, first)
        return [_shown(record, known, heard) for record in records] if known.any or heard.any else records

    async def in_clear(self, task_id: str) -> bool:
        """Whether the task's log, which an older release has written, holds secrets in clear."""
        return (await self._in_clear_of(task_id)).any

    def has_in_clear(self, submitted: TaskSubmitted) -> bool:
        """The same of a task that is not stored here."""
        return self._in_clear(submitted).any

    async def _in_clear_of(self, task_id: str) -> KnownSecrets:
        return self._in_clear_of_first(await self.parts.store.read(task_id, 0, 1))

    def _in_clear_of_first(self, records: Sequence[Record]) -> KnownSecrets:
        first = records[0].event if records else None
        return self._in_clear(first if isinstance(first, TaskSubmitted) else None)

    def _in_clear(self, submitted: TaskSubmitted | None) -> KnownSecrets:
        return NOTHING_SECRET if submitted is None else in_clear(submitted, self.parts.tools)

    async def cancel(
        self, task_id: str, reason: str = "", by: str = "", *, until_resumed: bool = False
    ) -> None:
        """Ask for the task's end. A task that nobody drives is ended here and now.

        `until_resumed`: if its driver is gone before it has ended the task, whoever drives it on withdraws that.
        """
        summary = await self.parts.store.summary(task_id)
        asked = CancelRequested(reason=reason, by=by, until_resumed=until_resumed and summary.held)
        try:
            await say(self.parts, task_id, asked, clears=False)
        except TaskEnded:
            raise interventions.ended(task_id, (await self.parts.store.summary(task_id)).status) from None
        summary = await self.parts.store.summary(task_id)
        if not summary.held:
            with contextlib.suppress(TaskHeld):  # taken up just now: its driver sees the signal
                await drive(task_id, self.parts)

    async def pause(self, task_id: str, *, reason: str = "", by: str = "", now: bool = False) -> None:
        """Have the task stand still once what runs has ended (`now`: is cut off), until it is resumed."""
        await interventions.pause(self.parts, task_id, reason=reason, by=by, now=now)

    async def unpause(self, task_id: str, *, reason: str = "", by: str = "") -> None:
        """Let a paused task go on, with whoever drives it."""
        await interventions.unpause(self.parts, task_id, reason=reason, by=by)

    async def hint(self, task_id: str, text: str, *, by: str = "") -> State:
        """Say something that every later prompt is told, the next reflection or plan first."""
        return await interventions.hint(self.parts, task_id, text, by=by)

    async def retry_step(self, task_id: str, step_id: str, *, reason: str = "", by: str = "") -> State:
        """Have a failed step tried again as planned, with what was left out because of it."""
        return await interventions.retry(self.parts, task_id, step_id, reason=reason, by=by)

    async def judge_again(self, task_id: str, *, hint: str = "", by: str = "") -> State:
        """Have what was done judged anew."""
        return await interventions.judge_again(self.parts, task_id, hint=hint, by=by)

    async def fork(
        self,
        origin: str,
        wanted: Forking,
        place: tuple[int, State] | None = None,
        *,
        work: Work | None = None,
        driven: bool = False,
    ) -> tuple[str, bool]:
        """Store a task that goes on from an event of another one; its id, and whether it is new. `place`: where, if that is known.
        `driven`: this process goes on with it: `SecretsMissing`, or `InputError` for tools, before anything is stored.
        """
        return await forking.fork(self.parts, origin, wanted, place, work=work, driven=driven)

    async def fork_place(self, origin: str, wanted: Forking) -> tuple[int, State]:
        """Where a fork would go on, and how the task was then; `InputError` says what is wrong with what is wanted."""
        return await forking.place_of(self.parts, origin, wanted)

    async def kin(self, task_id: str) -> Kin:
        """Where the task was forked from, and its forks."""
        return await forking.kin_of(self.parts, task_id, await self.parts.store.read(task_id))

    def hear_cancel(self, task_id: str, tell: Callable[[], None]) -> Listening:
        """Call `tell` when somebody asks for the end of a task that waits for its driver."""
        people = People(task_id, self.parts)

        async def read() -> None:
            if (await self.state(task_id)).cancel is not None:
                tell()

        people.attend(read)
        return people

    async def resolve_approval(
        self,
        task_id: str,
        approval_id: str | None = None,
        *,
        approved: bool,
        reason: str = "",
        parameters: JsonObject | None = None,
        by: str = "",
    ) -> ApprovalRequested:
        """Agree to a call, or not; with `parameters`, laid over those that are shown, to that call with others.

        The call that was agreed to, as it will be made.

        None answers the only one that is open. Whoever drives the task goes on; if nobody does, resume it.
        """
        return await answering.resolve_approval(
            self.parts, task_id, approval_id, approved=approved, reason=reason, parameters=parameters, by=by
        )

    async def approval(
        self, task_id: str, approval_id: str | None = None, *, parameters: JsonObject | None = None
    ) -> ApprovalRequested:
        """A call that waits for a yes, in full: large values whole, secrets masked. Nothing is agreed to.

        With `parameters`: as it would be made with these laid over what is shown.
        """
        return await answering.approval(self.parts, task_id, approval_id, parameters)

    async def answer(
        self,
        task_id: str,
        text: str,
        question_id: str | None = None,
        *,
        output: Any = None,
        by: str = "",
    ) -> QuestionAsked:
        """Answer a question; None answers the only one that is open, the id of a step the one that it asks. The question that is answered.

        Whether a call took effect is answered yes, no or cannot tell; `output` is then what it gave. A step's question is answered
        with what fits it: in words, or as the value itself in `output`.
        """
        return await answering.answer(self.parts, task_id, text, question_id, output=output, by=by)

    async def review(
        self,
        task_id: str,
        which: str | int | None = None,
        *,
        approved: bool,
        reason: str = "",
        plan: JsonObject | None = None,
        by: str = "",
    ) -> PlanReviewRequested:
        """Agree to the plan that waits, or not; with `plan`, to that one in its place (`PlanInvalid`: nothing of it is kept).

        `which`: the request, or the version of the plan; None: the one that waits. Whoever drives the task goes on; if nobody does, resume it.
        """
        return await reviewing.review(
            self.parts, task_id, which, approved=approved, reason=reason, plan=plan, by=by
        )

    async def held_plan(self, task_id: str) -> HeldPlan:
        """The plan that waits for a person's yes, with what it would do and what it changes."""
        return await reviewing.held_plan(self.parts, task_id)

    async def signal(self, task_id: str, token: str, data: Any = None, by: str = "") -> bool:
        """Tell a task what it waits for, or will wait for, by a token that it has given out; False if it knew that already."""
        return await receive(self.parts, await self.state(task_id), token, data, by)

    async def check_resumable(self, task_id: str, secrets: Mapping[str, Any] | None = None) -> State:
        """The task's state; `TaskEnded`, or `InputError` if tools or secrets that it goes on with are not here.

        Without them it would only come to its end, which cannot be taken back.
        """
        state = await self.check_unfinished(task_id)
        if state.submitted is not None and state.cancel is None:
            self.parts.given.give_again(state.name, state.submitted, secrets or {})
        missing = tools_missing(state, self.parts.tools)
        if missing and state.cancel is None:
            raise InputError(f"task {task_id!r}: {why_missing(state, missing, self.parts.tools)}")
        return state

    async def check_unfinished(self, task_id: str) -> State:
        """The task's state; `TaskEnded` if it has ended."""
        state = await self.state(task_id)
        if state.ended:
            raise interventions.ended(task_id, state.status)
        return state

    async def stands_without_secrets(self, task_id: str) -> bool:
        """Whether the task, which nobody drives, goes on only with secrets that are not here: its log says so by then."""
        state = await self.state(task_id)
        if state.submitted is None or not self.parts.given.lacking(state.name, state.submitted):
            return False
        await drive(task_id, self.parts)
        return True

    def cannot_go_on(self, limit: int = 200) -> Coroutine[Any, Any, list[CannotGoOn]]:
        """Unfinished tasks that nobody drives and that could not go on here, each with the reason."""
        return cannot_go_on(self.parts.store, self.parts.tools, self.parts.clock.now, limit)

    async def give_instead(self, task_id: str, instead: JsonObject) -> None:
        """What the task is driven with from here on in place of what its log says: the log is told when it is driven."""
        self.parts.given.give_instead(await self.name_of(task_id), instead)

    async def ended_elsewhere(self, task_id: str, *, driven: bool = True) -> None:
        """Wait for the end of a task that another process drives, or until it waits for a person.

        `ReplanError` if that process is gone; unless it need not be `driven`: somebody may go on with it meanwhile.
        """

        async def follow() -> None:
            async for _ in self.watch(task_id) if driven else self.parts.store.follow(task_id):
                pass

        following = asyncio.get_running_loop().create_task(follow())
        following.add_done_callback(noticed)
        try:
            while not following.done():
                summary = await self.parts.store.summary(task_id)
                left = summary.status == "waiting" and not summary.held and not summary.due
                if left and await due_by_itself(task_id, self.parts, summary.last_seq) is None:
                    return  # for a person
                await asyncio.wait({following}, timeout=LOOK_SECS)
            following.result()
        finally:
            following.cancel()
            await asyncio.wait({following})

    async def driven_elsewhere(self, task_id: str) -> State:
        """The state that another driver leaves a task in."""
        while True:
            if not (await self.parts.store.summary(task_id)).held:
                return await self.state(task_id)
            await asyncio.sleep(LOOK_SECS)

    async def _driven(self, task_id: str, driving: asyncio.Future[State] | None) -> None:
        """Return when the task has ended; raises what breaks its drive here, and `ReplanError` once nobody drives it anywhere.

        One that waits for a person goes on when there is an answer.
        """
        if driving is not None:
            await asyncio.wait({driving})
            error = None if driving.cancelled() else driving.exception()
            if error is not None and not isinstance(error, TaskHeld):
                raise error
        alone = 0
        while (summary := await self.parts.store.summary(task_id)).status not in ENDED:
            if summary.given_away:
                raise TaskGivenAway(task_id, summary.given_away)
            waits = bool(summary.queue) or (
                summary.status == "queued" and self.parts.store.others()  # one of those may have it
            )
            if summary.status == "waiting" and not (summary.held or waits):
                due = await due_by_itself(task_id, self.parts, summary.last_seq)
                waits = due is None or self.parts.clock.now() < due + OVERDUE_SECS
            alone = alone + 1 if not (summary.held or waits) else 0
            if alone > 2:  # seen again and again: not just between two drivers
                raise ReplanError(
                    f"nobody drives task {task_id!r} any more; `replan tasks resume` goes on from its log"
                )
            await asyncio.sleep(LOOK_SECS)

    async def watch(
        self,
        task_id: str,
        after: int = 0,
        *,
        ephemeral: bool = False,
        driving: asyncio.Future[State] | None = None,
    ) -> AsyncIterator[Record]:
        """Every record after `after`, live, to the task's end; with `ephemeral` also unstored news (seq 0).

        `driving`: the drive of the task in this process; if it breaks, so does the watch, with its error. So it does,
        after what there is to see, if nobody drives the task.
        """
        summary = await self.parts.store.summary(task_id)
        if summary.status in ENDED and after >= summary.last_seq:
            return
        stored = self.parts.store.follow(task_id, after)
        driven = asyncio.get_running_loop().create_task(self._driven(task_id, driving))
        driven.add_done_callback(noticed)
        with self.parts.feed.listen(task_id) if ephemeral else contextlib.nullcontext() as news:
            line = Line(stored, news, driven)
            try:
                known = await self._in_clear_of(task_id) if after else NOTHING_SECRET
                heard = await known_here(self.parts, task_id)
                while (record := await line.next()) is not None:
                    if isinstance(record.event, TaskSubmitted):
                        known = self._in_clear(record.event)
                    yield _shown(record, known, heard) if known.any or heard.any else record
                    if isinstance(record.event, TERMINAL):
                        return
            finally:
                driven.cancel()
                await asyncio.wait({driven})
                await line.aclose()

    async def follow(self, task_id: str, after: int = 0) -> AsyncIterator[Record]:
        """Every stored record after `after` as it may be shown, as it comes, to the task's end, whether anybody drives it or not."""
        known = await self._in_clear_of(task_id)
        async for record in self.parts.store.follow(task_id, after):
            said = is_said(record.event)
            heard = await known_here(self.parts, task_id) if said else NOTHING_SECRET
            yield _shown(record, known, heard) if known.any or heard.any else record

    async def plan_only(self, wanted: Submission) -> Plan:
        """A checked plan for a task that is neither stored nor run. `PlanInvalid` if none passes."""
        plan = (await self.planned(wanted)).plan
        assert plan is not None
        return plan

    async def planned(self, wanted: Submission, spent: Callable[[Usage], None] | None = None) -> State:
        """The same with all that went before the plan, and what it has cost; `spent` is told that also where there is no plan."""
        _, event, _ = await self._received(wanted)
        await self._check_followed(wanted._replace(task_id=None))
        return await plan_unstored(event, self.parts, spent)


def _shown(record: Record, known: KnownSecrets, heard: KnownSecrets) -> Record:
    """`known`: of what an older release has kept in clear; `heard`: of the task, as far as it is known here."""
    shown = known.masked_stored(record.event) if known.any else record.event
    if heard.any and is_said(shown):
        shown = heard.masked_stored(shown)
    return record if shown is record.event else record._replace(event=shown)


_MOST_LIGHT = 256
