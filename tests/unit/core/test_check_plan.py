from __future__ import annotations

import difflib
from typing import Any

import pytest

from replan.core.limits.policy import PlanLimits
from replan.core.plan.check import Checked, Toolbox, check_plan
from replan.core.types import Action, Plan, Step, ToolSpec

TEXT = {"type": "string"}
NUMBER = {"type": "number"}


def tool(
    name: str, effect: Any = "reads", output: Any = None, required: Any = None, **given: Any
) -> ToolSpec:
    fields = {key: value for key, value in given.items() if isinstance(value, dict)}
    more = {key: value for key, value in given.items() if not isinstance(value, dict)}
    needed = list(fields) if required is None else required
    schema = {"type": "object", "properties": fields, "required": needed, "additionalProperties": False}
    return ToolSpec(id=name, effect=effect, parameters=schema, output_schema=output, **more)


FIND = tool(
    "find",
    query=TEXT,
    output={
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "hits": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"id": TEXT, "size": NUMBER},
                    "additionalProperties": False,
                },
            },
            "total": {"type": "integer"},
            "best": {"$ref": "#/$defs/hit"},
        },
        "$defs": {"hit": {"type": "object", "properties": {"id": TEXT}, "additionalProperties": False}},
    },
)
MAIL = tool("mail", "once", to=TEXT, body=TEXT, aliases=("send_mail",))
ADD = tool("add", a=NUMBER, b=NUMBER, output=NUMBER)
LOGIN = tool("login", user=TEXT, output_params=("token",))
FETCH = tool("fetch", token=TEXT, page={"type": "integer"}, required=["token"])
RANK = tool(
    "rank",
    ids={"type": "array", "items": TEXT, "minItems": 1},
    kind={"enum": ["up", "down"]},
    required=["ids"],
)
ANY = tool("any", x={}, y={}, required=[])
TOOLS = [FIND, MAIL, ADD, LOGIN, FETCH, RANK, ANY]


def resolve(name: str) -> ToolSpec | None:
    def folded(text: str) -> str:
        return text.lower().replace("_", "").replace("-", "")

    return next((one for one in TOOLS if folded(name) in map(folded, (one.id, *one.aliases))), None)


BOX = Toolbox(resolve, lambda name: difflib.get_close_matches(name, [one.id for one in TOOLS], 3, 0.3))


def step(step_id: str, name: str = "any", *, needs: tuple[str, ...] = (), **given: Any) -> Step:
    own = {key: given.pop(key) for key in list(given) if key in Step.model_fields and key != "name"}
    return Step(step_id=step_id, tool=name, parameters=given, dependencies=needs, **own)


def check(*steps: Step, **given: Any) -> Checked:
    given.setdefault("metadata", {})
    given.setdefault("limits", PlanLimits())
    return check_plan(Plan(plan_id="p", steps=steps), BOX, **given)


