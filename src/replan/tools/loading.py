"""Tools named on a command line: a file, a module, or something in a module."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from replan.errors import InputError, ReplanError
from replan.files import read_bounded
from replan.ports import ToolSource
from replan.tools.catalog.catalog import Catalog
from replan.tools.frameworks import gather
from replan.tools.functions.decorator import options_of
from replan.tools.functions.source import FunctionSource
from replan.tools.names import nearest

_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
PYTHON_FORMS = (
    "a file (tools.py), a module (package.module), or something in one (module:name, tools.py:name)"
)


def load_tools(spec: str) -> ToolSource:
    """The source that a SPEC names.

    `tools.py` or `package.module`: every `@tool` in it, or all its public functions where there is none.
    `module:name` (also `tools.py:name`): a function, a list of functions, or a `ToolSource`.
    A file's own folder is put last on `sys.path`, so that it can import its neighbours; a module is also looked for
    in the working directory. Raises `InputError`, or `ToolDefinitionError` for a function that cannot be a tool.
    """
    text = spec.strip()
    if not text:
        raise InputError(f"an empty name of tools; what can be loaded is {PYTHON_FORMS}")
    place, name = _split(text)
    if _is_path(place):
        path = Path(place).expanduser()
        module, label = _load_file(path), re.sub(r"[^0-9A-Za-z_-]+", "_", path.stem).strip("_") or "tools"
    elif _DOTTED.fullmatch(place):
        module, label = _load_module(place), place.rpartition(".")[2]
    else:
        raise InputError(f"{spec!r} is not a known source of tools; what can be loaded is {PYTHON_FORMS}")
    if name is not None:
        return _named(module, name, place, label)
    return _everything_of(module, place, label)


def _everything_of(module: ModuleType, place: str, label: str) -> ToolSource:
    """The functions of a module, and what it holds of other frameworks' tools."""
    public = {id(value): value for name, value in vars(module).items() if not name.startswith("_")}
    foreign, _ = gather(value for value in public.values() if not inspect.isroutine(value))
    sources: list[ToolSource] = list(foreign)
    functions = _functions_of(module, place, required=not sources)
    if functions:
        sources.insert(0, FunctionSource(functions, name=label))
    return sources[0] if len(sources) == 1 else Catalog(sources, name=label)


def _split(text: str) -> tuple[str, str | None]:
    place, colon, name = text.rpartition(":")
    return (place, name) if colon and place and _DOTTED.fullmatch(name) else (text, None)


def _is_path(place: str) -> bool:
    return place.endswith(".py") or "/" in place or os.sep in place or place.startswith("~")


def _load_file(path: Path) -> ModuleType:
    if path.is_dir():
        inside = sorted(each.name for each in path.glob("*.py"))[:5]
        hint = f"; it has {', '.join(inside)}" if inside else ""
        raise InputError(f"{path} is a folder; name a Python file in it{hint}")
    try:
        source = read_bounded(path)
    except FileNotFoundError:
        raise InputError(f"there is no file {path}{_near_files(path)}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    full = path.resolve()
    _add_to_path(full.parent)
    # The place is part of the name, so that two files called tools.py are two modules.
    name = f"replan_tools_{re.sub(r'[^0-9a-zA-Z]', '_', full.stem)}_{hashlib.sha256(str(full).encode()).hexdigest()[:8]}"
    loader_spec = importlib.util.spec_from_file_location(name, full)
    if loader_spec is None:
        raise InputError(f"{path} is not a Python file; its name should end in .py")
    module = importlib.util.module_from_spec(loader_spec)
    before = sys.modules.get(name)
    sys.modules[name] = module  # dataclasses and forward references look their module up
    try:
        # Compiled here and not by the loader: no stale cache of a file that was just edited.
        exec(compile(source, str(full), "exec", dont_inherit=True), module.__dict__)
    except BaseException as error:
        sys.modules.pop(name)
        if before is not None:
            sys.modules[name] = before
        raise _import_failure(str(path), str(full), error) from error
    return module


def _load_module(name: str) -> ModuleType:
    _add_to_path(Path.cwd())
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(error.name + ".")):
            as_file = Path(name.replace(".", "/") + ".py")
            known = [each.stem for each in Path.cwd().glob("*.py")]
            near = [f"{each}.py" for each in nearest(name, known)]
            hint = f"; did you mean {' or '.join(near)}?" if near else f"; there is no {as_file} here either"
            raise InputError(f"there is no module {error.name!r} that Python could import{hint}") from None
        raise _import_failure(name, None, error) from error
    except BaseException as error:
        raise _import_failure(name, None, error) from error


