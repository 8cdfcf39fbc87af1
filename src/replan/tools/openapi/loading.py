"""Documents named on a command line or in a configuration table."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from replan.errors import ConfigError, InputError
from replan.tools.expand import expanded
from replan.tools.names import nearest
from replan.tools.network.addresses import AddressRules
from replan.tools.openapi.source import OpenApiSource

_FILTERS = {"tag": "tags", "method": "methods", "operation": "operations", "exclude": "exclude"}
_TEXTS = frozenset(("place", "name", "server", "answers", "idempotency_header"))
_LISTS = frozenset(("tags", "operations", "methods", "exclude", "allow_hosts"))
_TABLES = frozenset(("auth", "headers", "server_variables"))
_NUMBERS = frozenset(
    ("timeout_secs", "list_timeout_secs", "max_result_bytes", "max_file_bytes", "page_limit")
)
_KEYS = _TEXTS | _LISTS | _TABLES | _NUMBERS | {"allow_private", "paginate"}


def load(place: str) -> OpenApiSource:
    """The source that `openapi:PLACE` names: a file or URL, with filters behind a `#` if wanted.

    `petstore.yaml#tag=pets&method=get&operation=addPet&exclude=deletePet`; also `name=…`, `server=…`. Values of
    security schemes come from the environment, as `OPENAPI_<NAME>_<SCHEME>`. Raises `InputError`.
    """
    at, _, fragment = place.strip().partition("#")
    if not at:
        raise InputError("openapi: needs a document: a file or a URL, such as openapi:petstore.yaml#tag=pets")
    lists: dict[str, list[str]] = {}
    texts: dict[str, str] = {}
    for key, value in parse_qsl(fragment, keep_blank_values=True):
        if key in _FILTERS:
            lists.setdefault(_FILTERS[key], []).append(value)
        elif key in ("name", "server"):
            texts[key] = value
        else:
            known = ", ".join([*_FILTERS, "name", "server"])
            raise InputError(f"openapi:{at}: {key!r} is not a filter; those that there are: {known}")
    if fragment and not lists and not texts:
        raise InputError(
            f"openapi:{at}: {fragment!r} is not a filter; right is, for instance, #tag=pets&method=get"
        )
    return OpenApiSource(
        at,
        name=texts.get("name"),
        server=texts.get("server"),
        tags=lists.get("tags", ()),
        methods=lists.get("methods", ()),
        operations=lists.get("operations", ()),
        exclude=lists.get("exclude", ()),
        environment=os.environ,
    )


def from_table(table: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> OpenApiSource:
    """The source that a table of a configuration file describes.

    Keys: `place` (a file or URL; the only one that must be there), `name`, `server`, `server_variables`, `tags`,
    `operations`, `methods`, `exclude`, `auth`, `headers`, `allow_private`, `allow_hosts`, `timeout_secs`, `list_timeout_secs`,
    `max_result_bytes`, `max_file_bytes`, `answers`, `paginate`, `page_limit`, `idempotency_header`: as for `OpenApiSource`. Texts may
    hold `${VARIABLE}` or `${VARIABLE:-default}` of the environment. Raises `ConfigError`.
    """
    known = os.environ if environment is None else environment
    for key in table:
        if key not in _KEYS:
            near = nearest(str(key), _KEYS)
            hint = (
                f"; did you mean {' or '.join(near)}?" if near else f"; it can be: {', '.join(sorted(_KEYS))}"
            )
            raise ConfigError(f"openapi: there is no key {key!r}{hint}")
    try:
        filled = {key: expanded(value, known, f"openapi: {key}") for key, value in table.items()}
    except InputError as error:
        raise ConfigError(str(error)) from None
    given = {key: _checked(key, value) for key, value in filled.items()}
    if not given.get("place"):
        raise ConfigError(
            'openapi: place is missing; right is a file or a URL, such as place = "petstore.yaml"'
        )
    try:
        rules = AddressRules(
            allow_private=given.pop("allow_private", False), allow_hosts=tuple(given.pop("allow_hosts", ()))
        )
        return OpenApiSource(given.pop("place"), rules=rules, environment=known, **given)
    except InputError as error:
        raise ConfigError(f"openapi: {error}") from None


def _checked(key: str, value: Any) -> Any:
    """The value, if it is of the kind that the key takes."""
    if key in _TEXTS:
        right, what = isinstance(value, str), "a text"
    elif key in _LISTS:
        right, what = (
            isinstance(value, list) and all(isinstance(each, str) for each in value),
            "a list of texts",
        )
    elif key in _TABLES:
        right, what = isinstance(value, dict), "a table"
    elif key.endswith("_secs"):
        right, what = isinstance(value, int | float) and not isinstance(value, bool) and value > 0, "seconds"
    elif key in _NUMBERS:
        right, what = type(value) is int and value > 0, "a whole number above 0"
    elif key == "paginate":
        right = isinstance(value, bool) or (
            isinstance(value, list) and all(isinstance(x, str) for x in value)
        )
        what = "true, false or a list of operation ids"
    else:
        right, what = isinstance(value, bool), "true or false"
    if not right:
        raise ConfigError(f"openapi: {key} is {what}, not a value of type {type(value).__name__}")
    return value
