"""One layer of the configuration: a TOML file or the environment, as values with their origins."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from replan.config.keys import IGNORED, MOVED, SECTIONS
from replan.config.toml_lines import line_numbers
from replan.config.values import Kind, kind_of
from replan.errors import ConfigError
from replan.files import MOST_DIGITS, MOST_LEVELS, Unusable, read_bounded, read_json, usable


class Origin(NamedTuple):
    """Where a value came from. `where`: the file as it was named, or the variable; empty for a default."""

    kind: Literal["default", "file", "env"]
    where: str = ""
    line: int | None = None

    def __str__(self) -> str:
        if self.kind == "default":
            return "default"
        return self.where if self.line is None else f"{self.where}:{self.line}"


class Given(NamedTuple):
    """One `section.key` that a layer sets. `section` is empty for a key outside every section."""

    section: str
    key: str
    value: Any
    origin: Origin
    places: Mapping[tuple[str, ...], Origin] = {}
    """Where the keys inside of a table stand, by their path in it."""


class Layer(NamedTuple):
    """What one layer says, and what is wrong with it."""

    given: tuple[Given, ...]
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


# ── files ─────────────────────────────────────────────────────────────────────


def read_file(path: Path, name: str) -> Layer:
    """A TOML file as a layer; `name` is how it is called in messages. `ConfigError` when it cannot be read."""
    text = _text_of(path, name)
    try:
        content = usable(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{_place(name, text, str(error))}") from None
    except RecursionError:
        raise ConfigError(f"{name}: it is nested more than {MOST_LEVELS} levels deep") from None
    except Unusable as error:
        raise ConfigError(f"{name}: {error}") from None
    except ValueError:  # Python's own limit of digits
        raise ConfigError(f"{name}: a number has more than {MOST_DIGITS:,} digits") from None
    lines = line_numbers(text)
    given: list[Given] = []
    problems: list[str] = []
    for section, table in content.items():
        place = Origin("file", name, lines.get((section,)))
        if isinstance(table, dict):
            for key, value in table.items():
                line = lines.get((section, key), place.line)
                inside = (
                    {
                        path[2:]: Origin("file", name, at)
                        for path, at in lines.items()
                        if path[:2] == (section, key)
                    }
                    if isinstance(value, dict)
                    else {}
                )
                given.append(Given(section, key, value, Origin("file", name, line), inside))
            if section not in SECTIONS and not table:
                given.append(Given(section, "", None, place))
        elif section in SECTIONS:
            problems.append(f"{place}: [{section}] is a section: write its keys below a line `[{section}]`")
        else:
            given.append(Given("", section, table, place))
    return Layer(tuple(given), tuple(problems))


def _text_of(path: Path, name: str) -> str:
    try:
        raw = read_bounded(path)
    except FileNotFoundError:
        raise ConfigError(f"{name}: there is no such configuration file") from None
    except IsADirectoryError:
        raise ConfigError(f"{name}: is a folder; name a TOML file") from None
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read: {error.strerror or error}") from None
    try:
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - raw.rfind(b"\n", 0, error.start)
        raise ConfigError(
            f"{name}:{line}:{column}: not UTF-8 text (byte 0x{raw[error.start]:02x}); save the file as UTF-8"
        ) from None


def _place(name: str, text: str, message: str) -> str:
    """`file:line:column: what`, from the parser's message."""
    match = re.search(r"\(at line (\d+), column (\d+)\)$", message)
    if match:
        line, column = int(match[1]), int(match[2])
    else:
        line = text.count("\n") + 1
        column = len(text) - (text.rfind("\n") + 1) + 1
    what = re.sub(r"\(at [^()]*\)$", "", message).rstrip()
    return f"{name}:{line}:{column}: not valid TOML: {what[:1].lower()}{what[1:]}"


# ── environment ───────────────────────────────────────────────────────────────


def read_environment(env: Mapping[str, str]) -> Layer:
    """The `APP_{SECTION}_{KEY}` variables as a layer; other variables are none of our business."""
    given: list[Given] = []
    problems: list[str] = []
    warnings: list[str] = []
    for variable in sorted(env):
        target = _target(variable)
        if target is None:
            if (meant := _meant(variable)) is not None:
                warnings.append(f"{Origin('env', variable)}: it sets nothing; did you mean {meant}?")
            continue
        section, key = target
        field = SECTIONS[section].model_fields.get(key) or _moved_field(section, key)
        value: Any = env[variable]
        origin = Origin("env", variable)
        if field is not None and key not in IGNORED.get(section, ()):
            try:
                value = _parse(env[variable], kind_of(field.annotation))
            except ValueError as error:
                problems.append(f"{origin}: {error}")
                continue
        given.append(Given(section, key, value, origin))
    return Layer(tuple(given), tuple(problems), tuple(warnings))


def _meant(variable: str) -> str | None:
    """The variable that this one is a slip of: one of other programs may begin with APP_, too."""
    if not variable.startswith("APP_") or len(variable) > 100:
        return None
    known = [
        f"APP_{section}_{key}".upper() for section, model in SECTIONS.items() for key in model.model_fields
    ]
    near = difflib.get_close_matches(variable, known, n=1, cutoff=0.93)
    return near[0] if near else None


def _moved_field(section: str, key: str) -> Any:
    target = MOVED.get((section, key))
    return SECTIONS[target[0]].model_fields[target[1]] if target else None


def _target(variable: str) -> tuple[str, str] | None:
    """`APP_TOOL_SERVICE_MAX_RETRIES` → `("tool_service", "max_retries")`: section names hold underscores too."""
    if not variable.startswith("APP_"):
        return None
    rest = variable.removeprefix("APP_").lower()
    fitting = [section for section in SECTIONS if rest.startswith(section + "_")]
    if not fitting:
        return None
    section = max(fitting, key=len)
    key = rest.removeprefix(section + "_")
    return (section, key) if key else None


_BOOLS = {
    "true": True,
    "1": True,
    "yes": True,
    "on": True,
    "false": False,
    "0": False,
    "no": False,
    "off": False,
}


def _parse(text: str, kind: Kind) -> Any:
    """The value that a variable's text means; `ValueError` only for what is no list. The rest is checked later."""
    stripped = text.strip()
    if kind.optional and not (text if kind.base is str else stripped):
        return None
    if kind.base is bool:
        return _BOOLS.get(stripped.lower(), text)
    if kind.base is int:
        return int(stripped) if re.fullmatch(r"[+-]?\d+", stripped) else text
    if kind.base is float:
        try:
            return float(stripped)
        except ValueError:
            return text
    if kind.base is tuple:
        return _parse_list(stripped)
    if kind.base is dict:
        return _parse_table(stripped)
    return text


def _parse_table(text: str) -> Any:
    try:
        value = read_json(text or "{}")
    except ValueError as error:
        raise ValueError(f'expected a JSON object like {{"name": {{…}}}} ({error})') from None
    return value


def _parse_list(text: str) -> list[Any]:
    if text.startswith("["):
        try:
            value = read_json(text)
        except ValueError as error:
            raise ValueError(
                f'expected a JSON list like ["a", "b"], or values between commas: a,b ({error})'
            ) from None
        assert isinstance(value, list)
        return value
    return [part.strip() for part in text.split(",") if part.strip()]
