from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.results import STORES, changed, numbered, sample_result

from stepbench.contracts.chart_data import BoxStats, EcdfCurve
from stepbench.contracts.measures import Estimate
from stepbench.report.curves import SERIES_PER_FIGURE
from stepbench.report.distribution import BOXES_PER_FIGURE, box_folds, curve_folds
from stepbench.report.document import Chart, Figure, Fold, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stepbench.contracts.result import TrialResult
    from stepbench.report.figures import Drawing

WHOLE = {"p1": 1.0, "p25": 2.0, "p50": 3.0, "p75": 4.0, "p90": 5.0, "p99": 6.0}
NOTHING: dict[str, float | None] = dict.fromkeys(WHOLE)


def drawn(folds: Iterable[Fold]) -> list[tuple[Drawing, str]]:
    """Return each figure's drawing and caption."""
    figures = [figure for fold in folds for figure in fold.parts if isinstance(figure, Figure)]
    charts = [(chart, figure.caption) for figure in figures for chart in figure.parts if isinstance(chart, Chart)]
    return [(chart.drawing, plain(caption)) for chart, caption in charts]


def curves_of(results: Sequence[TrialResult]) -> list[tuple[Drawing, str]]:
    """Draw the distributions of these results."""
    return drawn(curve_folds(results))


def boxes_of(results: Sequence[TrialResult]) -> list[tuple[Drawing, str]]:
    """Draw the boxes of these results."""
    return drawn(box_folds(results))


def draw_box(result: TrialResult, **quantiles: float | None) -> tuple[Drawing, str]:
    """Draw the result's first window alone, as a box of these quantiles; return the drawing and its caption."""
    box = BoxStats.model_validate({"window": "unloaded", "phase": "unloaded", "n": 200, **WHOLE, **quantiles})
    (figure,) = boxes_of([result.model_copy(update={"boxes": (box,)})])
    return figure


@pytest.mark.parametrize(
    ("quantiles", "parts", "not_drawn"),
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
    quantiles: dict[str, float | None], parts: list[Any], not_drawn: str, results: tuple[TrialResult, ...]
) -> None:
    """
    A cap at p90 would pass for a short tail, and an arrow at a store that delivered everything would accuse it.

    Negative latencies, where clocks differ, are open to the left, since a log axis ends above 0.
    """
    drawing, caption = draw_box(results[0], **quantiles)
    found = drawing.data["parts"]
    assert list(zip(found["part"], found["from_ms"], found["to_ms"], strict=True)) == parts
    assert (f" Of s3, {not_drawn}" if not_drawn else "") in caption
    assert ("Of s3" in caption) == bool(not_drawn)


def test_the_axis_goes_beyond_the_quantiles_and_tips_name_what_lies_beyond(results: tuple[TrialResult, ...]) -> None:
    """Arrows of open ends need the room."""
    params = draw_box(results[0])[0].params
    assert params["low"] < 1.0
    assert params["top"] > 6.0
    assert draw_box(results[0], p99=None)[0].data["boxes"]["p99_words"] == ["> drain limit"]


def test_boxes_stand_in_the_order_of_the_report_and_emulated_ones_say_so(elastic: tuple[TrialResult, ...]) -> None:
    """The figure may be saved and shown without its table."""
    ((drawing, caption),) = boxes_of(elastic)
    assert drawing.data["boxes"]["caption"] == [
        "postgresql · before",
        "postgresql · after",
        "s3 · before (emulated)",
        "s3 · after (emulated)",
    ]
    assert drawing.data["boxes"]["label"][0] == "postgresql-elastic · before"
    assert " Common to all: elastic." in caption


def test_stores_with_several_windows_each_show_their_boxes(
    elastic: tuple[TrialResult, ...], results: tuple[TrialResult, ...]
) -> None:
    """What such a run is for is in sight, each first window filled lightly; of one store they are folded."""
    first, _ = box_folds(elastic)
    assert (first.plain, first.summary) == (True, "Boxes: every store's windows beside each other")
    (drawing, caption), *_ = boxes_of(elastic)
    parts = drawing.data["parts"]
    filled = dict(zip(parts["label"], parts["fill"], strict=True))
    assert list(filled.values()) == [0.2, 0.6, 0.2, 0.6]
    assert "Lightly filled: a trial's first window." in caption
    for others in (elastic[:1], (elastic[0], changed(elastic[1], store=elastic[0].summary.store))):
        assert not next(iter(box_folds(others))).plain
    drawing, caption = draw_box(results[0])
    assert set(drawing.data["parts"]["fill"]) == {0.2}
    assert "Lightly filled" not in caption


