"""Text of a document as plain JSON values: JSON, or YAML as its JSON schema reads it."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from replan.errors import InputError

MAX_DOCUMENT_BYTES = 64 * 2**20
"""The largest public documents have about 12 MB."""


def read_text(data: bytes, place: str) -> Any:
    """What the text holds. `InputError` says where it is neither JSON nor YAML."""
    if len(data) > MAX_DOCUMENT_BYTES:
        raise InputError(
            f"{place} is larger than {MAX_DOCUMENT_BYTES:,} bytes; that is not an OpenAPI document"
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{place} is not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    if text.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(text)
        except ValueError as error:
            if not place.lower().endswith((".yaml", ".yml")):
                raise InputError(f"{place} is not valid JSON: {error}") from None
        except RecursionError:
            raise InputError(f"{place} is nested too deeply") from None
    return _read_yaml(text, place)


def _read_yaml(text: str, place: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise InputError(
            f"{place} is YAML, and reading that needs a package: pip install 'replan[openapi]'"
        ) from None
    try:
        return _with_text_keys(yaml.load(text, Loader=_loader()))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}, column {mark.column + 1}:" if mark else ""
        said = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise InputError(f"{place}:{where} no valid YAML: {said}") from None
    except (ValueError, RecursionError) as error:
        said = "it contains itself" if isinstance(error, RecursionError) else str(error)
        raise InputError(f"{place}: no valid YAML: {said}") from None


@lru_cache(maxsize=1)
def _loader() -> Any:
    """A safe loader of what JSON has: `no` and `2024-01-01` are texts, as in YAML 1.2 (OpenAPI 3.1 §4.2)."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader: Any = type("JsonLoader", (base,), {})
    kept = {"tag:yaml.org,2002:null", "tag:yaml.org,2002:float", "tag:yaml.org,2002:merge"}
    loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag in kept]
        for first, resolvers in base.yaml_implicit_resolvers.items()
    }
    whole = re.compile(r"^[-+]?(0|[1-9]\d*)$")
    loader.add_implicit_resolver("tag:yaml.org,2002:int", whole, list("-+0123456789"))
    truth = re.compile(r"^(true|True|TRUE|false|False|FALSE)$")
    loader.add_implicit_resolver("tag:yaml.org,2002:bool", truth, list("tTfF"))
    return loader


def _with_text_keys(root: Any) -> Any:
    """The same in place, with keys such as `200:` as texts. What has several names is met once."""
    waiting, met = [root], {id(root)}
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            for key in [key for key in value if not isinstance(key, str)]:
                value[_key(key)] = value.pop(key)
        elif not isinstance(value, list):
            continue
        for item in value.values() if isinstance(value, dict) else value:
            if isinstance(item, dict | list) and id(item) not in met:
                met.add(id(item))
                waiting.append(item)
    return root


def _key(key: Any) -> str:
    return json.dumps(key) if isinstance(key, bool) or key is None else str(key)
