"""A structured answer asked for in words."""

from __future__ import annotations

import json

from replan.ports import ModelRequest


def prompted_instructions(request: ModelRequest) -> str:
    """The instructions with the schema in words, for endpoints that take it in no other way."""
    schema = json.dumps(request.json_schema, ensure_ascii=False, separators=(",", ":"))
    return (
        f"{request.instructions}\n\n"
        f'Answer with one JSON object and nothing else: no code fence, no words around it. It follows the JSON Schema "{request.schema_name}":\n'
        f"{schema}"
    )
