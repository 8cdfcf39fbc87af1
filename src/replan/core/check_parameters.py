"""Whether a planned call's parameters fit its tool's schema, as far as that can be told beforehand."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from replan.core import schemas
from replan.core.check_references import given_types
from replan.core.draft import Draft, PlannedCall
from replan.core.refs import has_references, is_plain, whole
from replan.core.types import Step, ToolSpec

_OF_THE_FORM = frozenset(
    {"required", "additionalProperties", "type", "minProperties", "maxProperties", "minItems", "maxItems"}
)
"""What filling in references into an object or list does not change."""


def parameter_violations(draft: Draft, step: Step, call: PlannedCall) -> Iterator[str]:
    """What does not match, with its place: constants, what the metadata fills in, and referenced types."""
    tool = call.tool
    if tool is None:
        return
    filled = draft.filled(call)
    parameters = {**call.parameters, **filled} if filled else call.parameters
    for error in schemas.sorted_errors(tool.parameters, parameters):
        if not _excused(draft, step, error, filled):
            yield f"{call.where}: {_words(tool, error)}"
    if not has_references(call.parameters):
        return
    for path, text, wanted in schemas.parameter_schemas(tool.parameters, call.parameters):
        ref = whole(text)
        if ref is None or wanted is None:
            continue
        given, needed = given_types(draft, ref), schemas.types_of(wanted)
        if not schemas.can_fit(given, needed):
            yield (
                f"{call.where}: {schemas.place(path)} has to be {schemas.words_of(needed)}, "
                f"and {ref.raw} gives {schemas.words_of(given)}"
            )


def _excused(draft: Draft, step: Step, error: Any, filled: Collection[str]) -> bool:
    """True if the error may be gone by the time of the call."""
    if error.validator == "required" and not error.absolute_path:
        absent = [name for name in error.validator_value if name not in error.instance]
        name = next((name for name in absent if error.message.startswith(repr(name))), None)
        return name is not None and bool(draft.writers_before(step.step_id, name))
    if error.absolute_path and (first := error.absolute_path[0]) in filled:
        return bool(draft.writers_before(step.step_id, str(first)))
    instance = error.instance
    if isinstance(instance, str):
        if is_plain(instance):
            return False
        return whole(instance) is not None or error.validator != "type"
    return error.validator not in _OF_THE_FORM and has_references(instance)


def _words(tool: ToolSpec, error: Any) -> str:
    text = f"tool {tool.id!r}: {schemas.describe(error)}"
    if error.validator in ("required", "additionalProperties") and not error.absolute_path:
        text += f"; its parameters are: {', '.join(tool.parameters.get('properties', {})) or 'none'}"
    return text
