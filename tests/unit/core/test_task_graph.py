"""A task as a graph: how its steps stand, what decided when it ended, and drawings that hostile names cannot leave."""

from __future__ import annotations

import json
import shutil
import subprocess
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replan.core import events as e
from replan.core.drawing.critical import Span, critical_path
from replan.core.drawing.forms import draw
from replan.core.drawing.graph import TaskGraph
from replan.core.drawing.labels import lines, width
from replan.core.drawing.lanes import rows, without_detours
from replan.core.drawing.layers import layout
from replan.core.drawing.text import text
from replan.core.plan.graph import Graph
from replan.core.types import Fault, Plan, Step
from replan.errors import InputError
from replan.run.service.drawn import graph_of_log
from thorough import examples

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = (
    '"];} evil -> x [label="',
    "a\nb\r\n\u2028c",
    "<script>alert(1)</script>",
    "</text></svg><img src=x onerror=alert(1)>",
    "\u202egpj.exe\u202c \u2066x\u2069",
    "\\N \\G \\",
    "&amp; &#60; #lt;",
    "%% end subgraph click A callback",
    "\x1b[2J\x00\x7f\ud800",
    "]]> <!-- ",
    "名单 🚀 e\u0301",
)


def step(step_id: str, *needs: str, name: str = "", tool: str = "look") -> Step:
    return Step(step_id=step_id, name=name, tool=tool, dependencies=needs)


def log(*told: tuple[float, e.AnyEvent]) -> list[e.Record]:
    first: list[tuple[float, e.AnyEvent]] = [
        (0.0, e.TaskSubmitted(description="d")),
        (0.0, e.TaskStarted()),
    ]
    return [e.Record(seq, "task_1", ts, 1, event) for seq, (ts, event) in enumerate([*first, *told], 1)]


def planned(*steps: Step, version: int = 1) -> Plan:
    return Plan(plan_id="p", version=version, steps=steps)


def ran(name: str, start: float, end: float) -> list[tuple[float, e.AnyEvent]]:
    return [(start, e.StepStarted(step_id=name)), (end, e.StepCompleted(step_id=name))]


def failed(name: str, at: float, message: str = "no luck") -> tuple[float, e.AnyEvent]:
    return at, e.StepFailed(step_id=name, error=Fault(category="tool_error", kind="tool", message=message))


# ── what is known of the task ─────────────────────────────────────────────────

FIRST = planned(step("a"), step("b"), step("c", "a", "b"), step("d", "c"))


def test_each_step_has_its_state_its_time_and_the_reason() -> None:
    told = sorted(
        [(0.0, e.PlanGenerated(plan=FIRST)), *ran("a", 1, 2), *ran("b", 1, 4), (4.0, e.StepStarted(step_id="c")),
         failed("c", 9.0), (9.0, e.StepSkipped(step_id="d", kind="dependency_failed", reason="it needs c"))],
        key=lambda one: one[0],
    )  # fmt: skip
    graph = graph_of_log(log(*told), 50.0)
    assert [(node.status, node.secs, node.note) for node in graph.nodes] == [
        ("succeeded", 1.0, ""),
        ("succeeded", 3.0, ""),
        ("failed", 5.0, "no luck"),
        ("skipped", None, "it needs c"),
    ]
    assert graph.critical == ("b", "c")
    assert graph.critical_edges() == {("b", "c")}
    told_in_text = text(graph)
    assert "critical path (*): b → c" in told_in_text
    assert "failed, 5.0 s: no luck" in told_in_text


def test_versions_are_told_and_an_earlier_one_can_be_drawn() -> None:
    second = planned(step("a"), step("x", "a"), version=2)
    records = log(
        (0.0, e.PlanGenerated(plan=FIRST)),
        *ran("a", 1, 2),
        failed("b", 2.0),
        (3.0, e.PlanUpdated(plan=second)),
    )
    now = graph_of_log(records, 5.0)
    assert (now.version, now.versions) == (2, 2)
    assert [(node.step_id, node.version) for node in now.nodes] == [("a", 1), ("x", 2)]
    assert {one.step_id: one.by for one in now.left_out} == {"b": 2, "c": 2, "d": 2}
    assert "plan 2 of 2" in text(now)
    assert "left out: b (failed, by plan 2)" in text(now)
    assert "since plan 2" in draw(now, "svg")
    before = graph_of_log(records, 5.0, 1)
    assert ([node.step_id for node in before.nodes], before.versions) == (["a", "b", "c", "d"], 2)
    assert "plan 1 of 2" in text(before)
    with pytest.raises(InputError, match=r"no plan 3; there are: 1, 2"):
        graph_of_log(records, 5.0, 3)


