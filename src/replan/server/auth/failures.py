"""Who fails to sign in again and again from one address is not looked at for a while; whoever was let in from there before still is."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable

from replan.core.tools.rules import read_rate
from replan.errors import TooMany
from replan.run.access.tenants.limits import Bucket
from replan.server.auth.credentials import Credentials

MOST_REMEMBERED = 10_000


def address_of(peer: str) -> str:
    """The address alone, of HTTP or of gRPC (`ipv4:127.0.0.1:50000`)."""
    if not peer.startswith(("ipv4:", "ipv6:")):
        return peer
    return peer[5:].rpartition(":")[0].strip("[]")


class Failures:
    """Of one process."""

    def __init__(self, rate: str, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        """`rate`: so many an address may have, like `300/minute`; empty: any number."""
        self._words = rate
        self._rate = read_rate(rate) if rate else None
        self._monotonic = monotonic
        self._left: OrderedDict[str, Bucket] = OrderedDict()
        self._good: OrderedDict[bytes, None] = OrderedDict()
        self._salt = secrets.token_bytes(16)

    def check(self, credentials: Credentials) -> None:
        """Before they are looked at: `TooMany` where that address has failed too often just now, and these were not good before."""
        bucket = self._left.get(address_of(credentials.peer))
        if bucket is None or self._rate is None or self._digest(credentials) in self._good:
            return
        wait = bucket.wait(self._monotonic())
        if wait is not None:
            raise TooMany(
                f"too many have failed to sign in from this address (at most {self._words} may): come back later, with a key that is good",
                retry_after=wait,
            )

    def failed(self, credentials: Credentials) -> None:
        if self._rate is None:
            return
        now, address = self._monotonic(), address_of(credentials.peer)
        bucket = self._left.pop(address, None) or Bucket(self._rate, now)
        self._left[address] = bucket
        bucket.take(now)
        if len(self._left) > MOST_REMEMBERED:
            self._left.popitem(last=False)

    def let_in(self, credentials: Credentials) -> None:
        if self._rate is None:
            return
        digest = self._digest(credentials)
        self._good.pop(digest, None)
        self._good[digest] = None
        if len(self._good) > MOST_REMEMBERED:
            self._good.popitem(last=False)

    def _digest(self, credentials: Credentials) -> bytes:
        said = f"{credentials.authorization}\n{credentials.api_key}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(said, digest_size=16, key=self._salt).digest()
