"""Fetches what others have written of the page, and compares it with what lies here: `python -m replan.page.vendored [FOLDER] [--write]`.

`list.json` of the folder (of the page, unless another is named) has each package with its version, its licence, and the digest of each file that is taken of it.
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

VENDOR = Path(__file__).parent / "static" / "vendor"


def fetched(name: str, version: str) -> dict[str, bytes]:
    """The files of that package as the npm registry has them, by path."""
    with tempfile.TemporaryDirectory() as folder:
        told = subprocess.run(
            ["npm", "pack", "--silent", "--ignore-scripts", f"{name}@{version}"],
            cwd=folder, check=True, capture_output=True, text=True,
        )  # fmt: skip
        packed = (Path(folder) / told.stdout.split()[-1]).read_bytes()
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        found = {}
        for member in archive:
            if (file := archive.extractfile(member)) is not None:
                found[member.name.partition("/")[2]] = file.read()
        return found


def main(folder: Path, *, write: bool) -> int:
    """0 if all is as it was published; what is not is told. `write`: put it here instead, and its digests in the list."""
    kept = folder / "list.json"
    listed: list[dict[str, Any]] = json.loads(kept.read_text())
    wrong = 0
    for package in listed:
        there = fetched(package["name"], package["version"])
        for file in package["files"]:
            body, path = there[file["of"]], folder / file["path"]
            found = hashlib.sha256(body).hexdigest()
            if write:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(body)
                file["sha256"] = found
            elif path.read_bytes() != body or found != file["sha256"]:
                wrong += 1
                print(f"{file['path']} is not what {package['name']} {package['version']} has published")
    if write:
        kept.write_text(json.dumps(listed, indent=2) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    named = [argument for argument in sys.argv[1:] if argument != "--write"]
    sys.exit(main(Path(named[0]) if named else VENDOR, write="--write" in sys.argv[1:]))
