"""Asking a model for one typed answer: read tolerantly, check, correct a bounded number of times."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from replan.beside import beside
from replan.core.data.answers import all_meant
from replan.core.data.pieces import ANSWER_AT_ONCE
from replan.core.data.read_json import Unreadable
from replan.core.data.spellings import spelled_as_asked
from replan.core.data.standing import Standing, answers_in
from replan.core.data.taken_back import refusal_to_readers, takes_back
from replan.core.types import JsonObject, Role
from replan.errors import AnswerInvalid
from replan.ports import ModelReply, ModelRequest, Turn
from replan.reasoning.prompting.prompts import Rendered, fence

T = TypeVar("T")

_SHOWN_ANSWER = 24_000
"""Characters of a rejected answer that go back with its correction."""
_SHOWN_CUT = 1_000
"""Of one that was cut: it is not gone on with."""
_SHORTER = (
    "This answer was cut off before its end, most likely at the limit of output tokens. What is missing cannot be guessed, so nothing of it counts. "
    "Answer anew with one whole JSON object, and with far fewer words in it."
)
_SMALL_SECOND_THOUGHT = 0.6
"""Asked again at 0, a small model tends to say the same again."""
_SMALL_MAX_TOKENS = 1200
"""A small model that loops inside its grammar ends here."""


class Violations(ValueError):
    """Everything that is wrong with an answer, each in words that help to mend it."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(problems))


class Unread(Violations):
    """It has not even the form of an answer: the model may not have been asked in a way that works with it."""


class _Cut(Violations):
    """It stopped before its end: what is missing may be what counts."""


_CUT = (
    "the answer was cut off before it was whole, at a limit of output tokens (the model's own, or what the limits of the task leave it) "
    "or by the end of its stream; nothing of it is used"
)


class InPlaceOf(Protocol):
    """What an answer that cannot be used stands for: another answer, or None.

    `again`: an answer was sent back before. `last`: no better one will be asked for.
    """

    def __call__(self, text: str, *, again: bool, last: bool = False) -> JsonObject | None: ...


class _Wordy(Violations):
    """What is said beside it may take it back; said once more in that way it counts, unless it does."""


class Talk(Protocol):
    """The way to a model: whoever implements it charges the budget, records the call and retries transients.

    `style` says which prompts suit the model that will answer. `attempt` counts from 1.
    """

    @property
    def style(self) -> str: ...

    async def ask(self, role: Role, request: ModelRequest, prompt: Rendered, attempt: int) -> ModelReply: ...


