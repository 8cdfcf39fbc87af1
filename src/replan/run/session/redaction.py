"""What turns out to be secret late is taken out of what is stored already."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from replan.core.events import AnyEvent, TaskSubmitted
from replan.core.secrets import KnownSecrets
from replan.core.types import Artifact
from replan.run.session.outputs import pack, read_now

E = TypeVar("E", bound=AnyEvent)


class LateSecrets:
    """`ports.Redaction`: every secret that is known now is masked, as it would have been from the beginning."""

    def __init__(self, known: KnownSecrets, places: Iterable[str]) -> None:
        """`places`: where in the metadata the late ones stand, so that they are asked for where the task is resumed."""
        self._known = KnownSecrets(known)  # one of its own: it is used in the store's thread
        self._places = dict.fromkeys(places, "")
        self.kept: dict[str, Any] = {}
        """What the artifacts stood for that were changed: this process goes on with it."""

    def artifact(self, artifact_id: str, data: bytes) -> bytes:
        value = read_now(data)
        masked = self._known.masked(value)
        if masked is value:
            return data
        self.kept[artifact_id] = value
        again = pack(masked, 0)
        return data if again.stored is None else again.stored.data

    def event(self, event: AnyEvent) -> AnyEvent:
        made = self._known.masked_stored(event)
        if isinstance(made, TaskSubmitted) and made.masked:
            made = made.model_copy(update={"secrets": {**self._places, **made.secrets}})
        changed = {
            name: value.model_copy(update={"masked": True})
            for name, value in made.__dict__.items()
            if isinstance(value, Artifact) and value.artifact_id in self.kept
        }
        return made.model_copy(update={**changed, "masked": True}) if changed else made
