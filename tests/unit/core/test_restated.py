"""Calls by how plans have written them: what is found goes by the words of their time, and is found by few."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from replan.core.calls.site import ONLY
from replan.core.state.progress import CallState, StepState
from replan.core.state.restated import Restated
from replan.core.types import Step, ToolSpec

POST = ToolSpec(
    id="post",
    description="",
    effect="once",
    parameters={"type": "object", "properties": {"session": {"type": "string"}, "text": {}}},
)
SESSION = "${login.output}"


class Counted(list[CallState]):
    """How many of the calls are looked at."""

    looked = 0

    def __getitem__(self, at: Any) -> Any:
        self.looked += 1
        return super().__getitem__(at)


def posts(texts: Iterable[Any], plan: int = 1) -> dict[str, Step]:
    made = {
        f"a{plan}_{n}": Step(
            step_id=f"a{plan}_{n}", tool="post", parameters={"session": SESSION, "text": one}
        )
        for n, one in enumerate(texts)
    }
    return {"login": Step(step_id="login", tool="login"), **made}


def made_by(steps: dict[str, Step]) -> Counted:
    calls = Counted()
    for name, one in steps.items():
        if one.tool == "post":
            given = {"session": "S", "text": one.parameters["text"]}
            call = CallState(f"{name}.1", name, ONLY, "post", 1, "once", given, plan=1)
            call.status = "succeeded"
            calls.append(call)
    return calls


def found(steps: dict[str, Step], calls: Counted, texts: Iterable[Any]) -> list[str | None]:
    known = Restated(lambda name: None, lambda name, version: steps.get(name))
    keys: list[str | None] = []
    for one in posts(texts, 2).values():
        if one.tool == "post":
            given = {"session": "S2", "text": one.parameters["text"]}
            again = known.find(StepState(one, born=2, meant=2), ONLY, POST, given, calls, 2, 2)
            keys.append(again.call.key if again is not None else None)
    return keys


def test_long_texts_and_objects_tell_calls_apart_without_a_look_at_each() -> None:
    for shape in (lambda n: f"{n} {'x' * 300}", lambda n: {"n": n, "rows": [n] * 100}):
        steps = posts(map(shape, range(200)))
        calls = made_by(steps)
        assert found(steps, calls, map(shape, range(200, 400))) == [None] * 200
        assert calls.looked <= 400, "each once as it is learned"
        assert found(steps, calls, [shape(7)]) == ["a1_7.1"]


def test_what_is_found_is_the_same_whenever_somebody_asked_before() -> None:
    old = posts(["hi"])
    anew = {**old, "a1_0": old["a1_0"].model_copy(update={"parameters": {"session": "S9", "text": "hi"}})}
    calls = made_by(old)

    def words(name: str, version: int) -> Step | None:
        return (old if version == 1 else anew).get(name)

    def ask(known: Restated) -> bool:
        step = StepState(
            Step(step_id="b", tool="post", parameters={"session": SESSION, "text": "hi"}), meant=2
        )
        return known.find(step, ONLY, POST, {"session": "S2", "text": "hi"}, calls, 2, 2) is not None

    asked = Restated(lambda name: None, words)
    assert ask(asked)
    assert ask(asked)
    assert ask(Restated(lambda name: None, words)), "who resumes the task finds it too"
