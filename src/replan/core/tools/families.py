"""Tools that do the very same thing: what one of them has done, another would do over again."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from replan.core.types import ToolId, ToolSpec


def families(
    specs: Iterable[ToolSpec], resolve: Callable[[str], ToolId | None]
) -> dict[ToolId, tuple[ToolId, ...]]:
    """By tool, the others of its family: those that it is declared to have as substitutes, that have it as theirs, or both through a third.

    Whether the effect of one is what was planned of another is a question of its own, and goes one way: see
    `recovery.substitutes.is_declared`. `resolve`: the id that is meant by a name; a name that means no tool which is here may be that
    of one that was. What only reads has no effect that another could have again.
    """
    found: dict[ToolId, set[ToolId]] = {}
    with_effects = {spec.id: spec for spec in specs if spec.effect != "reads"}
    for spec in with_effects.values():
        for name in spec.substitutes:
            other = resolve(name)
            if other is not None and other not in with_effects:
                continue
            one = found.setdefault(spec.id, {spec.id})
            more = found.setdefault(other or name, {other or name})
            if one is not more:
                one |= more
                found.update(dict.fromkeys(more, one))
    return {tool_id: tuple(sorted(all_ - {tool_id})) for tool_id, all_ in found.items() if len(all_) > 1}
