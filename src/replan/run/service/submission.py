"""What a caller asks for, and whether it can be a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from replan.core.data.strict_json import NotStorable, storable, write_strictly
from replan.core.data.validation import faults, schema_problem
from replan.core.ids import task_id_problem
from replan.core.kinds.building import Unwritable, build
from replan.core.kinds.known import Known
from replan.core.kinds.slots import filled, told
from replan.core.kinds.workflow import UsedWorkflow
from replan.core.limits.policy import Policy
from replan.core.types import JsonObject
from replan.errors import InputError, PlanInvalid
from replan.ports import Counted

MAX_DESCRIPTION = 200_000
MAX_METADATA_BYTES = 1_000_000


class Submission(NamedTuple):
    """What a caller asks for."""

    description: str
    policy: Policy
    metadata: JsonObject = {}
    context: JsonObject = {}
    task_id: str | None = None
    plan: JsonObject | None = None
    tools: tuple[str, ...] = ()
    settings: JsonObject = {}
    secrets: Mapping[str, Any] = {}
    """Secret metadata by name: where they come from (`env:VAR`, `file:PATH`), or a `SecretStr`."""
    tenant: str = ""
    """Whose task it is, in a service."""
    by: str = ""
    """Who submits it, in a service."""
    workflow: str | None = None
    """The id of a workflow that its plan is to be built from."""
    slots: JsonObject = {}
    used: UsedWorkflow | None = None
    """What its plan was built from."""
    asked: Mapping[str, int | float | None] = {}
    """Of the budget, what was asked for where the tenant may use less."""
    turn: Counted | None = None
    """Of a tenant with limits."""


def built(wanted: Submission, known: Known) -> Submission:
    """The request with the plan that its workflow comes to; `InputError` where its slots do not fit."""
    if wanted.workflow is None:
        if wanted.slots:
            raise InputError("slots are for a workflow: name it, too (`workflow`)")
        return wanted
    if wanted.plan is not None:
        raise InputError("give a plan or a workflow, not both")
    workflow = known.workflow(wanted.workflow)
    if (size := json_size("slots", wanted.slots)) > MAX_METADATA_BYTES:
        raise InputError(f"the slots have {size:,} bytes; at most {MAX_METADATA_BYTES:,} are allowed")
    found = filled(workflow, wanted.slots)
    lacking = [f"slot {name!r} has to be filled ({told(name, workflow)})" for name in found.missing]
    if problems := [*found.problems, *lacking]:
        raise InputError(f"workflow {workflow.workflow_id!r}: {'; '.join(problems)}")
    try:
        plan = build(workflow, found.values)
    except Unwritable as error:
        raise InputError(f"workflow {workflow.workflow_id!r}: {error}") from None
    return wanted._replace(
        plan={**plan, "reasoning": f"built from the workflow {workflow.workflow_id}"},
        description=wanted.description if wanted.description.strip() else workflow.description,
        workflow=None,
        slots={},
        used=UsedWorkflow(
            workflow_id=workflow.workflow_id,
            digest=workflow.digest,
            slots=found.values,
            task_type=workflow.task_type,
            described=not wanted.description.strip(),
        ),
    )


def check_submission(wanted: Submission) -> int:
    """`InputError` for a request that cannot be a task. The bytes that its plan has as JSON."""
    if not wanted.description.strip():
        raise InputError("the task is empty: say in words what has to be done")
    if len(wanted.description) > MAX_DESCRIPTION:
        raise InputError(
            f"the task has {len(wanted.description)} characters; at most {MAX_DESCRIPTION} are allowed: "
            "put long data into metadata or a tool"
        )
    if storable(wanted.description) != wanted.description:
        raise InputError("the task holds bytes that are no text: give it in UTF-8")
    if wanted.task_id is not None and (problem := task_id_problem(wanted.task_id)):
        raise InputError(problem)
    size = 0
    for name, value in (
        ("metadata", wanted.metadata),
        ("context", wanted.context),
        ("plan", wanted.plan or {}),
    ):
        if not isinstance(value, dict):
            raise InputError(f"{name} has to be an object, not {type(value).__name__}")
        size = json_size(name, value)
        if name != "plan" and size > MAX_METADATA_BYTES:
            raise InputError(f"{name} has {size} bytes; at most {MAX_METADATA_BYTES} are allowed")
    if wanted.plan is not None and (not wanted.plan or wanted.plan.get("steps") == []):
        raise PlanInvalid([
            "the plan that is given has no steps: give it some, or give no plan and let one be made"
        ])  # fmt: skip
    if twice := sorted(wanted.secrets.keys() & wanted.metadata.keys()):
        raise InputError(f"{', '.join(twice)}: given both as metadata and as a secret; give it once")
    schema = wanted.policy.output_schema
    json_size("output_schema", schema)
    if schema is not None and (problem := schema_problem(schema)):
        raise InputError(f"output_schema: {problem}")
    if schema is not None and (
        unusable := next((one for one in faults(schema, None) if not one.keyword), None)
    ):
        raise InputError(f"output_schema: {unusable}")
    return size


def json_size(name: str, value: Any) -> int:
    """The bytes of a value as JSON; `InputError` names it where it has none."""
    if not value and isinstance(value, dict | None):
        return 4 if value is None else 2
    try:
        return len(write_strictly(value))
    except NotStorable as error:
        raise InputError(f"{name} cannot be kept as JSON: {error}") from None
