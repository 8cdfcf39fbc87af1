"""A kit of tools that ships with Replan, so that a first real task needs no code. Nothing of it is on by itself.

`files`, `http`, `sql`, `data`, `shell`, `python` and `time` each give a `ToolSource`; `load` reads what stands behind
`kit:` on a command line or in a configuration.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from replan.tools.kit.grammar import Form, count, read, seconds, text, words, yes_or_no

if TYPE_CHECKING:
    from replan.ports import ToolSource
    from replan.tools.kit.file_tools import files
    from replan.tools.kit.http_tools import http
    from replan.tools.kit.python_tools import Limits, python
    from replan.tools.kit.shell_tools import shell
    from replan.tools.kit.sql_tools import data, sql
    from replan.tools.kit.time_tools import time
    from replan.tools.network.addresses import AddressRules

__all__ = ["AddressRules", "Limits", "data", "files", "http", "load", "python", "shell", "sql", "time"]

_FORMS = {
    "files": Form("kit:files=DIR or kit:files=DIR,write=yes", text, True, {"write": yes_or_no}),
    "http": Form(
        "kit:http or kit:http,methods=GET+POST,allow=localhost:8080",
        None,
        False,
        {"methods": words, "allow": words, "private": yes_or_no, "timeout": seconds},
    ),
    "sql": Form(
        "kit:sql=FILE.db or kit:sql=FILE.db,write=yes",
        text,
        True,
        {"write": yes_or_no, "keys": yes_or_no, "rows": yes_or_no, "timeout": seconds},
    ),
    "data": Form("kit:data=DIR", text, True, {"rows": yes_or_no, "timeout": seconds}),
    "shell": Form(
        "kit:shell=git+make or kit:shell=make,reads=ls+grep,cwd=DIR",
        words,
        False,
        {"reads": words, "cwd": text, "timeout": seconds, "env": words},
    ),
    "python": Form(
        "kit:python or kit:python,timeout=60,memory=2048",
        None,
        False,
        {"timeout": seconds, "cpu": seconds, "memory": count, "network": yes_or_no, "repeatable": yes_or_no},
    ),
    "time": Form("kit:time or kit:time=Europe/Berlin", text, False, {}),
}


def load(spec: str) -> ToolSource:
    """The source that a text names: `NAME`, `NAME=VALUE`, each with `,OPTION=VALUE` behind; lists with `+` between.

    `files=DIR` (write), `http` (methods, allow, private, timeout), `sql=FILE` (write, keys, rows, timeout), `data=DIR`
    (rows, timeout), `shell=PROGRAMS` (reads, cwd, timeout, env), `python` (timeout, cpu, memory in MB, network,
    repeatable), `time` or `time=ZONE`. A comma within a value is written `\\,`.
    Raises `InputError` that says what is wrong and what would be right.
    """
    name, value, options = read(spec.removeprefix("kit:"), _FORMS)
    return _SOURCES[name](value, **options)


def _timeout(options: dict[str, Any]) -> dict[str, Any]:
    if "timeout" in options:
        options["timeout_secs"] = options.pop("timeout")
    return options


def _files(value: str, **options: Any) -> ToolSource:
    from replan.tools.kit.file_tools import files

    return files(value, **options)


def _http(value: None, **options: Any) -> ToolSource:
    from replan.tools.kit.http_tools import http
    from replan.tools.network.addresses import AddressRules

    rules = AddressRules(options.pop("private", False), options.pop("allow", ()))
    return http(rules, **_timeout(options))


def _sql(value: str, **options: Any) -> ToolSource:
    from replan.tools.kit.sql_tools import sql

    if "keys" in options:
        options["remember_keys"] = options.pop("keys")
    return sql(value, **_timeout(options))


def _data(value: str, **options: Any) -> ToolSource:
    from replan.tools.kit.sql_tools import data

    return data(value, **_timeout(options))


def _shell(value: tuple[str, ...] | None, **options: Any) -> ToolSource:
    from replan.tools.kit.shell_tools import shell

    return shell(value or (), **_timeout(options))


def _python(value: None, **options: Any) -> ToolSource:
    from replan.tools.kit.python_tools import Limits, python

    known = {"timeout": "timeout_secs", "cpu": "cpu_secs", "memory": "memory_mb"}
    limits = Limits(**{known[option]: options.pop(option) for option in list(options) if option in known})
    effect: Any = "repeatable" if options.pop("repeatable", False) else "once"
    return python(limits=limits, effect=effect, **options)


def _time(value: str | None) -> ToolSource:
    from replan.tools.kit.time_tools import time

    return time(value or "UTC")


_SOURCES: dict[str, Callable[..., ToolSource]] = {
    "files": _files,
    "http": _http,
    "sql": _sql,
    "data": _data,
    "shell": _shell,
    "python": _python,
    "time": _time,
}

_PLACES = {
    "AddressRules": "replan.tools.network.addresses",
    "Limits": "replan.tools.kit.python_tools",
    "data": "replan.tools.kit.sql_tools",
    "files": "replan.tools.kit.file_tools",
    "http": "replan.tools.kit.http_tools",
    "python": "replan.tools.kit.python_tools",
    "shell": "replan.tools.kit.shell_tools",
    "sql": "replan.tools.kit.sql_tools",
    "time": "replan.tools.kit.time_tools",
}


def __getattr__(name: str) -> Any:
    """The factories, imported when they are used."""
    if name in _PLACES:
        from importlib import import_module

        return getattr(import_module(_PLACES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