def test_a_task_without_a_plan_is_drawn_too() -> None:
    graph = graph_of_log(log(), 5.0)
    assert text(graph) == "task_1 · planning · plan 1\nthere is no plan yet"
    assert ET.fromstring(draw(graph, "svg")).tag == f"{SVG}svg"


# ── the critical path ─────────────────────────────────────────────────────────


def test_what_is_still_to_come_counts_with_what_such_calls_have_taken() -> None:
    graph = Graph.from_needs({"a": (), "b": (), "c": ("a",), "d": ("b",), "e": ("c", "d")})
    spans = {
        "a": Span("slow", 0.0, 10.0),
        "b": Span("quick", 0.0, 1.0),
        "c": Span("quick"),
        "d": Span("slow"),
        "e": Span("quick"),
    }
    assert critical_path(graph, spans, 10.0, over=False) == ("b", "d", "e")
    assert critical_path(graph, spans, 10.0, over=True) == ("a",)
    left_out = spans | {"d": Span("slow", None, 5.0, skipped=True)}
    assert critical_path(graph, left_out, 10.0, over=False) == ("a", "c", "e")
    assert critical_path(Graph.from_needs({}), {}, 0.0, over=False) == ()
    at_once = {"a": Span("t", 0.0, 1.0), "c": Span("t", 1.0, 1.0)}
    assert critical_path(graph, at_once, 1.0, over=True) == ("a", "c")


# ── lines in text ─────────────────────────────────────────────────────────────

_UP, _DOWN, _LEFT, _RIGHT = "│├┤┼┴╰╯", "│├┤┼┬╭╮", "─┤┼┬┴╮╯", "─├┼┬┴╭╰"


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    count = draw(st.integers(1, 14))
    needs: dict[str, tuple[str, ...]] = {}
    for at in range(count):
        before = list(needs)
        some = draw(st.lists(st.sampled_from(before), max_size=3, unique=True)) if before else []
        needs[f"s{at}"] = tuple(some)
    return Graph.from_needs(needs)


@settings(max_examples=examples(200), deadline=None)
@given(graphs())
def test_every_line_leads_from_a_step_to_one_that_waits_for_it(graph: Graph) -> None:
    lean = without_detours(graph)
    drawn = rows(lean)
    order = [row.step_id for row in drawn if row.step_id]
    assert sorted(order) == sorted(graph.order)
    place = {step_id: at for at, step_id in enumerate(order)}
    assert all(place[need] < place[name] for name in graph.order for need in graph.needs[name])
    for name in graph.order:  # nothing is lost by leaving out what others say
        assert set(lean.upstream(name)) == set(graph.upstream(name))
    for name in lean.order:
        reached = _followed(drawn, name)
        assert set(lean.needed_by[name]) <= reached
        assert bool(lean.needed_by[name]) == bool(reached)


def _followed(drawn: list[object], step_id: str) -> set[str]:
    """The steps at the ends of all lines that go down from this one."""
    grid = [row.lanes.ljust(80) for row in drawn]  # type: ignore[attr-defined]
    names = [row.step_id for row in drawn]  # type: ignore[attr-defined]
    at = names.index(step_id)
    todo = [(at, grid[at].index("●"), "down")]
    seen = set(todo)
    found: set[str] = set()
    while todo:
        row, column, way = todo.pop()
        row, column = row + (way == "down"), column + {"left": -1, "right": 1}.get(way, 0)
        if row >= len(grid) or column < 0:
            continue
        sign = grid[row][column]
        if sign == "●" and names[row] != step_id:
            found.add(names[row])
            continue
        if sign not in {"down": _UP, "left": _RIGHT, "right": _LEFT}[way]:
            continue
        ways = [
            name for name, signs in (("down", _DOWN), ("left", _LEFT), ("right", _RIGHT)) if sign in signs
        ]
        for next_way in ways:
            if {way, next_way} != {"left", "right"} and (one := (row, column, next_way)) not in seen:
                seen.add(one)
                todo.append(one)
    return found


