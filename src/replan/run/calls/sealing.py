"""An output without its secrets: what is kept of it, while this process still knows the rest."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from replan.core.secrets import KnownSecrets, secrets_of_schema
from replan.core.types import ToolSpec
from replan.run.session.outputs import Packed, pack
from replan.run.session.shielding import wait_through

if TYPE_CHECKING:
    from replan.run.session.context import Run

AT_ONCE = 32_768
"""Characters that are read in the event loop; more are read beside it, piece by piece."""


class Sealed(Packed):
    """An output in which something is masked."""


async def sealed(packed: Packed, run: Run, tool: ToolSpec, limit: int) -> Packed:
    """The output with every secret in it masked; the same if there is none. References still find the real values."""
    known = run.secrets
    known.add_all(secrets_of_schema(tool.output_schema, packed.value))
    if not known:
        return packed
    if packed.stored is None and _is_small(packed.value):
        masked = known.masked(packed.value)
        return packed if masked is packed.value else Sealed(masked)
    work = asyncio.get_running_loop().create_task(asyncio.to_thread(KnownSecrets(known).masked, packed.value))
    await wait_through([work])
    masked = work.result()
    if masked is packed.value:
        return packed
    again = pack(masked, 0 if packed.stored is not None else limit)
    if again.artifact is None or again.stored is None:
        return Sealed(masked)
    artifact = again.artifact.model_copy(update={"masked": True})
    run.kept[artifact.artifact_id] = masked
    return Sealed(masked, artifact, again.stored)


def _is_small(value: Any) -> bool:
    return not isinstance(value, dict | list | str) or len(str(value)) <= AT_ONCE
