"""What a client does to tasks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from pydantic import SecretStr

from replan.client.connection import Connection, quoted, task_path
from replan.client.options import TaskOptions, as_json, in_clear
from replan.core.report.held_plan import HeldPlan
from replan.core.report.result import TaskResult, WaitingFor
from replan.core.types import Plan
from replan.errors import InputError
from replan.run.access.views import ReviewView, Submitted, TaskView, WaitingTask

BEGUN_SECS = 5.0
"""So long it may take a task to go on that is resumed."""


class Acting:
    """A part of `Client`."""

    @property
    @abstractmethod
    def _connection(self) -> Connection: ...

    @abstractmethod
    async def wait(self, task_id: str) -> TaskResult: ...

    @abstractmethod
    async def _goes_on(self, task_id: str, last_seq: int, secs: float | None) -> bool: ...

    @abstractmethod
    async def waits(self, task_id: str) -> list[WaitingTask]: ...

    async def _post(self, task_id: str, path: str, body: Mapping[str, Any], *, again: bool = False) -> Any:
        return await self._connection.ask(
            "POST", f"{task_path(task_id)}/{path}", body=as_json(body), again=again
        )

    # ── answers ──

    async def approve(
        self,
        task_id: str,
        approval_id: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        *,
        call_hash: str | None = None,
    ) -> WaitingFor:
        """Agree to a call that waits, with `parameters` laid over those shown. None: the only approval that is open.

        `call_hash`: of the call as it was shown (`waiting`, `waits`): `AnsweredBefore` if another one waits by now. Without it, it
        is the call that waits now. The call that was agreed to, as it was shown.
        """
        asked = await self._asked(task_id, approval_id)
        body = {"approved": True, "hash": call_hash or asked.hash, "parameters": parameters}
        await self._post(task_id, f"approvals/{quoted(asked.waiting_for.id)}", body)
        return _laid_over(asked.waiting_for, parameters)

    async def approval(
        self,
        task_id: str,
        approval_id: str | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> WaitingFor:
        """A call that waits, in full (large values whole, secrets masked), or as it would be with other `parameters`."""
        known = approval_id or (await self._asked(task_id, None)).waiting_for.id
        return _laid_over((await self._asked(task_id, known)).waiting_for, parameters)

    async def reject(self, task_id: str, approval_id: str | None = None, reason: str = "") -> None:
        """Do not agree to a call that waits; the reason is reflected on."""
        known = approval_id or (await self._asked(task_id, None)).waiting_for.id
        await self._post(task_id, f"approvals/{quoted(known)}", {"approved": False, "reason": reason})

    async def answer(
        self, task_id: str, text: Any, question_id: str | None = None, output: Any = None
    ) -> None:
        """Answer a question of a waiting task. Whether a call took effect: yes (with its `output`), no, or cannot tell.

        A step's question is answered with a value that fits it, in words or as it is; `question_id` may be the id of the step.
        """
        if question_id is None:
            found = [one for one in await self.waits(task_id) if one.hash is None and one.waiting_for.id]
            question_id = _only(found, task_id, "question").waiting_for.id
        is_value = not (text is None or isinstance(text, str)) and output is None
        words, value = ("", text) if is_value else (text, output)
        await self._post(task_id, f"questions/{quoted(question_id)}", {"text": words, "output": value})

    async def held_plan(self, task_id: str) -> HeldPlan:
        """The plan that waits for a person's yes: its steps, what it would do, and what it changes of the plan before it."""
        asked, shown = await self._held(task_id)
        return HeldPlan(
            task_id=task_id, review_id=asked.waiting_for.id, plan=Plan.model_validate(shown.plan), outlook=shown.outlook,
            changes=shown.changes, problems=shown.problems, expires=asked.expires,
        )  # fmt: skip

    async def review(
        self,
        task_id: str,
        approved: bool = True,
        *,
        plan: Mapping[str, Any] | Plan | None = None,
        reason: str = "",
        plan_hash: str | None = None,
    ) -> WaitingFor:
        """Agree to the plan that waits, or not; with `plan`, to that one in its place (`PlanInvalid`: nothing of it is kept).

        `plan_hash`: of the plan as it was shown (`waits`): `AnsweredBefore` if another one waits by now. Without it, it is the plan that
        waits now. After a no the task is planned anew with its `reason`.
        """
        asked, shown = await self._held(task_id)
        given = plan.model_dump(mode="json") if isinstance(plan, Plan) else plan
        body = {"approved": approved, "hash": plan_hash or asked.hash, "reason": reason, "plan": given}
        await self._post(task_id, f"plans/{shown.version}/review", body)
        return asked.waiting_for

    async def _held(self, task_id: str) -> tuple[WaitingTask, ReviewView]:
        asked = _only(
            [one for one in await self.waits(task_id) if one.review is not None], task_id, "plan to review"
        )
        assert asked.review is not None
        return asked, asked.review

    async def settle(
        self, task_id: str, step_id: str, happened: bool | None, *, output: Any = None, reason: str = ""
    ) -> None:
        """Say what became of a step's call in doubt: it took effect (with its `output`), it did not, or nobody can tell (None)."""
        body = {"happened": happened, "output": output, "reason": reason}
        await self._post(task_id, f"steps/{quoted(step_id)}/settle", body)

    async def signal(self, task_id: str, token: str, data: Any = None) -> bool:
        """Tell a task that something outside has happened, by the token that it has given out; False if it knew just that."""
        told = await self._post(task_id, "signals", {"token": token, "data": data}, again=True)
        return bool(told.get("new"))

    # ── interventions ──

    async def cancel(self, task_id: str, reason: str = "") -> None:
        """Ask for the task's end; `TaskEnded` if it has ended."""
        await self._post(task_id, "cancel", {"reason": reason})

    async def pause(self, task_id: str, reason: str = "", *, now: bool = False) -> None:
        """Have the task stand still until it is resumed; `now`: what runs is cut off."""
        await self._post(task_id, "pause", {"reason": reason, "now": now})

    async def hand_on(
        self, task_id: str, reason: str = "", *, secrets: Mapping[str, str | SecretStr] | None = None
    ) -> None:
        """Have a task go on that is paused, or that nobody drives, and do not wait for it.

        `secrets`: those that it was submitted with, where it waits for them (`SecretsMissing`, `waiting_for`).
        """
        await self._post(task_id, "resume", _resumed(reason, secrets))

    async def resume(
        self, task_id: str, *, reason: str = "", secrets: Mapping[str, str | SecretStr] | None = None
    ) -> TaskResult:
        """The same, to its end or until it waits for a person."""
        view = TaskView.model_validate(await self._post(task_id, "resume", _resumed(reason, secrets)))
        if view.status == "waiting":  # it has not begun to go on yet
            await self._goes_on(task_id, view.last_seq, BEGUN_SECS)
        return await self.wait(task_id)

    async def hint(self, task_id: str, text: str) -> None:
        """Say something that every later prompt is told, the next reflection or plan first."""
        await self._post(task_id, "hint", {"text": text})

    async def retry_step(self, task_id: str, step_id: str, reason: str = "") -> None:
        """Have a failed step tried again as planned, with what was left out because of it."""
        await self._post(task_id, f"steps/{quoted(step_id)}/retry", {"reason": reason})

    async def judge_again(self, task_id: str, hint: str = "") -> None:
        """Have what was done judged anew, with a `hint` for the judge."""
        await self._post(task_id, "judge", {"hint": hint})

    async def fork(
        self,
        task_id: str,
        *,
        at: int | None = None,
        fork_id: str | None = None,
        hint: str = "",
        plan: Mapping[str, Any] | None = None,
        retry: Sequence[str] = (),
        judge: bool = False,
        timeout: float | None = None,
        reason: str = "",
        secrets: Mapping[str, str | SecretStr] | None = None,
        **options: Unpack[TaskOptions],
    ) -> str:
        """Go on from an event of a task, which may have ended, in a new one; its id. See `Replan.fork`."""
        body = {
            "at": at, "task_id": fork_id, "hint": hint, "plan": plan, "judge": judge, "reason": reason,
            "retry": [retry] if isinstance(retry, str) else list(retry),
            "options": {**options, "timeout_secs": timeout}, "secrets": in_clear(secrets) or None,
        }  # fmt: skip
        made = await self._post(task_id, "fork", body, again=fork_id is not None)
        return Submitted.model_validate(made).task_id

    async def _asked(self, task_id: str, approval_id: str | None) -> WaitingTask:
        if approval_id is None:
            open_ = [one for one in await self.waits(task_id) if one.waiting_for.kind == "approval"]
            return _only(open_, task_id, "approval")
        found = await self._connection.ask("GET", f"{task_path(task_id)}/approvals/{quoted(approval_id)}")
        return WaitingTask.model_validate(found)


def _resumed(reason: str, secrets: Mapping[str, str | SecretStr] | None) -> Mapping[str, Any]:
    return {"reason": reason, "secrets": in_clear(secrets) or None}


def _only(found: Sequence[WaitingTask], task_id: str, what: str) -> WaitingTask:
    if len(found) == 1:
        return found[0]
    there = ", ".join(one.waiting_for.id for one in found)
    if found:
        raise InputError(f"task {task_id!r} has several open {what}s, name one: {there}")
    raise InputError(f"task {task_id!r} has no open {what}; open: none")


def _laid_over(shown: WaitingFor, parameters: Mapping[str, Any] | None) -> WaitingFor:
    """The call with other parameters; null leaves one out."""
    if parameters is None:
        return shown
    changed = {**(shown.parameters or {}), **parameters}
    return shown.model_copy(
        update={"parameters": {name: value for name, value in changed.items() if value is not None}}
    )
