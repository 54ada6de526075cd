"""A threshold is about something that the plan measures, or the plan is refused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.samples.dags import dataflow_trial
from tests.samples.refusals import Refused, check_plan

from stepbench.planning import parse_plan

STEP = {"rate_per_s": 10, "duration_s": 20}
WINDOWS = [{"name": "before", "from_s": 0, "to_s": 10}, {"name": "after", "from_s": 10, "to_s": 20}]
PHASES = [{"name": "warm-up", "measured": False, "load": [STEP]}, {"name": "step", "load": [STEP], "windows": WINDOWS}]
TRIGGER = {"target": {"store": "s3"}, "phases": PHASES}
OPERATIONS = {
    "experiment": "operations",
    "target": {"store": "redis"},
    "workload": {"mix": {"read": 9, "overwrite": 1}},
    "phases": [{"name": "mixed", "closed": {"clients": 2, "duration_s": 10}}],
}


def plan(threshold: str, *trials: dict[str, Any]) -> dict[str, Any]:
    """Return a plan with this threshold."""
    return {"name": "plan", "trials": list(trials), "thresholds": [threshold]}


@pytest.mark.parametrize(
    "threshold",
    [
        "p99 in after < 2 ms",
        "p99 in mixed < 2 ms",
        "p99 of read < 2 ms",
        "response p99 of overwrite in mixed < 2 ms",
        "lost in before == 0",
        "errors < 1 %",
    ],
)
def test_a_threshold_may_be_about_one_window_of_one_trial(threshold: str) -> None:
    """Plans set triggers beside operations; not every threshold is about both."""
    assert parse_plan(plan(threshold, TRIGGER, OPERATIONS)).thresholds == (threshold,)


@pytest.mark.parametrize("threshold", ["lost == 0", "duplicates < 1", "after_ack p50 < 1 s", "errors < 1 %"])
def test_an_execution_arrives_as_an_event_does(threshold: str) -> None:
    """It is lost where it does not complete, and whoever builds on it wants to set a limit to that."""
    assert parse_plan(plan(threshold, dataflow_trial())).thresholds == (threshold,)


def test_a_window_that_only_a_matrix_makes_is_known() -> None:
    """Names are looked for in the trials as they are run."""
    trial = {**TRIGGER, "matrix": {"phases[1].windows[1].name": ["late", "later"]}}
    assert parse_plan(plan("p99 in later < 2 ms", trial)).thresholds == ("p99 in later < 2 ms",)


@pytest.mark.parametrize(
    ("threshold", "trials", "message", "remedy"),
    [
        ("p99 in befor < 2 ms", [TRIGGER], 'measure: "befor"', 'mean "before"? The plan measures "before", "after".'),
        ("p99 in warm-up < 2 ms", [TRIGGER], 'does not measure: "warm-up"', 'The plan measures "before", "after".'),
        ("p99 in step < 2 ms", [TRIGGER], 'does not measure: "step"', 'The plan measures "before", "after".'),
        ("p99 of scan < 2 ms", [OPERATIONS], 'does not measure: "scan"', 'The plan measures "overwrite", "read".'),
        ("p99 of read < 2 ms", [TRIGGER], 'does not measure: "read"', "The plan has none."),
        ("lost == 0", [OPERATIONS], "limits lost, which triggers and DAGs have", "latency, response, service"),
        (
            "after_ack p50 < 1 s",
            [OPERATIONS],
            "limits after_ack, which triggers and DAGs have",
            "latency, response, service",
        ),
        ("p99 of read in after < 2 ms", [TRIGGER, OPERATIONS], "is about no window", "name less in it"),
    ],
)
def test_a_threshold_about_nothing_is_refused_with_what_there_is(
    threshold: str, trials: list[dict[str, Any]], message: str, remedy: str
) -> None:
    """It would be kept to by every run, for a slip in a name."""
    check_plan(Refused(plan(threshold, *trials), "thresholds[0]", threshold, remedy, message))
