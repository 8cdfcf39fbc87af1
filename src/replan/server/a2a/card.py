"""The agent card: what other agents find here, and how they call it."""

from __future__ import annotations

from typing import Any

from replan import __version__
from replan.config.sections import Server

PATH = "/a2a"
CARD_PATH = "/.well-known/agent-card.json"
_MODES = ["text/plain", "application/json"]
_VERSIONS = ("1.0", "0.3")


def card_of(server: Server, asked_at: str) -> Any:
    """For whoever has asked for it at that address, which is what it says where no other is set. Tools are not named: who asks for it need not say who it is."""
    from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill

    url = (server.public_url or asked_at.rstrip("/")) + PATH
    card = AgentCard(
        name="Replan",
        description="Takes a task in plain language, plans it as a graph of tool calls, runs, checks and repairs it.",
        version=__version__,
        supported_interfaces=[
            AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version=version) for version in _VERSIONS
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=False),
        default_input_modes=_MODES,
        default_output_modes=_MODES,
        skills=[
            AgentSkill(
                id="task",
                name="Do a task",
                description="Say what is to be done and what the answer should be. A person is asked (input required) where a call needs a yes.",
                tags=["tasks", "planning", "tools"],
            )
        ],
    )  # fmt: skip
    if server.auth != "off":
        _say_how_to_sign_in(card)
    return card


def _say_how_to_sign_in(card: Any) -> None:
    from a2a.types import HTTPAuthSecurityScheme, SecurityRequirement, SecurityScheme, StringList

    bearer = HTTPAuthSecurityScheme(
        scheme="bearer", description="A key of the service, or a token of its provider."
    )
    card.security_schemes["bearer"].CopyFrom(SecurityScheme(http_auth_security_scheme=bearer))
    card.security_requirements.append(SecurityRequirement(schemes={"bearer": StringList()}))
