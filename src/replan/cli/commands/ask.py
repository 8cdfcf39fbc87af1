"""Asking the person at the terminal what a waiting task needs."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replan.cli.commands.answers import call_words
from replan.cli.commands.people.reviews import held_lines
from replan.cli.terminal.inputs import plan_file
from replan.cli.terminal.terminal import say
from replan.cli.terminal.words import clean, printable
from replan.core.waits.questions import right_answer
from replan.errors import InputError, PlanInvalid, TaskEnded
from replan.files import read_json

if TYPE_CHECKING:
    from replan.app import Replan
    from replan.core.report.result import TaskResult, WaitingFor

BY = "terminal"


async def answer_all(replan: Replan, result: TaskResult) -> bool:
    """Ask for everything that the task waits for; True if anything was answered, by whomever."""
    answered = False
    with contextlib.suppress(Later):
        for one in [one for one in result.waiting_for if one.id and one.kind != "callback"]:
            asked = {"approval": _approval, "review": _review}.get(one.kind, _question)
            try:
                answered = await asked(replan, result.task_id, one) or answered
            except InputError as error:  # somebody else was faster
                say(f"  {clean(str(error), 1_000)}")
                answered = True
        return answered
    return False


async def _approval(replan: Replan, task_id: str, one: WaitingFor) -> bool:
    say(f"{clean(one.text, 1_000)}")
    say(f"  {call_words(one, 2_000)}")
    given: dict[str, Any] | None = None
    while True:
        said = _line("  yes, no, show (all of it), or other parameters as a JSON object: ").strip()
        if not said:
            return False
        if said.casefold() in ("n", "no"):
            reason = _line("  why not (may be empty): ").strip()
            await replan.reject(task_id, one.id, reason=reason, by=BY)
            return True
        agrees = said.casefold() in ("y", "yes")
        try:
            if agrees:
                await replan.approve(task_id, one.id, parameters=given, by=BY)
                return True
            wanted = given if said.casefold() == "show" else {**(given or {}), **_object(said)}
            changed = await replan.approval(task_id, one.id, parameters=wanted)
        except TaskEnded:
            raise
        except InputError as error:
            say(f"  {clean(str(error), 1_000)}")
            if agrees or one.id not in {open_.id for open_ in (await replan.result(task_id)).waiting_for}:
                return True
            continue
        given = wanted
        say(
            f"  {call_words(changed)}"
            if said.casefold() == "show"
            else f"  so it would be {call_words(changed, 2_000)}"
        )


async def _review(replan: Replan, task_id: str, one: WaitingFor) -> bool:
    say(clean(one.text, 1_000))
    for line in held_lines(await replan.held_plan(task_id)):
        say(f"  {line}")
    given: dict[str, Any] | None = None
    while True:
        said = _line("  yes, no, show (the whole plan), or the file of another plan: ").strip()
        if not said:
            return False
        word = said.casefold()
        try:
            if word in ("n", "no"):
                reason = _line("  why not (may be empty): ").strip()
                await replan.review(task_id, False, reason=reason, by=BY)
                return True
            if word in ("y", "yes"):
                await replan.review(task_id, plan=given, by=BY)
                return True
            if word == "show":
                shown = given or (await replan.held_plan(task_id)).plan.model_dump(
                    mode="json", exclude_defaults=True
                )
                say(printable(json.dumps(shown, ensure_ascii=False, indent=2)))
                continue
            given = plan_file(Path(said))
            say("  yes has that one carried out, once it has passed every check")
        except TaskEnded:
            raise
        except PlanInvalid as error:
            given = None
            for wrong in error.violations:
                say(f"  - {clean(wrong, 1_000)}")
        except InputError as error:
            say(f"  {clean(str(error), 1_000)}")
            if one.id not in {open_.id for open_ in (await replan.result(task_id)).waiting_for}:
                return True  # somebody else was faster


def _object(said: str) -> dict[str, Any]:
    try:
        parameters = read_json(said)
    except ValueError as error:
        at = f": {error}" if said.startswith("{") else ""
        raise InputError(f"{clean(said, 60)!r} is neither yes nor no, nor a JSON object{at}") from None
    if not isinstance(parameters, dict):
        raise InputError(
            f'{clean(said, 60)!r} is no JSON object: parameters are written like {{"name": "value"}}'
        )
    return parameters


async def _question(replan: Replan, task_id: str, one: WaitingFor) -> bool:
    say(clean(one.text, 2_000))
    if one.background:
        say(f"  {clean(one.background, 2_000)}")
    words = {
        "outcome": "yes, no or cannot tell; ",
        "question": f"{clean(right_answer(one.answer_schema), 1_000)}; ",
    }.get(one.kind, "done: it is done as it is; stop: end the task; ")
    while True:
        said = _line(f"  answer ({words}empty: later): ").strip()
        if not said:
            return False
        try:
            await replan.answer(task_id, said, one.id, by=BY)
        except TaskEnded:
            raise
        except InputError as error:
            say(f"  {clean(str(error), 1_000)}")
            if one.id not in {open_.id for open_ in (await replan.result(task_id)).waiting_for}:
                return True  # somebody else was faster
        else:
            return True


class Later(Exception):
    """The person does not want to answer now."""


def _line(prompt: str) -> str:
    """One line from the terminal; empty at its end. Nothing else goes on meanwhile: nobody drives a waiting task.

    Ctrl-C is `Later`, unless the process was started to ignore it.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        sys.stderr.write(prompt)
        sys.stderr.flush()
        return sys.stdin.readline()
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        raise Later from None
    finally:
        signal.signal(signal.SIGINT, before)
