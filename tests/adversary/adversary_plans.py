"""Random plans, steps and parameters: right ones, and wrong ones of each kind."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from adversary_tools import ANYTHING, CHOICES, GOOD, NUMBERS, POOL, word

from replan.core.types import JsonObject, ToolSpec

METADATA: JsonObject = {
    "list": ["red", "green"],
    "empty": [],
    "yes": True,
    "no": False,
    "n": 3,
    "text": "blue",
}
WRONG = (
    "an unknown tool", "a circle", "an unknown step", "a used id", "no parameters", "a wrong parameter",
    "a bad reference", "the same id twice", "no tool", "the same effect twice", "a bad condition",
)  # fmt: skip


class Drafts:
    """Draws plans for the tools of one case. Ids count on, so that none comes twice unless it is meant to."""

    def __init__(self, rng: random.Random, specs: Sequence[ToolSpec]) -> None:
        self.rng = rng
        self.specs = list(specs)
        self._ids = 0

    def new_id(self) -> str:
        self._ids += 1
        return f"{self.rng.choice(['s', 'step_', 'step_', 'x-'])}{self._ids}"

    # ── parameters ──

    def parameters(self, tool: ToolSpec, *, fresh: bool = False, needs: Sequence[str] = ()) -> JsonObject:
        """Parameters that fit; `fresh`: that were never given before; `needs`: steps that they may refer to."""
        rng = self.rng
        text = word(rng) if fresh else rng.choice([*POOL, *POOL, GOOD])
        number = rng.randrange(10**9) if fresh else rng.randrange(3)
        if tool.parameters == CHOICES:
            items = [word(rng)] if fresh else list(POOL[: rng.randrange(3)])
            made: JsonObject = {"text": rng.choice([*POOL, GOOD])}
            return made | ({"items": items} if fresh or rng.random() < 0.3 else {})
        if tool.parameters == NUMBERS:
            return {"n": number} | ({"options": {"deep": [text]}} if rng.random() < 0.2 else {})
        made = {"text": text} if tool.parameters != ANYTHING or rng.random() < 0.8 else {}
        if rng.random() < 0.3:
            made["n"] = number
        if needs and rng.random() < 0.6:
            made["text"] = self._reference(rng.choice(list(needs)))
        return made

    def _reference(self, head: str) -> str:
        return self.rng.choice(
            [
                f"${{{head}.output.text}}", f"{{{{{head}.output.text}}}}", f"say ${{{head}.output.value}} of it",
                f"${{{head}}} all", f"${{{head}.output.items[0]}}", f"${{{head}.output.nothing.here}}",
            ]
        )  # fmt: skip

    def bad_parameters(self, tool: ToolSpec) -> JsonObject:
        rng = self.rng
        return rng.choice(
            [
                {}, {"text": 7, "n": "x"}, {"txet": "red"}, {"n": None, "text": None}, {"text": ["red"]},
                {word(rng): word(rng)}, {"text": "${nowhere.output}"}, {"n": 1.5, "text": {"a": 1}},
            ]
        )  # fmt: skip

    def placeholder(self) -> JsonObject:
        return {"text": self.rng.choice(["<text>", "TODO", "your_text", "...", "[TEXT]", "{{x}}"])}

    # ── steps ──

    def step(self, needs: Sequence[str] = (), *, fresh: bool = False, step_id: str = "") -> JsonObject:
        """One right step that waits for some of `needs`."""
        rng = self.rng
        step_id = step_id or self.new_id()
        tool = rng.choice(self.specs)
        chosen = rng.sample(list(needs), rng.randint(0, min(2, len(needs))))
        made: JsonObject = {"step_id": step_id, "dependencies": chosen}
        kind = rng.choice(["one"] * 7 + ["actions", "items", "items"])
        if kind == "actions":
            made["actions"] = [
                {
                    "action_id": f"{step_id}_a{at}",
                    "tool": (one := rng.choice(self.specs)).id,
                    "parameters": self.parameters(one, fresh=fresh, needs=chosen),
                    **({"repeat": True, "repeat_reason": "it is due twice"} if rng.random() < 0.3 else {}),
                }
                for at in range(rng.randint(1, 3))
            ]
        else:
            made |= {"tool": tool.id, "parameters": self.parameters(tool, fresh=fresh, needs=chosen)}
        if kind == "items":
            lists = ["${metadata.list}", "${metadata.list}", "${metadata.empty}", "${metadata.text}"]
            made["for_each"] = rng.choice([*lists, *(f"${{{need}.output.items}}" for need in chosen)])
            takes = "text" in made["parameters"] and tool.parameters != CHOICES
            if takes and rng.random() < (0.6 if tool.effect == "reads" else 0.95):
                made["parameters"]["text"] = "${item}"
            elif tool.effect != "reads" and rng.random() < 0.9:
                del made["for_each"]
        if rng.random() < 0.1:
            made["when"] = rng.choice(
                [
                    "metadata.yes",
                    "metadata.no",
                    *(f"{n}.status == 'succeeded'" for n in chosen if n.isidentifier()),
                ]
            )
        if rng.random() < 0.1:
            made["timeout_secs"] = rng.choice([1, 4])
        if rng.random() < 0.05:
            made["requires_approval"] = True
        if rng.random() < 0.15 and kind != "actions":
            made |= {"repeat": True, "repeat_reason": "it is due twice"}
        return made

    def plan(self, size: int, *, known: Sequence[str] = (), fresh: bool = False) -> JsonObject:
        """A plan that should pass; `known`: finished steps that it may refer to."""
        steps: list[JsonObject] = []
        for _ in range(size):
            steps.append(self.step([*known, *(one["step_id"] for one in steps)], fresh=fresh))
        if not known and self.rng.random() < 0.9:
            for one in (call for step in steps for call in (step, *step.get("actions", ()))):
                one.pop("repeat", None)  # a first plan has nothing to repeat but its own
        self._mean_every_effect(steps)
        return {"reasoning": word(self.rng), "steps": steps}

    def _mean_every_effect(self, steps: list[JsonObject]) -> None:
        """Most of the like effects are meant."""
        seen: dict[str, JsonObject] = {}
        for one in steps:
            for call in one.get("actions") or [one]:
                like = f"{call['tool']} {call['parameters']} {one.get('for_each')}"
                if like in seen and self.rng.random() < 0.9:
                    for again in (call, seen[like]):
                        again |= {"repeat": True, "repeat_reason": "it is due twice"}
                seen.setdefault(like, call)

    def wrong_plan(self, size: int, used: Sequence[str]) -> JsonObject:
        """A plan with one fault."""
        rng, made = self.rng, self.plan(max(1, size))
        steps: list[JsonObject] = made["steps"]
        one = rng.choice(steps)
        match rng.choice(WRONG):
            case "an unknown tool":
                one |= {"tool": rng.choice(["mil_a", word(rng), "ask_user"]), "actions": []}
            case "a circle":
                steps[0]["dependencies"] = [steps[-1]["step_id"]]
                steps[-1]["dependencies"] = [steps[0]["step_id"]]
            case "an unknown step":
                one["dependencies"] = [word(rng)]
            case "a used id":
                one["step_id"] = rng.choice([*used, "metadata"])
            case "no parameters":
                one["parameters"] = {}
            case "a wrong parameter":
                one["parameters"] = self.bad_parameters(self.specs[0])
            case "a bad reference":
                one["parameters"] = {"text": f"${{{word(rng)}.output}}"}
            case "the same id twice":
                steps.append({**self.step(), "step_id": one["step_id"]})
            case "no tool":
                one |= {"tool": "", "actions": []}
            case "the same effect twice":
                steps.append({**one, "step_id": self.new_id()})
            case "a bad condition":
                one["when"] = "not a (( condition"
        return made


def renamed(plan: Mapping[str, Any], drafts: Drafts) -> JsonObject:
    """The same plan under new ids."""
    import json

    text = json.dumps(plan["steps"])
    names = sorted({one["step_id"] for one in plan["steps"]}, key=len, reverse=True)
    for at, name in enumerate(names):
        text = text.replace(f'"{name}', f'"@{at}@').replace(f"{{{name}", f"{{@{at}@")
    for at in range(len(names)):
        text = text.replace(f"@{at}@", drafts.new_id())
    return {**plan, "steps": json.loads(text)}
