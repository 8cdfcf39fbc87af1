"""Names as people and models write them."""

from __future__ import annotations

import pytest

from replan.tools.names import folded, nearest

TOOLS = ["get_weather", "getForecast", "send-mail", "mail.send_all", "read file", "sum"]


@pytest.mark.parametrize(
    "name", ["get_weather", "getWeather", "GET-WEATHER", "get weather", "get.weather", " Get__Weather "]
)
def test_ways_to_write_one_name_fold_to_the_same(name: str) -> None:
    assert folded(name) == "getweather"


def test_folding_keeps_different_names_apart_in_any_script() -> None:
    assert len({folded(name) for name in ("weather", "wetter", "天气", "STRASSE x", "ストリート")}) == 5
    assert folded("STRASSE") == folded("straße")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("get_wether", ["get_weather"], id="a typing error"),
        pytest.param("weather", ["get_weather"], id="a part of it"),
        pytest.param("mail", ["send-mail", "mail.send_all"], id="a part of several, the shortest first"),
        pytest.param("mail_send", ["mail.send_all"], id="the beginning"),
        pytest.param("launch_rocket", [], id="nothing like it"),
        pytest.param("", [], id="nothing at all"),
        pytest.param("...", [], id="separators only"),
    ],
)
def test_the_nearest_names_come_first_and_distant_ones_not_at_all(name: str, expected: list[str]) -> None:
    assert nearest(name, TOOLS)[: len(expected) or None] == expected


def test_no_more_names_than_asked_for() -> None:
    assert len(nearest("tool", [f"tool_{number}" for number in range(50)], n=4)) == 4
