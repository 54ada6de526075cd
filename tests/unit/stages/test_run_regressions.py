"""A run among its plan's earlier ones, in a register and a bucket in memory."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from tests.samples.run_series import BEGAN, noise, summaries
from tests.samples.services import MemoryServices

from stepbench.contracts.regressions import DetectorSettings, NamedRun, Regressions
from stepbench.contracts.runs import RunRecord
from stepbench.records.storage import layout
from stepbench.stages.run_regressions import RunRegressions, find_run_regressions

if TYPE_CHECKING:
    from stepbench.contracts.result import RunSummary

USUAL = noise(40)


def recorded(values: list[float], team: str = "default", confirms: str = "") -> tuple[MemoryServices, RunRegressions]:
    """Enter runs with these medians; what is found with the last one."""
    memory = MemoryServices()
    found = summaries(values)
    for summary in found:
        memory.register.add(record(summary, team, confirms if summary is found[-1] else ""))
        memory.services.runs.put_model(layout.run_key(summary.run_id, "summary.json"), summary)
    last = memory.register.find(found[-1].run_id)
    assert last is not None
    return memory, find_run_regressions(last, found[-1], DetectorSettings(), memory.services)


def record(summary: RunSummary, team: str, confirms: str) -> RunRecord:
    """Return the run's entry."""
    started = datetime.fromisoformat(summary.started_at)
    times = {"submitted_at": started, "finished_at": started + timedelta(minutes=5)}
    return RunRecord.model_validate(
        {
            "run_id": summary.run_id,
            "team": team,
            "plan": summary.plan,
            "state": "succeeded",
            "confirms": confirms,
            **times,
        }
    )


def test_a_first_worse_run_is_suspected_and_nobody_is_told() -> None:
    """A single one may be a spike; a further run is asked for."""
    _, found = recorded([*USUAL, 13.0])
    assert (found.announced, found.confirm) == ((), True)


def test_what_further_runs_confirm_is_told_and_drawn() -> None:
    """The report's page shows when it began; the run's output says it in a line."""
    memory, found = recorded([*USUAL, 13.0, 13.1, 12.9])
    assert len(found.announced) >= 1
    assert "p50" in found.announced[0]
    assert 'class="worse"' in found.section
    stored = memory.services.runs.get_model(layout.run_key("r042", "regressions.json"), Regressions)
    assert (stored.passed, stored.last_run) == (False, "r042")


def test_a_shift_that_was_acknowledged_is_the_new_baseline() -> None:
    """Somebody has accepted the price of a change."""
    memory, _ = recorded([*USUAL, 13.0, 13.1, 12.9])
    memory.register.change("r040", ("succeeded",), acknowledged="larger records")
    last, summary = memory.register.find("r042"), summaries([*USUAL, 13.0, 13.1, 12.9])[-1]
    assert last is not None
    found = find_run_regressions(last, summary, DetectorSettings(), memory.services)
    assert (found.announced, found.confirm) == ((), False)


def test_runs_of_the_same_day_are_earlier_ones_too() -> None:
    """A confirming run begins within minutes of the one that it confirms."""
    hourly = [
        each.model_copy(update={"started_at": (BEGAN + timedelta(hours=place)).isoformat()})
        for place, each in enumerate(summaries(USUAL))
    ]
    memory = MemoryServices()
    for summary in hourly:
        memory.register.add(record(summary, "default", ""))
        memory.services.runs.put_model(layout.run_key(summary.run_id, "summary.json"), summary)
    last = memory.register.find(hourly[-1].run_id)
    assert last is not None
    find_run_regressions(last, hourly[-1], DetectorSettings(), memory.services)
    stored = memory.services.runs.get_model(layout.run_key(last.run_id, "regressions.json"), Regressions)
    assert stored.runs == len(USUAL)


def test_a_summary_that_cannot_be_read_is_left_out() -> None:
    """One damaged document must not keep a nightly run from its report."""
    memory, _ = recorded(USUAL)
    memory.services.runs.put_json(layout.run_key("r010", "summary.json"), {"schema": "of another version"})
    del memory.bucket.objects[layout.run_key("r011", "summary.json")]
    last, summary = memory.register.find("r039"), summaries(USUAL)[-1]
    assert last is not None
    find_run_regressions(last, summary, DetectorSettings(), memory.services)
    stored = memory.services.runs.get_model(layout.run_key("r039", "regressions.json"), Regressions)
    assert stored.runs == len(USUAL) - 2


def test_a_named_baseline_further_back_is_read_in_addition(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release is followed for longer than a register's page: 20 runs are read here, the baseline began 40 ago."""
    monkeypatch.setattr("stepbench.stages.run_regressions.SERIES_RUNS", 20)
    values = [*noise(5), *noise(35, seed=2), *(1.2 * value for value in noise(20, seed=3))]
    memory, _ = recorded(values)
    last = memory.register.find("r059")
    assert last is not None
    settings = DetectorSettings(baseline=NamedRun(run_id="r005", runs=15))
    find_run_regressions(last, summaries(values)[-1], settings, memory.services)
    stored = memory.services.runs.get_model(layout.run_key("r059", "regressions.json"), Regressions)
    assert (stored.runs, stored.passed) == (15 + 20, False)
    assert stored.findings[0].baseline is not None
    assert stored.findings[0].baseline.value == pytest.approx(10, abs=0.3)
