"""What a report says of a measured function, of the planted trial and of small windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.samples.estimates import present
from tests.samples.measured_functions import MeasuredTrial
from tests.samples.results import changed, sample_manifest, sample_results, sample_summary

from stepbench.contracts.invocations import FunctionMetrics, Redelivered
from stepbench.contracts.measures import Estimate
from stepbench.experiments.report.headline import MOST_FUNCTIONS, describe_functions
from stepbench.experiments.report.page import render_page
from stepbench.experiments.report.tables import render_csv
from stepbench.experiments.trigger.handler import (
    describe_handler,
    describe_metrics,
    describe_try,
    handler_sections,
    handler_tables,
)
from stepbench.report import document as doc
from stepbench.report.run import run_view, window_rows
from stepbench_tools.printing import render_markdown

if TYPE_CHECKING:
    from stepbench.contracts.chart_data import HandlerPoint
    from stepbench.contracts.result import RunSummary, TrialResult


@pytest.fixture(scope="module")
def result() -> TrialResult:
    """Return the result of the planted trial."""
    return MeasuredTrial().result()


@pytest.fixture(scope="module")
def summary(result: TrialResult) -> RunSummary:
    """Return its run's summary."""
    return sample_summary([result])


def sections(summary: RunSummary, result: TrialResult) -> list[doc.Section]:
    """Return what there is on the function."""
    return list(handler_sections(run_view(summary, [result], sample_manifest())))


def test_the_answer_says_when_the_function_ran_and_when_it_was_done(summary: RunSummary) -> None:
    """The first sentence that a user reads: with retries, and what was never done."""
    (row,) = window_rows(summary.trials)
    assert describe_handler(row) == (
        "The function ran p50 255 ms after the write, and had processed it 283 ms after the write was due; 24 of 200 "
        "events failed in the handler at least once, 14 were processed at the second try after 61.0 s; 10 had not been "
        "processed by the drain limit; processed again: 10 times."
    )


def test_a_function_without_failures_is_one_sentence(summary: RunSummary) -> None:
    """Zeros would be four more things to read."""
    (row,) = window_rows(summary.trials)
    own = present(row.window.handler)
    fields = {"failed_once": 0, "redelivered": (), "processed": 200, "processed_twice": 0}
    window = row.window.model_copy(update={"handler": own.model_copy(update=fields)})
    (whole,) = window_rows([row.trial.model_copy(update={"windows": (window,)})])
    assert describe_handler(whole).endswith("283 ms after the write was due; no event failed in the handler.")


def test_a_terminal_has_the_first_functions_and_counts_the_others(summary: RunSummary) -> None:
    """The tables there are of latency; of ten repeats the page has all."""
    (line,) = describe_functions(summary)
    assert line.startswith(f"{present(summary.trials[0].name)}: The function ran p50 255 ms after the write")
    assert line.endswith("by the drain limit; processed again: 10 times")
    many = summary.model_copy(update={"trials": summary.trials * 8})
    assert describe_functions(many)[MOST_FUNCTIONS:] == ("5 more windows of functions: see the report",)


def test_a_window_that_measured_nothing_has_no_sentence(summary: RunSummary) -> None:
    """No time at all is not a time beyond the drain limit."""
    (row,) = window_rows(summary.trials)
    nothing = Estimate(value=None, reason="no events")
    empty = row.window.latency_ms.model_copy(update={"n": 0, "p50": nothing})
    window = row.window.model_copy(update={"latency_ms": empty})
    (without,) = window_rows([row.trial.model_copy(update={"windows": (window,)})])
    assert not describe_handler(without)


@pytest.mark.parametrize(
    ("again", "text"),
    [
        ((2, 1, 61, 61), "1 was processed at the second try after 61.0 s"),
        ((5, 20, 3, 9.5), "20 were processed at try 5 after 3.00 s (median), 9.50 s at most"),
    ],
)
def test_tries_are_named(again: tuple[int, int, float, float], text: str) -> None:
    """`try 2` would leave open whether the first counts."""
    found = Redelivered(at_try=again[0], events=again[1], after_s_p50=again[2], after_s_max=again[3])
    assert describe_try(found) == text


def test_the_page_says_what_was_measured_and_what_it_may_have_done(summary: RunSummary, result: TrialResult) -> None:
    """A copy that writes where the original writes is a surprise otherwise."""
    page = render_page(summary, [result], sample_manifest())
    assert "The copy does what the original does" in page
    assert 'id="handler"' in page
    assert "orders" in page
    assert '"chart":"concurrency"' in page


