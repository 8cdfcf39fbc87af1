"""Whether everything that a step refers to is there: references, conditions, the list of a `for_each`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from replan.core.calls.inside import inside_violations, own_action
from replan.core.data import schemas
from replan.core.following.referred import is_followed
from replan.core.plan.index import Draft, metadata_name
from replan.core.references.braces import in_braces
from replan.core.references.conditions import (
    STATUSES,
    check_condition,
    expression,
    roots,
    unknown_statuses,
    waits_for_failure,
)
from replan.core.references.expressions.grammar import paths_in
from replan.core.references.expressions.kinds import Misfit, types_given
from replan.core.references.paths import PathError, chains, check_path, gives_list, select, static_steps
from replan.core.references.refs import (
    WORDS,
    Expression,
    Reference,
    expressions,
    is_plain,
    listed,
    references,
    whole,
    written_as_text,
)
from replan.core.references.scopes import At, Chain, Lacking, Meant, Outputs, Place, findings
from replan.core.references.trees import braces_at_root
from replan.core.types import JsonObject, Step, StepId
from replan.core.words import some

_OF_A_STEP = ("output", "outputs", "status")
_AS_OF_A_STEP = ("output", "outputs")


def reference_violations(draft: Draft, step: Step, found: Iterable[Reference]) -> Iterator[str]:
    """What is wrong with the step's references (`found`: as `references_of` gives them), its condition and its `for_each`."""
    where = f"step {step.step_id!r}"
    for text in (*_for_each(draft, step), *_condition(draft, step)):
        yield f"{where}: {text}"
    if step.actions:
        yield from inside_violations(step)
    for text in _after_functions(draft, step):
        yield f"{where}: {text}"
    for ref in found:
        if problem := _problem(draft, step, ref) or _inside(draft, step, ref):
            yield f"{where}: {problem}"


def known_steps(draft: Draft) -> str:
    """The ids there are, for the end of a message."""
    names = list(draft.steps)
    return f"; there are: {some(names, 20)}" if names else ""


# ── references ──


def _problem(draft: Draft, step: Step, ref: Reference) -> str:
    owner = draft.owner(ref.head)
    if ref.problem and (
        not ref.head or ref.head in WORDS or owner in draft.steps or ref.head in draft.earlier
    ):
        return ref.problem
    if ref.head in ("item", "index"):
        if step.for_each is None:
            return f"{ref.raw} is known only inside a step with `for_each`"
        return _item_problem(draft, ref, step.for_each) if ref.head == "item" else ""
    if ref.head == "metadata":
        return _metadata_problem(draft, step, ref)
    if ref.head in WORDS:
        return ""
    if owner == step.step_id:
        if own_action(step, ref) is not None:
            return _path_problem(ref, draft.produced(ref, step.step_id))
        inside = "; of its own step an action may use another action's output" if step.actions else ""
        return f"{ref.raw} refers to its own step{inside}"
    if owner in draft.steps:
        return (
            _action_problem(draft, ref, owner)
            or _second_step(draft, ref)
            or _path_problem(ref, draft.produced(ref))
        )
    if ref.head in draft.earlier:
        return _second_step(draft, ref) or _path_problem(ref, draft.produced(ref))
    if is_followed(ref.head) and not _means_a_step(draft, ref):
        return draft.followed.problem(ref) or _second_step(draft, ref)
    return f"{ref.raw}: {ref.head!r} is not a step{known_steps(draft)}; {_no_step_hint(ref)}"


def _no_step_hint(ref: Reference) -> str:
    if ref.computed:
        return "a text is written 'text'" + (
            "; a minus sign stands between blanks" if "-" in ref.head else ""
        )
    return f"if it is meant as text, write it as {written_as_text(ref.raw)}"


def _means_a_step(draft: Draft, ref: Reference) -> bool:
    """True where a step of the task is called as tasks are that it could follow, and it follows none of that name."""
    name = ref.head.partition(".")[0]
    return name in draft.steps and all(one.partition(".")[0] != name for one in draft.followed.schemas)


def _action_problem(draft: Draft, ref: Reference, owner: str) -> str:
    if ref.action is None:
        return ""
    if ref.head in draft.actions:
        return f"{ref.raw}: {ref.head!r} is an action of step {owner!r} and has no actions itself"
    if draft.actions.get(ref.action, ("",))[0] == owner:
        return ""
    names = ", ".join(action.action_id for action in draft.steps[owner].actions)
    return f"{ref.raw}: step {owner!r} has no action {ref.action!r}; it has: {names or 'none'}"


