"""Thresholds in words, for terminals and for the state machine's output."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.samples.results import (
    changed,
    numbered,
    refused_result,
    sample_facts,
    sample_manifest,
    sample_summary,
    sample_window,
)

from stepbench.contracts.threshold_grammar import parse_threshold
from stepbench.experiments.report.headline import describe_status, headline_lines
from stepbench.experiments.report.page import render_page
from stepbench.report.summary import summarise
from stepbench.report.thresholds import describe_kept, describe_missed, describe_undecided, threshold_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.result import RunSummary, TrialResult


def run(results: Sequence[TrialResult], *thresholds: str) -> RunSummary:
    """Summarise a run of these trials with these thresholds."""
    return summarise(sample_facts(), results, [parse_threshold(text) for text in thresholds])


def test_the_worst_windows_are_named_and_the_others_counted(results: tuple[TrialResult, ...]) -> None:
    """A terminal's title has room for three of each threshold, and for three thresholds."""
    missing = numbered(changed(refused_result(results[0], {"E": 10 * n}), name=f"t{n}") for n in range(1, 6))
    assert describe_missed(sample_summary(missing)) == (
        "threshold missed: errors < 1 %: 20 % in t5, 17 % in t4, 13 % in t3 and 2 more windows"
    )
    many = run(missing[:1], "errors < 1 %", "errors == 0", "p50 < 1 ms", "max < 2 ms")
    assert describe_missed(many) == (
        "threshold missed: errors < 1 %: 4.8 % in t1; errors == 0: 10 in t1; p50 < 1 ms: 9.36 ms [8.82, 9.64] in t1; "
        "and 1 more"
    )


def test_what_a_run_is_too_short_for_is_told_and_is_no_failure(results: tuple[TrialResult, ...]) -> None:
    """200 of the 368 events that p99 needs: about 1.8 times as long; a longer run may show either."""
    found = run(results[2:3], "p99 < 900 ms")
    text = describe_undecided(found)
    assert text.startswith("threshold not decided: p99 < 900 ms: ~")
    assert text.endswith(" ms in postgresql (needs a run about 1.8 × longer)")  # noqa: RUF001
    assert (found.status, found.verdict, describe_missed(found)) == ("succeeded", "undecided", "")
    assert describe_status(found) == f"succeeded; {text}"
    assert headline_lines(found)[0] == text


def test_what_fails_by_one_end_of_an_interval_shows_that_end(results: tuple[TrialResult, ...]) -> None:
    """A reader has to see why, where the measured value stands without an interval."""
    short = results[2]
    latency = short.summary.windows[0].latency_ms.model_copy(update={"at_least": {"p99": 12.0}})
    window = short.summary.windows[0].model_copy(update={"latency_ms": latency})
    found = run([changed(short, windows=(window,))], "p99 < 2 ms")
    (row,) = threshold_rows(found)
    assert (row.result.state, row.takes) == ("failed", "")
    assert row.value.startswith("~")
    assert row.value.endswith(" ms, at least 12.0 ms")


def test_the_two_are_told_apart(results: tuple[TrialResult, ...]) -> None:
    """What is missed comes first: it is sure."""
    found = run(results[2:3], "p99 < 900 ms", "p50 < 1 ms")
    assert found.verdict == "failed"
    assert [line.partition(":")[0] for line in headline_lines(found)] == [
        "threshold missed",
        "threshold not decided",
        "postgresql",
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("lost == 0", "3"),
        ("lost < 1 %", "1.5 %"),
        ("throughput > 30 /s", "20/s"),
        ("max < 1 s", "> drain limit: 3 never arrived"),
        ("p99 < 1 s", "> drain limit (120 s)"),
        ("p50 < 1 ms", "11.35 ms [10.93, 12.41]"),
    ],
)
def test_a_value_has_the_unit_of_its_measure(text: str, value: str, results: tuple[TrialResult, ...]) -> None:
    """3 of 200 were lost of the second store, so p99 and the maximum lie among those that never came."""
    (row,) = threshold_rows(run(results[1:2], text))
    assert row.result.state == "failed"
    assert str(row) == f"{text}: {row.value} in dynamodb"
    assert row.value == value


def test_what_is_kept_is_told_with_what_came_closest(results: tuple[TrialResult, ...]) -> None:
    """How far from the limit a run was is the next question."""
    before = sample_window("before", [1.0, 2.0]).model_copy(update={"achieved_per_s": 20.0})
    after = sample_window("after", [4.0, 8.0]).model_copy(update={"achieved_per_s": 40.0})
    rows = threshold_rows(run([changed(results[2], windows=(before, after))], "max < 9 ms", "throughput > 5 /s"))
    assert describe_kept(rows, all_kept=True) == (
        "The run kept to all of its thresholds: max < 9 ms (closest: 8.00 ms in postgresql · after); "
        "throughput > 5 /s (closest: 20/s in postgresql · before)."
    )
    assert describe_kept(rows[:1], all_kept=False).startswith("Kept: max < 9 ms (")


def test_a_threshold_about_nothing_measured_has_no_window(results: tuple[TrialResult, ...]) -> None:
    """It stays visible: a window that a stopped run never reached was not kept to its limit."""
    text = describe_undecided(run(results[2:3], "p50 in later < 1 ms"))
    assert text == "threshold not decided: p50 in later < 1 ms: nothing that it is about was measured"


def test_of_many_missed_thresholds_the_worst_are_shown_and_the_others_folded(results: tuple[TrialResult, ...]) -> None:
    """Two dozen rows would stand before every figure; none is lost."""
    missing = numbered(changed(refused_result(results[0], {"E": 10 + n}), name=f"t{n}") for n in range(15))
    page = render_page(run(missing, "errors < 1 %"), missing, sample_manifest())
    shown, rest = (page.split(f'id="{name}"')[1].split("</table>")[0] for name in ("threshold-table", "threshold-rest"))
    assert [shown.count("<tr data-threshold"), rest.count("<tr data-threshold")] == [12, 3]
    assert "<summary>The others that were missed or are undecidable (3)</summary>" in page
