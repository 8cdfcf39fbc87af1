"""What a person can do to a task beside answering it, from any process."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from pydantic import SecretStr

from replan.app.checked import checked
from replan.app.running import Running
from replan.config.options import Options, listed, mapping, policy_with, text_of
from replan.config.values import found
from replan.config.whoever import whoever
from replan.core.begun import Begun
from replan.core.limits.policy import Policy, within
from replan.errors import InputError
from replan.run.service.forking import Forking, Kin
from replan.run.service.tasks import Service


class Intervening:
    """A part of `Replan`."""

    _begun: Begun

    @property
    @abstractmethod
    def service(self) -> Service: ...

    @property
    @abstractmethod
    def _open(self) -> Running: ...

    @checked
    async def pause(
        self, task_id: str, reason: str = "", by: str | None = None, *, now: bool = False
    ) -> None:
        """Have the task stand still: no call is started any more, what runs comes to its end, and `resume` goes on.

        `now`: what runs is cut off, as by a crash. `by`: who says so; None: the user of this process.
        """
        await self.service.pause(task_id, reason=text_of("reason", reason), by=whoever(by), now=now)

    @checked
    async def hand_on(self, task_id: str, reason: str = "", by: str | None = None) -> None:
        """Have workers go on with a task that nobody drives, or that is paused, and do not wait for it."""
        await self._open.hand_on(task_id, None, text_of("reason", reason), whoever(by))

    @checked
    async def hint(self, task_id: str, text: str, by: str | None = None) -> None:
        """Say something that every later prompt is told, the next reflection or plan first."""
        await self.service.hint(task_id, text_of("the hint", text), by=whoever(by))

    @checked
    async def retry_step(self, task_id: str, step_id: str, reason: str = "", by: str | None = None) -> None:
        """Have a failed step tried again as planned, with what was left out because of it.

        A call in doubt stays in doubt. A task that nobody drives meanwhile goes on with `resume`.
        """
        await self.service.retry_step(
            task_id, text_of("step_id", step_id), reason=text_of("reason", reason), by=whoever(by)
        )

    @checked
    async def judge_again(self, task_id: str, hint: str = "", by: str | None = None) -> None:
        """Have what was done judged anew, with a `hint` for the judge. A task that nobody drives goes on with `resume`."""
        await self.service.judge_again(task_id, hint=text_of("the hint", hint), by=whoever(by))

    @checked
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
        by: str | None = None,
        secrets: Mapping[str, str | SecretStr] | None = None,
        **options: Unpack[Options],
    ) -> str:
        """Go on from an event of a task, which may have ended, in a new one with the tools and models of this `Replan`; its id.

        The new task shares the history up to the event `at` (None: the last there is; of an ended task the last before its
        end). What was done is not done again, also not what the other task has under way or does later. It goes on with
        a `hint`, by another `plan`, with failed steps to `retry`, or to `judge` what was done and nothing else; and with other
        `options`, or else those of the other task. `secrets`: those that the other one was begun with, where this process does not have them
        (any more); without, it is `SecretsMissing`, and nothing is stored.
        """
        if at is not None and (isinstance(at, bool) or not isinstance(at, int)):
            raise InputError(f"at: expected the number of an event, found {found(at)}")
        retry = [retry] if isinstance(retry, str) else retry
        wanted = Forking(
            at=at, task_id=None if fork_id is None else text_of("fork_id", fork_id), hint=text_of("the hint", hint),
            plan=None if plan is None else mapping("plan", plan, {"steps": []}), retry=tuple(map(str, listed(retry))),
            judge=judge, tools=self._begun.tools, settings=self._begun.settings,
            reason=text_of("reason", reason), by=whoever(by), secrets=dict(secrets or {}),
        )  # fmt: skip
        return await fork_with(self._open, task_id, wanted, timeout, options)

    @checked
    async def kin(self, task_id: str) -> Kin:
        """Where the task was forked from, if it is a fork, and its own forks."""
        return await self.service.kin(task_id)


async def fork_with(
    running: Running, origin: str, wanted: Forking, timeout: float | None, options: Mapping[str, Any]
) -> str:
    """Make the fork, with the policy of the other task but for what is given."""
    place = await running.service.fork_place(origin, wanted)
    wanted = wanted._replace(policy=changed_policy(place[1].policy, wanted, timeout, options))
    return (await running.fork(origin, wanted, place, approval=options.get("approval")))[0]


def changed_policy(
    policy: Policy, wanted: Forking, timeout: float | None, options: Mapping[str, Any]
) -> Policy | None:
    """The policy of a fork; None: as it is."""
    changes = dict(options)
    if timeout is not None:
        changes["budget"] = within(policy.budget, timeout)
    if wanted.judge:  # judged is what was done, and nothing else is done
        changes.setdefault("enable_auto_reflection", False)
    return policy_with(policy, changes) if changes else None
