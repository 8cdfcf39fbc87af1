"""What the values of a call may be taken from: the task's words and metadata, what people have said, and outputs."""

from __future__ import annotations

from collections.abc import Iterator

from replan.core.plan.placeholders import Stands
from replan.core.state.task import State
from replan.core.walk import texts_in


def stands_in(state: State) -> Stands:
    """Whether a text stands in any of it, whatever its case; it is gone through only where that is asked."""
    texts: list[str] = []

    def stands(text: str) -> bool:
        if not texts:
            texts.extend(one.casefold() for one in _known(state))
        wanted = text.casefold()
        return any(wanted in one for one in texts)

    return stands


def _known(state: State) -> Iterator[str]:
    yield state.description
    yield from texts_in(state.metadata)
    if state.submitted is not None:
        yield from texts_in(state.submitted.context)
    if state.recovery is not None:
        yield from (one.answer for one in state.recovery.said)
    for step in (*state.earlier.values(), *state.steps.values()):
        for call in step.calls.values():
            if call.output is None:
                continue
            if call.output.artifact is not None:
                yield f"{call.output.artifact.head}\n{call.output.artifact.tail}"
            else:
                yield from texts_in(call.output.value)
