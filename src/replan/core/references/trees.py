"""The trees of paths: JMESPath's own, with a node `outer` for each reference in braces, which is `filled` with its value before anything is worked out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, ClassVar

from jmespath import lexer, parser

from replan.core.references.braces import Span, in_braces


class _Parser(parser.Parser):
    """JMESPath's own parser, but `!a.b` is `!(a.b)`, as everybody means it, and not `(!a).b`."""

    BINDING_POWER: ClassVar = {**parser.Parser.BINDING_POWER, "not": 8, "outer": 0}
    _CACHE: ClassVar[dict[str, Any]] = {}
    _expression: Any
    _current_token: Any
    _lookahead_token: Any
    _raise_parse_error_for_token: Any
    _token_nud_unquoted_identifier: Any
    _token_nud_quoted_identifier: Any
    _token_nud_literal: Any

    def _parse(self, expression: str) -> Any:
        self._tokens = list(_tokens(expression))
        self._index = 0
        tree = self._expression(binding_power=0)
        if self._current_token() != "eof":
            self._raise_parse_error_for_token(self._lookahead_token(0), "unexpected")
        return parser.ParsedResult(expression, tree)

    def _token_nud_outer(self, token: Any) -> Any:
        return {"type": "outer", "children": [], "value": token["value"]}


def _tokens(path: str) -> Iterator[Any]:
    """JMESPath's own tokens, and one for each reference in braces: it is read as a literal as long as it is."""
    places = dict(in_braces(path))
    blank = path
    for begin, end in places.items():
        blank = f"{blank[:begin]}`{'0'.rjust(end - begin - 2)}`{blank[end:]}"
    for token in lexer.Lexer().tokenize(blank):
        begin = token["start"]
        if token["type"] == "literal" and begin in places:
            token = {**token, "type": "outer", "value": path[begin : places[begin]]}
        yield token


class _Placed(_Parser):
    """The same, with the places where its names, texts and references stand."""

    _CACHE: ClassVar[dict[str, Any]] = {}

    def _token_nud_unquoted_identifier(self, token: Any) -> Any:
        return {**super()._token_nud_unquoted_identifier(token), "at": token["start"]}

    def _token_nud_quoted_identifier(self, token: Any) -> Any:
        return {**super()._token_nud_quoted_identifier(token), "at": token["start"]}

    def _token_nud_literal(self, token: Any) -> Any:
        return {**super()._token_nud_literal(token), "at": token["start"]}

    def _token_nud_outer(self, token: Any) -> Any:
        return {**super()._token_nud_outer(token), "at": token["start"]}


_MOST_KEPT = 200
"""Characters of a path whose tree is kept: a tree takes some hundred bytes a character."""


def _read(path: str, reader: type[_Parser] = _Parser) -> Any:
    with warnings.catch_warnings():  # `text` for a text is deprecated there, and common
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        return reader().parse(path)


_kept = lru_cache(maxsize=2_048)(_read)
_kept_long = lru_cache(maxsize=64)(_read)


def braces_at_root(path: str) -> list[Span]:
    """Where references stand in a path that looks at no items there."""
    found: list[Span] = []

    def visit(node: Any) -> None:
        kind, children = node["type"], node.get("children", [])
        if kind == "outer":
            found.append((node["at"], node["at"] + len(node["value"])))
        elif kind in ("projection", "filter_projection", "value_projection"):
            visit(children[0])
        elif kind != "expref":
            for child in children:
                if isinstance(child, dict):
                    visit(child)

    if "{" in path and in_braces(path):
        visit(placed(path))
    return sorted(found)


class Filled(str):
    """A path with values in place of the references in it."""

    __slots__ = ("tree",)
    tree: Any


def parsed(path: str) -> Any:
    """The syntax tree of a path that passes `check_path`."""
    if isinstance(path, Filled):
        return path.tree
    return (_kept if len(path) <= _MOST_KEPT else _kept_long)(path).parsed


@lru_cache(maxsize=256)
def placed(path: str) -> Any:
    """The same tree; its names, literals and references have their places (`at`)."""
    return _read(path, _Placed).parsed


def filled(path: str, value: Callable[[str], Any]) -> Filled:
    """The path with what these references give, each as it is written, as literals are: nothing in a value is read as a path."""
    known: dict[str, Any] = {}

    def of(node: Any) -> Any:
        if node["type"] != "outer":
            return None
        raw = node["value"]
        if raw not in known:
            known[raw] = value(raw)
        return _literal(known[raw])

    return _changed(path, of)


def unfiltered(path: str) -> Filled:
    """The path as far as it is known before the references in it are read: each filter that has one lets all pass."""

    def of(node: Any) -> Any:
        if node["type"] == "filter_projection" and _refers(node["children"][2]):
            *rest, _ = node["children"]
            return {**node, "children": [*(_visited(child, of) for child in rest), _literal(value=True)]}
        return _literal(None) if node["type"] == "outer" else None

    return _changed(path, of)


def _literal(value: Any) -> Any:
    return {"type": "literal", "value": value, "children": []}


def _changed(path: str, of: Callable[[Any], Any]) -> Filled:
    made = Filled(path)
    made.tree = _visited(parsed(path), of)
    return made


def _visited(node: Any, of: Callable[[Any], Any]) -> Any:
    if not isinstance(node, dict):
        return node
    if (made := of(node)) is not None:
        return made
    children = node.get("children")
    return {**node, "children": [_visited(child, of) for child in children]} if children else node


def _refers(node: Any) -> bool:
    if not isinstance(node, dict):
        return False
    return node["type"] == "outer" or any(map(_refers, node.get("children", ())))
