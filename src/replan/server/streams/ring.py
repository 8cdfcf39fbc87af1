"""The last events of a task in one form, for all who watch it."""

from __future__ import annotations

MOST = 512
"""Events that are kept at least, if there were so many."""
MOST_BYTES = 2_097_152


class Ring:
    """Encoded events, each with its number in the log; 0 for what is not stored."""

    __slots__ = ("_bytes", "_frames", "first", "since")

    def __init__(self, since: int) -> None:
        """`since`: the last event that was stored before the first one here."""
        self.since = since
        self.first = 0
        """The place of the oldest one that is kept."""
        self._frames: list[tuple[int, bytes]] = []
        self._bytes = 0

    @property
    def end(self) -> int:
        """The place of the next one."""
        return self.first + len(self._frames)

    def add(self, seq: int, data: bytes) -> None:
        self._frames.append((seq, data))
        self._bytes += len(data)
        if len(self._frames) > 2 * MOST or self._bytes > MOST_BYTES:
            self._drop()

    def _drop(self) -> None:
        """The older half goes."""
        half = max(1, len(self._frames) // 2)
        for seq, data in self._frames[:half]:
            self._bytes -= len(data)
            self.since = seq or self.since
        del self._frames[:half]
        self.first += half

    def place_after(self, seq: int) -> int | None:
        """Where whoever has seen that event goes on; None if something before that is kept no more."""
        if seq < self.since:
            return None
        for at, (number, _) in enumerate(self._frames):
            if number > seq:
                return self.first + at
        return self.end

    def piece(self, at: int, seen: int, most: int) -> tuple[list[bytes], int, int]:
        """Events from that place on, as many as fit, one at least; the place behind them, and the last that was stored."""
        found: list[bytes] = []
        size, last, index = 0, seen, at - self.first
        frames = self._frames
        while index < len(frames):
            number, data = frames[index]
            if found and size + len(data) > most:
                break
            index += 1
            if number:
                if number <= seen:
                    continue
                last = number
            if data:
                found.append(data)
                size += len(data)
        return found, self.first + index, last
