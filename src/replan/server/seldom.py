"""Lines of the log that anybody can cause as often as they like: a few of them each minute, and then how many more, and from where."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any

from replan.core.words import in_digits, one_line
from replan.server.giving_way import network_of

EVERY_SECS = 60.0
_MOST_REMEMBERED = 1_000
"""Addresses."""


class Seldom:
    """Of one kind of lines."""

    def __init__(
        self,
        logger: logging.Logger,
        level: int,
        words: str,
        *,
        whole: int = 1,
        every_secs: float = EVERY_SECS,
    ) -> None:
        """`whole`: so many are told each by itself."""
        self._logger = logger
        self._level = level
        self._words = words
        self._whole = whole
        self._every_secs = every_secs
        self._told = 0
        self._more = 0
        self._from: Counter[str] = Counter()
        """By network."""
        self._hosts: dict[str, str] = {}
        """One of each."""
        self._due: asyncio.TimerHandle | None = None

    def __call__(self, host: str, why: str = "", extra: Mapping[str, Any] | None = None) -> None:
        """It has happened, by somebody at that address; `extra`: fields of a line of its own."""
        if self.quiet:
            self._told, self._more = 0, 0
            self._due = asyncio.get_running_loop().call_later(self._every_secs, self._look)
        if self._told < self._whole:
            self._told += 1
            words = f"{self._words}: {why}" if why else self._words
            self._logger.log(self._level, "%s (from %s)", words, _address(host), extra=extra)
            return
        self._more += 1
        network = network_of(host)
        if network in self._from or len(self._from) < _MOST_REMEMBERED:
            self._from[network] += 1
            self._hosts[network] = host

    @property
    def quiet(self) -> bool:
        """Nothing was told for a while."""
        return self._due is None

    def _look(self) -> None:
        """Tell what more there was. A minute without any begins anew."""
        self._due = None
        if not self._more:
            return
        most, times = self._from.most_common(1)[0]
        self._logger.log(
            self._level,
            "%s: %d more in %s s, %d of them from %s",
            self._words,
            self._more,
            in_digits(self._every_secs),
            times,
            _address(self._hosts[most]),
        )
        self._from.clear()
        self._hosts.clear()
        self._more, self._told = 0, self._whole
        self._due = asyncio.get_running_loop().call_later(self._every_secs, self._look)


def _address(host: str) -> str:
    return one_line(host) or "no address"
