"""A phase that cannot keep to a threshold any more is ended, those after it are passed over, and the run fails it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from tests.samples.finished_trials import FinishedTrial
from tests.samples.services import MemoryServices, small_plan, stored_trial
from tests.support.fake_clock import START_NS, FakeClock

from stepbench.analysis.impossible import SETTLE_S, most_slow
from stepbench.contracts.phase import PrecisionLooks
from stepbench.contracts.plan import Plan
from stepbench.contracts.result import TrialResult
from stepbench.contracts.tasks import (
    AnalyseTrialInput,
    CheckPrecisionInput,
    CheckPrecisionOutput,
    PlanPhaseInput,
    StateError,
)
from stepbench.contracts.threshold_grammar import parse_threshold
from stepbench.experiments.report.headline import describe_window, headline_lines
from stepbench.model.request import Outcome
from stepbench.planning import expand
from stepbench.planning.limits import check_budget
from stepbench.planning.quotas import history_events
from stepbench.records.join.reader import read_records
from stepbench.records.storage import layout
from stepbench.report import document as doc
from stepbench.report.run import window_rows
from stepbench.report.summary import RunFacts, summarise
from stepbench.report.thresholds import thresholds_section
from stepbench.stages.analyse_trial import analyse_trial
from stepbench.stages.check_precision import STOP_LEAD_S, check_precision
from stepbench.stages.plan_phase import plan_phase
from stepbench.stats.quantiles import quantile

SECOND_NS = 10**9
PHASES: list[dict[str, Any]] = [
    {"name": "steady", "load": [{"rate_per_s": 10, "duration_s": 60}, {"rate_per_s": 20, "duration_s": 60}]},
    {"name": "after", "load": [{"rate_per_s": 10, "duration_s": 60}]},
]
EVENTS = 1_800
"""Of the first phase."""


class Running:
    """A trial under way, whose first phase has 1,800 events in two minutes."""

    def __init__(self, *thresholds: str, phases: Any = PHASES, **plan: Any) -> None:  # noqa: ANN401 -- a plan's
        self.clock, self.plan = FakeClock(START_NS), small_plan(phases=phases, **plan)
        self.memory = MemoryServices(self.clock)
        self.ref = stored_trial(self.memory.services, self.plan, abort_on=thresholds)
        self.records = FinishedTrial(self.memory.services, self.ref, self.plan, START_NS)

    def at(self, second: float, slow_ms: float = 1, slow: int = 0, **recorded: Any) -> CheckPrecisionOutput:  # noqa: ANN401
        """Call the stage so many seconds after the start, when all is recorded that was due 20 s before."""
        self.clock.advance(START_NS + round(second * SECOND_NS) - self.clock.now_ns())
        latency_ns = np.full(EVENTS, 3_000_000)
        latency_ns[:slow] = round(slow_ms * 1e6)
        due = sum(t_s < second - 20 for t_s in self._due_s())
        self.records.phase(0, to_s=second - 20, last=False, latency_ns=latency_ns[:due], **recorded)
        return self.check()

    def check(self) -> CheckPrecisionOutput:
        """Call the stage."""
        return check_precision(CheckPrecisionInput(ref=self.ref, phase=0), self.memory.services)

    @staticmethod
    def _due_s() -> list[float]:
        return [*(n / 10 for n in range(600)), *(60 + n / 20 for n in range(1_200))]

    def looks(self) -> PrecisionLooks:
        """Return what the stage has noted."""
        return self.memory.services.runs.get_model(layout.phase_key(self.ref, 0, "until.json"), PrecisionLooks)

    @property
    def stop_s(self) -> float | None:
        """Return where the phase ends, in seconds from its start."""
        stop_at_ns = self.memory.services.table.stop_at_ns(self.ref.tag, 0)
        return None if stop_at_ns is None else (stop_at_ns - START_NS) / SECOND_NS


@pytest.mark.parametrize(
    ("threshold", "slow_ms", "slow", "ended"),
    [
        ("p99 < 50 ms", 50, 19, True),  # of 1,800, p99 lies among the 19 slowest
        ("p99 < 50 ms", 50, 18, False),
        ("p99 <= 50 ms", 50, 19, False),
        ("p50 < 50 ms", 60, 300, False),  # half of what was sent, and far from half of all
        ("max < 50 ms", 60, 1, True),
        ("max < 70 ms", 60, 1, False),
        ("p99 in another < 50 ms", 60, 300, False),
        ("response p99 < 50 ms", 60, 300, True),
        ("p99 > 50 ms", 1, 0, False),  # a lower limit is never out of reach while events are to come
        ("throughput > 100 /s", 1, 0, False),
    ],
)
def test_a_quantile_is_out_of_reach_once_it_lies_among_known_slow_events(
    threshold: str, slow_ms: float, slow: int, *, ended: bool
) -> None:
    """However fast all that is still to come is."""
    running = Running(threshold)
    assert running.at(55, slow_ms, slow).done is ended
    assert running.stop_s == (55 + STOP_LEAD_S if ended else None)


def test_one_call_that_checks_and_looks_reads_the_records_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are of one moment; and a look takes nothing from when the next check is due."""
    until = {"metric": "p50", "relative_width": 0.000_1, "max_events": EVENTS}
    load = [{"rate_per_s": 10, "duration_s": 60}, {"rate_per_s": 20, "duration_s": 1}]
    running = Running("p99 < 50 ms", phases=[{"name": "steady", "load": load, "until": until}])
    reads = list[int]()

    def read(*args: Any) -> Any:  # noqa: ANN401 -- as the real one
        reads.append(1)
        return read_records(*args)

    monkeypatch.setattr("stepbench.stages.check_precision.read_records", read)
    answer = running.at(90)
    looks = running.looks()
    assert (len(looks.looks), looks.checked_at_s, len(reads)) == (1, 90, 1)
    assert answer.next_at > datetime.fromtimestamp(START_NS / SECOND_NS + 90, UTC)


