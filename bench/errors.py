"""How well errors are told apart by their status, code and message, on errors that others collected and labelled.

    python -m bench.errors              the confusion table, precision and recall of each class, shares that are right
    python -m bench.errors --wrong      every row that is classified otherwise than labelled, too

The rows are those of `http_errors_public.jsonl` that are not marked ambiguous; what their labels mean in our four
classes is said in `tests/cases/http_error_labels.py`, which was fixed before any rule was written.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from replan.core.failures.classes import ErrorClass, error_class
from replan.core.failures.faults import retry_after_secs

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests" / "cases"))
from http_error_labels import class_of  # noqa: E402 - the tests are not a package

FILE = ROOT.parent / "shared" / "cases" / "http_errors_public.jsonl"
CLASSES: tuple[str, ...] = get_args(ErrorClass)
NONE = "none"
Row = Mapping[str, Any]
Confusion = Counter[tuple[str, str]]
"""How often a row of the first class (by its label) is given the second."""


def read(file: Path = FILE) -> list[Row]:
    """The rows whose label is beyond doubt."""
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    return [row for row in rows if not row["ambiguous"]]


def classify(row: Row, *, status: bool = True, words: bool = True) -> str:
    """The class by the status, by the words, or by both."""
    headers = {name.lower(): value for name, value in (row.get("headers") or {}).items()}
    found = error_class(
        status=row["status"] if status else None,
        code=(row["error_code"] or "") if words else "",
        message=row["message"] if words else "",
        retry_after=retry_after_secs(str(headers.get("retry-after", "")), None) if status else None,
    )
    return found or NONE


def confusion(rows: Iterable[Row], **by: bool) -> Confusion:
    return Counter((class_of(row["label"]), classify(row, **by)) for row in rows)


def right(counts: Confusion) -> float:
    """The share of rows that are given the class of their label."""
    return sum(n for (label, given), n in counts.items() if label == given) / counts.total()


def table(counts: Confusion) -> str:
    """Labels down, given classes across, then recall; precision below."""
    across = (*CLASSES, NONE)
    lines = [f"{'labelled':<10}" + "".join(f"{name:>11}" for name in across) + f"{'recall':>9}"]
    for label in CLASSES:
        of_label = sum(counts[label, given] for given in across)
        cells = "".join(f"{counts[label, given]:>11}" for given in across)
        lines.append(f"{label:<10}{cells}{_share(counts[label, label], of_label):>9}")
    given_all = [sum(counts[label, given] for label in CLASSES) for given in CLASSES]
    precision = (_share(counts[name, name], n) for name, n in zip(CLASSES, given_all, strict=True))
    lines.append(f"{'precision':<10}" + "".join(f"{share:>11}" for share in precision))
    return "\n".join(lines)


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--wrong", action="store_true", help="list the rows that are not classified as labelled"
    )
    wanted = parser.parse_args()
    if not FILE.is_file():
        parser.exit(2, f"{FILE.name} is not in {FILE.parent.name}, beside the repository\n")
    rows = read()
    counts = confusion(rows)
    print(table(counts), end="\n\n")
    print(f"right, of {len(rows)}: {right(counts):.1%}")
    print(f"  by the status alone: {right(confusion(rows, words=False)):.1%}")
    print(f"  by the words alone:  {right(confusion(rows, status=False)):.1%}")
    if wanted.wrong:
        for row in rows:
            if (given := classify(row)) != (label := class_of(row["label"])):
                print(f"\n{label}, given {given}: {row['status']} {row['error_code']} ({row['api']})")
                print(f"  {' '.join(row['message'].split())[:200]}")


if __name__ == "__main__":
    main()
