"""An exception with everything that it carries: what it came from, wraps, gathers, and was raised in the midst of."""

from __future__ import annotations

from collections.abc import Iterator

from replan.core.failures.transport import MOST, Known, explanations, transport_kind


class Unread(Exception):
    """Stands for all that an error carries beyond what is looked at."""


def carried(error: BaseException, known: Known | None = None) -> Iterator[BaseException]:
    """The error, what explains it, the members of groups, then what was being handled when they were raised.

    What explains that a connection was refused is left out: a time-out there is one of connecting, and nothing was
    sent. What was being handled at that moment stays: it may be an earlier try. Of one that carries too much the last is `Unread`.
    """
    known = {} if known is None else known
    seen: set[int] = set()
    waiting = [error]
    for first in waiting:
        contexts: list[BaseException] = []
        queue = [(first, False)]
        for one, hushed in queue:
            if id(one) in seen:
                continue
            if len(seen) >= MOST:
                yield Unread()
                return
            seen.add(id(one))
            if not hushed:
                yield one
            hushed = hushed or transport_kind(one, known) == "refused"
            queue += [(inner, hushed) for inner in explanations(one)]
            if one.__context__ is not None:
                contexts.append(one.__context__)
        waiting += contexts
