from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.results import numbered

from stepbench.contracts.chart_data import BoxStats
from stepbench.report.boxes import BOXES_PER_FIGURE, BoxFigure, box_figures

if TYPE_CHECKING:
    from stepbench.contracts.result import TrialResult

WHOLE = {"p1": 1.0, "p25": 2.0, "p50": 3.0, "p75": 4.0, "p90": 5.0, "p99": 6.0}
NOTHING: dict[str, float | None] = dict.fromkeys(WHOLE)


def figure_of(result: TrialResult, **quantiles: float | None) -> BoxFigure:
    """Draw the result's first window alone, as a box of these quantiles."""
    box = BoxStats.model_validate({"window": "unloaded", "phase": "unloaded", "n": 200, **WHOLE, **quantiles})
    (figure,) = box_figures([result.model_copy(update={"boxes": (box,)})])
    return figure


@pytest.mark.parametrize(
    ("quantiles", "drawn", "not_drawn"),
    [
        ({}, [("whisker", 1, 2), ("box", 2, 4), ("whisker", 4, 6)], ""),
        (
            {"p99": None},
            [("whisker", 1, 2), ("box", 2, 4), ("whisker", 4, 5), ("open-whisker", 5, None)],
            "p99 lies beyond the drain limit: the drawing is open to the right",
        ),
        (
            {"p90": None, "p99": None},
            [("whisker", 1, 2), ("box", 2, 4), ("open-whisker", 4, None)],
            "p90 and p99 lie beyond the drain limit",
        ),
        (
            {"p75": None, "p90": None, "p99": None},
            [("whisker", 1, 2), ("open-box", 2, None)],
            "p75, p90 and p99 lie",
        ),
        ({**NOTHING, "p1": 1.0}, [("open-whisker", 1, None)], "p25, p50, p75, p90 and p99 lie"),
        (NOTHING, [], "p1, p25, p50, p75, p90 and p99 lie"),
        (
            {"p1": -0.5, "p25": 0.0},
            [("open-start", None, 3), ("box", 3, 4), ("whisker", 4, 6)],
            "p1 (−0.500 ms) and p25 (0 ms) lie at or below 0 ms",  # noqa: RUF001 -- a minus sign
        ),
        (
            {"p1": -0.5},
            [("open-start", None, 2), ("box", 2, 4), ("whisker", 4, 6)],
            "p1 (−0.500 ms) lies at",  # noqa: RUF001 -- a minus sign
        ),
    ],
    ids=["whole", "p99 lost", "tenth lost", "quarter lost", "nearly all lost", "all lost", "two negative", "negative"],
)
def test_what_is_not_known_is_open_and_said(
    quantiles: dict[str, float | None], drawn: list[Any], not_drawn: str, results: tuple[TrialResult, ...]
) -> None:
    """
    A cap at p90 would pass for a short tail, and an arrow at a store that delivered everything would accuse it.

    Negative latencies, where clocks differ, are open to the left, since a log axis ends above 0.
    """
    figure = figure_of(results[0], **quantiles)
    found = figure.drawn[0].not_drawn
    assert list(zip(figure.parts["part"], figure.parts["from_ms"], figure.parts["to_ms"], strict=True)) == drawn
    assert found.startswith(not_drawn)
    assert bool(found) == bool(not_drawn)


def test_the_axis_goes_beyond_the_quantiles_and_tips_name_what_lies_beyond(results: tuple[TrialResult, ...]) -> None:
    """Arrows of open ends need the room."""
    figure = figure_of(results[0])
    assert figure.low_ms < 1.0
    assert figure.top_ms > 6.0
    assert figure_of(results[0], p99=None).boxes["p99_words"] == ["> drain limit"]


def test_boxes_stand_in_the_order_of_the_report_and_emulated_ones_say_so(elastic: tuple[TrialResult, ...]) -> None:
    """The figure may be saved and shown without its table."""
    (figure,) = box_figures(elastic)
    assert figure.boxes["caption"] == [
        "postgresql · before",
        "postgresql · after",
        "s3 · before (emulated)",
        "s3 · after (emulated)",
    ]
    assert figure.boxes["label"][0] == "postgresql-elastic · before"
    assert figure.legend.common == "elastic"


def test_windows_without_events_have_no_box(results: tuple[TrialResult, ...]) -> None:
    """A box of nothing would look like a measurement."""
    empty = BoxStats.model_validate({"window": "unloaded", "phase": "unloaded", "n": 0, **NOTHING})
    assert box_figures([results[0].model_copy(update={"boxes": (empty,)})]) == ()


def test_many_boxes_are_spread_over_figures(results: tuple[TrialResult, ...]) -> None:
    """A screen shows only so many rows."""
    box = BoxStats.model_validate({"window": "unloaded", "phase": "unloaded", "n": 200, **WHOLE})
    many = numbered([results[0].model_copy(update={"boxes": (box,)})] * (BOXES_PER_FIGURE + 1))
    assert [len(figure.labels) for figure in box_figures(many)] == [BOXES_PER_FIGURE, 1]
