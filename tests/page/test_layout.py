"""Where the cards of a plan stand: none on another, none moved by those that come later."""

from __future__ import annotations

from typing import Any

import pytest
from bench.page.made_up import plan_of

_HELPERS = """
  const { layout, place, CARD } = await import("replan/layout");
  const graphOf = (steps) => ({
    nodes: steps.map((step) => ({ id: step.step_id })),
    edges: steps.flatMap((step) => step.dependencies.map((from) => [from, step.step_id])),
  });
  const overlaps = (at) => {
    const columns = new Map();
    for (const spot of at.values()) columns.set(spot.x, [...(columns.get(spot.x) ?? []), spot.y]);
    let count = 0;
    for (const ys of columns.values()) {
      ys.sort((a, b) => a - b);
      for (let i = 1; i < ys.length; i++) if (ys[i] - ys[i - 1] < CARD.height) count++;
    }
    return count;
  };
"""


def run(modules: Any, body: str, value: Any = None) -> Any:
    return modules.evaluate(f"async (given) => {{ {_HELPERS} {body} }}", value)


@pytest.mark.parametrize("count", [0, 1, 2, 12, 150, 1000])
def test_no_card_stands_on_another_and_each_right_of_what_it_needs(modules: Any, count: int) -> None:
    told = run(
        modules,
        """
        const { nodes, edges } = graphOf(given);
        const { at, width, height } = layout(nodes, edges);
        const inside = [...at.values()].every((spot) => spot.x >= 0 && spot.y >= -1 && spot.x + CARD.width <= width + 1 && spot.y + CARD.height <= height + 1);
        const left = edges.filter(([from, to]) => at.get(from).x + CARD.width > at.get(to).x).length;
        return { placed: at.size, overlaps: overlaps(at), inside, left };
        """,
        plan_of(count),
    )
    assert told == {"placed": count, "overlaps": 0, "inside": True, "left": 0}


def test_a_chain_is_a_straight_line_and_a_fork_is_balanced(modules: Any) -> None:
    told = run(
        modules,
        """
        const ids = (text) => [...text].map((id) => ({ id }));
        const chain = layout(ids("abcd"), [["a", "b"], ["b", "c"], ["c", "d"]]);
        const fork = layout(ids("abcde"), [["a", "b"], ["a", "c"], ["a", "d"], ["b", "e"], ["c", "e"], ["d", "e"]]);
        return [[...chain.at.values()].map((spot) => spot.y), [...fork.at.values()].map((spot) => spot.y), fork.crossings];
        """,
    )
    assert told == [[0, 0, 0, 0], [62, 0, 62, 124, 62], 0]


def test_crossings_that_can_be_had_away_are_gone(modules: Any) -> None:
    """Two rows that are named crosswise."""
    told = run(
        modules,
        """
        const nodes = [..."abcdwxyz"].map((id) => ({ id }));
        return layout(nodes, [["a", "z"], ["b", "y"], ["c", "x"], ["d", "w"]]).crossings;
        """,
    )
    assert told == 0


def test_a_long_edge_goes_between_the_cards_on_its_way(modules: Any) -> None:
    through = run(
        modules,
        """
        const { nodes, edges } = graphOf(given);
        const { at, ways } = layout(nodes, edges);
        const columns = new Map();
        for (const spot of at.values()) columns.set(spot.layer, [...(columns.get(spot.layer) ?? []), spot.y]);
        let through = 0;
        for (const [key, way] of ways) {
          const from = at.get(key.split("\\u0000")[0]);
          way.forEach((y, i) => {
            for (const top of columns.get(from.layer + 1 + i)) if (y > top && y < top + CARD.height) through++;
          });
        }
        return [through, ways.size > 0];
        """,
        plan_of(300),
    )
    assert through == [0, True]


def test_cards_that_come_later_move_none(modules: Any) -> None:
    told = run(
        modules,
        """
        const early = given.slice(0, Math.floor(given.length * 0.95));
        const first = graphOf(early);
        const { at } = layout(first.nodes, first.edges);
        const whole = graphOf(given);
        const later = place(at, whole.nodes, whole.edges);
        const moved = [...at].filter(([id, spot]) => later.get(id).x !== spot.x || later.get(id).y !== spot.y).length;
        const left = whole.edges.filter(([from, to]) => later.get(from).x >= later.get(to).x).length;
        return { moved, placed: later.size, overlaps: overlaps(later), left };
        """,
        plan_of(1000),
    )
    assert told == {"moved": 0, "placed": 1000, "overlaps": 0, "left": 0}


def test_a_card_that_comes_later_takes_the_free_place_nearest_to_what_it_needs(modules: Any) -> None:
    told = run(
        modules,
        """
        const nodes = [..."abcd"].map((id) => ({ id }));
        const { at } = layout(nodes, [["a", "c"], ["b", "d"]]);
        const later = place(at, [...nodes, { id: "e" }, { id: "f" }], [["a", "c"], ["b", "d"], ["a", "e"], ["c", "f"]]);
        return ["c", "e", "f"].map((id) => [later.get(id).layer, later.get(id).y - later.get("a").y]);
        """,
    )
    assert told == [[1, 0], [1, -62], [2, 0]]


def test_a_circle_is_drawn_all_the_same(modules: Any) -> None:
    """No plan that runs has one; one that a person is writing may."""
    told = run(
        modules,
        """
        const nodes = [..."abc"].map((id) => ({ id }));
        const { at } = layout(nodes, [["a", "b"], ["b", "c"], ["c", "b"], ["c", "c"], ["x", "a"]]);
        return [at.size, overlaps(at)];
        """,
    )
    assert told == [3, 0]


def test_three_thousand_cards_are_laid_out_in_little_time(modules: Any) -> None:
    """Seconds of a machine that others use as well say little: the same work on a plan of a tenth is the measure. Its cost
    grows with the number of cards, and not with its square; on a machine of its own it is below 100 ms."""
    ratio, best = run(
        modules,
        """
        const least = (steps, times) => {
          const { nodes, edges } = graphOf(steps);
          let best = Infinity;
          for (let i = 0; i < times; i++) {
            const from = performance.now();
            layout(nodes, edges);
            best = Math.min(best, performance.now() - from);
          }
          return best;
        };
        const small = least(given[0], 30);
        const large = least(given[1], 12);
        return [large / small, large];
        """,
        [plan_of(300), plan_of(3000)],
    )
    assert ratio < 60, f"{best:.0f} ms"
