"""What results and plans look like in a notebook: HTML in which everything that came from outside is escaped."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from replan.core.words import beginning, text_of

MOST_TEXT = 300
MOST_ROWS = 200


def table(heads: Sequence[str], rows: Sequence[Iterable[str]]) -> str:
    """At most `MOST_ROWS` of the rows."""
    if not rows:
        return ""
    shown = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows[:MOST_ROWS]
    )
    more = f"<p>and {len(rows) - MOST_ROWS} more steps</p>" if len(rows) > MOST_ROWS else ""
    return (
        "<table><thead><tr>"
        + "".join(f"<th>{escape(head)}</th>" for head in heads)
        + f"</tr></thead><tbody>{shown}</tbody></table>{more}"
    )


def text_html(value: Any) -> str:
    """A value as it is, or as JSON, with its lines."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str, indent=2)
    return escape(text).replace("\n", "<br>")


def short(value: Any) -> str:
    """The beginning of a value, for one cell."""
    return beginning(text_of(value), MOST_TEXT)
