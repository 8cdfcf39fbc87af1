"""Which places of a tool's parameters are meant for secrets."""

from __future__ import annotations

from dataclasses import dataclass

from replan.core.secrets.names import is_headers, is_on_behalf, is_secret_name
from replan.core.secrets.schemas import SecretParts
from replan.core.types import ToolSpec


@dataclass(frozen=True, slots=True)
class Receiver:
    """A place in the parameters of a tool."""

    _parts: SecretParts
    takes: bool = False
    """A secret may come here: the tool or its schema says so, or the parameter has the name of one (`api_key`)."""
    name: str = ""
    """What the schema calls it; empty where whoever writes the call makes up the name."""
    _declared: tuple[str, ...] = ()
    _headers: bool = False
    """What is in it are headers: those with the name of a secret (`Authorization`) take one."""

    @classmethod
    def of(cls, tool: ToolSpec) -> Receiver:
        """All of a tool's parameters."""
        return cls(SecretParts([tool.parameters], tool.parameters), _declared=tool.secrets)

    @property
    def takes_names(self) -> bool:
        """The names of what is in it may be secrets."""
        return self.takes or self._parts.names().secret

    def field(self, name: str) -> Receiver:
        parts = self._parts.field(name)
        own = self._parts.has_field(name)
        named = (own or self._headers) and is_secret_name(name)
        takes = self.takes or parts.secret or name in self._declared or named
        return Receiver(parts, takes, name if own else "", _headers=own and is_headers(name))

    def item(self, at: int) -> Receiver:
        parts = self._parts.item(at)
        return Receiver(parts, self.takes or parts.secret)


def credentials_of(tool: ToolSpec) -> frozenset[str]:
    """The parameters that say on whose behalf the tool is called, and nothing of what it does: secrets, sessions, headers."""
    properties = tool.parameters.get("properties")
    names = properties if isinstance(properties, dict) else ()
    every = Receiver.of(tool)
    return frozenset(
        name for name in names if every.field(name).takes or is_on_behalf(name) or is_headers(name)
    )
