"""Keys as HTTP can carry them."""

from __future__ import annotations

from replan.errors import ConfigError


def usable_key(value: str | None, where: str) -> str | None:
    """The key without the line ends that a file or a shell leaves behind it; None for none.

    `ConfigError` names the setting (`where`) and what is wrong, never the key.
    """
    if value is None:
        return None
    key = value.rstrip("\r\n")
    if not key:
        return None
    wrong = next((sign for sign in key if not " " <= sign <= "~"), None)
    if wrong is None and key == key.strip():
        return key
    at = key.index(wrong) + 1 if wrong is not None else len(key) if key.endswith(" ") else 1
    what = (
        "a line break" if wrong in ("\n", "\r") else "a sign that is no plain ASCII" if wrong else "a blank"
    )
    raise ConfigError(
        f"{where} cannot be sent as an HTTP header: it has {what} at place {at} of {len(key)}; give the key alone"
    )
