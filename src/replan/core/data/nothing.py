"""Values that hold nothing: an envelope around nothing is nothing."""

from __future__ import annotations

from typing import Any


def is_nothing(value: Any) -> bool:
    """True if no text, no number but 0 and no `true` stands anywhere in the value."""
    nodes = [value]
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict):
            nodes.extend(node.values())
        elif isinstance(node, list | tuple):
            nodes.extend(node)
        elif isinstance(node, str):
            if node.strip():
                return False
        elif node:
            return False
    return True