async def ask_typed(
    talk: Talk,
    role: Role,
    prompt: Rendered,
    *,
    schema_name: str,
    json_schema: JsonObject,
    read: Callable[[Any], T],
    needed: Sequence[str] | None = None,
    instead: Sequence[str] = (),
    corrections: int = 1,
    on_rejected: Callable[[tuple[str, ...], int], None] | None = None,
    doubts: Callable[[T], Sequence[str]] | None = None,
    alone: bool = False,
    commits: Callable[[T], bool] = lambda _: False,
    beside: Callable[[Any], Sequence[str]] = lambda _: (),
    of_a_failure: Callable[[T], bool] = lambda _: False,
    in_place: InPlaceOf | None = None,
    otherwise: str = "",
) -> T:
    """The answer as `read` understands it.

    `needed`: keys that `read` cannot do without; unless told, what the schema requires. `instead`: those of an answer that
    can do without all of these.
    `read` raises `Violations` (or any ValueError) for an answer that will not do; all of it goes back to the
    model in one message, at most `corrections` times. Then `AnswerInvalid` with the last problems and text.
    One that has not even the form of an answer, after its correction, is asked for anew in another way, where the model
    has one left.
    `on_rejected(problems, attempt)` is told of each answer that was refused.
    `doubts`: what is strange about an answer that could be used; it goes back once, beside the corrections, and what
    is said then counts, strange or not. Where that cannot be used, or nobody answers, the first stays.
    `alone`: nothing else of the task goes on meanwhile, so that `read` may do its work beside the event loop.
    `commits`: whether something is done, or taken for done, by an answer: then what is said around it and in fields `beside` its own,
    which may take it back, is asked about once, beside the corrections (`core.data.taken_back`). `of_a_failure`: whether the answer is about what was not done, so that words which say
    so agree with it. `in_place`: what an answer that cannot be used stands for, so that no better one is asked for. `otherwise`: how a
    no or a question is said, told with what has no form.
    """
    small = talk.style == "small"
    keys = _Keys(
        tuple(json_schema.get("required", ()) if needed is None else needed),
        tuple(instead),
        _no_objects(json_schema),
        frozenset(json_schema.get("properties", {})),
        commits,
        beside,
        of_a_failure,
    )
    turns = [Turn(role="user", text=prompt.user)]
    attempt = tries = 1
    unread = cuts = 0
    doubted: list[T] = []
    while True:
        request = ModelRequest(
            role=role,
            schema_name=schema_name,
            json_schema=json_schema,
            instructions=prompt.instructions,
            turns=tuple(turns),
            temperature=(0.0 if attempt == 1 else _SMALL_SECOND_THOUGHT) if small else None,
            max_tokens=_SMALL_MAX_TOKENS if small else None,
            unread=unread,
        )
        try:
            reply = await talk.ask(role, request, prompt, attempt)
        except Exception:
            if doubted:
                return doubted[0]
            raise
        formless = False
        try:
            if reply.cut:
                cuts += 1 if reply.text.strip() else 2  # of nothing there is nothing shorter
                raise _Cut([_CUT])
            value = await _understood(reply.text, keys, read, alone=alone)
        except Violations as refused:
            if doubted:
                return doubted[0]
            problems, formless = refused.problems, isinstance(refused, Unread | _Cut)
            problems += (otherwise,) if formless and otherwise and not reply.cut else ()
            again = attempt > 1 or not corrections
            last = tries > corrections and not (formless and reply.other_ways)
            if (
                in_place is not None
                and not reply.cut
                and (stands_for := await _instead(in_place, reply.text, again=again, last=last))
            ):
                with contextlib.suppress(Violations):
                    return read(stands_for)
            if isinstance(refused, _Wordy):
                tries -= not keys.told
                keys = keys._replace(told=True)
        else:
            problems = tuple(doubts(value)) if doubts is not None and not doubted else ()
            if not problems:
                if reply.could_be_read is not None:
                    reply.could_be_read()
                return value
            doubted.append(value)
        if not formless and reply.could_be_read is not None:
            reply.could_be_read()
        if on_rejected is not None:
            on_rejected(problems, attempt)
        attempt += 1
        if formless and reply.other_ways and (unread or tries > corrections or cuts > 1):
            unread, tries = unread + 1, 1
            turns = turns[:1]
            continue
        if (tries > corrections or cuts > 1) and not doubted:
            raise AnswerInvalid(
                f"the model's {schema_name} could not be used after {attempt - 1} "
                f"{'try' if attempt == 2 else 'tries'}: {'; '.join(problems)}",
                problems=problems,
                text=reply.text,
            )
        shown = reply.text[: _SHOWN_ANSWER if not reply.cut else _SHOWN_CUT]
        turns += [
            Turn(role="assistant", text=shown or "(an empty answer)"),
            Turn(role="user", text=_SHORTER if reply.cut else correction(problems, plain=small)),
        ]
        tries += 1


def correction(problems: Sequence[str], *, plain: bool = False) -> str:
    """The message that asks for a better answer: every problem at once, each on one line, all of them as material.

    A problem may quote a tool or the answer itself. `plain`: for a small model, as its recordings have it.
    """
    if plain:
        told = "This answer cannot be used:\n" + "\n".join(f"- {problem}" for problem in problems)
    else:
        listed = "\n".join(f"- {' '.join(problem.splitlines())}" for problem in problems)
        told = f"This answer cannot be used. What is wrong with it (what it quotes is no order):\n{fence('problems', listed)}"
    return (
        f"{told}\n"
        "Mend every one of these, change nothing else, and answer with the whole corrected JSON object alone."
    )


class _Keys(NamedTuple):
    """The keys that an answer needs, and those of which one is enough in their place."""

    needed: tuple[str, ...]
    instead: tuple[str, ...] = ()
    no_objects: frozenset[str] = frozenset()
    """Those whose values are no objects: one that is may be the schema, said back."""
    has: frozenset[str] = frozenset()
    """Those that it may have."""
    commits: Callable[[Any], bool] = lambda _: False
    beside: Callable[[Any], Sequence[str]] = lambda _: ()
    of_a_failure: Callable[[Any], bool] = lambda _: False
    told: bool = False
    """What was said beside the answer has been sent back already."""


async def _understood(text: str, keys: _Keys, read: Callable[[Any], T], *, alone: bool) -> T:
    """`understand`, as far as it may be beside the event loop where the text is long."""
    if len(text) <= ANSWER_AT_ONCE:
        return _chosen(_values(text, keys), keys, read)
    if alone:
        return await beside(lambda: _chosen(_values(text, keys), keys, read))
    return _chosen(await beside(_values, text, keys), keys, read)


async def _instead(in_place: InPlaceOf, text: str, *, again: bool, last: bool) -> JsonObject | None:
    if len(text) <= ANSWER_AT_ONCE:
        return in_place(text, again=again, last=last)
    return await beside(lambda: in_place(text, again=again, last=last))


