"""What a program asks for, as a submission: each argument in the form that it is stored in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from pydantic import SecretStr, TypeAdapter

from replan.app.arguments import RunArguments
from replan.config.options import Options, mapping, policy_with, text_of
from replan.config.values import found
from replan.core.begun import Begun
from replan.core.limits.policy import Policy, within
from replan.errors import InputError
from replan.run.following.wanted import with_names
from replan.run.service.submission import Submission


class Form(RunArguments, total=False):
    """All that is said of a task beside its text."""

    output_schema: Mapping[str, Any] | None
    secrets: Mapping[str, str | SecretStr] | None


def submission_of(text: str, policy: Policy, begun: Begun, **asked: Unpack[Form]) -> Submission:
    """The submission, by the policy that holds where nothing else is said, for whoever goes on with what is `begun`."""
    context = with_names(asked.get("context"), asked.get("session_id"), asked.get("previous_task_id"))
    changes: Options = {}
    if (timeout := asked.get("timeout")) is not None:
        changes["budget"] = within(policy.budget, timeout)
    if (evaluation := asked.get("evaluation")) is not None:
        changes["evaluation"] = evaluation
    if (output_schema := asked.get("output_schema")) is not None:
        changes["output_schema"] = mapping("output_schema", output_schema, {"type": "object"})
    metadata, plan, slots = asked.get("metadata"), asked.get("plan"), asked.get("slots")
    task_id, workflow = asked.get("task_id"), asked.get("workflow")
    return Submission(
        description=text_of("the task", text),
        policy=policy_with(policy, changes),
        metadata=mapping("metadata", {} if metadata is None else metadata, {"project": "P-7"}),
        context=mapping("context", {} if context is None else context, {"session_id": "s-1"}),
        task_id=None if task_id is None else text_of("task_id", task_id),
        plan=None if plan is None else mapping("plan", plan, {"steps": []}),
        tools=begun.tools,
        settings=begun.settings,
        secrets=dict(asked.get("secrets") or {}),
        workflow=None if workflow is None else text_of("workflow", workflow),
        slots={} if slots is None else mapping("slots", slots, {"city": "Rome"}),
    )


def form_of(
    output_type: Any, schema: Mapping[str, Any] | None
) -> tuple[TypeAdapter[Any] | None, Mapping[str, Any] | None]:
    """What reads an answer of this type, if one is given; and the schema of the answer."""
    if output_type is None:
        return None, schema
    if schema is not None:
        raise InputError("give output_type or output_schema, not both")
    try:
        adapter = TypeAdapter(output_type)
        return adapter, adapter.json_schema()
    except Exception as error:
        said = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".:")
        raise InputError(
            f"output_type: {found(output_type)} cannot be the form of an answer, as a Pydantic model or list[str] can: {said}"
        ) from error