@pytest.mark.parametrize("events", [1, 2, 99, 100, 101, 1_800])
@pytest.mark.parametrize(("statistic", "q"), [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)])
def test_one_slow_event_more_than_allowed_moves_the_quantile(events: int, statistic: str, q: float) -> None:
    """As it is estimated; with as many as allowed, a window may still keep to the limit."""
    allowed = most_slow(statistic, events)
    times = [np.sort(np.where(np.arange(events) < slow, 100.0, 0.0)) for slow in (allowed, allowed + 1)]
    assert quantile(times[1], q) == 100
    assert quantile(times[0], q) < 100
    assert most_slow(statistic, events - 1) <= allowed


@pytest.mark.parametrize(
    ("threshold", "failed", "ended"),
    [
        ("errors < 1 %", 18, True),
        ("errors < 1 %", 17, False),
        ("errors <= 1 %", 18, False),
        ("errors < 5", 5, True),
        ("errors == 0", 1, True),
        ("errors == 3", 3, False),
        ("errors of read < 1 %", 200, False),
    ],
)
def test_errors_are_counted_against_all_that_the_phase_offers(threshold: str, failed: int, *, ended: bool) -> None:
    """Of 350 events until now 18 are 5 %, and 1 % of all."""
    running = Running(threshold)
    running.records.plan_phase(0)
    running.clock.advance(55 * SECOND_NS)
    t0_ns = START_NS + np.arange(350) * SECOND_NS // 10
    running.records.rows(0, t0_ns, last=False, errors=dict.fromkeys(range(failed), (Outcome.FAILED, "Busy")))
    assert running.check().done is ended


def test_what_has_not_arrived_is_as_slow_as_it_has_waited() -> None:
    """It is lost or slow; what arrived within the last seconds may not be recorded yet."""
    running = Running("max < 4 s")
    assert not running.at(20 + SETTLE_S, lost=()).done
    waiting = Running("max < 4 s")
    assert waiting.at(20 + SETTLE_S, lost=(0,)).done
    patient = Running("max < 20 s")
    assert not patient.at(20 + SETTLE_S, lost=(0,)).done


def test_a_watcher_s_missing_events_end_nothing() -> None:
    """It may have died; what nobody watched is left out of the window in the end."""
    assert not Running("max < 4 s", store="etcd").at(55, lost=tuple(range(100))).done
    assert Running("max < 4 s", store="etcd").at(55, slow_ms=5_000, slow=1).done


def test_checks_are_made_from_the_beginning_and_stop_with_the_load() -> None:
    """A phase that is beyond rescue after seconds need not go on for an hour; a look costs little."""
    running = Running("p99 < 50 ms")
    running.records.plan_phase(0)
    first = running.check()
    assert not first.done
    assert 5 <= (first.next_at - datetime.fromtimestamp(START_NS / SECOND_NS, UTC)).total_seconds() <= 9
    assert not running.at(55).done
    running.clock.advance(70 * SECOND_NS)
    assert running.check().done
    assert running.looks().reason == "max_events"


def test_the_phases_after_it_are_passed_over() -> None:
    """The trial cannot pass any more, and its load costs money."""
    running = Running("p99 < 50 ms")
    services = running.memory.services
    assert plan_phase(PlanPhaseInput(ref=running.ref, phase=1), services).needed
    running.at(55, 60, 40)
    assert not plan_phase(PlanPhaseInput(ref=running.ref, phase=1), services).needed


