"""Names of the plan inside filters, projections and `&…`, written as the references that they are meant for.

`[?customer == who.output.id]` is read as `[?customer == ${who.output.id}]`. A name that may as well be a field of the items stays as it
is written: that is a violation, and says both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from replan.core.following.referred import is_followed
from replan.core.plan.check_references import begins, condition_begins, names_meant
from replan.core.plan.index import Draft, PlannedCall
from replan.core.references.braces import quoted_at, replaced
from replan.core.references.conditions import check_condition, expression
from replan.core.references.paths import check_path, static_steps
from replan.core.references.refs import Expression, Reference, alone, changed, is_plain, parse, whole, written
from replan.core.references.scopes import Meant, Place, Quoted, Stray, findings
from replan.core.types import Action, Step, ToolSpec
from replan.core.waits.check import also_what_was_read, reading_begins

_OF_A_STEP = ("output", "outputs", "actions")
_NAME = r'(?:[A-Za-z_]\w*+|"(?:[^"\\]|\\.)*+")(?!\s*+\()'
_CHAIN = re.compile(rf"{_NAME}(?:\s*+\.\s*+{_NAME}|\s*+\[\s*+-?\d++\s*+\])*+")
"""What of a path is taken of one name: fields and items of lists."""


def with_outer_names(
    draft: Draft, step: Step, calls: Iterable[PlannedCall], resolve: Callable[[str], ToolSpec | None]
) -> Step:
    """The step with such names in its parameters, its list and its condition as references; the very same where there is none."""
    outside = _Outside(draft, step)
    tools = [call.tool for call in calls]

    def parameters(one: Step | Action, at: int) -> Any:
        tool = tools[at]
        waits = tool is not None and tool.waits == "condition"
        found = {
            name: outside.of_wait(value, resolve(str(one.parameters.get("tool"))))
            if waits and name == "condition" and isinstance(value, str)
            else outside.of(value)
            for name, value in one.parameters.items()
        }
        return one.parameters if found == one.parameters else found

    update: dict[str, Any] = {}
    if step.actions:
        made = tuple(
            one
            if (now := parameters(one, at)) is one.parameters
            else one.model_copy(update={"parameters": now})
            for at, one in enumerate(step.actions)
        )
        if any(one is not before for one, before in zip(made, step.actions, strict=True)):
            update["actions"] = made
    elif (now := parameters(step, 0)) is not step.parameters:
        update["parameters"] = now
    if step.for_each is not None and (items := outside.of(step.for_each)) != step.for_each:
        update["for_each"] = items
    if step.when is not None and (when := outside.of_condition(step.when)) != step.when:
        update["when"] = when
    return step.model_copy(update=update) if update else step


class _Outside:
    def __init__(self, draft: Draft, step: Step) -> None:
        self._draft = draft
        self._step = step
        self._meant = names_meant(draft, step)

    def of(self, value: Any) -> Any:
        """A value with the names in its references."""
        if isinstance(value, dict):
            return {self.of(key): self.of(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.of(item) for item in value]
        if not isinstance(value, str) or is_plain(value) or not any(map(_looks_in, parse(value))):
            return value
        made = changed(value, self._reference)
        return made if _is_read_as_well(value, made) else value

    def of_condition(self, text: str) -> str:
        """A condition with the names in it."""
        if check_condition(text):
            return text
        if expression(text) is not None:
            return str(self.of(text))
        return self._path(text, condition_begins(self._draft), self._meant)

    def of_wait(self, text: str, reader: ToolSpec | None) -> str:
        """The condition of a wait, which looks at `output`."""
        if check_path(text, refers=True):
            return text
        made = self._path(text, reading_begins(reader), also_what_was_read(self._meant))
        return str(self.of(made))

    def _reference(self, raw: str) -> str:
        ref = whole(raw)
        if ref is None or not _looks_in(ref):
            return raw
        path = self._path(ref.path, begins(self._draft, self._step, ref), self._meant)
        made = written(ref, path) if path != ref.path else raw
        now = whole(made)
        return raw if now is None or now.problem or now.head != ref.head or now.action != ref.action else made

    def _path(self, path: str, start: Place, meant: Meant) -> str:
        places = []
        for one in findings(path, start, meant)[0]:
            if isinstance(one, Stray) and self._stands_for_it(one):
                found = _CHAIN.match(path, one.at)
                if found is not None:
                    places.append((found.span(), _in_braces(found[0])))
            elif isinstance(one, Quoted):
                text = quoted_at(path, one.at)
                if isinstance(alone(text[1:-1]), Reference):
                    places.append(((one.at, one.at + len(text)), text[1:-1]))
        made = replaced(path, iter(sorted(places))) if places else path
        return path if check_path(made, refers=True) else made

    def _stands_for_it(self, stray: Stray) -> bool:
        """Whether the plan is meant, and not a field that the items may have."""
        name, part = stray.chain[0], stray.chain[1] if len(stray.chain) > 1 else None
        draft = self._draft
        if part == "status" or name in ("output", "outputs"):
            return False
        if name in draft.actions or name in draft.steps or name in draft.earlier:
            return part in _OF_A_STEP or (part is None and bool(stray.known))
        if name == "metadata":
            known = (
                part in draft.metadata or bool(draft.writers_before(self._step.step_id, part))
                if part
                else False
            )
            return known and (bool(stray.known) or stray.beside)
        if is_followed(name):
            return part is not None
        return bool(stray.known) or stray.beside


def _looks_in(part: str | Reference | Expression) -> bool:
    """True where a path has filters, projections or the like."""
    if isinstance(part, Expression):
        return any(map(_looks_in, part.references))
    return (
        isinstance(part, Reference)
        and not part.problem
        and bool(part.path)
        and static_steps(part.path) is None
    )


def _in_braces(chain: str) -> str:
    head = quoted_at(chain, 0)
    return f"${{{head[1:-1]}{chain[len(head) :]}}}"


def _is_read_as_well(before: str, now: str) -> bool:
    """True where the text as it is now is cut into as many pieces, none of which is a fault now."""
    old, new = parse(before), parse(now)
    return len(old) == len(new) and all(
        isinstance(one, str) is isinstance(was, str)
        and (isinstance(one, str) or not one.problem or bool(getattr(was, "problem", "")))
        for was, one in zip(old, new, strict=True)
    )
