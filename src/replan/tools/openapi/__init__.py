"""OpenAPI documents as tools: each operation is one.

>>> source = OpenApiSource("petstore.yaml", server="http://localhost:8000")
>>> source = load("petstore.yaml#tag=pets&method=get")
"""

from __future__ import annotations

from replan.tools.openapi.loading import from_table, load
from replan.tools.openapi.source import OpenApiSource

__all__ = ["OpenApiSource", "from_table", "load"]