S1 = step("step_1", "find", query="x")
A = Action(action_id="a1", tool="find", parameters={"query": "x"})
B = Action(action_id="a2", tool="add", parameters={"a": 1, "b": 2})
BOTH = Step(step_id="both", actions=(A, B))


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        # ids
        pytest.param([S1, S1], "the step id 'step_1' is used twice", id="unique step ids"),
        pytest.param([BOTH, Step(step_id="c", actions=(A,))], "the action id 'a1' is used twice", id="unique action ids"),
        pytest.param([BOTH, step("a1")], "the step id 'a1' is used twice", id="a step named as an earlier action"),
        pytest.param([step("a1"), BOTH], "the action id 'a1' is used twice", id="an action named as an earlier step"),
        pytest.param([step("1a")], "step id '1a' is no id: letters, digits, _ and -", id="malformed id"),
        pytest.param([step("шаг")], "step id 'шаг' is no id", id="unicode id"),
        pytest.param([step("item")], "step id 'item' is a word of the reference language", id="reserved id"),
        pytest.param(
            [Step(step_id="s", actions=(Action(action_id="env", tool="any"),))],
            "step 's': action id 'env' is a word",
            id="reserved action id",
        ),
        # tools
        pytest.param([step("s", "fnd")], "step 's': the tool 'fnd' does not exist; there are: find", id="unknown tool"),
        pytest.param([step("s", "")], "step 's' names no tool", id="no tool"),
        pytest.param(
            [Step(step_id="s", actions=(Action(action_id="q", tool="maill"),))],
            "step 's', action 'q': the tool 'maill' does not exist; there are: mail",
            id="unknown tool of an action",
        ),
        pytest.param(
            [Step(step_id="s", tool="mail", actions=(A,))],
            "step 's' has both a call of its own (mail) and actions; give one of the two",
            id="a call and actions",
        ),
        # dependencies
        pytest.param(
            [S1, step("s", needs=("step_9",))],
            "step 's' depends on 'step_9', which is not a step of this plan; there are: step_1, s",
            id="unknown dependency",
        ),
        pytest.param([step("s", needs=("s",))], "step 's' depends on itself", id="own dependency"),
        pytest.param(
            [step("a", needs=("c",)), step("b", needs=("a",)), step("c", needs=("b",)), step("d", needs=("c",))],
            "the steps form a cycle: b → c → a → b",
            id="a cycle is named",
        ),
        pytest.param(
            [step("a", x="${b.output}"), step("b", x="{{a.output}}")],
            "cycle: b → a → b",
            id="a cycle by references",
        ),
        # references
        pytest.param(
            [S1, step("s", x="${step_9.output.a}")],
            "step 's': ${step_9.output.a}: 'step_9' is not a step; there are: step_1, s; if it is meant as text, "
            "write it as $${step_9.output.a}",
            id="unknown head",
        ),
        pytest.param(
            [step("s", x="{{name}}")],
            "if it is meant as text, write it as {{{{name}}}}",
            id="a template of somebody else",
        ),
        pytest.param(
            [step("a"), step("b"), step("s", x="${a.output || b.output}")],
            "'b' is another step; where either of two steps may have run, write a step for each",
            id="another step behind ||",
        ),
        pytest.param(
            [step("a"), step("b"), step("s", x="${a.output.x == b.status && 'y'}")], "is another step", id="compared with another step"
        ),
        pytest.param([step("s", x="a ${s.output}")], "${s.output} refers to its own step", id="own output"),
        pytest.param([step("s", x={"k": ["${"]})], "has no closing braces", id="unclosed"),
        pytest.param([step("s", x={"${zzz}": 1})], "'zzz' is not a step", id="in a key"),
        pytest.param([step("s", x="${zzz.iban}")], "'zzz' is not a step", id="a field of no step"),
        pytest.param([step("s", x="${zzz.output * 2}")], "'zzz' is not a step", id="a sum of no step"),
        pytest.param([step("s", x="${item}")], "${item} is known only inside a step with `for_each`", id="item"),
        pytest.param([step("s", x="${index}")], "${index} is known only inside", id="index"),
        pytest.param([step("s", x="${metadata.team}")], "the metadata has no 'team'; it has: nothing", id="metadata"),
        pytest.param(
            [S1, step("s", x="${step_1.output.hit}")],
            "${step_1.output.hit} selects nothing: the output of 'step_1' has no 'hit'; it has: hits, total, best",
            id="the producer's schema has no such field",
        ),
        pytest.param(
            [S1, step("s", x="${step_1.output.best.size}")],
            "the output of 'step_1' has no 'size'; it has: id",
            id="through a $ref",
        ),
        pytest.param(
            [step("n", "add", a=1, b=2), step("s", x="${n.output.sum}")],
            "the output of 'n' has no 'sum', being a number",
            id="a field of a number",
        ),
        pytest.param(
            [BOTH, step("s", x="${both.output.a3}")], "has no 'a3'; it has: a1, a2", id="no such action in the output"
        ),
        pytest.param(
            [BOTH, step("s", x="${both.actions.a3.output}")],
            "step 'both' has no action 'a3'; it has: a1, a2",
            id="no such action",
        ),
        pytest.param(
            [BOTH, step("s", x="${a1.actions.a2.output}")],
            "'a1' is an action of step 'both' and has no actions itself",
            id="an action's action",
        ),
        # parameters
        pytest.param(
            [step("s", "find", query=5)], "step 's': tool 'find': query: 5 is not of type 'string'", id="constant type"
        ),
        pytest.param([step("s", "rank", ids=["a", 3])], "ids[1]: 3 is not of type 'string'", id="nested constant"),
        pytest.param([step("s", "rank", ids=["a"], kind="left")], "'left' is not one of ['up', 'down']", id="enum"),
        pytest.param(
            [step("s", "mail", to="Bob")],
            "tool 'mail': 'body' is a required property; its parameters are: to, body",
            id="required",
        ),
        pytest.param(
            [step("s", "find", query="x", q="y")],
            "('q' was unexpected); its parameters are: query",
            id="unknown parameter",
        ),
        pytest.param(
            [S1, step("s", "add", a="n: ${step_1.output.total}", b=1)],
            "is not of type 'number'",
            id="a longer text is a text whatever goes in",
        ),
        pytest.param([step("s", "add", a="$${x}", b=1)], "is not of type 'number'", id="an escape is a text"),
        pytest.param(
            [S1, step("s", "find", query="${step_1.output.total}")],
            "step 's': query has to be a text, and ${step_1.output.total} gives a whole number; "
            "as a text it is ${step_1.output.total | to_string(@)}",
            id="the producer gives another type",
        ),
        pytest.param(
            [S1, step("s", "find", query="${step_1.output.hits[*].id}")],
            "query has to be a text, and ${step_1.output.hits[*].id} gives a list",
            id="a projection gives a list",
        ),
        pytest.param(
            [BOTH, step("s", "find", query="${a2.output}")], "and ${a2.output} gives a number", id="an action's type"
        ),
        pytest.param(
            [S1, step("e", "add", for_each="${step_1.output.hits}", a=1, b=2), step("s", "add", a="${e.output}", b=1)],
            "a has to be a number, and ${e.output} gives a list",
            id="the output of for_each is a list",
        ),
        pytest.param([step("s", "rank", ids=[])], "ids: [] should be non-empty", id="constraints"),
        # for_each and when
        pytest.param(
            [step("s", for_each="step_1.output.hits")],
            "`for_each` has to be one reference to a list, as ${step_1.output.items}, an expression that gives one, or a list, not 'step_1.output.hits'",
            id="for_each without braces",
        ),
        pytest.param(
            [S1, step("s", for_each="${step_1.output.hits}", x="about ${item.nme}")],
            "${item.nme} selects nothing: an item of ${step_1.output.hits} has no 'nme'; it has: ",
            id="a field that items do not have",
        ),
        pytest.param(
            [step("s", "add", for_each='[7, "x"]', a="${item}", b=1)],
            "step 's', item 2: tool 'add': a: 'x' is not of type 'number'",
            id="an item that does not fit",
        ),
        pytest.param(
            [step("s", "mail", for_each='[{"v": "a"}, {"w": "b"}]', to="${item.v}", body="b")],
            "step 's', item 2: ${item.v} selects nothing in item 2",
            id="an item without the field",
        ),
        pytest.param(
            [step("s", "rank", for_each='[["a"], []]', ids="${item}")], "step 's', item 2: tool 'rank': ids: [] ", id="an item too short"
        ),
        pytest.param(
            [step("s", "mail", for_each="[1]", to="for ${item}", body="${index}")],
            "step 's', item 1: tool 'mail': body: 0 is not of type 'string'",
            id="the number of an item",
        ),
        pytest.param(
            [S1, step("s", "add", for_each='["x"]', a="${item}", b="${step_1.output.total}")],
            "step 's', item 1: tool 'add': a: 'x' is not",
            id="an item beside a reference to a step",
        ),
        pytest.param(
            [S1, step("s", for_each=str(list(range(PlanLimits().max_fan_out + 1))), x="${item}")],
            " items; at most ",
            id="more items than are allowed",
        ),
        pytest.param([step("s", for_each="${item}")], "`for_each` cannot refer to its own item", id="for_each of item"),
        pytest.param(
            [S1, step("s", for_each="${step_1.output.total}")],
            "`for_each` needs a list, and ${step_1.output.total} gives a whole number",
            id="for_each of a number",
        ),
        pytest.param([step("s", for_each="${task.description}")], "is a text", id="for_each of a text"),
        pytest.param([step("s", for_each="${step_9.output}")], "'step_9' is not a step", id="for_each of nothing"),
        pytest.param(
            [S1, step("s", when="step_1.output.total is 5")],
            "step 's': `when`: the path 'step_1.output.total is 5' is no JMESPath",
            id="a word that is no operator in a condition",
        ),
        pytest.param(
            [S1, step("s", when='step_1.status == "succeeded"')],
            "a text is written in single quotes: 'succeeded'",
            id="double quotes in a condition",
        ),
        pytest.param(
            [S1, step("s", when="step_9.output.ok")],
            "`when`: 'step_9' is not a step; there are: step_1, s; a value is written 'text', `5` or `true`",
            id="a condition on no step",
        ),
        pytest.param(
            [S1, step("s", when="step_1.total")],
            "`when` looks at step_1.total; of a step there is step_1.output and step_1.status",
            id="a condition on no part of a step",
        ),
        pytest.param(
            [BOTH, step("s", when="a1.output.ok")],
            "`when`: 'a1' is an action; its output is both.output.a1",
            id="a condition on an action",
        ),
        pytest.param([step("s", when="s.status == 'failed'")], "`when` looks at its own step 's'", id="own status"),
        pytest.param([S1, step("s", when="step_1.status == 'success'")], "`when` looks for the status 'success'; the status of a step is one of 'succeeded', 'failed', 'skipped'", id="no status word"),
        pytest.param([S1, step("s", when="step_1.output.total > `1` || contains(['ok', 'skipped'], step_1.status)")], "looks for the status 'ok'", id="no status word in a list"),
        pytest.param([S1, step("s", when="step_1.status == 'failed'")], "`when`: step_1.status == 'failed' never holds", id="after a failure"),
        pytest.param([S1, step("s", when="metadata.x || `failed` == step_1.status")], "step_1.status == 'failed' never holds", id="or after a failure"),
        pytest.param([S1, step("s", when="!(step_1.status == 'failed')")], "step_1.status == 'failed' never holds", id="not after a failure"),
        pytest.param([step("s", when="item.x")], "`when` can look at steps and metadata, not at 'item'", id="when item"),
        pytest.param([S1, step("s", when="${step_1.output")], "`when` is a JMESPath without braces", id="when unclosed"),
        # effects
        pytest.param(
            [step("s", "mail", to="a", body="b"), step("t", "mail", body="b", to="a")],
            "step 's' and step 't' make the same call of 'mail', which has an effect; leave one out, or set "
            "`repeat: true` on each",
            id="the same effect twice",
        ),
        pytest.param(
            [step("s", "mail", to="a", body="b", repeat=True), step("t", "send-mail", to="a", body="b")],
            "make the same call of 'mail'",
            id="repeat on one of two is not enough",
        ),
        pytest.param(
            [Step(step_id="s", actions=tuple(Action(action_id=n, tool="mail", parameters={"to": "a", "body": "b"}) for n in "xy"))],
            "step 's', action 'x' and step 's', action 'y' make the same call",
            id="the same effect twice in one step",
        ),
    ],
)  # fmt: skip
def test_each_rule_says_what_is_wrong_where_and_what_would_be_right(steps: list[Step], says: str) -> None:
    violations = check(*steps).violations
    matching = [text for text in violations if says in text]
    assert len(matching) == 1, violations
    assert len(violations) == 1, violations


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([], id="no steps at all"),
        pytest.param([S1, step("s", "add", a="${step_1.output.total}", b=1)], id="a whole number is a number"),
        pytest.param([S1, step("s", "rank", ids="${step_1.output.hits[*].id}")], id="a projection where a list is wanted"),
        pytest.param([S1, step("s", "rank", ids=["${step_1.output.best.id}"])], id="a reference inside a list"),
        pytest.param([S1, step("s", "rank", ids=["a"], kind="${step_1.output.best.id}")], id="a reference for an enum"),
        pytest.param([step("u"), step("s", "add", a="${u.output.x}", b="${u.output[0]}")], id="no schema tells nothing"),
        pytest.param([step("s", x="$${step_9}", y="{{{{a}}}}")], id="escapes are no references"),
        pytest.param([S1, step("s", when="step_1.output.total > `5` && step_1.status == 'succeeded'")], id="a condition"),
        pytest.param([S1, step("s", when="${step_1.output.total} > `5`")], id="a condition written with references"),
        pytest.param([S1, step("s", when="!metadata.done || step_1.outputs.total")], id="a condition on metadata"),
        pytest.param([step("s", when="`false`")], id="a constant condition"),
        pytest.param([S1, step("s", for_each="${step_1.output.hits}", x="${item.id} ${index}")], id="for_each"),
        pytest.param([S1, step("s", when="step_1.status != 'failed' && contains(['failed', 'skipped'], step_1.status)")], id="failed among others"),
        pytest.param([step("s", "add", for_each='[{"v": 1}, {"v": 2}]', a="${item.v}", b="${index}")], id="items that fit"),
        pytest.param([S1, step("s", "add", for_each='["${step_1.output.total}"]', a="${item}", b=1)], id="an item to be read"),
        pytest.param([S1, step("s", "add", for_each="[1]", a="${step_1.output.total}", b=1)], id="items that are not used"),
        pytest.param([step("s", x="${task.description}")], id="the task's text"),
        pytest.param([step(s, "mail", to="a", body="b", repeat=True) for s in "ab"], id="an effect that is meant twice"),
        pytest.param([step(s, "find", query="a") for s in "ab"], id="the same reading twice"),
        pytest.param(
            [S1, step("s", "mail", for_each="${step_1.output.hits}", to="a", body="b")], id="items are exempt from repeat"
        ),
        pytest.param([BOTH, step("s", x="${a1.output.total} ${both.actions.a2} ${both.output.a1.total}")], id="actions"),
    ],
)  # fmt: skip
def test_a_sound_plan_passes(steps: list[Step]) -> None:
    assert check(*steps).violations == ()