def _second_step(draft: Draft, ref: Reference) -> str:
    """A reference looks into one output: another step in its path would be read as a field that is not there."""
    if not ref.path or static_steps(ref.path) is not None:
        return ""
    for name, field in (chain[:2] for chain in chains(ref.path) if len(chain) > 1):
        is_step = name != ref.head and (draft.owner(name) in draft.steps or name in draft.earlier)
        if is_step and field in _OF_A_STEP:
            return (
                f"{ref.raw}: one reference looks into one step's output, and {name!r} is another step; where either of two "
                "steps may have run, write a step for each, with the condition of its branch"
            )
    return ""


def names_meant(draft: Draft, step: Step) -> Meant:
    """What of the plan a name in the step may be meant for, in words."""

    def meant(chain: Chain) -> str:
        name, part = chain[0], chain[1] if len(chain) > 1 else None
        if name in ("item", "index"):
            return f"the {name} of `for_each`" if step.for_each is not None else ""
        if name == "metadata":
            return "the task's metadata"
        if name == "task":
            return "the task" if part in ("description", "id") else ""
        is_action = name in draft.actions
        if is_action or name in draft.steps or name in draft.earlier:
            alone = part is None and name == step.step_id
            return "" if alone else f"{'action' if is_action else 'step'} {name!r}"
        if part is not None and draft.followed.schemas and is_followed(name):
            return "an earlier task"
        # as models write steps, of which the plan has none that is called so
        return "a step" if part in _AS_OF_A_STEP or (name == "steps" and part is not None) else ""

    return meant


_SELECTED = "; two lists are joined by a field that both have with ${= merge_by(a.output, b.output, 'key') }"


def _inside(draft: Draft, step: Step, ref: Reference) -> str:
    """What the filters and projections of the reference look at that is not there, or not what it looks like."""
    if ref.problem or not ref.path or static_steps(ref.path) is not None:
        return ""
    found, _ = findings(ref.path, begins(draft, step, ref), names_meant(draft, step))
    for one in found:
        if isinstance(one, Lacking):
            return f"{ref.raw} selects nothing: {one.say(f'the output of {ref.head!r}')}"
        return f"{ref.raw}: {one.say()}{_SELECTED}"
    return ""


def _after_functions(draft: Draft, step: Step) -> Iterator[str]:
    """The same of what follows functions in expressions."""
    calls = [one.parameters for one in step.actions or (step,)]
    for computed in expressions([calls, step.for_each, step.when]):
        for path in paths_in(computed.tree):
            for one in findings(path, Place(), names_meant(draft, step))[0]:
                if not isinstance(one, Lacking):
                    yield f"{computed.raw}: {one.say()}"


def begins(draft: Draft, step: Step, ref: Reference) -> Place:
    """What the path of a reference looks into."""
    if ref.head != "item":
        return Place() if ref.head in WORDS else At(draft.produced(ref, step.step_id))
    source = whole(step.for_each) if step.for_each is not None else None
    if source is None or source.problem or source.head in WORDS:
        return Place()
    listed_in = At(draft.produced(source))
    try:
        return (findings(source.path, listed_in, lambda _: "")[1] if source.path else listed_in).item()
    except schemas.PathUnknown:
        return Place()  # said of the list


def _metadata_problem(draft: Draft, step: Step, ref: Reference) -> str:
    name = metadata_name(ref)
    if name is None or draft.writers_before(step.step_id, name):
        return ""
    if name not in draft.metadata:
        has = ", ".join(map(str, draft.metadata)) or "nothing"
        return f"{ref.raw}: the metadata has no {name!r}; it has: {has}"
    try:
        select(ref.path, draft.metadata)
    except PathError as error:
        has = f"; it has: {', '.join(error.available[:20])}" if error.available else ""
        return f"{ref.raw} selects nothing in the metadata: {error.why}{has}"
    return ""


def _path_problem(ref: Reference, schema: JsonObject | None) -> str:
    steps = static_steps(ref.path) if ref.path else []
    if steps is None or schema is None:
        return ""
    try:
        schemas.schema_at(schema, steps)
    except schemas.PathUnknown as error:
        if error.is_open:
            return ""
        return f"{ref.raw} selects nothing: {error.say(f'the output of {ref.head!r}')}"
    return ""


