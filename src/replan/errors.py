"""Every deliberate error of Replan.

ReplanError
├── InputError              the caller gave something that cannot be used (exit code 2)
│   ├── ConfigError         a configuration file, key or value
│   ├── ToolDefinitionError a function or source that cannot be a tool
│   ├── PlanInvalid         a plan that does not pass the checks; carries the violations
│   ├── TaskNotFound        no task with that id
│   ├── TaskExists          the id is taken by a different request
│   │   └── TaskGoneFrom    or by one that was given away from here, and goes on elsewhere
│   ├── TaskEnded           the task has ended; its past cannot be changed
│   ├── NoSuchPart          a plan, step, artifact or tool that is not there
│   ├── TaskNotDone         the task has no result yet
│   ├── TooLate             the task stands otherwise by now than what is asked for takes for granted
│   │   └── AnsweredBefore  somebody else was faster, or what was shown is not what waits now
│   ├── SecretsMissing      the task goes on with secrets that have to be given again; says which
│   ├── NotSignedIn         a caller whom the service does not know
│   ├── NotAllowed          a caller who may not do that
│   └── NotBuilt            a call that this release does not have yet
├── TooMany                 a limit of the service or of a tenant; says when to come again
├── ServiceError            a service that failed, or gave an answer that is none (raised by clients)
│   └── ServiceUnreachable  it could not be reached, again and again
├── Unavailable             something that the service stands on does not answer
│   └── RegistryUnavailable a registry of services, or not as one does
├── TaskFailure             a task that did not succeed (raised by `TaskResult.raise_for_failure` only)
│   └── UserInterventionRequired    and that only a person can mend; carries what to do
├── UnresolvedReference     a reference that selects nothing in what it points to
├── ToolCallError           a tool call that failed; says whether its effect may have happened
│   └── RetryLater          raised by a tool that has done nothing, and may be called again in so many seconds
├── ModelError              a model that gave no usable answer
│   ├── ModelUnavailable    not reachable, not installed, no key, refused by the endpoint
│   └── AnswerInvalid       it answered, but not in the shape asked for, after every correction
└── StoreError              the event log could not be read or written
    ├── StoreBusy           another process holds the database locked
    ├── StoreFull           no space left
    ├── StoreUnusable       not a database, from a newer release, or not writable
    ├── StaleWriter         a newer driver has claimed the task
    └── TaskHeld            another living process drives the task
        └── TaskGivenAway   a file of an export has it, and it is about to be removed here
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence


class ReplanError(Exception):
    """The root: everything that Replan raises on purpose."""

    exit_code = 1


class InputError(ReplanError):
    """The caller gave something that cannot be used: say what, where, and what would be right."""

    exit_code = 2


class ConfigError(InputError):
    """A configuration file, key or value that cannot be used."""


class ToolDefinitionError(InputError):
    """A function or source that cannot be a tool, with the reason."""


class PlanInvalid(InputError):
    """A plan that does not pass the checks; `violations` lists every one, in words."""

    def __init__(self, violations: Sequence[str]) -> None:
        self.violations = tuple(violations)
        super().__init__("the plan does not pass the checks:\n" + "\n".join(f"- {v}" for v in violations))


class TaskNotFound(InputError):
    """No task with that id in this store."""

    def __init__(self, task_id: str, nearest: str | None = None, where: str = "this store") -> None:
        """`where`: the store, as people know it."""
        near = (
            f"; did you mean {nearest!r}?" if nearest else " (`replan tasks list` shows those that there are)"
        )
        super().__init__(f"there is no task {task_id!r} in {where}{near}")


class TaskExists(InputError):
    """The task id is taken by a request with another body."""

    def __init__(self, task_id: str, key: str | None = None) -> None:
        """`key`: the Idempotency-Key that the id was made of."""
        super().__init__(
            f"task {task_id!r} exists already with a different request; choose another id"
            if key is None
            else f"Idempotency-Key {key!r} was used before with a different request (task {task_id!r}); choose another key"
        )


class TaskGoneFrom(TaskExists):
    """A task of this id was given away from here, and has not come back."""

    def __init__(self, task_id: str) -> None:
        ReplanError.__init__(
            self,
            f"task {task_id!r} was given away from this database to a file (`replan tasks export --move`) and goes on, or has ended, where that was "
            "imported: one more of this id would make its effects again; ask there, or choose another id",
        )


class TaskUnfinished(InputError):
    """The task has not ended; deleting it would lose work."""

    def __init__(self, task_id: str, status: str) -> None:
        super().__init__(
            f"task {task_id!r} has not ended ({status}): deleting it loses work; cancel it first, or say that it may be lost (unfinished=True, --force)"
        )


class TaskShared(InputError):
    """Forks of the task share its history: without it they would have none."""

    def __init__(self, task_id: str, forks: Sequence[str]) -> None:
        named = ", ".join(forks[:5]) + (f" and {len(forks) - 5} more" if len(forks) > 5 else "")
        super().__init__(
            f"task {task_id!r} cannot be deleted before its forks, which share its history: {named}"
        )


class SealedElsewhere(InputError):
    """The task came from another database, whose key names its calls with secrets: here nobody knows which were made."""

    def __init__(self, task_id: str) -> None:
        super().__init__(
            f"task {task_id!r} came from another database, and its calls with secrets in them are named by that one's key: who went "
            "on with it here could not tell which of them were made; go on with it there"
        )


class TaskEnded(InputError):
    """The task has ended; an ended task never changes."""


class NoSuchPart(InputError):
    """A plan, step, artifact or tool that is not there."""


class TaskNotDone(InputError):
    """The task has no result yet."""

    def __init__(self, task_id: str, status: str, *, to_follow: bool = False) -> None:
        """`to_follow`: another task was to follow it."""
        super().__init__(
            f"previous_task_id: task {task_id!r} has not ended ({status}), so that nothing can be known yet of what it comes to: wait for its end"
            if to_follow
            else f"task {task_id!r} waits: what for is told beside it, and by `/waiting`"
            if status == "waiting"
            else f"task {task_id!r} has not ended ({status}): wait for its result (`?wait=SECS`), or watch its events"
        )
        self.status = status


class TooLate(InputError):
    """The task stands otherwise by now than what is asked for takes for granted: it is so already, or was asked for just before."""


class SecretsMissing(InputError):
    """The task goes on with secrets that no log keeps, and that this process has not been given; `names`: which."""

    def __init__(self, message: str, names: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.names = tuple(names)


class AnsweredBefore(TooLate):
    """What a person answers was answered a moment before, or is not what was shown."""


class NotSignedIn(InputError):
    """The service does not know who calls: no key or token, or one that is not good (any more)."""


class NotAllowed(InputError):
    """The caller is known and may not do that."""


class NotBuilt(InputError):
    """A call of the interface that this release does not have yet."""


class TooMany(ReplanError):
    """A limit of the service or of a tenant is reached; `retry_after`: in so many seconds it may be tried again, None: who knows."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Overtaken(ReplanError):
    """Another process has let in a task of the tenant since it was counted what that may still do: count again."""

    seen: int = 0

    def __init__(self, seen: int) -> None:
        super().__init__("another process has let in a task of the tenant meanwhile")
        self.seen = seen


