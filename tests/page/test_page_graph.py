"""The graph of a task in a real browser."""

from __future__ import annotations

from typing import Any

import pytest
from bench.page.changed import changed_log
from bench.page.made_up import Log, log_of
from panes import Pane


def index(events: list[dict[str, Any]], kind: str) -> int:
    """How many events there are up to the first of this type."""
    return next(number for number, event in enumerate(events, 1) if event["type"] == kind)


def flat(count: int, **more: Any) -> Log:
    """So many steps that need nothing."""
    log = Log()
    steps = [
        {
            "step_id": f"s{one}",
            "name": f"step {one}",
            "tool": "t",
            "parameters": {},
            "dependencies": [],
            **more,
        }
        for one in range(count)
    ]
    log.begin("flat", steps)
    return log


def test_a_card_says_its_state_name_tool_and_time(modules: Any) -> None:
    pane = Pane(modules, changed_log())
    assert "s-done" in pane.classes("orders")
    assert pane.texts("orders") == ["Read open orders", "read_table", "1440 ms"]
    assert pane.texts("check")[1].startswith("×24")
    assert "s-waiting" in pane.classes("mail")
    label = pane.run("return pane.card('euros').getAttribute('aria-label')")
    assert label == "Convert to euros, state.done, convert, 800 ms, graph.needs 2"


def test_every_try_is_a_dot_where_there_was_more_than_one(modules: Any) -> None:
    pane = Pane(modules, changed_log())
    dots = "return [...pane.card(given).querySelectorAll('.dot')].map((one) => one.classList[1])"
    assert pane.run(dots, "rates") == ["s-failed", "s-failed"]
    assert pane.run(dots, "orders") == []


def test_many_tries_are_told_by_their_number(modules: Any) -> None:
    log = flat(1)
    log.say("step_started", step_id="s0")
    error = {"category": "x", "kind": "http", "message": "no", "transient": True, "happened": "no"}
    for attempt in range(1, 8):
        about = {"call_key": f"k{attempt}", "step_id": "s0", "attempt": attempt, "tool_id": "t"}
        log.say("call_started", **about, effect="reads", parameters={})
        log.now += 1
        log.say("call_failed", **about, error=error, retry_in_secs=3)
    pane = Pane(modules, log.events)
    assert pane.run("return [...pane.card('s0').querySelectorAll('.dot')].map((one) => one.textContent)") == [
        "7"
    ]
    assert pane.texts("s0")[1].startswith("rung.aga")
    assert "s-recovering" in pane.classes("s0")


def test_another_plan_moves_no_card_and_shows_what_it_changed(modules: Any) -> None:
    events = changed_log()
    pane = Pane(modules, events, until=index(events, "plan_updated") - 1)
    before = pane.places()
    pane.after("pane.take(1)")
    later = pane.places()
    assert {name: later[name] for name in before} == before
    assert set(later) - set(before) == {"ecb"}
    assert "ghost" in pane.classes("rates")
    assert (
        pane.run("return pane.element.querySelector('.replaced-word').textContent")
        == "strategy.replan_from_step"
    )
    assert pane.run("return pane.element.querySelectorAll('.tag').length") == 0
    pane.after("pane.look({ diff: true })")
    tags = {name: pane.texts(name)[-1] for name in ("ecb", "euros", "rates")}
    assert tags == {"ecb": "+ v2", "euros": "~ v2", "rates": "− v2"}
    pane.after("pane.look({ diff: false, version: 1 })")
    assert "ecb" not in pane.places()
    assert "ghost" not in pane.classes("rates")
    assert {name: spot for name, spot in pane.places().items() if name in before} == before