CD = tool("cd", "once", folder=TEXT)
REBOOT = tool("reboot", "once", required=[])
PAY = tool("pay", "once", to=TEXT, amount=NUMBER)


def deeds(*names: str, chained: bool = True) -> list[Step]:
    """Steps one after the other: `cd temp` is the tool and what its first parameter is."""
    made: list[Step] = []
    for at, name in enumerate(names):
        called, *given = name.split()
        fields = {
            "cd": {"folder": given[0] if given else ""},
            "pay": {"to": given[0] if given else "", "amount": 5},
        }
        needs = (f"s{at - 1}",) if chained and at else ()
        made.append(
            Step(step_id=f"s{at}", tool=called, parameters=fields.get(called, {}), dependencies=needs)
        )
    return made


@pytest.mark.parametrize(
    ("steps", "passes"),
    [
        pytest.param(deeds("cd temp", "cd ..", "cd temp"), True, id="there and back and there"),
        pytest.param(deeds("cd temp", "cd ..", "cd temp", "cd ..", "cd temp"), True, id="and once more"),
        pytest.param(deeds("reboot", "mail", "reboot"), True, id="what takes nothing, after something else"),
        pytest.param(deeds("cd temp", "find", "cd ..", "find", "cd temp"), True, id="with readings between"),
        pytest.param(deeds("cd temp", "cd temp"), False, id="twice in a row"),
        pytest.param(deeds("cd temp", "find", "cd temp"), False, id="nothing but a reading between"),
        pytest.param(deeds("cd temp", "cd ..", "cd temp", chained=False), False, id="in no order"),
        pytest.param(deeds("reboot", "find", "reboot"), False, id="nothing done between"),
        pytest.param(
            deeds("pay Ann", "pay Bob", "pay Ann"), False, id="a call that says what it does to whom"
        ),
        pytest.param(deeds("pay Ann", "mail", "pay Ann"), False, id="with another effect between"),
        pytest.param(deeds("cd temp", "cd ..", "cd temp", "cd temp"), False, id="one of the three is a slip"),
    ],
)
def test_a_state_may_be_set_again_where_the_plan_has_changed_it_between(
    steps: list[Step], passes: bool
) -> None:
    tools = {one.id: one for one in (CD, REBOOT, PAY, FIND, tool("mail", "once", required=[]))}
    tools["find"] = tool("find", required=[])
    box = Toolbox(tools.get, lambda name: list(tools))
    found = check_plan(
        Plan(plan_id="p", steps=tuple(steps)), box, metadata={}, limits=PlanLimits()
    ).violations
    assert (found == ()) is passes, found
    assert all("make the same call" in text for text in found)


