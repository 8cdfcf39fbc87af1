"""The program that ends process groups whose owner was killed. Started by `orphans`, by its path, without Replan.

Reads `+GROUP` and `-GROUP`, a line each. When its input ends, or its parent is another, nobody is there to end them.
"""

import contextlib
import os
import select
import signal
import sys
import time

_LOOK_SECS = 1.0
"""The input does not end while a fork of the owner holds the pipe as well."""
_TERM_SECS = 0.5
"""How long they may tidy up."""


def main() -> None:
    groups: set[int] = set()
    owner, read = os.getppid(), b""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # they are meant for the owner, whose end ends this
    while os.getppid() == owner:
        if not select.select([0], [], [], _LOOK_SECS)[0]:
            continue
        data = os.read(0, 65536)
        if not data:
            break
        *lines, read = (read + data).split(b"\n")
        for line in lines:
            (groups.add if line[:1] == b"+" else groups.discard)(int(line[1:]))
    for number in (signal.SIGTERM, signal.SIGKILL) if groups else ():
        for group in groups:
            with contextlib.suppress(OSError):
                os.killpg(group, number)
        time.sleep(_TERM_SECS)


if __name__ == "__main__":
    main()
    sys.exit(0)
