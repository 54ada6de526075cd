"""The grammar of thresholds: one sentence, read strictly."""

from __future__ import annotations

import pytest

from stepbench.contracts.threshold import parse_threshold


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("errors < 1 %", 0.01),
        ("errors<0.1%", 0.001),
        ("  errors  <  12.50  %  ", 0.125),
        ("errors < 100 %", 1.0),
    ],
)
def test_a_threshold_is_a_share_of_errors(text: str, limit: float) -> None:
    """Spaces are free; the text stays as its author wrote it."""
    found = parse_threshold(text)
    assert found.text == text
    assert found.limit == pytest.approx(limit)


@pytest.mark.parametrize(
    "text",
    [
        *("", "errors", "errors < 1", "errors 1 %", "errors <= 1 %", "errors > 1 %", "Errors < 1 %", "error < 1 %"),
        *("errors < -1 %", "errors < 1e1 %", "errors < .5 %", "errors < 1. %", "errors < 1,5 %", "errors < nan %"),
        *(
            "errors < 1 %;",
            "errors < 1 % errors < 2 %",
            "errors\t< 1 %",
            "errors < \u0661 %",
            "p99 < 20 ms",
            "lost == 0",
        ),
        *("errors < 0 %", "errors < 0.000 %", "errors < 100.1 %", "errors < 999 %"),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    """A threshold that is misread would let a bad run pass."""
    with pytest.raises(ValueError, match=r"is no threshold|has no share above 0 %"):
        parse_threshold(text)