OPEN = {
    "type": "object",
    "properties": {
        "id": TEXT,
        "rows": {"type": "array", "items": {"type": "object", "properties": {"a": TEXT}}},
    },
}


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        pytest.param(step("s", x="${p.output.more}"), True, id="another field"),
        pytest.param(step("s", x="${p.output.rows[0].b.c}"), True, id="a field of an item"),
        pytest.param(step("s", for_each="${p.output.rows}", x="${item.b}"), True, id="of each item"),
        pytest.param(step("s", x="${p.output.id.deep}"), False, id="a field that is there"),
    ],
)
def test_an_open_object_does_not_tell_what_it_has_not(given: Step, refused: bool) -> None:
    from replan.core.tools.rules import ToolRule, applied

    opened = tool("p", output=OPEN, required=[])
    for spec, says in ((opened, False), (applied(ToolRule(closed_output=True), opened), refused)):
        box = Toolbox({"p": spec, "any": ANY}.get, lambda name: ["any"])
        steps = (Step(step_id="p", tool="p"), given)
        found = check_plan(Plan(plan_id="p", steps=steps), box, metadata={}, limits=PlanLimits()).violations
        assert bool(found) is says, found


def test_every_violation_comes_in_one_list() -> None:
    violations = check(
        step("1x"),
        step("b", "nope", needs=("zz",)),
        step("c", "find", query=1, x=2),
        step("d", "mail", to="${c.output.none}"),
        step("e", when="???"),
    ).violations
    for part in ("'1x'", "'nope'", "'zz'", "query: 1", "'x' was unexpected", "'none'", "'body'", "'???'"):
        assert any(part in text for text in violations), (part, violations)
    assert len(set(violations)) == len(violations)