def test_numbers_stand_in_tables_with_their_raw_values(summary: RunSummary) -> None:
    """Scripts read them by the names of `summary.json`."""
    times, counts = handler_tables(summary)
    found = {cell.data["metric"]: cell.data["value"] for row in counts.rows for cell in row.cells}
    assert found["redelivered"] == 14
    assert (found["failed_in_handler"], found["processed_twice"], found["cold_starts"]) == (10, 10, 1)
    assert found["invocations"] == 23
    (row,) = times.rows
    assert [cell.data["metric"] for cell in row.cells] == [
        f"{measure}.{name}" for measure in ("handler_ms", "to_processed_ms") for name in ("p50", "p90", "p99")
    ]


def test_markdown_and_csv_have_them(summary: RunSummary) -> None:
    """Who compares runs in a sheet, or pastes them into a pull request, has no page."""
    assert "14 were processed at the second try after 61.0 s" in render_markdown(summary)
    lines = render_csv(summary).splitlines()
    assert any(line.endswith(",to_processed_ms,p50,283.0,233.0,383.0,") for line in lines)
    assert any(line.endswith(",KeyError,handler_errors,count,1,,,") for line in lines)
    assert any(line.endswith(",try 2,redelivered,count,14,,,") for line in lines)


def test_long_trials_are_drawn_with_some_hundred_points(summary: RunSummary, result: TrialResult) -> None:
    """An hour of seconds: each point stands for ten, and has the most that ran at once."""
    first: HandlerPoint = result.handler[0]
    points = tuple(
        first.model_copy(update={"second": second, "at_once": second % 10, "began": 1}) for second in range(3_600)
    )
    (section,) = sections(summary, result.model_copy(update={"handler": points}))
    (fold,) = (part for part in section.parts if isinstance(part, doc.Fold))
    (figure,) = fold.parts
    assert isinstance(figure, doc.Figure)
    (chart,) = figure.parts
    assert isinstance(chart, doc.Chart)
    drawn = chart.drawing.data["points"]
    assert (len(drawn["second"]), set(drawn["running"]), sum(map(int, map(str, drawn["began"])))) == (400, {8, 9}, 3600)


def test_other_trials_have_no_such_section() -> None:
    """Neither has a run whose receiver was ours."""
    results = sample_results()
    summary = sample_summary(results)
    assert handler_tables(summary) == ()
    assert not list(handler_sections(run_view(summary, results, sample_manifest())))
    assert "handler" not in render_csv(summary)


def test_a_name_is_text(result: TrialResult) -> None:
    """A function's error type is whatever its code names it."""
    evil = "<script>alert(1)</script>"
    (window,) = result.summary.windows
    handler = present(window.handler).model_copy(update={"errors": {evil: 1}})
    named = changed(result, windows=(window.model_copy(update={"handler": handler}),), function=evil)
    page = render_page(sample_summary([named]), [named], sample_manifest())
    assert evil not in page


METRICS = FunctionMetrics(
    until="2023-11-14T22:16:00+00:00",
    recorded=42,
    invocations=42,
    throttles=1,
    dropped=0,
    oldest_event_ms=1900,
    most_at_once=5,
)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {},
            "up to 2023-11-14 22:16:00 UTC: 1 throttle, 0 events dropped, the oldest event 1,900 ms old, 5 at once",
        ),
        ({"recorded": 50}, "It had 42 of 50 invocations by then: what happened later is not in these numbers."),
        ({"until": ""}, "CloudWatch had no value yet when the trial ended."),
        ({"until": "", "reason": "AccessDenied."}, "could not be read: AccessDenied."),
    ],
)
def test_what_cloudwatch_had_is_said_with_up_to_when(
    summary: RunSummary, result: TrialResult, changes: dict[str, object], text: str
) -> None:
    """A last minute that has not come is no minute without throttles."""
    found = METRICS.model_copy(update=changes)
    measured = summary.trials[0].model_copy(update={"function_metrics": found, "emulated": False})
    page = render_page(summary.model_copy(update={"trials": (measured,)}), [result], sample_manifest())
    assert text in describe_metrics(measured)
    assert text in page


def test_on_emulators_it_is_not_measured(summary: RunSummary) -> None:
    """Nothing is not zero."""
    emulated = summary.trials[0].model_copy(update={"emulated": True})
    assert describe_metrics(emulated).endswith("were not measured here: emulators have no metrics of Lambda.")


def test_csv_has_cloudwatch_s_numbers_by_trial(summary: RunSummary) -> None:
    """With up to when they are."""
    measured = summary.trials[0].model_copy(update={"function_metrics": METRICS})
    lines = render_csv(summary.model_copy(update={"trials": (measured,)})).splitlines()
    assert any(line.endswith(",cloudwatch,throttles,count,1,,,until 2023-11-14T22:16:00+00:00") for line in lines)
    assert any(
        line.endswith(",cloudwatch,oldest_event_ms,max,1900.0,,,until 2023-11-14T22:16:00+00:00") for line in lines
    )
