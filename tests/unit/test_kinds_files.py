"""Files of scenes and workflows: what is wrong is told with its line, nothing odd is read, and edits are taken up."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from replan.core.kinds.scene import Scene
from replan.kinds.library import Library, built_in
from replan.kinds.marked import Unreadable, read_marked
from replan.kinds.texts import Wrong, scene_of, workflow_of

FLOW = "id: w\ndescription: d\nslots:\n  a: {type: string}\nsteps:\n  - {step_id: s, tool: t, parameters: {x: '${slots.a}'}}\n"
SCENE = "---\ntask_type: report\ndescription: d\n---\nBE BRIEF\n"


def wrong(text: str, name: str = "w.yaml") -> list[str]:
    with pytest.raises(Wrong) as error:
        (scene_of if name.endswith(".md") else workflow_of)(text, name)
    return list(error.value.problems)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("id: w\ndescripton: d\nsteps: []\n", ["w.yaml:2: 'descripton' is no key of a workflow; did you mean 'description'?",
                                               "w.yaml:3: `steps` is a list", "w.yaml:1: `description` is missing"]),
        (FLOW.replace("slots.a", "slots.b"), ["w.yaml:6: there is no slot 'b'; there are: a", "w.yaml:4: no step refers to slot 'a'"]),
        (FLOW.replace("tool: t", "tool: '${slots.a}'"), ["w.yaml:6: a slot cannot stand in `tool`"]),
        (FLOW.replace("x: '${", "'${slots.a}': '${"), ["w.yaml:6: a slot cannot stand in a name"]),
        (FLOW.replace("type: string", "type: strin"), ["w.yaml:4: slot 'a': no valid JSON Schema"]),
        (FLOW.replace("{type: string}", "{type: string, default: 5}"), ["w.yaml:4: slot 'a': its default does not fit"]),
        (FLOW.replace("{type: string}", "{type: string, pattern: '^(?!x)y'}"), ["w.yaml:4: slot 'a': '^(?!x)y' is no pattern that can be matched"]),
        (FLOW.replace("{type: string}", "{type: array, items: {pattern: '(a)\\1'}}"), ["w.yaml:4: slot 'a': '(a)\\\\1' is no pattern that can be"]),
        (FLOW.replace("{type: string}", "{type: object, patternProperties: {'[z': {}}}"), ["w.yaml:4: slot 'a': '[z' is no pattern that can be"]),
        (FLOW.replace("{type: string}", "{$ref: 'http://127.0.0.1:9/s.json'}"), ["w.yaml:4: slot 'a': the schema cannot be applied"]),
        (FLOW.replace("{type: string}", "{$ref: '#/nope'}"), ["w.yaml:4: slot 'a': the schema cannot be applied"]),
        (FLOW.replace("{type: string}", "{type: string, format: password}"), ["w.yaml:4: slot 'a' holds a secret"]),
        (FLOW + "  - {step_id: s, tool: t}\n", ["w.yaml:7: the step_id 's' is there twice"]),
        (FLOW + "  - {step_id: q, tool: t, dependencies: [r]}\n  - {step_id: r, tool: t, dependencies: [q]}\n", ["w.yaml:5: the steps form a cycle"]),
        (FLOW + "  - {step_id: q, tool: t, dependencies: [nobody]}\n", ["w.yaml:7: step 'q'"]),
        (FLOW + "  - {step_id: q, tool: t, for_each: '${slots.a}'}\n", ["w.yaml:7: `for_each` needs a list, and slot 'a' is none"]),
        (FLOW + "  - {step_id: q, tool: t, wehn: x}\n", ["w.yaml:7: 'wehn' is no key of a step; did you mean 'when'?"]),
        (FLOW + "  - {step_id: s, tool: t}\n  - {step_id: q, tool: t, dependencies: [nobody], wehn: x}\n  - {step_id: r, tool: t, dependencies: [none]}\n",
         ["w.yaml:7: the step_id 's' is there twice", "w.yaml:8: 'wehn' is no key", "w.yaml:9: step 'r' depends on 'none'"]),
        (FLOW + "optional: [b, a]\n", ["w.yaml:7: there is no slot 'b'"]),
        (FLOW.replace("x: '${slots.a}'", "x: 'hi ${slots.a}'") + "optional: [a]\n", ["w.yaml:6: slot 'a' may stay empty"]),
        ("id: w\nid: v\n", ["w.yaml:2: the key 'id' is there twice"]),
        ("id: [w\n", ["w.yaml:2: no valid YAML"]),
        ("a: &x [1]\nb: *x\n", ["w.yaml:1: &x: anchors are not taken"]),
        ("a: !!python/object/apply:os.system [ls]\n", ["w.yaml:1: tag:yaml.org,2002:python/object/apply:os.system: tags are not taken"]),
        ("a: 1\n---\nb: 2\n", ["w.yaml:2: a second document"]),
        ("- a\n", ["w.yaml:1: a workflow has id"]),
        ("", ["w.yaml:1: a workflow has id, description, slots and steps; this is null"]),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_workflow_is_told_with_its_line(text: str, told: list[str]) -> None:
    found = wrong(text)
    assert [one[: len(want)] for one, want in zip(found, told, strict=True)] == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("no front matter", "s.md:1: a scene begins with a line `---`"),
        ("---\ntask_type: x\n", "s.md:1: the front matter has no end"),
        ("---\ntask_typ: x\ndescription: d\n---\nx", "s.md:2: 'task_typ' is no key of a scene; did you mean 'task_type'?"),
        ("---\ntask_type: x\n---\nx", "s.md:2: `description` is missing"),
        ("---\ntask_type: x\ndescription: d\n---\n", "s.md:2: it says nothing to anybody"),
        ("---\ntask_type: x\ndescription: d\nplanning: 5\n---\n", "s.md:4: `planning` is a text, not a number"),
        (f"---\ntask_type: x\ndescription: d\n---\n# Planning\n{'x' * 20_001}", "s.md:2: `planning` has 20,001 characters; at most 20,000"),
        ("---\ntask_type: x\ndescription: d\n---\nx\n# Planing\ny", "s.md:6: '# Planing' is no heading of a role; did you mean '# Planning'?"),
        ("---\ntask_type: x\ndescription: d\n---\n# evaluations\ny", "s.md:5: '# evaluations' is no heading of a role; did you mean '# Evaluation'?"),
        ("---\njust words\n---\n", "s.md:2: the front matter has keys with values"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_scene_is_told_with_its_line(text: str, told: str) -> None:
    assert wrong(text, "s.md")[0].startswith(told), wrong(text, "s.md")


def test_a_scene_says_to_each_role_what_stands_under_its_heading_and_before_all_of_them() -> None:
    text = "---\r\ntask_type: räport\r\ndescription: d\r\nplanning: P0\r\n---\r\nALL\n# Planning\nP1\n## Planning\n```\n# Evaluation\n```\n# Evaluation\nE\n"
    found = scene_of(text, "s.md", {"reflection": "R\n"})
    assert found == Scene(
        task_type="räport", description="d", selection="ALL", planning="P0\n\nALL\n\nP1\n## Planning\n```\n# Evaluation\n```".replace("ALL\n\nP1", "ALL\nP1"),
        reflection="ALL\n\nR", evaluation="ALL\nE", digest=found.digest,
    )  # fmt: skip


@pytest.mark.parametrize(
    "line", ["## Planing", "# Planing ahead of time", "# Plan", "# Refunds", "```\n# Planing\n```"]
)
def test_other_headings_stay_words_for_all(line: str) -> None:
    found = scene_of(f"---\ntask_type: x\ndescription: d\n---\n{line}\ny", "s.md")
    assert found.planning == found.evaluation == f"{line}\ny"


def test_json_is_taken_too_with_its_lines() -> None:
    text = (
        '{\n\t"id": "w", "description": "\\ud83d\\ude00",\n\t"steps": [\n\t\t{"step_id": "s", "tol": "t"}]}'
    )
    assert wrong(text, "w.json")[0].startswith("w.json:4: 'tol' is no key of a step; did you mean 'tool'?")
    assert workflow_of(text.replace("tol", "tool"), "w.json").description == "😀"
    assert wrong('{"id": }', "w.json")[0].startswith("w.json:1: no valid JSON")


def test_plain_values_are_those_of_json() -> None:
    text = "[no, 2026-01-01, 0o7, 007, 1_000, 1e3, -5, .5, null, ~, True, 'true', !, 12:30, 0x1f]".replace(
        "!, ", ""
    )
    assert read_marked(text).value == [
        "no", "2026-01-01", "0o7", "007", "1_000", 1000.0, -5, 0.5, None, None, True, "true", "12:30", "0x1f",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "{a: " * 50_000,
        "- " * 100_000,
        "? " * 50_000,
        "x: " + "9" * 5_000,
        "[1, " * 200 + "]",
        "a: [" + "1," * 30_000 + "]",
    ],
)
def test_whatever_is_nested_or_long_is_refused_at_once(text: str) -> None:
    began = time.perf_counter()
    with pytest.raises(Unreadable):
        read_marked(text)
    assert time.perf_counter() - began < 5


def test_odd_files_are_told_and_nothing_of_them_is_read(tmp_path: Path) -> None:
    inside, outside = tmp_path / "flows", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "far.yaml").write_text(FLOW.replace("id: w", "id: far"))
    (inside / "good.yaml").write_text(FLOW)
    (inside / "near.yaml").symlink_to("good.yaml")
    (inside / "far.yaml").symlink_to(outside / "far.yaml")
    (inside / "folder").symlink_to(outside)
    (inside / "gone.yaml").symlink_to("nothing")
    (inside / "self.yaml").symlink_to("self.yaml")
    (inside / "binary.yaml").write_bytes(b"\x00\xff\xfe")
    (inside / "zero.yaml").write_bytes(b"id: \x00")
    with (inside / "huge.yaml").open("wb") as file:
        file.truncate(40_000_000)
    os.mkfifo(inside / "pipe.yaml")
    (inside / "dir.yaml").mkdir()
    known = Library([], [inside, tmp_path / "nowhere"], built_in=False).look()
    assert list(known.workflows) == ["w"]
    told = "\n".join(known.problems).replace(f"{inside}/", "")
    for name, words in {
        "near.yaml": "there is a workflow 'w' already", "far.yaml": "leads out of its folder", "gone.yaml": "cannot be found",
        "self.yaml": "cannot be found", "binary.yaml": "no text in UTF-8", "zero.yaml": "no text", "huge.yaml": "40,000,000 bytes",
        "pipe.yaml": "no file", "nowhere": "cannot be found",
    }.items():  # fmt: skip
        assert any(name in line and words in line for line in told.splitlines()), (name, told)


def test_edits_are_taken_up_and_a_broken_file_keeps_what_it_had_last(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "w.yaml"
    file.write_text(FLOW)
    there = Library([], [tmp_path], built_in=False, look_secs=0)
    first = there.look()
    assert there.look().workflows["w"] is first.workflows["w"], "what has not changed is not read again"
    file.write_text(FLOW.replace("description: d", "description: other"))
    assert there.look().workflows["w"].description == "other"
    file.write_text("id: [")
    for _ in range(2):
        known = there.look()
        assert known.workflows["w"].description == "other"
        assert "w.yaml:2: no valid YAML" in known.problems[0]
        assert "the last good one is used" in known.problems[0]
    assert len(caplog.records) == 1, "told once"
    file.write_text(FLOW)
    assert there.look().problems == ()
    file.unlink()
    assert there.look().workflows == {}


def test_scenes_come_as_files_and_as_folders_and_ids_are_told_apart_by_more_than_case(tmp_path: Path) -> None:
    (tmp_path / "one.md").write_text(SCENE)
    (tmp_path / "README.md").write_text("no scene")
    (tmp_path / "sums").mkdir()
    (tmp_path / "sums" / "scene.md").write_text("---\ntask_type: sums\ndescription: d\n---\n")
    (tmp_path / "sums" / "planning.md").write_text("ADD")
    (tmp_path / "sums" / "notes.md").write_text("not a part")
    (tmp_path / "twice.md").write_text(SCENE.replace("report", "REPORT"))
    known = Library([tmp_path, tmp_path / "one.md"], built_in=False).look()
    assert {name: one.planning for name, one in known.scenes.items()} == {"report": "BE BRIEF", "sums": "ADD"}
    assert [one.partition(": ")[2] for one in known.problems] == [
        f"there is a scene 'report' already, in {tmp_path}/one.md: give one of them another name"
    ]


def test_a_thousand_workflows_are_read_in_a_moment_and_again_in_no_time(tmp_path: Path) -> None:
    for n in range(1_000):
        (tmp_path / f"{n}.yaml").write_text(FLOW.replace("id: w", f"id: wörk-{n}"))
    there = Library([], [tmp_path], built_in=False, look_secs=0)
    assert len(there.look().workflows) == 1_000
    began = time.process_time()
    there.look()
    assert time.process_time() - began < 2


def test_a_workflow_of_ones_own_takes_the_place_of_one_that_is_built_in(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(FLOW.replace("id: w", "id: Find-Text"))
    known = Library([], [tmp_path]).look()
    assert len(known.workflows) == len(built_in()) == 6
    assert not known.workflows["Find-Text"].built_in
    assert known.problems == ()
    assert Library(built_in=False).look().workflows == {}