def _item_problem(draft: Draft, ref: Reference, for_each: str) -> str:
    """A field that the items of the list cannot have."""
    source = whole(for_each)
    if source is None or source.problem or source.head in WORDS or not ref.path:
        return ""
    schema, to_list, to_field = draft.produced(source), _plain(source), static_steps(ref.path)
    if schema is None or to_list is None or to_field is None:
        return ""
    try:
        schemas.schema_at(schema, to_list)
    except schemas.PathUnknown:
        return ""  # said of the list
    try:
        schemas.schema_at(schema, [*to_list, _ANY_ITEM, *to_field])
    except schemas.PathUnknown as error:
        if error.is_open:
            return ""
        return f"{ref.raw} selects nothing: {error.say(f'an item of {source.raw}')}"
    return ""


def _plain(ref: Reference) -> list[str | int] | None:
    return static_steps(ref.path) if ref.path else []


_ANY_ITEM = 1_000_000
"""An item beyond those that a schema may describe one by one."""


def given_types(draft: Draft, ref: Reference, own: StepId = "") -> frozenset[str] | None:
    """The JSON types that a reference to a step can give; None where nothing tells. `own`: the step that has the reference."""
    if ref.problem or ref.head in WORDS:
        return None
    if ref.path and gives_list(ref.path):
        return frozenset({"array"})
    schema = draft.produced(ref, own)
    steps = static_steps(ref.path) if ref.path else []
    if steps is None or schema is None:
        return None
    try:
        return schemas.types_of(schemas.schema_at(schema, steps))
    except schemas.PathUnknown:
        return None  # said with the references


def types_worked_out(draft: Draft, computed: Expression, own: StepId = "") -> frozenset[str] | None:
    """The JSON types that an expression can give; None where nothing tells. `Misfit` where it can give nothing."""
    if computed.tree is None:
        return None
    refs = computed.references
    return types_given(
        computed.tree,
        lambda at: given_types(draft, refs[at], own),
        lambda at: types_of_items(draft, refs[at], own),
    )


def types_of_items(draft: Draft, ref: Reference, own: StepId = "") -> frozenset[str] | None:
    """The JSON types of the items of the list that a reference to a step gives; None where nothing tells."""
    if ref.problem or ref.head in WORDS:
        return None
    place: Place = At(draft.produced(ref, own))
    try:
        if ref.path:
            place = findings(ref.path, place, lambda _: "")[1]
        return place.item().types()
    except schemas.PathUnknown:
        return None  # said with the references


def given_schema(draft: Draft, ref: Reference, own: StepId = "") -> JsonObject | None:
    """The schema of what a reference to a step gives by a plain path; None where nothing tells."""
    steps = static_steps(ref.path) if ref.path else []
    if ref.problem or ref.head in WORDS or steps is None:
        return None
    try:
        return schemas.schema_at(draft.produced(ref, own), steps)
    except schemas.PathUnknown:
        return None


def expression_problem(draft: Draft, computed: Expression, own: StepId = "") -> str:
    """Why the expression cannot be read, or can give nothing; empty if it may give something. What is wrong with its references is told of these."""
    try:
        types_worked_out(draft, computed, own)
    except Misfit as error:
        return f"{computed.raw}: {error}"
    return computed.problem


# ── for_each and when ──


def _for_each(draft: Draft, step: Step) -> Iterator[str]:
    if step.for_each is None:
        return
    ref = whole(step.for_each)
    if own := next((one.head for one in references(step.for_each) if one.head in ("item", "index")), ""):
        yield f"`for_each` cannot refer to its own {own}"
        return
    if ref is None and (items := listed(step.for_each)) is not None:
        for one in expressions(items):
            if problem := expression_problem(draft, one):
                yield f"`for_each`: {problem}"
        return
    if ref is None and (computed := expression(step.for_each)) is not None:
        yield from _no_list(draft, computed)
    elif ref is None:
        yield (
            "`for_each` has to be one reference to a list, as ${step_1.output.items}, an expression that gives one, or a list, "
            f"not {step.for_each!r}"
        )
    elif ref.head == "task":
        yield f"`for_each` needs a list, and {ref.raw} is a text"
    elif not schemas.can_fit(given := given_types(draft, ref), frozenset({"array"})):
        yield f"`for_each` needs a list, and {ref.raw} gives {schemas.words_of(given)}"