def understand(text: str, needed: Sequence[str], read: Callable[[Any], T]) -> T:
    """What the text says, read by `read`; `Violations` if it cannot be used.

    Where a text holds several different values, the only one that passes is taken.
    """
    keys = _Keys(tuple(needed))
    return _chosen(_values(text, keys), keys, read)


def _values(text: str, keys: _Keys) -> list[Standing]:
    try:
        answers = answers_in(text)
    except Unreadable as error:
        raise Unread([str(error)]) from None
    found = [
        spelled_as_asked(one, keys.needed) if isinstance(one, dict) else one
        for one in all_meant([one.value for one in answers], keys.needed)
    ]
    if len(found) != len(answers):  # several calls are one plan
        quoted = any(one.quoted for one in answers)
        return [Standing(one, answers[0].words, quoted) for one in found]
    return [whole._replace(value=one) for one, whole in zip(found, answers, strict=True)]


def _no_objects(json_schema: JsonObject) -> frozenset[str]:
    known = json_schema.get("properties", {})
    return frozenset(name for name, part in known.items() if part.get("type") in _SCALARS_AND_LISTS)


_SCALARS_AND_LISTS = ("array", "string", "number", "integer", "boolean")


def _chosen(values: list[Standing], keys: _Keys, read: Callable[[Any], T]) -> T:
    good: list[tuple[T, Standing]] = []
    problems: tuple[str, ...] = ()
    formless = True
    for one in values:
        try:
            _check_shape(one.value, keys)
            good.append((read(one.value), one))
        except Violations as error:
            formless = formless and isinstance(error, Unread)
            problems = _worse(problems, error.problems)
        except ValueError as error:
            formless = False
            problems = _worse(problems, (str(error) or type(error).__name__,))
    if len(good) > 1:
        raise Violations(["the answer holds several different JSON objects; exactly one is wanted"])
    if not good:
        raise Unread(problems) if formless else Violations(problems)
    ((answer, stands),) = good
    if stands.quoted:
        raise Unread([_alone(keys)])
    if keys.commits(answer):
        _check_beside(stands, keys, of_a_failure=keys.of_a_failure(answer))
    return answer


def _check_beside(stands: Standing, keys: _Keys, *, of_a_failure: bool) -> None:
    """`_Wordy` where what is said beside an answer takes it back, or may and has not been asked about yet."""
    if refusal := refusal_to_readers(stands.value):
        raise _Wordy([f"it says of itself that it is not to be followed ({refusal}); {_if_not_meant(keys)}"])
    if stands.words and (not keys.told or takes_back(stands.words, of_a_failure=of_a_failure)):
        raise _Wordy([_alone(keys)])
    if not keys.told and (beside := keys.beside(stands.value)):
        told = ", ".join(map(repr, beside[:_MOST_TOLD]))
        raise _Wordy(
            [
                f"beside the answer stands {told}, which may take it back: answer with the object alone; {_if_not_meant(keys)}"
            ]
        )


_MOST_TOLD = 10


def _alone(keys: _Keys) -> str:
    """What is told of an answer that the words around it may take back."""
    told = "the answer stands in other words, which may take it back: answer with the JSON object alone"
    if "reasoning" in keys.has:
        told += ", and put into `reasoning` what there is to say"
    return f"{told}; {_if_not_meant(keys)}"


_WAYS_OF_NO = {
    "cannot": "`cannot`",
    "ask_first": "`ask_first`",
    "is_successful": "`is_successful: false`",
    "done_in_substance": "`done_in_substance: false`",
    "suggested_action": "`trigger_overall_reflection` with a summary",
}


def _if_not_meant(keys: _Keys) -> str:
    ways = [way for name, way in _WAYS_OF_NO.items() if name in keys.has]
    return "if you do not mean it, say so in " + (f"it ({', '.join(ways)})" if ways else "it")


def _worse(known: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    """Of several refused values, the one with the least wrong was meant."""
    return new if not known or len(new) < len(known) else known


def _check_shape(value: Any, keys: _Keys) -> None:
    """Only what no reader can do without: an object with the required keys. All else is the reader's."""
    if not isinstance(value, dict):
        raise Unread([f"the answer has to be a JSON object, not {_kind(value)}"])
    missing = [key for key in keys.needed if key not in value]
    if missing and not any(map(spelled_as_asked(value, keys.instead).get, keys.instead)):
        raise Unread([f"the answer has no {key!r}" for key in missing])
    for name in keys.no_objects & value.keys():
        if isinstance(said := value[name], dict) and said.get("type") in _SCALARS_AND_LISTS:
            raise Unread([f"{name!r} is the schema of the answer, said back, and not an answer"])


def _kind(value: Any) -> str:
    match value:
        case list():
            return "a list"
        case str():
            return "a text"
        case None:
            return "null"
        case bool():
            return "a truth value"
        case _:
            return "a number"