def _import_failure(place: str, file: str | None, error: BaseException) -> BaseException:
    """What to raise for something that happened while a file or module was imported."""
    if isinstance(error, ReplanError | KeyboardInterrupt | GeneratorExit):
        return error
    if isinstance(error, SyntaxError):
        where = f"{error.filename or place}:{error.lineno or 1}"
        shown = f": {error.text.strip()}" if error.text else ""
        return InputError(f"{where}: {place} has a syntax error: {error.msg}{shown}")
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == file] if file else []
    others = [frame for frame in frames if "importlib" not in frame.filename and frame.filename != __file__]
    where = "".join(f"{frame.filename}:{frame.lineno}: " for frame in (own or others)[-1:])
    if isinstance(error, SystemExit):
        said = f'it calls exit ({error.code!r}); guard that with `if __name__ == "__main__":`'
    else:
        said = f"{type(error).__name__}: {error}".rstrip(": ")
    return InputError(f"{where}importing {place} failed: {said}")


def _functions_of(module: ModuleType, place: str, *, required: bool) -> list[Callable[..., Any]]:
    """Every `@tool`, or all public functions that are defined in the module, once each."""
    marked = {id(value): value for value in vars(module).values() if _is_marked(value)}
    if marked:
        return list(marked.values())
    chosen = getattr(module, "__all__", None)
    public = {
        id(value): value
        for name, value in vars(module).items()
        if (name in chosen if chosen is not None else not name.startswith("_"))
        and callable(value)
        and inspect.isfunction(inspect.unwrap(value))
        and getattr(value, "__module__", None) == module.__name__
    }
    if not public and required:
        raise InputError(
            f"{place} has no tools: no function marked with @tool, and no public function defined in it "
            "(one whose name does not begin with '_')"
        )
    return list(public.values())


def _is_marked(value: Any) -> bool:
    return callable(value) and not inspect.isclass(value) and options_of(value) is not None


def _named(module: ModuleType, name: str, place: str, label: str) -> ToolSource:
    found: Any = module
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            near = nearest(part, [each for each in dir(found) if not each.startswith("_")])
            hint = f"; the nearest are: {', '.join(near)}" if near else ""
            raise InputError(f"there is no {name!r} in {place}{hint}") from None
    if not inspect.isclass(found) and all(
        hasattr(found, part) for part in ("name", "tools", "call", "aclose")
    ):
        source: ToolSource = found
        return source
    adopted, rest = gather([found])
    if adopted and not rest:
        return adopted[0] if len(adopted) == 1 else Catalog(adopted, name=label)
    if isinstance(found, list | tuple | set | frozenset):
        if not found:
            raise InputError(f"{place}:{name} is an empty {type(found).__name__}; put functions into it")
        return FunctionSource(found, name=label)
    return FunctionSource([found], name=label)


def _add_to_path(folder: Path) -> None:
    # Last, so that a neighbour's name never hides an installed module.
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _near_files(path: Path) -> str:
    try:
        found = [each.name for each in path.expanduser().absolute().parent.iterdir() if each.suffix == ".py"]
    except OSError:
        return f": there is no folder {path.parent}"
    near = nearest(path.name, found)
    return f"; did you mean {' or '.join(near)}?" if near else ""
