"""Questions and answers of the domain name system (RFC 1035; SRV: RFC 2782), as far as a registry needs them."""

from __future__ import annotations

import struct
from typing import NamedTuple

SRV, A, AAAA = 33, 1, 28
_IN = 1
_MOST_RECORDS = 1_000


class Malformed(ValueError):
    """No message of the domain name system."""


class Service(NamedTuple):
    """A record SRV."""

    priority: int
    weight: int
    port: int
    target: str


class Answer(NamedTuple):
    """What a server says to one question."""

    code: int
    services: tuple[Service, ...]
    ttl: int
    """Seconds for which all of it holds."""
    addresses: dict[str, tuple[str, ...]]
    """Of targets, by their names in small letters, where the server has sent them along."""


def question(number: int, name: str, kind: int) -> bytes:
    """The question for the records of that kind. `Malformed` for what is no name."""
    labels = name.rstrip(".").split(".")
    try:
        encoded = [label.encode("ascii") for label in labels]
    except UnicodeEncodeError:
        raise Malformed(f"{name!r} has letters beyond ASCII") from None
    if len(name) > 253 or not all(0 < len(label) < 64 for label in encoded):
        raise Malformed(f"{name[:100]!r} is no name")
    packed = b"".join(bytes([len(label)]) + label for label in encoded) + b"\0"
    return struct.pack(">6H", number, 0x0100, 1, 0, 0, 0) + packed + struct.pack(">2H", kind, _IN)


def read(message: bytes, number: int, name: str, kind: int) -> Answer:
    """The answer to that very question; `Malformed` for anything else."""
    try:
        return _read(message, number, name, kind)
    except (struct.error, IndexError):
        raise Malformed("it ends in the middle") from None


def _read(message: bytes, number: int, name: str, kind: int) -> Answer:
    given, flags, questions, answers, authorities, additional = struct.unpack_from(">6H", message)
    if given != number or not flags & 0x8000 or questions != 1:
        raise Malformed("it answers another question")
    asked, at = _name(message, 12)
    if asked.lower() != name.rstrip(".").lower() or struct.unpack_from(">2H", message, at) != (kind, _IN):
        raise Malformed("it answers another question")
    at += 4
    services: list[Service] = []
    addresses: dict[str, tuple[str, ...]] = {}
    ttl = 2**31
    for turn in range(min(answers + authorities + additional, _MOST_RECORDS)):
        owner, at = _name(message, at)
        found, _, lives, size = struct.unpack_from(">2HIH", message, at)
        at += 10
        data, end = at, at + size
        if end > len(message):
            raise Malformed("it ends in the middle")
        if found == SRV and turn < answers:
            priority, weight, port = struct.unpack_from(">3H", message, data)
            services.append(Service(priority, weight, port, _name(message, data + 6)[0]))
            ttl = min(ttl, lives)
        elif (found, size) in ((A, 4), (AAAA, 16)):
            import ipaddress

            raw = message[data:end]
            known = addresses.get(owner.lower(), ())
            if (address := str(ipaddress.ip_address(raw))) not in known:
                addresses[owner.lower()] = (*known, address)
        at = end
    return Answer(flags & 0xF, tuple(services), ttl, addresses)


def _name(message: bytes, at: int) -> tuple[str, int]:
    """A name that begins there, and where it ends. Pointers lead back only, so that none leads in a circle."""
    labels: list[str] = []
    end: int | None = None
    before = at
    total = 0
    while True:
        size = message[at]
        if size & 0xC0 == 0xC0:
            target = ((size & 0x3F) << 8) | message[at + 1]
            end = at + 2 if end is None else end
            if target >= before:
                raise Malformed("a name leads in a circle")
            before = at = target
            continue
        if size & 0xC0:
            raise Malformed("a name has a label of no known kind")
        at += 1
        if size == 0:
            return ".".join(labels), at if end is None else end
        total += size + 1
        if total > 255 or at + size > len(message):
            raise Malformed("a name is too long")
        labels.append(message[at : at + size].decode("latin-1"))
        at += size
