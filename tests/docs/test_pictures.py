"""The pictures are right wherever they are drawn: no text is wider than what it stands in, with the widest of common fonts."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
SVG = "{http://www.w3.org/2000/svg}"
EM = 0.66
"""Mean width of a letter in bold DejaVu Sans, and more than that of a monospaced one, in parts of the font's size."""


def spans(path: Path) -> list[tuple[str, float, float, float]]:
    """Each text with its left and right end, and its height in the picture."""
    root = ET.parse(path).getroot()
    found = []
    anchors = {child: group.get("text-anchor") for group in root.iter(f"{SVG}g") for child in group}
    for text in root.iter(f"{SVG}text"):
        size = float(text.get("font-size", "14"))
        width = len(text.text or "") * size * EM
        x = float(text.get("x", "0"))
        anchor = text.get("text-anchor") or anchors.get(text) or "start"
        left = x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        found.append((text.text or "", left, left + width, float(text.get("y", "0"))))
    return found


@pytest.mark.parametrize("name", ["ladder.svg", "picture.svg"])
def test_every_text_fits(name: str) -> None:
    root = ET.parse(DOCS / name).getroot()
    whole = float(root.get("width", "0"))
    boxes = [
        tuple(float(rect.get(side, "0")) for side in ("x", "y", "width", "height"))
        for rect in root.iter(f"{SVG}rect")
    ]
    for words, left, right, y in spans(DOCS / name):
        assert left >= 0, words
        assert right <= whole, words
        for x, top, width, height in boxes:
            if width < whole and x <= (left + right) / 2 <= x + width and top <= y <= top + height:
                assert x <= left, words
                assert right <= x + width, words


@pytest.mark.parametrize("name", ["ladder.svg", "picture.svg"])
def test_no_two_texts_of_a_line_run_into_each_other(name: str) -> None:
    lines: dict[float, list[tuple[float, float, str]]] = {}
    for words, left, right, y in spans(DOCS / name):
        lines.setdefault(y, []).append((left, right, words))
    for line in lines.values():
        line.sort()
        for (_, right, one), (left, _, other) in itertools.pairwise(line):
            assert right <= left, (one, other)
