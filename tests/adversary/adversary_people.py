"""A scripted person who agrees, refuses, edits, answers at random, or never does."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

from adversary_tools import GOOD, word

from replan.core.events import AnyEvent, ApprovalRequested, ApprovalResolved, QuestionAnswered, QuestionAsked
from replan.core.state.task import State
from replan.core.types import JsonObject
from replan.errors import InputError
from replan.run.service.tasks import Service

MOST_ANSWERS = 25
"""Then the person has had enough and says nothing more."""


class Person:
    """Somebody who may be asked. `kind`: how they answer; empty or `never`: not at all."""

    def __init__(self, kind: str, service: Service, task_id: str, rng: random.Random) -> None:
        self.said = 0
        self._kind = kind
        self._service = service
        self._task_id = task_id
        self._rng = rng

    async def answers(self, state: State) -> bool:
        """Say something to what is asked; False if nothing is said."""
        known = state.recovery
        if self._kind in ("", "never") or known is None or self.said >= MOST_ANSWERS:
            return False
        asked: list[ApprovalRequested | QuestionAsked] = [*known.open_approvals(), *known.open_questions()]
        some = asked if self._rng.random() < 0.7 else self._rng.sample(asked, min(1, len(asked)))
        for one in some:
            await self._say(self._approval(one) if isinstance(one, ApprovalRequested) else self._answer(one))
        if self._rng.random() < 0.1:
            await self._say(ApprovalResolved(approval_id=word(self._rng), approved=True))
            await self._say(QuestionAnswered(question_id=word(self._rng), answer="what?"))
        return bool(some)

    async def beside(self) -> None:
        """Answers while the task is driven, where this person does so."""
        while self._kind == "while it runs":
            await asyncio.sleep(self._rng.choice([0.0, 0.3, 1.0, 5.0]))
            state = await self._service.state(self._task_id)
            if state.ended or not await self.answers(state):
                await asyncio.sleep(20)
            if state.ended or self.said >= MOST_ANSWERS:
                return

    async def _say(self, event: AnyEvent) -> None:
        """Through the front door mostly, which refuses some of it; or straight into the log."""
        self.said += 1
        service, task_id = self._service, self._task_id
        with suppress(InputError):  # also that the task has ended
            if self._rng.random() < 0.3:
                await service.parts.store.signal(task_id, event, service.parts.clock.now())
            elif isinstance(event, ApprovalResolved):
                await service.resolve_approval(
                    task_id, event.approval_id, approved=event.approved, reason=event.reason,
                    parameters=event.parameters, by=event.by,
                )  # fmt: skip
            elif isinstance(event, QuestionAnswered):
                text = event.answer if event.happened is None else "yes" if event.happened else "no"
                await service.answer(task_id, text, event.question_id, output=event.output, by=event.by)

    def _approval(self, asked: ApprovalRequested) -> ApprovalResolved:
        rng, kind = self._rng, self._kind
        if kind in ("anyhow", "while it runs"):
            kind = rng.choice(["agrees", "agrees", "refuses", "edits"])
        parameters: JsonObject | None = None
        if kind == "edits":
            parameters = rng.choice(
                [
                    {**asked.parameters, "text": GOOD},
                    {**asked.parameters, "n": rng.randrange(99)},
                    {},
                    {word(rng): 1},
                ]
            )
        return ApprovalResolved(
            approval_id=asked.approval_id,
            approved=kind != "refuses",
            reason=word(rng),
            parameters=parameters,
            by="ann",
        )

    def _answer(self, asked: QuestionAsked) -> QuestionAnswered:
        rng = self._rng
        if asked.kind == "outcome":
            happened = rng.choice([True, False, None])
            return QuestionAnswered(
                question_id=asked.question_id, answer=word(rng), happened=happened, by="ann",
                output=rng.choice([None, {"value": 1, "text": "x", "items": []}]),
            )  # fmt: skip
        return QuestionAnswered(
            question_id=asked.question_id, answer=rng.choice(["stop", word(rng), word(rng)]), by="ann"
        )
