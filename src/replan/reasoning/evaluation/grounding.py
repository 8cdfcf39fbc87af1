"""Does what an answer says come from somewhere? A small model that cannot find a number, a link or an identifier makes one up.

Grounds are the task, its data, what people have said, and outputs; never what a plan has written itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from replan.core.walk import texts_in
from replan.core.words import text_of
from replan.reasoning.prompting.previous import said_before
from replan.reasoning.prompting.view import StepReport, TaskView

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_WORD = re.compile(r"[^\W\d_]{3,}")
_LINK = re.compile(
    r"https?://[^\s\"'<>()\[\]{}\\]+|\bwww\.[^\s\"'<>()\[\]{}\\]+|(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    re.IGNORECASE,
)
_CODE = re.compile(r"(?=.{5,60}$)(?=.*[\d_#-])[^\W\d_][\w#-]*")
"""An identifier. Names and sentences may be knowledge, or composed as the task asks for it; nobody knows a code."""
_WHEN = re.compile(r"\d{4}-\d{2}-\d{2}|\b\d{1,2}:\d{2}\b")
_AFTERNOON = re.compile(r"\b(\d{1,2})(?::\d{2})? ?p\.?m\b")
_UNITS = "one two three four five six seven eight nine ten eleven twelve"
_MONTHS = "january february march april may june july august september october november december"
_IN_WORDS = {
    word: number for words in (_UNITS, _MONTHS) for number, word in enumerate(words.split(), start=1)
} | {"dozen": 12, "both": 2, "twice": 2, "half": 0.5, "hundred": 100, "thousand": 1000, "million": 1_000_000}


def ungrounded(answer: Any, task: TaskView, steps: Sequence[StepReport]) -> list[str]:
    """What the answer says and nobody has: numbers, links and identifiers that stand neither in the task nor in an output.

    Empty where an output is too large to be seen whole: then nothing can be told.
    """
    if any(step.artifact is not None and step.output is None for step in steps):
        return []
    return [
        *ungrounded_numbers(answer, task, steps),
        *ungrounded_links(answer, task, steps),
        *ungrounded_codes(answer, task, steps),
    ]


def ungrounded_numbers(answer: Any, task: TaskView, steps: Sequence[StepReport]) -> list[str]:
    """Numbers of the answer, as written, that stand neither in an output nor in the task.

    A number may be rounded, written with separators, in words, or as percent of a fraction; the length of a list counts
    as standing there, and of what a plan has put in itself only the form of a date or a time.
    """
    known: set[Decimal] = set()
    for source in _given(task):
        known.update(_numbers_in(source))
        known.update(_numbers_in_words(source))
    for step in steps:
        known.update(_numbers_in([found.group() for found in _WHEN.finditer(text_of(step.parameters))]))
        known.update(_numbers_in(_output(step)))
    known.update({Decimal(len(steps)), Decimal(len([step for step in steps if step.status == "succeeded"]))})
    # a percentage may be said of a fraction
    known.update({number * 100 for number in known if 0 < number < 1})
    return list(
        dict.fromkeys(
            written
            for written in _NUMBER.findall(_LINK.sub(" ", text_of(answer)))
            if not any(_stands(reading, known) for reading in _readings(written))
        )
    )


def ungrounded_links(answer: Any, task: TaskView, steps: Sequence[StepReport]) -> list[str]:
    """Addresses in the answer that nobody gave. An output that repeats what its step was told is no ground for it."""
    known = links_in(_given(task))
    for step in steps:
        known |= links_in(_output(step)) - (links_in(step.parameters) - known)
    return sorted(links_in(answer) - known)


def ungrounded_codes(answer: Any, task: TaskView, steps: Sequence[StepReport]) -> list[str]:
    """Identifiers that a plan has made up and that the answer repeats, where neither the task nor an output has them."""
    ground = text_of([*_given(task), *(_output(step) for step in steps)]).casefold()
    told = text_of(answer).casefold()
    values = (value for step in steps for value in texts_in(step.parameters))
    return list(
        dict.fromkeys(
            value
            for value in values
            if _CODE.fullmatch(value) and value.casefold() not in ground and _is_told(value, told)
        )
    )


def links_in(value: Any) -> set[str]:
    """Web and e-mail addresses, however they begin and end."""
    return {bare(found) for found in _LINK.findall(text_of(value))}


def bare(link: str) -> str:
    """A link without its scheme and what closes a sentence."""
    return re.sub(r"^(?:https?://)?(?:www\.)?", "", link.casefold()).rstrip(".,;:!?/")


def _is_told(value: str, told: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(value.casefold())}(?!\w)", told) is not None


def _given(task: TaskView) -> list[Any]:
    told = [task.description, task.today, task.metadata, task.context, task.people]
    return [*told, *said_before(task)] if task.previous else told


def _output(step: StepReport) -> Any:
    return step.output if step.output is not None else step.output_text


def _numbers_in_words(value: Any) -> Iterator[Decimal]:
    """Of a text: numbers and months in words, hours of the afternoon."""
    text = text_of(value).casefold()
    for word in _WORD.findall(text):
        if (number := _IN_WORDS.get(word)) is not None:
            yield Decimal(number)
    for hour in _AFTERNOON.findall(text):
        yield Decimal(hour) + 12


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