def test_only_what_an_event_touches_is_written(modules: Any) -> None:
    events = log_of(60)
    pane = Pane(modules, events, until=len(events) // 2)
    written = pane.run(
        """
        pane.mounted.camera.fit(pane.mounted.scene.area, 0);
        pane.look({ critical: false });
        await pane.frame();
        const touched = new Set();
        const watch = new MutationObserver((all) => {
          for (const one of all) touched.add((one.target.nodeType === 1 ? one.target : one.target.parentNode).closest?.(".card")?.dataset.id);
        });
        watch.observe(pane.element.querySelector(".cards"), { subtree: true, childList: true, attributes: true, characterData: true });
        const step = pane.task.rows.find((id) => pane.task.steps.get(id).state === "done");
        pane.marked.add(step);
        pane.draw();
        await pane.frame();
        const same = touched.size;
        pane.task.steps.get(step).state = "failed";
        pane.marked.add(step);
        pane.draw();
        await pane.frame();
        return [same, [...touched].join() === step];
        """
    )
    assert written == [0, True]


def test_of_a_thousand_steps_only_those_in_the_window_are_there(modules: Any) -> None:
    events = log_of(1000)
    pane = Pane(modules, events, groupBy="none")
    assert pane.run("return pane.task.steps.size") == 1000
    pane.after("pane.mounted.camera.zoom = 0.8; pane.mounted.camera.commit()")
    assert 0 < len(pane.places()) < 250
    pane.after("pane.mounted.fit()")
    assert len(pane.places()) == 1000
    assert pane.run("return pane.element.querySelectorAll('.card text').length") == 0


def test_above_150_cards_siblings_are_one_and_who_failed_stands_alone(modules: Any) -> None:
    log = flat(200)
    log.say("step_started", step_id="s7")
    log.say(
        "step_failed", step_id="s7", error={"category": "x", "kind": "x", "message": "no", "happened": "no"}
    )
    pane = Pane(modules, log.events)
    assert sorted(pane.places()) == ["L0:t", "s7"]
    assert {"t", "×199"} <= set(pane.texts("L0:t"))
    before = pane.places()
    pane.after("pane.look({ open: new Set(['L0:t']) })")
    pane.after("pane.mounted.fit()")
    assert len(pane.places()) == 201
    pane.after("pane.look({ open: new Set() })")
    assert pane.places() == before
    pane.after("pane.look({ groupBy: 'none' })")
    pane.after("pane.mounted.fit()")
    assert len(pane.places()) == 200


def test_an_opened_group_pushes_only_its_own_column(modules: Any) -> None:
    pane = Pane(modules, log_of(400))
    moved = pane.run(
        """
        const at = () => new Map([...pane.mounted.scene.spots].map(([id, spot]) => [id, [spot.layer, spot.y]]));
        const before = at();
        const group = pane.mounted.scene.picture.nodes.find((node) => node.kind === "group" && node.layer === 3);
        pane.look({ open: new Set([group.id]) });
        await pane.frame();
        const later = at();
        const members = group.members.every((id) => later.has(id));
        const moved = [...before].filter(([id, [, y]]) => later.get(id)[1] !== y);
        return [members, moved.every(([, [layer]]) => layer === 3), moved.every(([id, [, y]]) => y > before.get(group.id)[1])];
        """
    )
    assert moved == [True, True, True]


def test_a_search_takes_the_colour_of_what_does_not_match(modules: Any) -> None:
    pane = Pane(modules, changed_log(), filter={"text": "send_mail", "states": []})
    assert "dim" in pane.classes("orders")
    assert "dim" not in pane.classes("mail")
    pane.after("pane.look({ filter: { text: 'no such step', states: [] } })")
    assert pane.run("return pane.element.querySelector('.graph-note p').textContent") == "graph.no_match"
    pane.after("pane.look({ filter: { text: '', states: ['waiting'] } })")
    assert pane.run("return pane.element.querySelector('.graph-note').hidden")
    assert "dim" in pane.classes("orders")
    assert "dim" not in pane.classes("mail")


def test_the_arrows_lead_along_the_edges_and_there_is_one_tab_stop(modules: Any) -> None:
    pane = Pane(modules, changed_log())
    assert pane.run("return pane.element.querySelectorAll('[tabindex=\"0\"]').length") == 1
    pane.after("pane.card('late').focus()")
    press = modules.keyboard.press
    press("ArrowRight")
    assert pane.said("select")[-1] == "people"
    press("ArrowLeft")  # back where one came from
    assert pane.said("select")[-1] == "late"
    press("ArrowLeft")
    press("ArrowLeft")
    assert pane.said("select")[-1] in ("ecb", "drop")
    press("ArrowUp")
    press("Enter")
    assert pane.said("open") == [pane.said("select")[-1]]
    assert pane.run("return pane.element.querySelectorAll('[tabindex=\"0\"]').length") == 1
    assert pane.run("return document.activeElement.dataset.id") == pane.said("select")[-1]
    for _ in range(8):  # the one that has the focus is never out of the window
        press("ArrowRight")
    inside = pane.run(
        """
        const card = document.activeElement.getBoundingClientRect();
        const box = pane.element.getBoundingClientRect();
        return card.left >= box.left && card.right <= box.right && card.top >= box.top && card.bottom <= box.bottom;
        """
    )
    assert inside


def test_a_press_chooses_a_card_opens_a_group_and_elsewhere_lets_go(modules: Any) -> None:
    pane = Pane(modules, changed_log())
    modules.mouse.click(
        *pane.run("const { x, y } = pane.card('euros').getBoundingClientRect(); return [x + 20, y + 10]")
    )
    assert pane.said("select") == ["euros"]
    pane.after("")
    assert "selected" in pane.classes("euros")
    assert (
        pane.run("return pane.element.querySelector('.line.strong').getAttribute('d').split('M').length - 1")
        >= 3
    )
    modules.keyboard.down("Shift")
    modules.mouse.click(
        *pane.run("const { x, y } = pane.card('euros').getBoundingClientRect(); return [x + 20, y + 10]")
    )
    modules.keyboard.up("Shift")
    pane.after("")
    assert "related" in pane.classes("mail")
    assert "dim" in pane.classes("check")
    modules.mouse.click(600, 650)
    pane.after("")
    assert pane.said("select")[-1] is None
    assert "dim" not in pane.classes("check")


def test_what_is_chosen_elsewhere_comes_into_the_window(modules: Any) -> None:
    pane = Pane(modules, log_of(150), size=(600, 400))
    far = pane.run("return pane.task.order.findLast((id) => !pane.card(id))")
    pane.after("pane.look({ selected: given })", far)
    pane.after("")
    assert "selected" in pane.classes(far)


def test_a_hand_moves_the_picture_as_a_whole_and_then_it_is_drawn_there(modules: Any) -> None:
    pane = Pane(modules, log_of(60))
    modules.mouse.move(600, 20)
    modules.mouse.down()
    modules.mouse.move(560, 30, steps=3)
    assert "translate(-40px, 10px)" in pane.run(
        "return pane.element.querySelector('.graph-sheet').style.transform"
    )
    modules.mouse.up()
    modules.wait_for_function("pane.element.querySelector('.graph-sheet').style.transform === 'none'")
    assert pane.run(
        "return [pane.mounted.camera.x - pane.mounted.camera.drawn.x, pane.said.select.length]"
    ) == [0, 0]


def test_two_fingers_zoom_and_one_moves(modules: Any) -> None:
    pane = Pane(modules, log_of(60))
    touch = modules.context.new_cdp_session(modules)

    def fingers(kind: str, *points: tuple[int, int]) -> None:
        told = [{"x": x, "y": y, "id": number} for number, (x, y) in enumerate(points)]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": told})

    zoom, x = pane.run("const { camera } = pane.mounted; return [camera.zoom, camera.x]")
    fingers("touchStart", (500, 300))
    fingers("touchMove", (460, 300))
    fingers("touchMove", (440, 300))
    fingers("touchEnd")
    assert pane.run("return pane.mounted.camera.x") < x - 30
    fingers("touchStart", (500, 300), (600, 300))
    fingers("touchMove", (450, 300), (650, 300))
    fingers("touchMove", (400, 300), (700, 300))
    fingers("touchEnd")
    assert pane.run("return pane.mounted.camera.zoom") > zoom * 1.5
    assert pane.said("select") == []


def test_what_runs_is_followed_until_a_hand_moves_the_picture(modules: Any) -> None:
    events = log_of(150)
    pane = Pane(modules, events, until=30, size=(700, 400))
    start = pane.run("return pane.mounted.camera.x")
    pane.after(f"pane.take({len(events) - 60})")
    modules.wait_for_function(f"pane.draw() ?? pane.mounted.camera.x < {start} - 100")
    modules.mouse.move(300, 200)
    modules.mouse.wheel(-5000, 0)
    modules.wait_for_function("pane.mounted.camera.x > 0")
    pane.run("for (let i = 0; i < 60; i++) { pane.take(1); await pane.frame(); }")
    assert pane.run("return pane.mounted.camera.x") > 0


@pytest.mark.parametrize(
    "name", ["<img src=x onerror=alert(1)>", "a\u202eb", "x" * 1_000_000, "&lt;b&gt;", ""]
)
def test_a_name_is_text_whatever_it_is(modules: Any, name: str) -> None:
    pane = Pane(modules, flat(1, name=name).events)
    shown = pane.texts("s0")[0]
    assert len(shown) < 200
    assert name.startswith(shown.rstrip("…")) or not name
    assert pane.run("return pane.element.querySelectorAll('img, b').length") == 0


@pytest.mark.parametrize(("steps", "note"), [(0, "graph.no_steps"), (1, "")])
def test_no_step_at_all_is_said(modules: Any, steps: int, note: str) -> None:
    pane = Pane(modules, log_of(steps))
    assert pane.run("return pane.element.querySelector('.graph-note p').textContent") == note
    assert len(pane.places()) == steps


def test_the_minimap_is_there_from_20_cards_on_and_goes_where_it_is_pressed(modules: Any) -> None:
    assert Pane(modules, flat(19).events).run("return pane.element.querySelector('.graph-map').hidden")
    pane = Pane(modules, log_of(300), groupBy="none")
    assert not pane.run("return pane.element.querySelector('.graph-map').hidden")
    modules.mouse.click(
        *pane.run(
            "const { right, y, height } = pane.element.querySelector('.graph-map').getBoundingClientRect(); return [right - 8, y + height / 2]"
        )
    )
    pane.after("")
    seen = pane.run(
        "const { left, right } = pane.mounted.camera.window(0); const { area } = pane.mounted.scene; return [left, right, area.w]"
    )
    assert seen[0] < seen[2] <= seen[1] + 300


def test_the_minimap_has_the_colours_of_the_theme(modules: Any) -> None:
    pane = Pane(modules, log_of(60))
    colours = """
      const map = pane.element.querySelector(".graph-map");
      const seen = new Set();
      const { data } = map.getContext("2d").getImageData(0, 0, map.width, map.height);
      for (let i = 0; i < data.length; i += 4) if (data[i + 3] === 255) seen.add([...data.slice(i, i + 3)].join());
      return [...seen];
    """
    light = "26,110,54"  # what is done
    assert light in pane.run(colours)
    modules.emulate_media(color_scheme="dark")
    pane.after("")
    try:
        dark = pane.run(colours)
    finally:
        modules.emulate_media(color_scheme="light")
    assert light not in dark
    assert "111,207,139" in dark


def test_tidied_the_cards_go_to_where_a_new_layout_has_them(modules: Any) -> None:
    events = changed_log()
    pane = Pane(modules, events)
    before = pane.places()
    modules.keyboard.press("Tab")
    modules.keyboard.press("Shift+T")
    modules.wait_for_function("pane.mounted.scene.at.get('ecb').y !== undefined")
    pane.run("await new Promise((resolve) => setTimeout(resolve, 300))")
    assert set(pane.places()) == set(before)
    overlaps = pane.run(
        """
        const all = [...pane.mounted.scene.spots.values()];
        return all.filter((a) => all.some((b) => a !== b && a.x === b.x && Math.abs(a.y - b.y) < 48)).length;
        """
    )
    assert overlaps == 0
