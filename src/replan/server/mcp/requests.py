"""Requests under way in a session of MCP, by their ids: the answers of two that have the same one could not be told apart."""

from __future__ import annotations

from pydantic_core import from_json
from starlette.responses import JSONResponse

_INVALID_REQUEST = -32600


class UnderWay:
    """Of all sessions."""

    def __init__(self) -> None:
        self._ids: set[tuple[str, str]] = set()

    def of(self, session: str, body: bytes) -> Asked | None:
        """The request in this body; None where it has none that is answered."""
        try:
            message = from_json(body)
        except ValueError:
            return None  # who reads it says so
        if not isinstance(message, dict) or "method" not in message:
            return None
        name = message.get("id")
        if isinstance(name, bool) or not isinstance(name, str | int):
            return None
        return Asked(self._ids, session, name)


class Asked:
    """One request; `with`: it is under way."""

    def __init__(self, ids: set[tuple[str, str]], session: str, name: str | int) -> None:
        self._ids = ids
        self._name = name
        self._key = (session, str(name))  # as whoever answers keeps them: 1 is "1"

    @property
    def taken(self) -> bool:
        """Another one of this id is under way in the session."""
        return self._key in self._ids

    def refusal(self) -> JSONResponse:
        """Nothing is begun for it: sent again, with an id of its own, it does nothing twice."""
        said = (
            f"a request with the id {self._name!r:.80} is under way in this session, and its answer could not be told from this one's: "
            "give each request an id of its own; nothing was begun for this one"
        )
        error = {"code": _INVALID_REQUEST, "message": said}
        return JSONResponse({"jsonrpc": "2.0", "id": self._name, "error": error}, 400)

    def __enter__(self) -> None:
        self._ids.add(self._key)

    def __exit__(self, *_: object) -> None:
        self._ids.discard(self._key)