def test_names_of_tools_are_folded_to_their_ids() -> None:
    plan = check(step("a", "FIND", query="x"), step("b", "Send-Mail", to="a", body="b")).plan
    assert [one.tool for one in plan.steps] == ["find", "mail"]
    plan = check(Step(step_id="s", actions=(A.model_copy(update={"tool": "Find"}),))).plan
    assert plan.steps[0].actions[0].tool == "find"


def test_implied_dependencies_are_united_with_the_declared_ones() -> None:
    plan = check(
        S1,
        BOTH,
        step("c"),
        step("d", x={"k": ["${step_1.output.total}"]}, y="{{a2.output}}", needs=("c", "a1")),
        step("e", when="c.status == 'succeeded'"),
        step("f", for_each="${step_1.output.hits}"),
        step("g", x="${f.output[0]} ${f.output[1]}"),
    ).plan
    needs = {one.step_id: set(one.dependencies) for one in plan.steps}
    assert needs["d"] == {"c", "both", "step_1"}
    assert needs["e"] == {"c"}
    assert needs["f"] == {"step_1"}
    assert needs["g"] == {"f"}
    assert all(len(one.dependencies) == len(set(one.dependencies)) for one in plan.steps)


@pytest.mark.parametrize(
    "value",
    [
        "${a.output} ${b.output} ${c.output}",
        ["${a.output}", {"deep": ["${b.output}"]}, "${c.output}"],
        {"first ${a.output}": 1, "second": "${b.output}", "third": "${c.output}"},
    ],
)
def test_implied_dependencies_stand_in_the_order_of_their_references(value: Any) -> None:
    plan = check(step("c"), step("b"), step("a"), step("d", x=value, y="${a.output}")).plan
    assert plan.steps[-1].dependencies == ("a", "b", "c")


