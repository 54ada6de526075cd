from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest
from tests.samples.results import refused_result, sample_facts, sample_summary

from stepbench.contracts.documents import Failure
from stepbench.contracts.result import RunSummary
from stepbench.contracts.threshold_grammar import parse_threshold
from stepbench.report.summary import TrialStore, add_failure, failed_trials, missing_result, summarise, summary_schema

if TYPE_CHECKING:
    from stepbench.contracts.result import TrialResult

PUBLISHED = Path(__file__).parents[3] / "docs" / "summary.schema.json"


def test_the_published_schema_is_current() -> None:
    """Run `python -m stepbench.report.summary > docs/summary.schema.json` to renew it."""
    assert json.loads(PUBLISHED.read_text("utf-8")) == summary_schema()


def test_a_summary_fulfils_its_schema_and_reads_back(summary: RunSummary) -> None:
    """Others read it with their own tools."""
    text = summary.model_dump_json(by_alias=True)
    jsonschema.validate(json.loads(text), json.loads(PUBLISHED.read_text("utf-8")))
    assert RunSummary.model_validate_json(text) == summary


def test_a_summary_has_the_shape_that_the_design_fixes(summary: RunSummary) -> None:
    """`schema: 2` is a promise: scripts of others read these names."""
    document = json.loads(summary.model_dump_json(by_alias=True))
    trial = document["trials"][0]
    window = trial["windows"][0]
    assert (document["schema"], document["run_id"], document["status"]) == (2, "run-1", "failed")
    assert {"name", "store", "provider", "emulated", "incomplete", "accounting", "clock", "caveats", "cost_usd"} <= set(
        trial
    )
    assert {"offered", "sent", "unsent", "unrecorded", "ok", "failed", "unknown", "received", "lost"} <= set(
        trial["accounting"]
    )
    p99 = window["latency_ms"]["p99"]
    assert (p99["low"], p99["high"], p99["reason"]) == (None, None, "n=200 < 368")
    assert p99["value"] > window["latency_ms"]["p95"]["value"]
    assert {"after_ack_ms", "response_write_ms", "response_trigger_ms", "service_ms", "lateness_ms"} <= set(window)


@pytest.mark.parametrize(
    ("which", "stopped", "status"),
    [
        ([0, 1, 2], False, "succeeded"),
        ([0, 3], False, "failed"),
        ([0, 3], True, "stopped"),
        ([0], True, "stopped"),
        ([], False, "failed"),
    ],
)
def test_the_status_is_the_worst_that_happened(
    *, which: list[int], stopped: bool, status: str, results: tuple[TrialResult, ...]
) -> None:
    """A run must not end green over a failed trial, nor over none at all; lost events fail no trial."""
    facts = dataclasses.replace(sample_facts(), stopped=stopped)
    assert summarise(facts, [results[place] for place in which]).status == status


@pytest.mark.parametrize(
    ("which", "errors", "verdict"),
    [
        pytest.param([0, 2], {}, "passed", id="no errors"),
        pytest.param([0, 2], {"57P01": 2}, "passed", id="2 of 202"),
        pytest.param([0, 2], {"57P01": 3}, "failed", id="3 of 203"),
        pytest.param([2, 3], {}, "failed", id="a trial that ended early"),
    ],
)
def test_the_verdict_is_of_the_run_and_its_thresholds(
    which: list[int], errors: dict[str, int], verdict: str, results: tuple[TrialResult, ...]
) -> None:
    """A pipeline looks at this one word; whether the run went through is another question."""
    chosen = [refused_result(results[place], errors) if place == 2 else results[place] for place in which]
    summary = sample_summary(chosen)
    assert summary.verdict == verdict
    assert summary.status == ("failed" if 3 in which else "succeeded")
    assert summarise(sample_facts(), chosen).thresholds == ()


def test_an_older_summary_has_not_passed_what_it_left_undecided(results: tuple[TrialResult, ...]) -> None:
    """Its verdict was `passed` then, and a list of runs would say so of a limit that nothing has shown to hold."""
    summary = summarise(sample_facts(), results[2:3], [parse_threshold("p99 < 900 ms")])
    assert summary.verdict == "undecided"
    stored = {**summary.model_dump(mode="json", by_alias=True), "verdict": "passed"}
    assert RunSummary.model_validate(stored).verdict == "undecided"
    assert RunSummary.model_validate({**stored, "thresholds": []}).verdict == "passed"


def test_a_missing_result_still_names_its_trial() -> None:
    """A trial that left nothing has failed, visibly."""
    failure = Failure(error="TargetUnavailableError", cause="no canary arrived")
    result = missing_result("etcd", 2, TrialStore("etcd", "etcd 3.5.1 (wheel)", emulated=False), failure, 0.01)
    assert (result.summary.name, result.summary.index, result.summary.failure) == ("etcd", 2, failure)
    assert result.summary.accounting is None
    assert failed_trials([result.summary]) == (result.summary,)


def test_amending_adds_what_is_missing_and_replaces_nothing(results: tuple[TrialResult, ...]) -> None:
    """The analysis knew better than the end of the run; what it left open may be filled."""
    other = Failure(error="States.TaskFailed", cause="")
    complete, incomplete = results[2], results[3]
    assert add_failure(incomplete, other).summary.failure == incomplete.summary.failure
    assert add_failure(complete, other).summary.failure == other
    assert add_failure(complete, None) is complete
