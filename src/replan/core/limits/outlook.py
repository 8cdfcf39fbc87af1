"""What a plan would do, as far as that can be known before it does anything."""

from __future__ import annotations

from replan.core.types import Frozen
from replan.core.words import in_digits, some


class Outlook(Frozen):
    """Counted and estimated, for whoever is to agree to the plan."""

    effects: tuple[str, ...] = ()
    """Calls that change something."""
    approvals: tuple[str, ...] = ()
    """Steps whose calls would need a person's yes."""
    tool_calls: int = 0
    """At least; a `for_each` over what is not known yet counts once."""
    open_items: tuple[str, ...] = ()
    """The steps of which that is so."""
    model_calls: int = 0
    """If all goes well."""
    estimated_secs: float | None = None
    """Of the critical path, by what the tools have taken so far; None: one of them was never called."""
    estimated_cost_usd: float | None = None
    """Of the models; None: the price of one of them is not known."""
    critical_path: tuple[str, ...] = ()


_MOST = 10


def outlook_words(found: Outlook) -> str:
    """In a line: what it would change, what needs a yes, and what it may take."""
    parts = [f"changes: {some(found.effects, _MOST)}" if found.effects else "changes nothing"]
    if found.approvals:
        parts.append(f"needs a yes: {some(found.approvals, _MOST)}")
    more = " or more" if found.open_items else ""
    parts.append(
        f"{in_digits(found.tool_calls)} tool calls{more}, {in_digits(found.model_calls)} model calls"
    )
    if found.estimated_secs is not None:
        parts.append(f"about {found.estimated_secs:,.1f} s")
    if found.estimated_cost_usd is not None:
        parts.append(f"about ${found.estimated_cost_usd:,.4f}")
    return "; ".join(parts)