@pytest.mark.parametrize(
    "reader",
    [
        pytest.param(step("r", x="${metadata.token}"), id="a reference"),
        pytest.param(step("r", x="${metadata}"), id="the whole metadata"),
        pytest.param(step("r", when="metadata.token == 'x'"), id="a condition"),
        pytest.param(step("r", "fetch"), id="a required parameter left out"),
    ],
)
@pytest.mark.parametrize("metadata", [{}, {"token": "old"}], ids=["absent before", "there before"])
def test_whoever_reads_metadata_waits_for_the_earlier_steps_that_write_it(
    reader: Step, metadata: Any
) -> None:
    checked = check(step("w1", "login", user="a"), reader, step("w2", "login", user="b"), metadata=metadata)
    assert checked.violations == ()
    assert checked.plan.steps[1].dependencies == ("w1",)


def test_the_metadata_fills_in_what_a_tool_requires_and_a_step_leaves_out() -> None:
    assert check(step("s", "fetch", page=1), metadata={"token": "t"}).violations == ()
    assert "'token' is a required property" in check(step("s", "fetch", page=1)).violations[0]
    wrong = check(step("s", "fetch"), metadata={"token": 5}).violations
    assert wrong == ("step 's': tool 'fetch': token: 5 is not of type 'string'",)
    given = check(step("s", "fetch", token="mine"), metadata={"token": 5})
    assert given.violations == ()
    hostile = check(step("s", "fetch"), metadata={"token": "${step_9.output}"})
    assert hostile.violations == ()


