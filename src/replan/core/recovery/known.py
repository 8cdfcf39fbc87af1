"""What the values of a call may be taken from: the task's words and metadata, what people have said, and outputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from replan.core.plan.placeholders import Stands
from replan.core.secrets import MASK, Masked
from replan.core.state.task import State
from replan.core.walk import texts_in


def stands_in(state: State) -> Stands:
    """Whether a text stands in any of it, whatever its case; it is gone through only where that is asked.

    A mask that was shown in place of a secret is no value of it. Where one was, what a text has of masks stands only in what was
    shown as it is, with the words beside it; where none was, stars are stars.
    """
    known: list[tuple[str, bool]] = []

    def stands(text: str) -> bool:
        if not known:
            known.extend((one.casefold(), masked) for one, masked in _known(state))
        wanted = text.casefold()
        if MASK not in text:
            return any(wanted in one for one, _ in known)
        alone, shown = text.strip() == MASK, any(masked for _, masked in known)
        if alone and shown:
            return False
        if not alone and not shown:
            return True
        return any(wanted in one for one, masked in known if not masked)

    return stands


def _known(state: State) -> Iterator[tuple[str, bool]]:
    """Each text, and whether something in it is masked."""
    for value in (state.description, state.metadata):
        yield from _each(value)
    if state.submitted is not None:
        yield from _each(state.submitted.context)
    if state.recovery is not None:
        yield from ((one.answer, isinstance(one.answer, Masked)) for one in state.recovery.said)
    for step in (*state.earlier.values(), *state.steps.values()):
        for call in step.calls.values():
            if call.output is None:
                continue
            if (kept := call.output.artifact) is not None:
                text = f"{kept.head}\n{kept.tail}"
                yield text, kept.masked or (call.output.masked and MASK in text)
            else:
                yield from _each(call.output.value, masked=call.output.masked)


def _each(value: Any, *, masked: bool = False) -> Iterator[tuple[str, bool]]:
    return ((text, isinstance(text, Masked) or (masked and MASK in text)) for text in texts_in(value))
