"""Records per invocation, by window."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.samples.estimates import present
from tests.samples.finished_trials import PHASES, AnalysedTrial

from stepbench.analysis.functions import describe_batches, summarise_functions
from stepbench.contracts.invocations import BatchCount
from stepbench.records.formats.second_sources import ReportPage, parse_reports

WINDOWS = [{"name": "early", "from_s": 0, "to_s": 2.75}, {"name": "late", "from_s": 2.75, "to_s": 10}]
SINGLES, TENS = (
    [range(number, number + 1) for number in range(50)],
    [range(first, first + 10) for first in range(50, 200, 10)],
)


def test_a_retry_under_its_first_try_s_request_id_is_an_invocation_of_its_own() -> None:
    """Lambda bills it. A log that is read twice has the same lines."""
    report = "REPORT RequestId: a\tDuration: 100.00 ms\tBilled Duration: 100 ms\tMemory Size: 1024 MB"
    lines = parse_reports([{"message": report, "timestamp": minute * 60_000} for minute in range(3)])
    page = ReportPage(function="MeasuredFunction", lines=lines)

    (found,) = summarise_functions([page, page])

    assert (found.invocations, found.billed_ms) == (3, 300)


def batched(store: str = "dynamodb", **phase: Any) -> AnalysedTrial:  # noqa: ANN401 -- a phase's fields
    """Deliver 50 of 200 events one by one, and then ten at a time."""
    trial = AnalysedTrial(store=store, phases=[PHASES[0], {**PHASES[1], **phase}])
    trial.records.phase(1, lost=tuple(range(200)))
    trial.records.deliver_together(1, *SINGLES, *TENS)
    return trial


def test_each_invocation_counts_once_with_all_that_it_was_handed() -> None:
    """By record, three quarters would be in batches of ten; by invocation it is fewer than a quarter."""
    (window,) = batched().result().summary.windows
    found = present(window.deliveries)
    assert (found.invocations, found.min, found.p50, found.p90, found.max) == (65, 1, 1, 10, 10)
    assert found.mean == 200 / 65
    assert found.commonest == (BatchCount(records=1, invocations=50), BatchCount(records=10, invocations=15))


def test_an_invocation_counts_in_every_window_that_it_brought_events_of() -> None:
    """Events 50 to 59 came together, and the border lies before event 55."""
    early, late = batched(windows=WINDOWS).result().summary.windows
    assert (present(early.deliveries).invocations, present(late.deliveries).invocations) == (51, 15)
    assert present(early.deliveries).max == 10


def test_repeated_deliveries_do_not_count() -> None:
    """Lambda's retry and a redelivery bring nothing first."""
    trial = batched()
    trial.records.deliver_together(1, range(50, 60), request="again")
    (window,) = trial.result().summary.windows
    assert present(window.deliveries).invocations == 65


def test_a_trigger_that_hands_over_one_by_one_has_no_distribution() -> None:
    """It would be a line of ones in every report of S3."""
    (window,) = batched(store="s3").result().summary.windows
    assert window.deliveries is None


def test_of_many_sizes_the_ten_commonest_are_kept() -> None:
    """Sizes 1 to 12, of which 12 comes twice and the others once; of equals the smaller ones."""
    found = describe_batches(np.array([*range(1, 13), 12], dtype=np.uint32))
    assert [each.records for each in found.commonest] == [12, *range(1, 10)]
    assert (found.p50, found.max) == (7, 12)
