from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.samples.estimates import present
from tests.samples.results import checked_pair, checked_summary, clock_result, sample_manifest

from stepbench.experiments.report.page import drawings, render_page
from stepbench.report.clock_check import clock_folds, clock_section
from stepbench.report.document import Figure, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.result import RunSummary, TrialResult


def summarised(shift_ms: float = 2.0, lost: int = 0) -> tuple[RunSummary, Sequence[TrialResult]]:
    """Summarise a pair of which the second trial lost so many events."""
    specs, results = checked_pair(shift_ms)
    if lost:
        values: list[float | None] = [*results[1].samples[0].latency_ms]
        values[:lost] = [None] * lost
        results[1] = clock_result(specs[1], values)
    return checked_summary(specs, results), results


def test_the_marked_distance_is_the_tests_own() -> None:
    """The upright line ends on both curves, so its length is D."""
    summary, results = summarised()
    compared = summary.clock_checks[0].comparisons
    assert [comparison.measure for comparison in compared] == ["latency_ms", "after_ack_ms"]
    for comparison, drawing in zip(compared, drawings(clock_folds(summary, results)), strict=True):
        (low,), (high,) = drawing.data["gap"]["low"], drawing.data["gap"]["high"]
        assert isinstance(low, float)
        assert isinstance(high, float)
        assert high - low == pytest.approx(present(comparison.ks).d)
        assert drawing.params["labels"] == ("one-sandbox", "two-sandboxes")
        assert len(drawing.data["clocks"]["curve"]) == 400


def test_lost_events_keep_a_curve_below_one_and_are_said() -> None:
    """Dropped, they would move the curve."""
    first = next(clock_folds(*summarised(lost=50)))
    (drawing,), (figure,) = drawings([first]), first.parts
    points = zip(drawing.data["clocks"]["curve"], drawing.data["clocks"]["probability"], strict=True)
    assert [share for name, share in points if name == "two-sandboxes"][-1] == 0.75
    assert isinstance(figure, Figure)
    beyond = re.search(r"Of two-sandboxes, ([\d.]+).% lie to the right", plain(figure.caption))
    assert float(present(beyond)[1]) >= 25


def test_a_figure_reaches_the_page_with_its_parameters() -> None:
    """It reaches it in the form that `page.js` takes."""
    section = clock_section(*summarised())
    assert section is not None
    drawing = next(drawings([section]))
    assert (drawing.place, drawing.chart, set(drawing.data)) == ("clock-0", "clock", {"clocks", "clocks-names", "gap"})
    assert drawing.params["low"] < drawing.params["top"]


def test_the_section_says_d_p_and_what_follows() -> None:
    """It has critical D, sizes, interval, clock bound, and how many events one sandbox had."""
    summary, results = summarised()
    page = render_page(summary, results, sample_manifest("run-1"))
    for words in ("Clock check", "0.136", "p &lt; 0.001", "200, 200", "200 of 200", "0 ± 50 µs", "do tell"):
        assert words in page
    assert page.count('data-clock-check="one-sandbox"') == 4  # a sentence and a row for either measure


def test_a_run_without_a_pair_has_no_section(page: str) -> None:
    """Most runs have none."""
    assert "Clock check" not in page