class Unavailable(ReplanError):
    """Something that the service stands on does not answer now; `retry_after`: in so many seconds it may be tried again."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class RegistryUnavailable(Unavailable):
    """A registry of services does not say who offers one, or what it says cannot be used."""


class ServiceError(ReplanError):
    """What a client is told by a service that failed itself, or whose answer cannot be read; `status`: of HTTP."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class ServiceUnreachable(ServiceError):
    """The service did not answer, again and again. Whether it has done what was asked last, nobody can tell."""

    exit_code = 2


class TaskFailure(ReplanError):
    """A task that did not succeed; `advice` says what a person could do."""

    def __init__(self, message: str, *, advice: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.advice = tuple(advice)


class UserInterventionRequired(TaskFailure):
    """Going on is pointless until a person does something: see `advice`."""


class UnresolvedReference(ReplanError):
    """A reference that selects nothing in what it points to."""

    def __init__(self, reference: str, *, where: str, available: Sequence[str] = (), why: str = "") -> None:
        """`where`: what it points to; empty for an expression, which cannot be worked out."""
        self.reference = reference
        self.available = tuple(available)
        text = f"{reference} selects nothing in {where}" if where else f"{reference} cannot be worked out"
        if why:
            text += f": {why}"
        if available:
            shown = ", ".join(available[:20]) + (", …" if len(available) > 20 else "")
            text += f"; it has: {shown}"
        super().__init__(text)


class ToolCallError(ReplanError):
    """A tool call that failed, as its source saw it.

    `kind`: what happened, one of `core.failures.faults.FaultKind`. `happened`: "no" when the effect surely did not
    take place, "unknown" when nobody can tell, None to let the kind decide. `status`: an HTTP-like code.
    `retry_after`: seconds the other side asked us to wait.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str = "tool",
        happened: str | None = None,
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.happened = happened
        self.status = status
        self.retry_after = retry_after


class RetryLater(ToolCallError):
    """Raised by a tool that has done nothing, and may be called again in `after_secs`; None: after a short while.

    The call is repeated by code, a few times, whatever the tool's effect: it says itself that nothing has happened.
    """

    def __init__(self, message: str = "not now", after_secs: float | None = None) -> None:
        if isinstance(message, int | float) and not isinstance(
            message, bool
        ):  # RetryLater(3), RetryLater(3, "busy")
            message, after_secs = (str(after_secs) if after_secs is not None else "not now"), float(message)
        given = after_secs
        with contextlib.suppress(TypeError, ValueError):  # a text, as a header `Retry-After` has it
            after_secs = None if given is None else float(given)
        if after_secs is not None and not (isinstance(after_secs, float) and 0 <= after_secs < float("inf")):
            raise ValueError(f"after_secs={given!r} is not a number of seconds, 0 or more")
        super().__init__(message, kind="later", happened="no", retry_after=after_secs)


class ModelError(ReplanError):
    """A model that gave no usable answer."""


class ModelUnavailable(ModelError):
    """The model cannot be reached or used; `exit_code` 2 when it was never set up.

    `refused`: it would answer, but not to this key.
    """

    def __init__(
        self, message: str, *, transient: bool = False, setup: bool = False, refused: bool = False
    ) -> None:
        super().__init__(message)
        self.transient = transient
        self.refused = refused
        if setup:
            self.exit_code = 2


class RecordingError(ModelUnavailable):
    """A model has answered, and its recording could not be written: whoever asks again has it recorded."""

    def __init__(self, message: str) -> None:
        super().__init__(message, transient=True, setup=True)


class AnswerInvalid(ModelError):
    """The model answered, but not in the shape asked for, after every correction."""

    def __init__(self, message: str, *, problems: Sequence[str] = (), text: str = "") -> None:
        super().__init__(message)
        self.problems = tuple(problems)
        self.text = text


class StoreError(ReplanError):
    """The event log could not be read or written; what was stored before stays."""


class StoreBusy(StoreError):
    """Another process holds the database locked for longer than the wait."""

    exit_code = 2


class StoreFull(StoreError):
    """The disk or quota of the database is full."""

    exit_code = 2


class StoreUnusable(StoreError):
    """Not a database, made by a newer release, or not writable."""

    exit_code = 2


class StoreDamaged(StoreError):
    """What is stored is not what was stored."""


class StaleWriter(StoreError):
    """A newer driver has claimed the task: this one must stop and touch nothing."""


class NotHeard(StoreError):
    """People have written to the task what its driver has not heard: that comes before what was to be appended."""

    def __init__(self, task_id: str) -> None:
        super().__init__(f"people have written to task {task_id!r} what its driver has not heard yet")


class TaskHeld(StoreError):
    """Another living process drives the task."""

    exit_code = 2


class TaskGivenAway(TaskHeld):
    """The task was given away to a file, from which another store goes on with it: here nobody does. `digest`: of that file."""

    def __init__(self, task_id: str, digest: str) -> None:
        super().__init__(
            f"task {task_id!r} was given away to a file (SHA-256 {digest[:12]}… in its end), and is to be removed here: `replan tasks export "
            f"{task_id} --move -o FILE` with that file does it; if the file is lost, and was imported nowhere, `replan tasks export {task_id} "
            "--take-back` lets it go on here"
        )
        self.digest = digest
