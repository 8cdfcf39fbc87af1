"""One task as a file that stands alone: the same modules as `data:` addresses, its events as JSON; it asks nothing of anybody."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from replan.core.types import JsonObject
from replan.core.words import one_line
from replan.page.assets import Assets, assets, import_map_of, source_of

LARGE_BYTES = 65_536
"""Of one output: a larger one is cut, and says so."""
_HEAD = 2_000
_MOST_TITLE = 80
_BOOT = 'import "replan/main";'
_OUTPUTS = ("output", "final_output")


def page_of(events: Iterable[JsonObject], *, result: JsonObject | None = None) -> str:
    """The page of a task, of its events as programs see them. `result`: what it has come to, where it has ended."""
    found = assets()
    shown = [_cut(event) for event in events]
    title = _title(shown)
    import_map = import_map_of({name: _address(found, path) for name, path in found.modules.items()})
    style = "\n".join(found.served[path].body.decode() for path in found.styles)
    words = {
        path.removeprefix("words/").removesuffix(".json"): json.loads(asset.body)
        for path, asset in found.served.items()
        if path.startswith("words/")
    }
    policy = (
        f"default-src 'none'; script-src data: '{source_of(import_map)}' '{source_of(_BOOT)}'; style-src '{source_of(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n"
        f'<script type="importmap">{import_map}</script>\n</head>\n<body>\n<div id="app"></div>\n'
        f'<script type="application/json" id="words">{_as_data(words)}</script>\n'
        f'<script type="application/json" id="export">{_as_data({"events": shown, "result": result and _cut_in(result)})}</script>\n'
        f'<script type="module">{_BOOT}</script>\n</body>\n</html>\n'
    )


def _address(found: Assets, path: str) -> str:
    body = base64.b64encode(found.served[path].body).decode()
    return f"data:text/javascript;base64,{body}"


def _as_data(value: Any) -> str:
    """JSON that ends no element, whatever stands in it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _title(events: Sequence[JsonObject]) -> str:
    said = next((one["data"].get("description") for one in events if one["type"] == "task_submitted"), None)
    title = one_line(said) if isinstance(said, str) and said else "Task"
    return title if len(title) <= _MOST_TITLE else title[: _MOST_TITLE - 1] + "…"


def _cut(event: JsonObject) -> JsonObject:
    return {**event, "data": _cut_in(event["data"])}


def _cut_in(data: JsonObject) -> JsonObject:
    large = {name: text for name in _OUTPUTS if name in data and len(text := _text(data[name])) > LARGE_BYTES}
    cut = {
        name: {"left_out": True, "bytes": len(text.encode()), "head": text[:_HEAD]}
        for name, text in large.items()
    }
    return {**data, **cut}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
