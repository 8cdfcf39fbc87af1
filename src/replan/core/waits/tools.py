"""The tools that a plan waits with. The loop carries them out itself: what waits holds no worker, place or connection."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from replan.core.types import Action, JsonObject, Step, ToolSpec

SOURCE = "replan"
"""What rules know the source of these tools as."""
LONGEST_SECS = 366 * 86_400.0
EVERY_SECS, LIMIT_SECS = 10, 3600
"""Of a condition, where the plan does not say."""


def _spec(name: str, description: str, parameters: JsonObject, **more: object) -> ToolSpec:
    required = parameters.pop("required", None)
    schema: JsonObject = {"type": "object", "properties": parameters, "additionalProperties": False}
    if required:
        schema["required"] = required
    given = {"id": name, "name": name, "description": description, "parameters": schema, **more}
    return ToolSpec.model_validate({"effect": "reads", "source": SOURCE, **given})


_SECS: JsonObject = {"type": "number", "minimum": 1}

WAIT_FOR_TIME = _spec(
    "wait_for_time",
    "Wait for so long, or until a point in time. Give seconds or until.",
    {
        "seconds": {"type": "number", "minimum": 0},
        "until": {"type": "string", "description": "2026-03-01T09:30 or 2026-03-01T09:30+02:00"},
        "zone": {"type": "string", "description": "of until, else UTC: Europe/Berlin"},
    },
    output_schema={"type": "object", "properties": {"until": {"type": "string"}}, "required": ["until"]},
    waits="time",
    volatile=True,
)
WAIT_FOR_CONDITION = _spec(
    "wait_for_condition",
    "Call a reading tool again and again until what it gives meets a condition; gives that output.",
    {
        "tool": {"type": "string", "description": "the id of the reading tool"},
        "parameters": {"type": "object", "description": "its parameters"},
        "condition": {"type": "string", "description": "JMESPath over {output}: output.status == 'done'"},
        "every_secs": {**_SECS, "default": EVERY_SECS},
        "limit_secs": {**_SECS, "default": LIMIT_SECS, "description": "then the step has failed"},
        "required": ["tool", "condition"],
    },
    waits="condition",
    volatile=True,
)
CREATE_CALLBACK = _spec(
    "create_callback",
    "Make a token for somebody outside: pass token and task_id to the tool that has something done, then wait_for_callback.",
    {},
    output_schema={
        "type": "object",
        "properties": {"task_id": {"type": "string"}, "token": {"type": "string"}},
        "required": ["task_id", "token"],
        "additionalProperties": False,
    },
    stable=True,
)
WAIT_FOR_CALLBACK = _spec(
    "wait_for_callback",
    "Wait until somebody outside has used the token; gives the data that came with it.",
    {
        "token": {"type": "string"},
        "limit_secs": {
            **_SECS,
            "description": "left out: as long as it takes",
        },
        "required": ["token"],
    },
    waits="callback",
    volatile=True,
)
ASK_USER = _spec(
    "ask_user",
    "Ask a person what no tool can find out and the result depends on; gives the answer alone. choices, kind or schema say which answers fit.",
    {
        "question": {"type": "string", "minLength": 1, "maxLength": 4000},
        "choices": {
            "type": "array",
            "items": {"type": ["string", "number"]},
            "minItems": 1,
            "maxItems": 200,
            "description": "the answer is one of them",
        },
        "kind": {"enum": ["text", "number", "yes/no", "date"], "description": "else a text"},
        "schema": {"type": "object", "description": "JSON Schema of an answer of several fields"},
        "limit_secs": {**_SECS, "description": "left out: as long as it takes"},
        "required": ["question"],
    },
    waits="question",
    stable=True,
)
BUILT_IN = (WAIT_FOR_TIME, WAIT_FOR_CONDITION, CREATE_CALLBACK, WAIT_FOR_CALLBACK, ASK_USER)


def asked(tool: str, parameters: JsonObject) -> Iterator[str]:
    """The tools that a planned call needs: its own, and the one that it asks again and again."""
    if tool:
        yield tool
    if tool == WAIT_FOR_CONDITION.id and isinstance(other := parameters.get("tool"), str) and other:
        yield other


def tools_of(step: Step | Action) -> Sequence[str]:
    """The tools that a step, or one of its actions, needs, as it names them."""
    actions = step.actions if isinstance(step, Step) else ()
    if not actions and step.tool != WAIT_FOR_CONDITION.id:  # as nearly every step
        return (step.tool,) if step.tool else ()
    found = list(asked(step.tool, step.parameters))
    for action in actions:
        found += asked(action.tool, action.parameters)
    return found


def names_of_tools(steps: Iterable[Step]) -> list[str]:
    """The same of all these steps, each name once."""
    found: dict[str, None] = {}
    for step in steps:
        if step.actions or step.tool == WAIT_FOR_CONDITION.id:
            found |= dict.fromkeys(tools_of(step))
        elif step.tool:
            found[step.tool] = None
    return list(found)
