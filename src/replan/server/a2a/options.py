"""The options of a task, wherever in its metadata a client writes them."""

from __future__ import annotations

from typing import Any

from a2a import types as t
from google.protobuf.json_format import MessageToDict

from replan.core.data.for_readers import folded
from replan.run.access.requests import SubmitOptions

_OF_ANYBODY = frozenset({"queue", "priority", "interactive"})
"""Names that others write into their metadata for themselves."""
_MEANT = {folded(name): name for name in SubmitOptions.model_fields if name not in _OF_ANYBODY}
_NOT_HERE = {"dryrun": "dry_run"}
"""What is chosen beside the options of a task, and has no place in A2A."""


def options_of(params: Any) -> Any:
    """The `options` in the metadata of the call or of its message; None where there are none.

    Both SDKs let a client write into either. A limit or an approval that was asked for is never passed over: what stands in both and
    differs, and what is an option and stands beside `options`, is refused.
    """
    found: dict[str, Any] = {}
    for where, holder in (("metadata", params), ("message.metadata", params.message)):
        metadata = MessageToDict(holder.metadata) if holder.HasField("metadata") else {}
        for name, value in metadata.items():
            if name == "options":
                found[where] = value
            elif folded(name) == "options":
                raise t.InvalidParamsError(message=f"{where}.{name[:100]}: did you mean `options`?")
            elif known := _MEANT.get(folded(name)):
                raise t.InvalidParamsError(message=f"{where}.{name[:100]}: write {known!r} into `options`")
            elif known := _NOT_HERE.get(folded(name)):
                raise t.InvalidParamsError(
                    message=f"{where}.{name[:100]}: tasks over A2A are run; POST /api/v1/tasks has {known!r}"
                )
    values = list(found.values())
    if len(values) == 2 and values[0] != values[1]:
        raise t.InvalidParamsError(
            message="message.metadata.options: the call's own metadata has other options; give them once"
        )
    return values[0] if values else None
