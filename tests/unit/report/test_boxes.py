from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepbench.contracts.drawn import BoxStats
from stepbench.report.boxes import BOXES_PER_FIGURE, BoxFigure, box_figures

if TYPE_CHECKING:
    from stepbench.contracts.result import TrialResult

WHOLE = {"p1": 1.0, "p25": 2.0, "p50": 3.0, "p75": 4.0, "p90": 5.0, "p99": 6.0}


def figure_of(result: TrialResult, **quantiles: float | None) -> BoxFigure:
    """The result's first window alone, with a box of these quantiles."""
    box = BoxStats.model_validate({"window": "unloaded", "phase": "unloaded", "n": 200, **WHOLE, **quantiles})
    (figure,) = box_figures([result.model_copy(update={"boxes": (box,)})])
    return figure


def parts_of(figure: BoxFigure) -> list[tuple[Any, ...]]:
    """What is drawn: (part, from, to)."""
    return list(zip(figure.parts["part"], figure.parts["from_ms"], figure.parts["to_ms"], strict=True))


def test_a_whole_box_has_two_whiskers_and_no_open_end(results: tuple[TrialResult, ...]) -> None:
    """An arrow at a store that delivered everything would accuse it."""
    figure = figure_of(results[0])
    assert parts_of(figure) == [("whisker", 1.0, 2.0), ("box", 2.0, 4.0), ("whisker", 4.0, 6.0)]
    assert figure.drawn[0].doubt == ""
    assert figure.low_ms < 1.0
    assert figure.top_ms > 6.0


def test_a_p99_in_the_missing_mass_leaves_the_whisker_open(results: tuple[TrialResult, ...]) -> None:
    """Drawn to p90 with a cap, it would pass for a short tail."""
    figure = figure_of(results[0], p99=None)
    assert parts_of(figure)[2:] == [("whisker", 4.0, 5.0), ("open-whisker", 5.0, None)]
    assert figure.boxes["p99_words"] == ["> drain limit"]
    assert figure.drawn[0].doubt == "p99 lies beyond the drain limit: the drawing is open to the right"


def test_with_a_tenth_missing_the_whisker_is_open_from_the_box(results: tuple[TrialResult, ...]) -> None:
    """Nothing is known above p75."""
    figure = figure_of(results[0], p90=None, p99=None)
    assert parts_of(figure)[1:] == [("box", 2.0, 4.0), ("open-whisker", 4.0, None)]
    assert figure.drawn[0].doubt.startswith("p90 and p99 lie beyond the drain limit")


def test_with_a_quarter_missing_the_box_itself_is_open(results: tuple[TrialResult, ...]) -> None:
    """From p25 on, since that much is known."""
    figure = figure_of(results[0], p75=None, p90=None, p99=None)
    assert parts_of(figure) == [("whisker", 1.0, 2.0), ("open-box", 2.0, None)]
    assert figure.drawn[0].doubt.startswith("p75, p90 and p99 lie")


def test_with_nearly_all_missing_only_a_dashed_line_is_left(results: tuple[TrialResult, ...]) -> None:
    """From the first percentile to the edge; and nothing at all where nothing arrived."""
    nothing = dict.fromkeys(WHOLE)
    assert parts_of(figure_of(results[0], **{**nothing, "p1": 1.0})) == [("open-whisker", 1.0, None)]
    assert parts_of(figure_of(results[0], **nothing)) == []


def test_quantiles_at_or_below_zero_are_open_to_the_left_and_said(results: tuple[TrialResult, ...]) -> None:
    """With clocks apart, latencies may be negative; a log axis ends above 0."""
    figure = figure_of(results[0], p1=-0.5, p25=0.0)
    assert parts_of(figure) == [("open-start", None, 3.0), ("box", 3.0, 4.0), ("whisker", 4.0, 6.0)]
    assert "p1 (−0.500 ms) and p25 (0 ms) lie at or below 0 ms" in figure.drawn[0].doubt  # noqa: RUF001 -- minus
    assert figure_of(results[0], p1=-0.5).drawn[0].doubt.startswith("p1 (−0.500 ms) lies at")  # noqa: RUF001 -- minus


def test_boxes_stand_in_the_order_of_the_report_and_emulated_ones_say_so(elastic: tuple[TrialResult, ...]) -> None:
    """The figure may be saved and shown without its table."""
    (figure,) = box_figures(elastic)
    assert figure.boxes["caption"] == [
        "postgresql-elastic · before",
        "postgresql-elastic · after",
        "s3-elastic · before (emulated)",
        "s3-elastic · after (emulated)",
    ]


def test_windows_without_events_have_no_box(results: tuple[TrialResult, ...]) -> None:
    """A box of nothing."""
    empty = BoxStats.model_validate({"window": "unloaded", "phase": "unloaded", "n": 0, **dict.fromkeys(WHOLE)})
    assert box_figures([results[0].model_copy(update={"boxes": (empty,)})]) == ()


def test_many_boxes_are_spread_over_figures(results: tuple[TrialResult, ...]) -> None:
    """A screen shows so many rows."""
    box = BoxStats.model_validate({"window": "unloaded", "phase": "unloaded", "n": 200, **WHOLE})
    many = [
        results[0].model_copy(
            update={"summary": results[0].summary.model_copy(update={"index": index}), "boxes": (box,)}
        )
        for index in range(BOXES_PER_FIGURE + 1)
    ]
    assert [len(figure.labels) for figure in box_figures(many)] == [BOXES_PER_FIGURE, 1]
