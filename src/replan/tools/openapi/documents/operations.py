"""The operations of a document: which there are, and which are wanted."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from replan.core.types import JsonObject
from replan.tools.openapi.documents.dialect import plain_text, shortened
from replan.tools.openapi.documents.document import Document, Unusable

METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
_LONGEST_ID = 64
_BETWEEN = re.compile(r"[^A-Za-z0-9-]+")


@dataclass(frozen=True)
class Operation:
    """One operation as the document has it; `file`: the file that its parts are relative to."""

    method: str
    path: str
    value: JsonObject
    item: JsonObject
    file: str = ""
    tool_id: str = ""

    @property
    def operation_id(self) -> str:
        return plain_text(self.value.get("operationId"))

    @property
    def tags(self) -> tuple[str, ...]:
        tags = self.value.get("tags")
        return tuple(filter(None, map(plain_text, tags))) if isinstance(tags, list) else ()

    @property
    def title(self) -> str:
        return f"{self.method.upper()} {self.path}"


@dataclass(frozen=True)
class Filter:
    """Which operations are wanted: all that every given one of tags, methods and operations fits."""

    tags: Collection[str] = ()
    methods: Collection[str] = ()
    operations: Collection[str] = ()
    exclude: Collection[str] = ()
    """What is not wanted: operation or tool ids, tags as `tag:NAME`, methods as `method:NAME`."""
    met: set[str] = field(default_factory=set, compare=False)

    def wants(self, operation: Operation) -> bool:
        words = _words(operation)
        wanted = (
            [f"tag:{tag}" for tag in self.tags],
            [f"method:{name}" for name in self.methods],
            list(self.operations),
        )
        met = [[self._meets(name, words) for name in names] for names in (*wanted, self.exclude)]
        return all(not each or any(each) for each in met[:-1]) and not any(met[-1])

    def unmet(self) -> list[str]:
        """What was asked for and no operation has."""
        asked = [f"tag:{tag}" for tag in self.tags] + [f"method:{name}" for name in self.methods]
        asked += [*self.operations, *self.exclude]
        return [name for name in asked if name.casefold() not in self.met]

    def _meets(self, name: str, words: frozenset[str]) -> bool:
        if name.casefold() in words:
            self.met.add(name.casefold())
            return True
        return False


def _words(operation: Operation) -> frozenset[str]:
    """Everything that names the operation in a filter, in small letters."""
    words = {operation.operation_id, operation.tool_id, operation.title, f"method:{operation.method}"}
    words |= {f"tag:{tag}" for tag in operation.tags}
    return frozenset(word.casefold() for word in words if word)


def operations_of(document: Document) -> Iterator[Operation | tuple[str, str]]:
    """Every operation with an id of its own; for what is none, its place and why."""
    taken: set[str] = set()
    for path, entry in document.root["paths"].items():
        if str(path).startswith("x-"):
            continue
        try:
            node = document.follow(entry)
        except Unusable as error:
            yield str(path), str(error)
            continue
        if not isinstance(node.value, dict):
            yield str(path), "it is not an object with operations"
            continue
        item: JsonObject = node.value
        if isinstance(entry, dict) and len(entry) > 1 and "$ref" in entry:
            item = {**item, **{key: each for key, each in entry.items() if key != "$ref"}}
        if not str(path).startswith("/"):
            yield str(path), "a path begins with /"
            continue
        for method in METHODS:
            if method not in item:
                continue
            if not isinstance(item[method], dict):
                yield f"{method.upper()} {path}", "it is not an object"
                continue
            bare = Operation(method, str(path), item[method], item, node.file)
            yield Operation(method, str(path), item[method], item, node.file, _new_id(bare, taken))
        if "trace" in item:
            yield f"TRACE {path}", "TRACE is a diagnostic of connections; clients do not send it"


def _new_id(operation: Operation, taken: set[str]) -> str:
    """`operationId`, or method and path, as an id that every model provider takes; unique in the document."""
    by_place = f"{operation.method}_{operation.path.strip('/')}"
    base = safe_id(operation.operation_id or by_place)
    if base.casefold() in taken and operation.operation_id:
        base = safe_id(by_place)
    name, number = base, 1
    while name.casefold() in taken:
        number += 1
        name = f"{base[: _LONGEST_ID - 5]}_{number}"
    taken.add(name.casefold())
    return name


def safe_id(text: str) -> str:
    """At most 64 of [A-Za-z0-9_-]; a longer one ends with a hash of the whole."""
    found = _BETWEEN.sub(lambda run: "_" if run[0].strip("_") else run[0], text).strip("_-") or "operation"
    if len(found) <= _LONGEST_ID:
        return found
    return f"{found[: _LONGEST_ID - 9]}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def description_of(value: Any, longest: int) -> str:
    """Summary and description in one text; what is said twice once."""
    texts = [plain_text(value.get(key)).strip() for key in ("summary", "description")]
    summary, more = texts
    if more.casefold().startswith(summary.casefold()):
        summary = ""
    if summary and more and summary[-1] not in ".!?:":
        summary += "."
    text = shortened(" ".join(each for each in (summary, more) if each), longest)
    if value.get("deprecated") is True:
        text = f"Deprecated. {text}".strip()
    return text
