"""Going on with a task where the configuration forbids more, or has a person asked about more, than where it was begun."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from replan.errors import InputError

if TYPE_CHECKING:
    from replan.config import Settings
    from replan.core.limits.policy import Policy
    from replan.core.state.task import State
    from replan.ports import Tools

_APPROVAL, _DENY = "[approval] mode", "[tools] deny"


def approval_of(own: Settings, given: str | None, policy: Policy) -> str | None:
    """Which calls need a person's yes from here on, where that is not what the task says: what is `given`, or what more is asked here."""
    from replan.core.limits.policy import stricter_approval

    if given is not None:
        return given if given != policy.approval else None
    return own.approval.mode if stricter_approval(own.approval.mode, policy.approval) else None


def told_of(changed: Sequence[str], own: Settings, given: str | None, approval: str | None) -> Iterator[str]:
    """Which keys say otherwise here, and which of them count."""
    counts = set()
    if approval is not None and given is None:
        counts.add(_APPROVAL)
        yield told_of_approval(approval)
    if own.tools.deny and _DENY in changed:
        counts.add(_DENY)
        yield f"{_DENY} of the configuration here says otherwise: what it forbids stays forbidden"
    if others := [key for key in changed if key not in counts]:
        yield (
            f"the configuration here says otherwise of {', '.join(others)}: the task goes on as it was begun "
            "(what is given to this command counts)"
        )


def told_of_approval(approval: str) -> str:
    """That more calls need a yes from here on."""
    return (
        f"a person is asked about {'every call' if approval == 'all' else 'every call of a once tool'}, as {_APPROVAL} of the "
        "configuration here says (--approve says otherwise)"
    )


def check_askable(approval: str | None, given: str | None, state: State, tools: Tools | None) -> None:
    """`InputError` where calls would not be made, since nobody could be asked for a yes that is wanted here only. `tools`: None if it
    is not known what they are."""
    from replan.core.limits.policy import asks_about
    from replan.run.service.resumable import tools_needed

    if approval is None or given is not None or state.policy.interactive:
        return
    needed = tools_needed(state)
    if tools is not None:
        needed = [name for name in needed if (tool := tools.resolve(name)) and asks_about(approval, tool)]
    if needed:
        raise InputError(
            f'{_APPROVAL} = "{approval}" of the configuration here wants a person\'s yes to calls of '
            f"{', '.join(map(repr, needed[:5]))}, and task {state.task_id!r} was begun where nobody is asked, so that they would not be "
            f"made: give --approve {state.policy.approval} to go on as it was begun"
        )