def test_a_path_into_given_metadata_is_checked_unless_a_step_writes_it() -> None:
    reads = step("r", x="${metadata.token.value}")
    assert "selects nothing in the metadata: there is no 'value'; it has: v" in check(
        reads, metadata={"token": {"v": 1}}
    ).violations[0]  # fmt: skip
    assert check(step("w", "login", user="a"), reads, metadata={"token": {"v": 1}}).violations == ()


def test_the_same_effect_is_seen_through_spelling_and_filled_in_metadata() -> None:
    pay = tool("pay", "once", amount=NUMBER, account=TEXT)
    box = Toolbox(lambda name: pay, lambda name: ["pay"])
    steps = (
        Step(step_id="a", tool="pay", parameters={"amount": 5, "account": "x"}),
        Step(step_id="b", tool="pay", parameters={"amount": 5.0}),
    )
    checked = check_plan(Plan(plan_id="p", steps=steps), box, metadata={"account": "x"}, limits=PlanLimits())
    assert "step 'a' and step 'b' make the same call" in checked.violations[0]


def test_limits_are_kept() -> None:
    many = [step(f"s{n}") for n in range(4)]
    chain = [step(f"s{n}", needs=(f"s{n - 1}",) if n else ()) for n in range(4)]
    assert check(*many, limits=PlanLimits(max_steps=3)).violations == (
        "the plan has 4 steps; at most 3 are allowed",
    )
    assert check(*many, limits=PlanLimits(max_steps=0)).violations
    assert check(*chain, limits=PlanLimits(max_depth=3)).violations == (
        "the plan is 4 steps deep; at most 3 are allowed",
    )
    assert check(*chain, limits=PlanLimits(max_depth=4)).violations == ()
    assert check(BOTH, limits=PlanLimits(max_fan_out=1)).violations == (
        "step 'both' has 2 actions; at most 1 are allowed",
    )


