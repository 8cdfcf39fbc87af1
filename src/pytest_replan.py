"""Fixtures for tests of tasks and tools. Loaded by pytest wherever Replan is installed: it imports nothing of it before a fixture is used."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from replan import Replan
    from replan.testing import ScriptedModel, Seen

_NAME = re.compile(r"[^A-Za-z0-9._-]")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("replan")
    group.addoption(
        "--replan-record",
        action="store_true",
        help="Ask the models of recorded runs, and write down what they answer; without it they are replayed.",
    )
    parser.addini(
        "replan_recordings", "Folder of recorded runs, beside each test file.", default="recordings"
    )


def _models_of(folder: Path) -> Any:
    """Settings that have what the configuration says of models, and nothing else of it."""
    from replan.config import Settings, load_settings

    found = load_settings(cwd=folder).settings
    return Settings().model_copy(update={"llm": found.llm, "consul": found.consul})


@pytest.fixture
def scripted_model() -> Callable[..., ScriptedModel]:
    """Makes a model that answers from a script: `scripted_model({"execution_plan": {…}, "evaluation": {…}})`."""
    from replan.testing import ScriptedModel

    return ScriptedModel


@pytest.fixture
def make_replan(tmp_path: Path, pytestconfig: pytest.Config) -> Callable[..., Replan]:
    """Makes a `Replan` on a store of this test: `async with make_replan(model, tools=[…]) as replan:`.

    It takes what `Replan` takes. Those of one test share the store, unless they are given another `db`.
    """
    from replan import Replan

    def make(*args: Any, **options: Any) -> Replan:
        options.setdefault("db", tmp_path / "replan.db")
        if "record" in options and not args and not options.keys() & {"model", "endpoint", "settings"}:
            options["settings"] = _models_of(pytestconfig.rootpath)
        return Replan(*args, **options)

    return make


@pytest.fixture
def run_task(make_replan: Callable[..., Replan]) -> Callable[..., Seen]:
    """Runs a task to its end, from a test that is not async, and gives what was seen of it.

    `run_task("How warm is it?", model=…, tools=[…], plan=…)`: what `Replan` and `Replan.run` take, by name.
    """
    from replan.app.arguments import TaskArguments
    from replan.run.service.sync import run_to_end
    from replan.testing import Seen

    names = (*TaskArguments.__annotations__, "output_schema", "output_type")

    def run(text: str, **given: Any) -> Seen:
        task = {name: given.pop(name) for name in names if name in given}

        async def main() -> Seen:
            async with make_replan(**given) as replan:
                result = await replan.run(text, **task)
                return Seen(result, await replan.history(result.task_id))

        return run_to_end(main)

    return run


@pytest.fixture
def recorded(request: pytest.FixtureRequest) -> dict[str, Path]:
    """What makes a run a recorded one: `run_task("…", tools=[…], **recorded)`, or `make_replan(tools=[…], **recorded)`.

    With `--replan-record` the model is asked: the one that the test names, else that of the configuration (`config.toml` of pytest's
    root folder, `APP_LLM_…`), else the built-in one. Its answers are written to `recordings/FILE.TEST.jsonl` beside the test file, in
    place of those that are there. Else they are replayed from it, without a model.
    """
    folder = request.path.parent / str(request.config.getini("replan_recordings"))
    path = folder / f"{request.path.stem}.{_NAME.sub('_', request.node.name)}.jsonl"
    if request.config.getoption("--replan-record"):
        folder.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        return {"record": path}
    if not path.exists():
        pytest.fail(f"there is no recording {path}: make one with --replan-record", pytrace=False)
    return {"replay": path}
