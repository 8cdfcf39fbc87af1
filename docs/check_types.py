"""Checks the types of every Python program in README, docs and examples, as users' checkers would: mypy and pyright.

`python -m docs.check_types [mypy] [pyright]` ends with 1 if a program of the documents is refused, or if one of
`WRONG` passes; `make check` runs the two beside each other.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
WRONG = ROOT / "docs" / "wrong_types.py"
"""Each line with `# wrong` is a mistake that both checkers have to find."""


def blocks() -> dict[str, str]:
    """Every Python block by a file name that tells its place; the first `tools.py` is what the others import."""
    found: dict[str, str] = {}
    for document in DOCUMENTS:
        text = document.read_text("utf-8")
        for match in BLOCK.finditer(text):
            line = text.count("\n", 0, match.start()) + 2
            name = re.sub(r"\W", "_", str(document.relative_to(ROOT).with_suffix("")))
            found[f"{name}_{line}.py"] = match[1]
    tools = next(text for text in found.values() if "# tools.py" in text)
    return {"tools.py": tools, **found}


def mypy(paths: list[str], folder: Path) -> set[tuple[str, int]]:
    """The places that mypy refuses, by file name and line; prints what it says."""
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--config-file",
            "pyproject.toml",
            "--no-pretty",
            "--explicit-package-bases",
            *paths,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={"MYPYPATH": f"{ROOT / 'src'}:{folder}:{ROOT}", "PATH": "/usr/bin:/bin"},
    )
    found = set()
    for line in ran.stdout.splitlines():
        if match := re.match(r"(.+?):(\d+): error", line):
            found.add((Path(match[1]).name, int(match[2])))
            if Path(match[1]).name != WRONG.name:
                print("mypy:", line)
    if ran.returncode not in (0, 1):
        sys.exit(ran.stdout + ran.stderr)
    return found


def pyright(paths: list[str], folder: Path) -> set[tuple[str, int]]:
    """The same for pyright (basedpyright in pyright's strict mode, which brings its own runtime)."""
    config = {
        "include": paths,
        "extraPaths": [str(ROOT / "src"), str(folder), str(ROOT)],
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        "reportMissingTypeStubs": False,
        "reportUnknownMemberType": False,  # of libraries that are typed in part
        "reportUnknownVariableType": False,
        "reportUnknownArgumentType": False,
        "reportUnusedFunction": False,
        "reportPrivateUsage": False,
    }
    where = folder / "pyrightconfig.json"
    where.write_text(json.dumps(config), "utf-8")
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, "-p"]
    ran = subprocess.run([*command, str(where)], cwd=ROOT, capture_output=True, text=True)
    try:
        told: dict[str, Any] = json.loads(ran.stdout)
    except ValueError:
        sys.exit(ran.stdout + ran.stderr)
    found = set()
    for one in told["generalDiagnostics"]:
        if one["severity"] == "error":
            place = (Path(one["file"]).name, one["range"]["start"]["line"] + 1)
            found.add(place)
            if place[0] != WRONG.name:
                print(f"pyright: {place[0]}:{place[1]}: {one['message']}")
    return found


def main() -> int:
    checkers = {"mypy": mypy, "pyright": pyright}
    chosen = sys.argv[1:] or list(checkers)
    if not set(chosen) <= set(checkers):
        sys.exit(f"checkers are {' and '.join(checkers)}, not {' '.join(chosen)}")
    wanted = {
        (WRONG.name, number)
        for number, line in enumerate(WRONG.read_text("utf-8").splitlines(), 1)
        if line.rstrip().endswith("# wrong")
    }
    examples = [str(path) for path in sorted((ROOT / "examples").rglob("*.py"))]
    bad = 0
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name, text in blocks().items():
            (folder / name).write_text(text, "utf-8")
        programs = [str(path) for path in sorted(folder.glob("*.py"))]
        for checker in map(checkers.__getitem__, chosen):
            found = checker([*programs, *examples, str(WRONG)], folder)
            for name, line in sorted(found - wanted):
                print(f"{checker.__name__}: {name}:{line} is right and is refused")
                bad += 1
            for name, line in sorted(wanted - found):
                print(f"{checker.__name__}: {name}:{line} is a mistake and passes")
                bad += 1
    print(f"types, by {' and '.join(chosen)}: {len(programs) + len(examples)} programs, {bad} problems")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
