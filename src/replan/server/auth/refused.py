"""Why a caller is refused: for the log. Whoever calls is told the same whatever it was."""

from __future__ import annotations

from replan.errors import NotSignedIn

SAID = (
    "the service does not know who calls: send a key or token that is good now, as `Authorization: Bearer …`"
    " or `X-API-Key: …`"
)
CHALLENGE = 'Bearer realm="replan"'
"""`WWW-Authenticate` of a 401."""


class Refused(NotSignedIn):
    """`why` and `key_id` are for the log: they would tell whoever guesses how near it is."""

    def __init__(self, why: str, *, key_id: str = "") -> None:
        super().__init__(SAID)
        self.why = why
        self.key_id = key_id
