"""An output without its secrets: what is kept of it, while this process still knows the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replan.beside import seen_through
from replan.core.data.pieces import weight
from replan.core.secrets import KnownSecrets, may_say_secret, secrets_of_schema
from replan.core.types import ToolSpec
from replan.run.session.outputs import Packed, pack

if TYPE_CHECKING:
    from replan.run.session.context import Run

AT_ONCE = 32_768
"""Characters that are read in the event loop; more are read beside it, piece by piece."""


class Sealed(Packed):
    """An output in which something is masked."""


def may_be_sealed(run: Run, tool: ToolSpec) -> bool:
    """False where an output of the tool surely holds no secret that is known."""
    return run.secrets.any or (tool.output_schema is not None and may_say_secret(tool.output_schema))


async def sealed(packed: Packed, run: Run, tool: ToolSpec, limit: int) -> Packed:
    """The output with every secret in it masked; the same if there is none. References still find the real values."""
    known = run.secrets
    small = packed.stored is None and weight(packed.value, AT_ONCE) <= AT_ONCE
    found = secrets_of_schema(tool.output_schema, packed.value)
    if small:
        known.add_all(found)
        masked = known.masked(packed.value)
        return packed if masked is packed.value else Sealed(masked)
    await seen_through(known.add_all, found)
    if not known:
        return packed
    made = await seen_through(_masked, known, packed, limit)
    if made.artifact is not None:
        run.kept[made.artifact.artifact_id] = made.value
    return made


def _masked(known: KnownSecrets, packed: Packed, limit: int) -> Packed:
    masked = known.masked(packed.value)
    if masked is packed.value:
        return packed
    again = pack(masked, 0 if packed.stored is not None else limit)
    if again.artifact is None or again.stored is None:
        return Sealed(masked)
    return Sealed(masked, again.artifact.model_copy(update={"masked": True}), again.stored)
