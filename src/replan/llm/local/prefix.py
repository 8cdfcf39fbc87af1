"""Instructions that the built-in model has read once, kept on disk: the next process starts in milliseconds.

Only the instructions are kept, which ship with Replan; never a task, its data or an answer.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
from pathlib import Path
from urllib.parse import urlsplit

_WORTH_CHARS = 800
"""Shorter instructions are read as fast as they are looked up."""
_KEPT = 8
"""Files, the latest used: about 30 MB each."""


class PrefixStore:
    """What was read, by a key of the weights, the window, the runtime and the text.

    `identity` is everything beside the text that makes a kept state unusable when it changes.
    """

    def __init__(self, folder: Path, identity: str) -> None:
        self.folder = folder
        self._identity = identity
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.usable = os.access(folder, os.W_OK)
        except OSError:
            self.usable = False

    def name(self, instructions: str) -> str | None:
        """The file's name for the instructions; None if they are not worth one."""
        if not self.usable or len(instructions) < _WORTH_CHARS:
            return None
        text = f"{self._identity}\x00{instructions}".encode("utf-8", "surrogatepass")
        return hashlib.sha256(text).hexdigest()[:32] + ".slot"

    def restore(self, name: str, address: str, key: str) -> bool:
        """Put the kept state into the runtime; False if there is none that it takes."""
        file = self.folder / name
        if not file.is_file():
            return False
        if not _act(address, key, "restore", name):
            file.unlink(missing_ok=True)
            return False
        file.touch()
        return True

    def save(self, name: str, address: str, key: str) -> None:
        """Keep the runtime's present state under the name, whole or not at all."""
        part = f"{name}.{os.getpid()}"
        if _act(address, key, "save", part):
            try:
                (self.folder / part).replace(self.folder / name)
            except OSError:
                return
            self._prune()

    def _prune(self) -> None:
        try:
            kept = sorted(self.folder.glob("*.slot*"), key=lambda file: file.stat().st_mtime, reverse=True)
            for file in kept[_KEPT:]:
                file.unlink(missing_ok=True)
        except OSError:
            return  # another process was at it


def _act(address: str, key: str, action: str, name: str) -> bool:
    """Ask the runtime, over its own port on loopback: its in-process interface has no words for this."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname or "127.0.0.1", parts.port, timeout=30)
    try:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
        connection.request("POST", f"/slots/0?action={action}", json.dumps({"filename": name}), headers)
        answer = connection.getresponse()
        answer.read()
    except (OSError, http.client.HTTPException):
        return False
    else:
        return answer.status == 200
    finally:
        connection.close()
