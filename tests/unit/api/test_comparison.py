"""The trend of a plan: what was found with its newest run, or what is found now."""

from __future__ import annotations

from datetime import datetime

import pytest
from tests.samples.run_series import noise, summaries
from tests.samples.services import MemoryServices

from stepbench.api.comparison import MOST_SERIES, read_trend
from stepbench.contracts.regressions import DetectorSettings, NamedRun, Regressions
from stepbench.contracts.runs import RunRecord, RunRequest
from stepbench.records.storage import layout
from stepbench.stages.run_regressions import find_run_regressions

WORSE = [*noise(40), 13.0, 13.1, 12.9]


@pytest.fixture
def memory() -> MemoryServices:
    """Return a register and a bucket in which the last three runs of a plan are worse."""
    memory = MemoryServices()
    for summary in summaries(WORSE):
        submitted = datetime.fromisoformat(summary.started_at)
        known = {"run_id": summary.run_id, "team": "default", "plan": "nightly", "state": "succeeded"}
        memory.register.add(RunRecord.model_validate({**known, "submitted_at": submitted}))
        memory.services.runs.put_model(layout.run_key(summary.run_id, "summary.json"), summary)
    return memory


def verdicts(memory: MemoryServices) -> set[str]:
    """Return what is said of the plan's series."""
    found = read_trend("nightly", "default", memory.services)
    assert found is not None
    assert len(found.found.findings) <= MOST_SERIES
    return {each.verdict for each in found.found.findings}


def test_a_plan_that_nobody_follows_is_judged_by_the_same_rule(memory: MemoryServices) -> None:
    """Runs of the API are set against earlier ones only if they ask."""
    assert "regression" in verdicts(memory)


def test_what_was_found_with_the_newest_run_is_shown(memory: MemoryServices) -> None:
    """With its settings: the page says what the run's report says."""
    last = memory.register.find("r042")
    assert last is not None
    find_run_regressions(last, summaries(WORSE)[-1], DetectorSettings(min_effect=0.5), memory.services)
    assert "regression" not in verdicts(memory)
    memory.services.runs.put_json(layout.run_key("r042", "regressions.json"), {"of": "another version"})
    assert "regression" in verdicts(memory)


def test_a_shift_that_was_acknowledged_since_then_is_one(memory: MemoryServices) -> None:
    """Whoever has acknowledged it does not wait for the next run to see that."""
    last = memory.register.find("r042")
    assert last is not None
    find_run_regressions(last, summaries(WORSE)[-1], DetectorSettings(), memory.services)
    stored = memory.services.runs.get_model(layout.run_key("r042", "regressions.json"), Regressions)
    assert not stored.passed
    memory.register.change("r040", ("succeeded",), acknowledged="larger records")
    assert "regression" not in verdicts(memory)


def test_a_named_baseline_that_is_gone_leaves_the_page_as_it_is(memory: MemoryServices) -> None:
    """The plan's page is judged against the last runs then."""
    gone = DetectorSettings(baseline=NamedRun(run_id="r-gone"))
    memory.services.runs.put_model(layout.run_key("r042", "request.json"), RunRequest(plan="p", regressions=gone))
    assert "regression" in verdicts(memory)


def test_another_teams_runs_are_no_part_of_it(memory: MemoryServices) -> None:
    """A plan's name belongs to nobody."""
    assert read_trend("nightly", "payments", memory.services) is None
