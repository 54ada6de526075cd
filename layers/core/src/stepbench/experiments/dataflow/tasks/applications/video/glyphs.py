"""Digits as small pictures: what a rendered video shows, and what the classifier looks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROWS, COLUMNS = 7, 5
_STROKES = (
    "01110 10001 10011 10101 11001 10001 01110",
    "00100 01100 00100 00100 00100 00100 01110",
    "01110 10001 00001 00110 01000 10000 11111",
    "11111 00010 00100 00010 00001 10001 01110",
    "00010 00110 01010 10010 11111 00010 00010",
    "11111 10000 11110 00001 00001 10001 01110",
    "00110 01000 10000 11110 10001 10001 01110",
    "11111 00001 00010 00100 01000 01000 01000",
    "01110 10001 10001 01110 10001 10001 01110",
    "01110 10001 10001 01111 00001 00010 01100",
)
DIGITS = len(_STROKES)


def glyph(digit: int, dot: int) -> NDArray[np.bool_]:
    """Return a digit's picture, shape (7 dot, 5 dot): True is ink."""
    small = np.array([[mark == "1" for mark in row] for row in _STROKES[digit].split()])
    return small.repeat(dot, axis=0).repeat(dot, axis=1)
