"""What is read from docstrings."""

from __future__ import annotations

import pytest

from replan.tools.functions.docstring import Docstring, parse

GOOGLE = """Find flights.

    Only direct ones.

    Args:
        origin: Where from: an IATA code.
        day (datetime.date, optional): When,
            at the latest.
        *rest: the others
        silent:

    Returns:
        A list of flights,
        cheapest first.

    Raises:
        ValueError: never

    Example:
        find("FCO")
    """
NUMPY = """Find flights.

    Parameters
    ----------
    origin : str
        Where from: an IATA code.
    day, night : date, optional
        When.

        At the latest.
    silent : int

    Returns
    -------
    list of dict
        Cheapest first.

    Raises
    ------
    ValueError
        Never.
    """
REST = """Find flights.

    :param origin: Where from: an IATA code.
    :param datetime.date day: When,
        at the latest.
    :type origin: str
    :returns: Cheapest first.
    :raises ValueError: never
    """


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(None, Docstring(), id="none"),
        pytest.param("  \n ", Docstring(), id="blank"),
        pytest.param("One line.", Docstring("One line."), id="one line"),
        pytest.param(
            GOOGLE,
            Docstring(
                'Find flights.\n\nOnly direct ones.\n\nExample:\n    find("FCO")\n\nReturns: A list of flights, cheapest first.',
                {"origin": "Where from: an IATA code.", "day": "When, at the latest.", "rest": "the others"},
            ),
            id="Google",
        ),
        pytest.param(
            NUMPY,
            Docstring(
                "Find flights.\n\nReturns: Cheapest first.",
                {
                    "origin": "Where from: an IATA code.",
                    "day": "When. At the latest.",
                    "night": "When. At the latest.",
                },
            ),
            id="NumPy",
        ),
        pytest.param(
            REST,
            Docstring(
                "Find flights.\n\nReturns: Cheapest first.",
                {"origin": "Where from: an IATA code.", "day": "When, at the latest."},
            ),
            id="reST",
        ),
        pytest.param(
            "Note: this costs money.\nArgs are free.",
            Docstring("Note: this costs money.\nArgs are free."),
            id="prose with colons stays prose",
        ),
        pytest.param(
            "找航班。\n\nArgs:\n    起点: 从哪里 ✈️\n",
            Docstring("找航班。", {"起点": "从哪里 ✈️"}),
            id="any script",
        ),
        pytest.param(
            ":memory: is the default.", Docstring(":memory: is the default."), id="a colon word is prose"
        ),
    ],
)
def test_a_docstring_is_read(text: str | None, expected: Docstring) -> None:
    assert parse(text) == expected