def test_the_trial_adds_up_and_says_when_and_why_it_ended() -> None:
    """What was not offered is in no account; the threshold is missed, with what is known of the rest."""
    running = Running("p99 < 50 ms", "errors < 1 %")
    running.at(55, 60, 40)
    running.records.phase(0, to_s=65, latency_ns=np.where(np.arange(700) < 40, 60_000_000, 3_000_000))
    task = AnalyseTrialInput(ref=running.ref, failure=StateError())
    key = analyse_trial(task, running.memory.services).result_key
    result = running.memory.services.runs.get_model(key, TrialResult)
    trial = result.summary
    assert trial.accounting is not None
    assert (trial.accounting.offered, trial.accounting.ok, trial.incomplete) == (700, 700, False)
    assert [window.name for window in trial.windows] == ["steady"]
    (ended,) = trial.stopped
    assert (ended.reason, ended.threshold, ended.window, ended.stopped_at_s) == (
        "impossible",
        "p99 < 50 ms",
        "steady",
        65,
    )
    assert ended.text == (
        "Phase steady was ended after 65 s: p99 < 50 ms could not be kept any more. 40 of the 1,800 events that the "
        "whole window has took longer, and with more than 18 p99 lies among them."
    )
    facts = RunFacts("run-1", "plan", datetime.now(UTC), datetime.now(UTC))
    summary = summarise(facts, [result], [parse_threshold("p99 < 50 ms"), parse_threshold("errors < 1 %")])
    assert (summary.status, summary.verdict) == ("succeeded", "failed")
    assert [each.state for each in summary.thresholds] == ["failed", "passed"]
    assert describe_window(window_rows([trial])[0]).endswith(ended.text)
    section = thresholds_section(summary, troubled=False)
    assert section is not None
    assert f"s3 {ended.text}" in [doc.plain(part.text) for part in section.parts if isinstance(part, doc.Sentence)]
    assert "steady ended after 65 s: p99 < 50 ms could not be kept any more" in headline_lines(summary)[-1]


@pytest.mark.parametrize("phases", [1, 2, 7, 40])
def test_calls_are_as_many_as_are_planned_for_at_most(phases: int) -> None:
    """History and costs are planned with them: a phase that goes on to its end without a look is the longest."""
    load = [{"rate_per_s": 1, "duration_s": 600}]
    running = Running("p99 < 50 ms", phases=[{"name": f"phase-{n}", "load": load} for n in range(phases)])
    running.records.plan_phase(0)
    calls, done = 0, False
    while not done:
        answer = running.check()
        calls, done = calls + 1, answer.done
        running.clock.advance(max(0, round(answer.next_at.timestamp() * SECOND_NS) - running.clock.now_ns()))
    assert calls * phases <= running.plan.most_checks(aborts=True)
    assert running.plan.most_checks(aborts=True) <= max(30, phases) + phases
    assert running.plan.most_checks(aborts=False) == 0


def test_checks_of_thresholds_are_in_history_and_costs() -> None:
    """They are calls of a function, and states of a machine, like looks at a quantile."""
    assert history_events(small_plan(), aborts=True) > history_events(small_plan())
    (quiet,), (asked,) = (expand(small_run(abort_on_fail=aborts), "run-1") for aborts in (False, True))
    assert asked.estimate_usd > quiet.estimate_usd
    assert check_budget(small_run(abort_on_fail=True)) > check_budget(small_run(abort_on_fail=False))


def test_a_trial_whose_history_has_no_room_for_checks_is_refused() -> None:
    """Without abort_on_fail it fits: the remedy says so."""
    load = [{"rate_per_s": 1, "duration_s": 10}]
    until = {"relative_width": 0.1, "max_events": 100}
    phases = [{"name": f"phase-{n}", "load": load, "until": until} for n in range(80)]
    trial = {"target": {"store": "s3"}, "phases": phases, "drain_limit_s": 80}
    plan = {"name": "plan", "trials": [trial]}
    Plan.model_validate(plan)
    with pytest.raises(ValidationError, match=r"one execution's history.*without abort_on_fail"):
        Plan.model_validate({**plan, "abort_on_fail": True})


def small_run(*, abort_on_fail: bool) -> Plan:
    """Return a plan of one trial."""
    trials = [{"target": {"store": "s3"}, "phases": PHASES}]
    return Plan.model_validate({"name": "plan", "trials": trials, "abort_on_fail": abort_on_fail})


def test_only_a_plan_that_asks_for_it_ends_its_trials() -> None:
    """Closed loops and phases that follow one another without a gap are never ended so."""
    phases = [*PHASES, {"name": "next", "gapless": True, "load": [{"rate_per_s": 1, "duration_s": 10}]}]
    warm = {"name": "warm-up", "measured": False, "load": [{"rate_per_s": 1, "duration_s": 10}]}
    plan = {"name": "plan", "trials": [{"target": {"store": "s3"}, "phases": [warm, *phases]}]}
    (quiet,) = expand(Plan.model_validate(plan), "run-1")
    (asked,) = expand(Plan.model_validate({**plan, "abort_on_fail": True}), "run-1")
    assert not any(map(quiet.may_end_early, range(4)))
    assert [asked.may_end_early(number) for number in range(4)] == [False, True, False, False]
    assert asked.abort_on == ("errors < 1 %", "unsent < 1 %")
