"""What the sources say of the fields of bodies and answers, for the document of the interface."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable
from types import ModuleType
from typing import Any


def describe(schemas: dict[str, Any], modules: Iterable[ModuleType]) -> None:
    """Give the schemas of these modules' models the descriptions that stand below their fields."""
    for module in modules:
        for name, fields in _said(module).items():
            for schema in (
                one for title, one in schemas.items() if title in (name, f"{name}-Input", f"{name}-Output")
            ):
                for field, text in fields.items():
                    if field in schema.get("properties", {}):
                        schema["properties"][field].setdefault("description", text)


def _said(module: ModuleType) -> dict[str, dict[str, str]]:
    found = {}
    for item in ast.parse(inspect.getsource(module)).body:
        if isinstance(item, ast.ClassDef):
            found[item.name] = {
                field.target.id: inspect.cleandoc(told.value.value)
                for field, told in zip(item.body, item.body[1:], strict=False)
                if isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(told, ast.Expr)
                and isinstance(told.value, ast.Constant)
                and isinstance(told.value.value, str)
            }
    return found
