"""What stands under the README's commands is what they print, but for times, ids and lines that are left out."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import warm_command
from documents import ROOT, blocks_of, evaluation

from replan.testing import ScriptedEndpoint

README = ROOT / "README.md"
APPLES = {
    "steps": [
        {"step_id": "stock", "tool": "stock", "parameters": {"fruit": "apples"}},
        {"step_id": "price", "tool": "price", "parameters": {"fruit": "apples"}},
        {"step_id": "worth", "tool": "multiply", "parameters": {"count": "${stock.output}", "price": "${price.output}"}},
    ]
}  # fmt: skip
OFTEN_OTHERWISE = [
    (r"\d+\.\d s", "N s"),
    (r"task_\w+", "ID"),
    (r"[\d,]+ tokens", "N tokens"),
    (r"^\[ *N s\] ", "[N s] "),
]


def shown(word: str) -> tuple[str, list[str]]:
    """The command of the console block that has this word, and what stands under it."""
    (block,) = (block.text for block in blocks_of(README, "console") if word in block.text.splitlines()[0])
    command, *lines = block.splitlines()
    return command.removeprefix("$ "), lines


def plain(lines: list[str]) -> list[str]:
    for pattern, instead in OFTEN_OTHERWISE:
        lines = [re.sub(pattern, instead, line) for line in lines]
    return lines


def printed(command: str, folder: Path) -> list[str]:
    program, *arguments = shlex.split(command)
    assert program == "replan"
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "APP_LLM_DEFAULT_MODEL": "scripted"}
    done = warm_command.run(tuple(arguments), folder, environment, "", timeout=120)
    assert done.returncode == 0, done.stderr
    return [*done.stderr.splitlines(), *done.stdout.splitlines()]


def test_a_task_of_a_model(tmp_path: Path) -> None:
    tools = next(block.text for block in blocks_of(README, "python") if "# tools.py" in block.text)
    (tmp_path / "tools.py").write_text(tools, "utf-8")
    command, lines = shown("apples in stock")
    answer = "The 12 apples in stock are worth 4.80 euros."
    with ScriptedEndpoint({"execution_plan": APPLES, "evaluation": evaluation(answer)}) as endpoint:
        said = printed(command.replace("http://localhost:8000/v1", endpoint.url), tmp_path)
    assert set(plain(lines)) <= set(plain(said))
    assert said[-1] == answer


def test_a_plan_of_ones_own(tmp_path: Path) -> None:
    command, lines = shown("--plan examples/given_plan")
    os.symlink(ROOT / "examples", tmp_path / "examples")
    assert set(plain(lines)) <= set(plain(printed(command, tmp_path)))


def test_every_program_of_the_readme_has_a_test() -> None:
    tests = "".join(path.read_text("utf-8") for path in (ROOT / "tests" / "examples").glob("test_*.py"))
    programs = re.findall(r"\]\(examples/(\w+)(?:/[\w.]+|\.py)\)", README.read_text("utf-8"))
    assert len(set(programs)) >= 4
    assert [name for name in programs if name not in tests] == []
