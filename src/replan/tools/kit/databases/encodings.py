"""Text files in UTF-8: those in another encoding as copies."""

from __future__ import annotations

import codecs
from pathlib import Path

_CHUNK = 2**20
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def in_utf8(path: Path, folder: Path) -> Path:
    """The file, or its copy in `folder` if it is not in UTF-8: by its mark of byte order, else Windows-1252."""
    encoding = _encoding_of(path)
    if encoding is None:
        return path
    number = sum(1 for _ in folder.iterdir())
    copy = folder / f"{number}{path.suffix}"
    # The few bytes that Windows-1252 has no characters for are not worth a refusal of the file.
    with (
        path.open(encoding=encoding, errors="replace", newline="") as old,
        copy.open("w", encoding="utf-8", newline="") as new,
    ):
        while text := old.read(_CHUNK):
            new.write(text)
    return copy


def _encoding_of(path: Path) -> str | None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    with path.open("rb") as opened:
        head = opened.read(4)
        for mark, name in _MARKS:
            if head.startswith(mark):
                return name
        if len(head) == 4 and head[1] == head[3] == 0 and head[0] and head[2]:
            return "utf-16-le"
        if len(head) == 4 and head[0] == head[2] == 0 and head[1] and head[3]:
            return "utf-16-be"
        try:
            decoder.decode(head)
            while data := opened.read(_CHUNK):
                decoder.decode(data)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return "cp1252"
    return None