def _no_list(draft: Draft, computed: Expression) -> Iterator[str]:
    """Why an expression is no list to go through."""
    try:
        given = types_worked_out(draft, computed)
    except Misfit as error:
        yield f"`for_each`: {computed.raw}: {error}"
        return
    if computed.problem:
        yield f"`for_each`: {computed.problem}"
    elif not schemas.can_fit(given, frozenset({"array"})):
        yield f"`for_each` needs a list, and {computed.raw} gives {schemas.words_of(given)}"


def _no_truth(draft: Draft, when: str) -> str:
    """Why an expression is no condition; empty where it is one, or none at all."""
    computed = expression(when)
    if computed is None:
        return ""
    try:
        given = types_worked_out(draft, computed)
    except Misfit as error:
        return f"{computed.raw}: {error}"
    if given is None or given == {"boolean"}:
        return ""
    return f"{computed.raw} gives {schemas.words_of(given)}, and a condition is true or false: compare it with something"


def _inside_condition(draft: Draft, step: Step, when: str) -> Iterator[str]:
    """The same as of a reference of what a condition looks at."""
    if (computed := expression(when)) is not None:
        for ref in computed.references:
            if not ref.problem and (
                wrong := _inside(draft, step, ref) or _path_problem(ref, draft.produced(ref))
            ):
                yield wrong
        return
    found, _ = findings(when, condition_begins(draft), names_meant(draft, step))
    for one in found:
        yield (
            one.say("the output that it looks at") if isinstance(one, Lacking) else f"{one.say()}{_SELECTED}"
        )


def _has_braces(when: str) -> bool:
    """True where braces stand around what needs none, or in quotes."""
    if is_plain(when) or expression(when) is not None:
        return False
    return bool(check_path(when, refers=True)) or not in_braces(when) or bool(braces_at_root(when))


def condition_begins(draft: Draft) -> Place:
    """What a condition looks into."""

    def given(names: Chain) -> JsonObject | None:
        if names[-1] not in ("output", "outputs") or len(names) not in (2, 3):
            return None
        head = ".".join(names[:-1])
        if head in draft.actions:
            return None  # said of the name
        return draft.produced(Reference(head, head, None, ""))

    return Outputs(given)


def _condition(draft: Draft, step: Step) -> Iterator[str]:
    if step.when is None:
        return
    if _has_braces(step.when):
        yield f"`when` is a JMESPath without braces, as step_1.output.total > `0`, not {step.when!r}"
        return
    if problem := check_condition(step.when) or _no_truth(draft, step.when):
        yield f"`when`: {problem}"
        return
    for text in _inside_condition(draft, step, step.when):
        yield f"`when`: {text}"
    if strange := unknown_statuses(step.when):
        yield (
            f"`when` looks for the status {', '.join(map(repr, strange))}; the status of a step is one of "
            f"{', '.join(map(repr, STATUSES))}"
        )
    for name in waits_for_failure(step.when):
        if name in draft.steps and name != step.step_id:
            yield (
                f"`when`: {name}.status == 'failed' never holds, since a step runs only when all that it looks at has "
                "succeeded or was skipped; a failure is recovered from, or the plan is made anew: leave this step out"
            )
    looked_at = roots(step.when)
    others = [
        one
        for one in looked_at
        if is_followed(one[0]) and one[0] not in draft.steps and one[0] not in draft.earlier
    ]
    yield from draft.followed.condition_problems(others)
    for name, part in looked_at:
        if (name, part) in others:
            continue
        if name == step.step_id:
            yield f"`when` looks at its own step {name!r}"
        elif name in draft.steps or name in draft.earlier:
            if part is not None and part not in _OF_A_STEP:
                yield f"`when` looks at {name}.{part}; of a step there is {name}.output and {name}.status"
        elif name in draft.actions:
            owner = draft.owner(name)
            yield f"`when`: {name!r} is an action; its output is {owner}.output.{name}"
        elif name in WORDS and name != "metadata":
            yield f"`when` can look at steps and metadata, not at {name!r}"
        elif name != "metadata":
            yield (
                f"`when`: {name!r} is not a step{known_steps(draft)}; a value is written 'text', `5` or `true`"
            )
