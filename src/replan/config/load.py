"""The layers laid over each other and checked: code defaults, config.toml, config.{APP_ENV}.toml, variables."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from replan.config.keys import DEPRECATED, IGNORED, LATER, MOVED, NAMED, SECRETS, SECTIONS, TABLES
from replan.config.layers import Given, Layer, Origin, read_environment, read_file
from replan.config.sections import NAME_RULE, Settings
from replan.config.values import expected, found, kind_name, kind_of
from replan.errors import ConfigError


@dataclass(frozen=True)
class Loaded:
    """The settings, and how they came to be."""

    settings: Settings
    origins: Mapping[str, Origin]
    """Of every `section.key`, defaults included."""
    warnings: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    """The files that were read, the later over the earlier."""


@dataclass
class _Merged:
    values: dict[str, dict[str, Given]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def load_settings(
    path: str | Path | None = None, *, env: Mapping[str, str] | None = None, cwd: str | Path | None = None
) -> Loaded:
    """Read, merge and check the configuration; `ConfigError` lists every problem with its place.

    `env` and `cwd` are those of the process unless they are given. Without `path`, `config.toml` and `config.{APP_ENV}.toml` of `cwd` are read where they exist. With it, that
    file has to exist, and its sibling `{stem}.{APP_ENV}.toml` still overrides it.
    """
    env = os.environ if env is None else env
    files = list(
        _files(Path(path) if path is not None else None, env, Path.cwd() if cwd is None else Path(cwd))
    )
    merged = _Merged()
    for file, name in files:
        _lay(merged, read_file(file, name))
    _lay(merged, read_environment(env))
    settings = _check(merged)
    if merged.problems or settings is None:
        raise ConfigError(_listed(merged.problems))
    origins = {
        f"{section}.{key}": given[key].origin if key in given else Origin("default")
        for section, model in SECTIONS.items()
        for given in [merged.values.get(section, {})]
        for key in model.model_fields
    }
    merged.warnings += _without_effect(merged, settings)
    return Loaded(settings, origins, tuple(merged.warnings), tuple(file for file, _ in files))


def _files(path: Path | None, env: Mapping[str, str], cwd: Path) -> Iterator[tuple[Path, str]]:
    stage = env.get("APP_ENV") or "dev"
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", stage):
        raise ConfigError(
            f'APP_ENV: "{stage}" is not a valid environment name: use letters, digits, "-", "_" and ".", like "prod"'
        )
    base = cwd / (path or "config.toml")
    shown = str(path) if path else "config.toml"
    if path or base.exists():
        yield base, shown
    over = base.with_name(f"{base.stem}.{stage}{base.suffix}")
    if over.exists():
        yield over, str(Path(shown).with_name(over.name))


# ── merging ───────────────────────────────────────────────────────────────────


def _lay(merged: _Merged, layer: Layer) -> None:
    merged.problems += layer.problems
    merged.warnings += layer.warnings
    here = {(given.section, given.key) for given in layer.given}
    for given in layer.given:
        place = (given.section, given.key)
        if given.section not in SECTIONS:
            merged.problems.append(_unknown_section(given))
        elif given.key in IGNORED.get(given.section, ()):
            merged.warnings.append(
                f"{given.origin}: [{given.section}] {given.key} has no use any more and is ignored"
            )
        elif place in MOVED:
            section, key = MOVED[place]
            if MOVED[place] in here:
                merged.warnings.append(
                    f"{given.origin}: [{given.section}] {given.key} is ignored: [{section}] {key} is set beside it"
                )
            else:
                _set(merged, Given(section, key, given.value, given.origin))
        elif given.key not in SECTIONS[given.section].model_fields:
            merged.problems.append(_unknown_key(given))
        else:
            _set(merged, given)


def _set(merged: _Merged, given: Given) -> None:
    deprecated = DEPRECATED.get((given.section, given.key))
    if deprecated and given.value is not None:
        merged.warnings.append(f"{given.origin}: {given.key} is deprecated: {deprecated}")
    section = merged.values.setdefault(given.section, {})
    before = section.get(given.key)
    section[given.key] = given if before is None else _over(before, given)


def _over(before: Given, given: Given) -> Given:
    """A value over that of an earlier layer; of two tables of tables the names of both, and their keys."""
    if (given.section, given.key) not in NAMED or not isinstance(given.value, dict):
        return given
    if not isinstance(before.value, dict):
        return given
    value = dict(before.value)
    for name, table in given.value.items():
        known = value.get(name)
        value[name] = {**known, **table} if isinstance(known, dict) and isinstance(table, dict) else table
    return given._replace(value=value, places={**before.places, **given.places})


def _unknown_section(given: Given) -> str:
    if not given.section:
        owners = [name for name, model in SECTIONS.items() if given.key in model.model_fields]
        if owners:
            return f'{given.origin}: "{given.key}" stands outside a section; it belongs below [{owners[0]}]'
        near = _nearest(given.key, SECTIONS)
        return f'{given.origin}: unknown "{given.key}"; the nearest known section is [{near}]'
    return f"{given.origin}: unknown section [{given.section}]; did you mean [{_nearest(given.section, SECTIONS)}]?"


def _unknown_key(given: Given) -> str:
    keys = SECTIONS[given.section].model_fields
    what = f'{given.origin}: unknown key "{given.key}" in [{given.section}]'
    near = _nearest(given.key, keys)
    right = f"APP_{given.section.upper()}_{near.upper()}" if given.origin.kind == "env" else f'"{near}"'
    owners = [f"[{name}]" for name, model in SECTIONS.items() if given.key in model.model_fields]
    if owners:
        return f"{what}; it belongs below {' or '.join(owners[:3])}, or did you mean {right}?"
    return f"{what}; did you mean {right}?"


def _nearest(name: str, known: Iterable[str]) -> str:
    return difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.0)[0]


def _without_effect(merged: _Merged, settings: Settings) -> list[str]:
    """One line for all that was set to something else than its default and that nothing acts on yet."""
    defaults = Settings()
    names = [
        f"[{section}] {key}"
        for section, given in merged.values.items()
        for key in given
        if key in LATER.get(section, ())
        and getattr(getattr(settings, section), key) != getattr(getattr(defaults, section), key)
    ]
    return [f"without effect in this release: {', '.join(names)}"] if names else []


# ── checking ──────────────────────────────────────────────────────────────────


def _check(merged: _Merged) -> Settings | None:
    raw = {
        section: {key: item.value for key, item in given.items()} for section, given in merged.values.items()
    }
    try:
        return Settings.model_validate(raw)
    except ValidationError as error:
        told: set[tuple[str, ...]] = set()
        for detail in error.errors():
            section, key = str(detail["loc"][0]), str(detail["loc"][1])
            given = merged.values[section][key]
            if isinstance(given.value, dict) and len(detail["loc"]) > 2:
                path = [str(part) for part in detail["loc"][2:]]
                inside = (section, key, *path[:2])
                if inside not in told:
                    told.add(inside)
                    merged.problems.append(_wrong_inside(given, path, detail))
            elif (section, key) not in told:
                told.add((section, key))
                merged.problems.append(_wrong_value(given, detail))
        return None


def _wrong_inside(given: Given, path: list[str], detail: Any) -> str:
    """What is wrong inside of a table of tables."""
    known = (given.places.get(tuple(path[:n])) for n in range(len(path), -1, -1))
    origin = next((place for place in known if place is not None), given.origin)
    where = f"{origin}: [{given.section}.{given.key}.{json.dumps(path[0], ensure_ascii=False)}]"
    fields = TABLES.get((given.section, given.key))
    if detail["type"] == "extra_forbidden" and fields is not None:
        return f'{where}: unknown key "{path[-1]}"; did you mean "{_nearest(path[-1], fields.model_fields)}"?'
    if (
        detail["type"] != "missing"
        and fields is not None
        and len(path) > 1
        and path[1] in fields.model_fields
    ):
        message = str(detail["msg"]).removeprefix("Value error, ")
        if detail["type"] == "value_error":
            return f"{where} {path[1]}: {message}"
        field = fields.model_fields[path[1]]
        what = found(detail["input"]) if field.repr else kind_name(detail["input"])
        return f"{where} {path[1]} takes {expected(field)}; found {what}"
    if detail["type"] == "missing" and len(path) > 1:
        return f"{where}: {path[1]} is missing"
    if path[-1] == "[key]":
        odd = path[0] and detail["type"] == "string_pattern_mismatch"
        return f"{where}: a name {NAME_RULE if odd else 'must not be empty'}"
    what = found(detail["input"]) if fields is not None else "something else"  # which may be a secret
    return f"{where} takes {_item_of(given)}; found {what}"


def _item_of(given: Given) -> str:
    """What stands under each name in a table."""
    item = get_args(SECTIONS[given.section].model_fields[given.key].annotation)[1]
    return "a text that is not empty" if kind_of(item).base is str else "a table"


def _wrong_value(given: Given, detail: Any) -> str:
    if detail["type"] == "value_error":
        message = str(detail["msg"]).removeprefix("Value error, ")
        return f"{given.origin}: [{given.section}] {given.key}: {message}"
    right = expected(SECTIONS[given.section].model_fields[given.key])
    secret = (given.section, given.key) in SECRETS or given.key == "connection_string"
    what = kind_name(given.value) if secret else found(given.value)
    if isinstance(given.value, list):
        odd = next((item for item in given.value if not isinstance(item, str) or not item), None)
        what += f" with {found(odd)} in it"
    return f"{given.origin}: [{given.section}] {given.key} takes {right}; found {what}"


def _listed(problems: list[str]) -> str:
    if len(problems) == 1:
        return problems[0]
    return f"{len(problems)} problems in the configuration:\n" + "\n".join(f"- {line}" for line in problems)