def test_a_graph_that_is_too_wide_for_lines_says_what_comes_after_what() -> None:
    names = [f"s{at}" for at in range(20)]
    graph = TaskGraph.of_plan(planned(*map(step, names), *(step(f"{name}_end", *names) for name in names)))
    told = text(graph, columns=80)
    assert "after s0, s1, s2, s3, s4 and 15 more" in told
    assert "│" not in told
    assert max(map(len, told.splitlines())) <= 80
    assert text(TaskGraph.of_plan(FIRST), ascii_only=True).isascii()


def test_five_hundred_steps_are_drawn_in_every_form() -> None:
    steps = [step(f"s{at}", *([f"s{at - 7}"] if at > 6 else [])) for at in range(500)]
    graph = TaskGraph.of_plan(planned(*steps))
    assert len(text(graph).splitlines()) >= 501
    assert len(ET.fromstring(draw(graph, "svg")).findall(f"{SVG}rect")) == 501


@settings(max_examples=examples(100), deadline=None)
@given(graphs())
def test_no_box_lies_on_another_and_no_line_runs_behind_one(graph: Graph) -> None:
    found = layout(graph, high=50, gap=10, line=6)
    assert set(found.boxes) == set(graph.order)
    taken: dict[int, list[tuple[int, int]]] = {}
    for column, y in found.boxes.values():
        taken.setdefault(column, []).append((y, y + 50))
    for (need, step), bends in found.bends.items():
        first, last = found.boxes[need][0], found.boxes[step][0]
        assert [column for column, _ in bends] == list(range(first + 1, last))
        for column, y in bends:
            taken.setdefault(column, []).append((y - 3, y + 3))
    for spans in taken.values():
        spans.sort()
        assert all(end < begin for (_, end), (begin, _) in pairwise(spans))
        assert spans[0][0] >= 0
        assert spans[-1][1] <= found.height


# ── hostile names ─────────────────────────────────────────────────────────────

ANY = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=20))


def graph_of(names: list[str]) -> TaskGraph:
    """A chain of steps that failed, called so in every place where somebody else's words stand."""
    ids = [f"{at} {name}" for at, name in enumerate(names)]
    steps = [
        step(one, *ids[at - 1 : at], name=name, tool=name)
        for at, (one, name) in enumerate(zip(ids, names, strict=True))
    ]
    told = [(0.0, e.PlanGenerated(plan=planned(*steps)))]
    told += [failed(one, 1.0, name) for one, name in zip(ids, names, strict=True)]
    return graph_of_log(log(*told), 2.0)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(ANY, min_size=1, max_size=6))
def test_no_name_leaves_the_svg_or_the_row_that_it_stands_in(names: list[str]) -> None:
    graph = graph_of(names)
    svg = draw(graph, "svg")
    root = ET.fromstring(svg)
    allowed = {"svg", "title", "rect", "path", "text"}
    assert {one.tag.removeprefix(SVG) for one in root.iter()} <= allowed
    attributes = {name for one in root.iter() for name in one.attrib}
    assert not {name for name in attributes if name.startswith("on") or "href" in name or name == "style"}
    assert len(root.findall(f"{SVG}path")) == len(names) - 1
    shown = text(graph, columns=60)
    assert sum("●" in line for line in shown.splitlines()) == len(names) + shown.splitlines()[0].count(
        "●"
    ) or any("●" in name for name in names)
    assert all(character.isprintable() or character == "\n" for character in shown + svg)
    assert all(width(line) <= 60 for line in shown.splitlines())
    rows_of_mermaid = draw(graph, "mermaid").splitlines()
    assert rows_of_mermaid[0] == "flowchart LR"
    assert sum(" --> " in row for row in rows_of_mermaid) == len(names) - 1


@pytest.mark.skipif(
    shutil.which("dot") is None, reason="Graphviz is not here: `dot` reads what is drawn for it"
)
def test_graphviz_reads_what_is_drawn_and_shows_the_names_as_they_are() -> None:
    graph = graph_of(list(HOSTILE))
    done = subprocess.run(
        ["dot", "-Tjson0"], input=draw(graph, "dot").encode(), capture_output=True, check=True, timeout=60
    )
    assert done.stderr == b""
    read = json.loads(done.stdout)
    assert len(read["objects"]) == len(HOSTILE)
    assert len(read["edges"]) == len(HOSTILE) - 1
    written = [one["label"].replace("\\n", "\n").split("\n") for one in read["objects"]]
    for node, label in zip(graph.nodes, written, strict=True):
        assert len(label) == len(lines(node))
