"""Going on with a task where the configuration forbids more, or has a person asked about more, than where it was begun."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from replan.errors import InputError

if TYPE_CHECKING:
    from replan.config import Settings
    from replan.core.begun import Begun
    from replan.core.limits.policy import Policy
    from replan.core.state.task import State
    from replan.core.types import JsonObject
    from replan.ports import Tools
    from replan.run.service.forking import Forking

_APPROVAL, _DENY, _RULES = "[approval] mode", "[tools] deny", "[tools] rules"


def as_begun(given: str | None, policy: Policy) -> bool:
    """Whether somebody has said that a task which was begun where nobody is asked goes on so, whatever is configured here."""
    return not policy.interactive and given == policy.approval


def approval_of(own: Settings, given: str | None, policy: Policy) -> str | None:
    """Which calls need a person's yes from here on, where that is not what the task says: what is `given`, or what more is asked here."""
    from replan.core.limits.policy import stricter_approval

    if given is not None:
        return given if given != policy.approval else None
    return own.approval.mode if stricter_approval(own.approval.mode, policy.approval) else None


def told_of(
    changed: Sequence[str], own: Settings, given: str | None, approval: str | None, *, rules: bool
) -> Iterator[str]:
    """Which keys say otherwise here, and which of them count. `rules`: those that want a person's yes do."""
    counts = set()
    if approval is not None and given is None:
        counts.add(_APPROVAL)
        yield told_of_approval(approval)
    if own.tools.deny and _DENY in changed:
        counts.add(_DENY)
        yield f"{_DENY} of the configuration here says otherwise: what it forbids stays forbidden"
    if rules and _RULES in changed and any(rule.requires_approval for rule in own.tools.rules.values()):
        counts.add(_RULES)
        yield f"{_RULES} of the configuration here says otherwise: what needs a person's yes by it needs that"
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


def with_own_rules(
    wanted: Forking, begun: Begun, own: Settings, given: str | None, policy: Policy, seal_key: bytes
) -> Forking:
    """A fork that others go on with, with the rules here that want a person's yes: their configuration has none of them."""
    from replan.config.recorded import going_on, recorded
    from replan.core.begun import proof_of_config

    ours = {pattern: rule for pattern, rule in own.tools.rules.items() if rule.requires_approval}
    if begun.config is None or not ours or as_begun(given, policy):
        return wanted
    merged = recorded(going_on({"tools": {"rules": _rules(begun)}}, own, ["tools"]).settings)["tools"][
        "rules"
    ]
    tools = {**begun.config.get("tools", {}), "rules": merged}
    config = {**begun.config, "tools": tools}
    trusted = begun.config_proof == proof_of_config(seal_key, begun.config)
    proof = proof_of_config(seal_key, config) if trusted else None
    changed = begun.model_copy(update={"config": config, "config_proof": proof})
    return wanted._replace(settings=changed.settings)


def _rules(begun: Begun) -> JsonObject:
    tools = begun.config.get("tools", {}) if begun.config is not None else {}
    rules = tools.get("rules", {}) if isinstance(tools, dict) else {}
    return rules if isinstance(rules, dict) else {}


def check_askable(own: Settings, given: str | None, state: State, begun: Begun, tools: Tools | None) -> None:
    """`InputError` where calls would not be made, since nobody could be asked for a yes that is wanted here only. `tools`: None if it
    is not known what they are."""
    from replan.core.limits.policy import stricter_approval
    from replan.run.service.unasked import asked_here, made_unasked, why_left

    if given is not None:
        return
    unasked, mode = made_unasked(state, begun), own.approval.mode
    if tools is not None:
        found = filter(None, map(tools.resolve, unasked))
        asked = asked_here(found, mode)
    else:
        asked = list(unasked) if stricter_approval(mode, state.policy.approval) else []
    if asked:
        why = why_left(asked, "here", f"give --approve {state.policy.approval} to go on as it was begun")
        raise InputError(f"task {state.task_id!r}: {why}")