def test_earlier_rounds_can_be_referred_to_and_their_ids_are_not_taken_again() -> None:
    earlier = {"old": FIND.output_schema}
    fine = check(
        step("new", x="${old.output.total}", when="old.output.total", needs=("old",)), earlier=earlier
    )
    assert fine.violations == ()
    assert fine.plan.steps[0].dependencies == ()
    assert "has no 'nope'" in check(step("new", x="${old.output.nope}"), earlier=earlier).violations[0]
    taken = check(step("old"), Step(step_id="s", actions=(A,)), used={"old", "a1"}).violations
    assert taken == (
        "the step id 'old' was used earlier in this task; take a new one",
        "the action id 'a1' was used earlier in this task; take a new one",
    )


def test_a_broken_schema_of_a_tool_is_a_violation_and_no_crash() -> None:
    for schema in (
        {"type": "object", "properties": {"x": {"$ref": "#/$defs/none"}}},
        {"type": "object", "properties": {"x": {"type": "objekt"}}},
        {"type": "object", "properties": {"x": {"$ref": "#"}}, "$ref": "#"},
    ):
        bad = ToolSpec(id="bad", parameters=schema)
        box = Toolbox(lambda name, bad=bad: bad, lambda name: ["bad"])
        given = Plan(plan_id="p", steps=(step("s", "bad", x="a"),))
        found = check_plan(given, box, metadata={}, limits=PlanLimits()).violations
        assert len(found) == 1
        assert "the schema cannot be applied" in found[0] or "'a' is not of type 'object'" in found[0]


def test_ten_thousand_steps_take_linear_work() -> None:
    """Counted, not timed: how often tools are looked up (each once), and how many dependencies come out."""

    def size(count: int) -> tuple[int, int]:
        asked = 0

        def counted(name: str) -> ToolSpec | None:
            nonlocal asked
            asked += 1
            return resolve(name)

        steps = [step("s0", "find", query="x")]
        steps += [step(f"s{n}", x=f"${{s{n - 1}.output}}", y=["${s0.output.total}"]) for n in range(1, count)]
        checked = check_plan(
            Plan(plan_id="p", steps=tuple(steps)),
            Toolbox(counted, lambda name: []),
            metadata={},
            limits=PlanLimits(),
        )
        assert checked.violations == ()
        return asked, sum(len(one.dependencies) for one in checked.plan.steps)

    assert size(10_000) == (2, 2 * 9_999 - 1)


SEALED = tool("sealed", key=TEXT, team=TEXT, secrets=("key",), required=["key"])


@pytest.mark.parametrize(
    ("parameters", "refused"),
    [
        pytest.param({"key": "***"}, True, id="the mask"),
        pytest.param({"key": "${metadata.key}"}, False, id="a reference to it"),
        pytest.param({"key": "*** of the team"}, False, id="a text that has stars in it"),
        pytest.param({}, False, id="left out, put in from the metadata"),
        pytest.param({"team": "***"}, False, id="where no secret is wanted"),
    ],
)
def test_the_mask_of_a_secret_is_no_value(parameters: dict[str, str], refused: bool) -> None:
    found = check_plan(
        Plan(plan_id="p", steps=(Step(step_id="a", tool="sealed", parameters=parameters),)),
        Toolbox({"sealed": SEALED}.get, lambda name: ()),
        metadata={"key": "k-1"},
        limits=PlanLimits(),
    ).violations
    assert len(found) == refused, found
    assert all("which stands for a secret" in text for text in found)
