"""Do the numbers of an answer come from somewhere? A small model that cannot find a number makes one up."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from replan.reasoning.view import StepReport, TaskView

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def ungrounded_numbers(answer: Any, task: TaskView, steps: Sequence[StepReport]) -> list[str]:
    """Numbers of the answer, as written, that stand neither in an output nor in the task.

    A number may be rounded, written with separators, or as percent of a fraction; the length of a list counts
    as standing there. Empty where an output is too large to be seen whole: then nothing can be told.
    """
    if any(step.artifact is not None and step.output is None for step in steps):
        return []
    known: set[Decimal] = set()
    for source in (task.description, task.today, task.metadata, task.context):
        known.update(_numbers_in(source))
    for step in steps:
        known.update(_numbers_in(step.parameters))
        known.update(_numbers_in(step.output if step.output is not None else step.output_text))
    known.update({Decimal(len(steps)), Decimal(len([step for step in steps if step.status == "succeeded"]))})
    # a percentage may be said of a fraction
    known.update({number * 100 for number in known if 0 < number < 1})
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False, default=str)
    return list(
        dict.fromkeys(
            written
            for written in _NUMBER.findall(text)
            if not any(_stands(reading, known) for reading in _readings(written))
        )
    )


def _stands(number: Decimal, known: set[Decimal]) -> bool:
    if number in known:
        return True
    exponent = number.as_tuple().exponent
    places = -exponent if isinstance(exponent, int) else 0
    half = Decimal(5).scaleb(-places - 1)
    return any(abs(one - number) <= half and one != one.to_integral_value() for one in known)


def _readings(written: str) -> Iterator[Decimal]:
    """What a number may mean: `1,234.5` and `1.234,5` are both in use."""
    texts = {written, written.replace(",", ""), written.replace(".", "").replace(",", ".")}
    for text in texts:
        try:
            yield Decimal(text)
        except InvalidOperation:
            continue


def _numbers_in(value: Any) -> Iterator[Decimal]:
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, int | float):
        yield abs(Decimal(str(value)))
    elif isinstance(value, str):
        for written in _NUMBER.findall(value):
            yield from _readings(written)
            for part in re.split("[.,]", written):
                yield Decimal(part)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _numbers_in(key)
            yield from _numbers_in(item)
    elif isinstance(value, list | tuple):
        yield Decimal(len(value))
        for item in value:
            yield from _numbers_in(item)