def test_windows_without_events_have_no_box(results: tuple[TrialResult, ...]) -> None:
    """A box of nothing would look like a measurement."""
    empty = BoxStats.model_validate({"window": "unloaded", "phase": "unloaded", "n": 0, **NOTHING})
    assert boxes_of([results[0].model_copy(update={"boxes": (empty,)})]) == []


def test_many_boxes_are_spread_over_figures(results: tuple[TrialResult, ...]) -> None:
    """A screen shows only so many rows."""
    box = BoxStats.model_validate({"window": "unloaded", "phase": "unloaded", "n": 200, **WHOLE})
    many = numbered([results[0].model_copy(update={"boxes": (box,)})] * (BOXES_PER_FIGURE + 1))
    assert [len(drawing.params["labels"]) for drawing, _ in boxes_of(many)] == [BOXES_PER_FIGURE, 1]


def test_a_curve_starts_at_zero_and_ends_at_the_share_that_arrived(results: tuple[TrialResult, ...]) -> None:
    """DynamoDB lost 3 of 200 here: drawn to 100 %, its curve would hide that."""
    ((drawing, _),) = curves_of(results)
    points = drawing.data["curves"]
    curve = [share for name, share in zip(points["curve"], points["probability"], strict=True) if name == "dynamodb"]
    assert (curve[0], curve[-1]) == (0.0, 0.985)
    assert drawing.params["labels"] == ("s3", "dynamodb", "postgresql", "etcd")


def test_quantiles_are_marked_with_their_intervals(results: tuple[TrialResult, ...]) -> None:
    """The mark and the table have to say the same; a p99 without a value has no mark."""
    ((drawing, _),) = curves_of(results)
    marks = list(zip(*drawing.data["quantiles"].values(), strict=True))[:3]
    p50 = results[0].summary.windows[0].latency_ms.p50
    assert marks[0] == ("s3", "p50", 0.5, p50.value, p50.low, p50.high)
    assert [mark[1] for mark in marks] == ["p50", "p90", "p95"]


def test_a_curve_begins_where_its_first_step_is(results: tuple[TrialResult, ...]) -> None:
    """From what is drawn, rounded: a foot to the right of it would be drawn as a fall."""
    curve = EcdfCurve(window="unloaded", phase="unloaded", latency_ms=(180.123449, 202.0), probability=(0.5, 1.0))
    ((drawing, _),) = curves_of([results[0].model_copy(update={"ecdf": (curve,)})])
    assert drawing.data["curves"]["latency_ms"] == [180.123, 180.123, 202.0]
    assert drawing.data["curves"]["probability"] == [0.0, 0.5, 1.0]


def test_what_a_log_axis_cannot_show_is_said(results: tuple[TrialResult, ...]) -> None:
    """Latencies may be negative where clocks differ; they are never clamped, nor dropped silently."""
    curve = EcdfCurve(window="unloaded", phase="unloaded", latency_ms=(-1.0, 0.0, 2.0), probability=(0.25, 0.5, 1.0))
    window = results[0].summary.windows[0]
    times = window.latency_ms.model_copy(
        update={"p50": Estimate(value=0.0, low=-1.0, high=2.0), "p90": Estimate(value=2.0, low=-1.0, high=2.5)}
    )
    result = changed(results[0], windows=(window.model_copy(update={"latency_ms": times}),))
    ((drawing, caption),) = curves_of([result.model_copy(update={"ecdf": (curve,)})])
    assert "Of s3, 50.0\N{NO-BREAK SPACE}% lie at or below 0\N{NO-BREAK SPACE}ms (clock error)" in caption
    assert drawing.data["curves"] == {"curve": ["s3", "s3"], "latency_ms": [2.0, 2.0], "probability": [0.5, 1.0]}
    assert (drawing.data["quantiles"]["quantile"][0], drawing.data["quantiles"]["low_ms"][0]) == ("p90", None)


def test_many_curves_are_spread_over_figures() -> None:
    """Colours and dashes tell only so many curves apart."""
    many = [sample_result(STORES[0], index, random.Random(index)) for index in range(SERIES_PER_FIGURE + 1)]  # noqa: S311
    assert [len(drawing.params["labels"]) for drawing, _ in curves_of(many)] == [4, 5]
