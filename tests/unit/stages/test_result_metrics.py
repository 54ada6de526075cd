"""Numbers of results as metrics: by plan, trial and window, of whole trials, and no more than anyone looks at."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.samples.comparisons import etcd, run
from tests.samples.results import accounting
from tests.samples.transfer_findings import findings_of
from tests.samples.transfers import month
from tests.unit.stages.test_await_turn import arrive, queue
from tests.unit.stages.test_conclude_run import report

from stepbench.contracts.cost import Cost
from stepbench.contracts.runs import ConcludeRunInput
from stepbench.records.storage import layout
from stepbench.settings import Settings
from stepbench.stages.conclude_run import conclude_run
from stepbench.stages.result_metrics import MOST_METRICS, put_results, result_metrics

if TYPE_CHECKING:
    from stepbench.contracts.result import TrialSummary

WANTED = Settings(results_table="t", results_bucket="b", function_prefix="bench", result_metrics=True)


def counted(name: str) -> TrialSummary:
    """Return a trial with counts and a cost."""
    counts = accounting(offered=10, sent=10, ok=7, ok_arrived=5, received=5, lost=2, failed=2, unknown=1)
    return etcd(3.0, name).model_copy(update={"accounting": counts, "cost_usd": Cost(estimate=1, actual=0.25)})


def test_a_trial_has_its_latencies_by_window_and_its_counts() -> None:
    """Failed: refused or unanswered. Units are those that CloudWatch's pictures need."""
    found = [(each.name, each.value, each.dimensions) for each in result_metrics(run(counted("a")))]

    whose = {"Trial": "a"}
    assert found == [
        ("LatencyP50", 3.0, {**whose, "Window": "steady"}),
        ("LatencyP99", 9, {**whose, "Window": "steady"}),
        ("Lost", 2, whose),
        ("Failed", 3, whose),
        ("TrialUsd", 0.25, whose),
    ]


def test_a_trial_of_transfers_has_its_cells_for_windows() -> None:
    """By platform, source and size in MiB; times, as of all others."""
    findings = findings_of(tuple(month(60, days=3)))
    cell, trial = findings.cells[0], counted("a").model_copy(update={"windows": (), "transfers": findings})
    found = [each for each in result_metrics(run(trial)) if "Window" in each.dimensions]
    assert cell.p50_s.value is not None
    assert found[0].dimensions["Window"] == f"{cell.platform}-{cell.source}-{cell.file_size_mib}"
    assert (found[0].name, found[0].value) == ("LatencyP50", cell.p50_s.value * 1_000)
    assert len({each.dimensions["Window"] for each in found}) == len(findings.cells)


def test_a_trial_that_broke_off_has_none() -> None:
    """An alarm on a number of half a load would be a false one."""
    broken = counted("a").model_copy(update={"incomplete": True})

    assert list(result_metrics(run(broken))) == []


def test_they_are_written_as_cloudwatch_takes_them(capsys: pytest.CaptureFixture[str]) -> None:
    """The embedded metric format: name, unit and dimensions."""
    put_results(run(counted("a")), WANTED)

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    said = [each["_aws"]["CloudWatchMetrics"][0] for each in lines]
    assert {each["Metrics"][0]["Name"]: each["Metrics"][0]["Unit"] for each in said} == {
        "LatencyP50": "Milliseconds",
        "LatencyP99": "Milliseconds",
        "Lost": "Count",
        "Failed": "Count",
        "TrialUsd": "None",
    }
    assert [set(each["Dimensions"][0]) for each in said[1:3]] == [
        {"Stack", "Plan", "Trial", "Window"},
        {"Stack", "Plan", "Trial"},
    ]
    assert {(each["Stack"], each["Plan"], each["Trial"]) for each in lines} == {("bench", "quick-unloaded", "a")}
    assert [len(each["Metrics"]) for each in said] == [1] * len(lines)  # a document may have 100, with 30 dimensions


def test_a_matrix_writes_no_more_than_the_limit(capsys: pytest.CaptureFixture[str]) -> None:
    """CloudWatch bills each metric by the month."""
    put_results(run(*(counted(f"t{index}") for index in range(30))), WANTED)

    assert capsys.readouterr().out.count("CloudWatchMetrics") == MOST_METRICS


@pytest.mark.parametrize("wanted", [True, False])
def test_a_run_that_is_closed_writes_them_once_where_the_stack_wants_them(
    capsys: pytest.CaptureFixture[str], *, wanted: bool
) -> None:
    """The sweeper and the machine may both find that a run is over."""
    memory, _ = queue(result_metrics=wanted)
    arrive(memory, "first", 1)
    memory.services.runs.put_model(layout.run_key("first", "summary.json"), run(counted("a")))
    for _ in range(2):
        conclude_run(ConcludeRunInput(run_id="first", report=report("first")), memory.services)

    assert capsys.readouterr().out.count('"LatencyP50":') == (1 if wanted else 0)
