from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from tests.samples.records import REF, writer_item
from tests.samples.services import MemoryServices
from tests.support.fake_clock import START_NS, FakeClock
from tests.support.memory_driver import MemoryDriver

from stepbench.contracts import trial as plans
from stepbench.contracts.findings import SlowSpells
from stepbench.contracts.phase import PhaseSchedule
from stepbench.contracts.plan import TrialPlan, TrialSpec
from stepbench.contracts.result import TrialResult, TrialSummary
from stepbench.contracts.tasks import AnalyseTrialInput, RunWriterInput, RunWriterOutput, StateError
from stepbench.contracts.workload import Kind
from stepbench.errors import TrialCancelledError
from stepbench.load.timer import LoopTimer
from stepbench.model.request import ConnectionParts, Outcome
from stepbench.records.formats.columns import UNSENT
from stepbench.records.join.joined import Joined
from stepbench.records.join.reader import TrialRecords, read_records
from stepbench.records.join.sent import UNRECORDED
from stepbench.records.join.trial import account
from stepbench.records.storage import layout
from stepbench.stages.analyse_trial import analyse_trial
from stepbench.stages.run_writer import Bench, run_writer

MS = 1_000_000
SECOND_NS = 1_000_000_000
STARTS_NS = START_NS + 5 * SECOND_NS


@dataclass
class Trial:
    """Clients of two writers on a store in memory that answers after 1 ms, for 2 s unless told otherwise."""

    phase: dict[str, Any] = field(default_factory=lambda: {"closed": {"clients": 3, "duration_s": 2, "think_ms": 9}})
    mix: dict[str, float] = field(default_factory=lambda: {"read": 1, "insert": 1})
    writers: int = 2
    plan_fields: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.memory = MemoryServices(FakeClock())
        runs = self.memory.services.runs
        runs.put_model(layout.trial_key(REF, "trial.json"), self.spec)
        runs.put_model(layout.phase_key(REF, 0, "plan.json"), PhaseSchedule(start_at_ns=STARTS_NS))

    @property
    def spec(self) -> TrialSpec:
        """Return the specification, as it is stored."""
        fields = {
            "experiment": "operations",
            "target": {"store": "redis"},
            "workload": {"mix": self.mix},
            "phases": [{"name": "load", **self.phase}],
            "writers": self.writers,
            **self.plan_fields,
        }
        plan = TrialPlan.model_validate(fields)
        return TrialSpec(run_id=REF.run_id, index=0, name="redis", tag=REF.tag, plan=plan, estimate_usd=0)

    def write(
        self,
        writer: int = 0,
        attempt: int = 0,
        at_s: float = -5,
        **store: Any,  # noqa: ANN401 -- as MemoryDriver's
    ) -> tuple[RunWriterOutput, MemoryDriver]:
        """Make one attempt, which begins so long after the phase."""
        clock = FakeClock(STARTS_NS + round(at_s * SECOND_NS))
        driver = MemoryDriver(clock, **{"service_ns": (MS,), **store})
        undisturbed = SlowSpells(looked_s=0.5, share=0, longest_ms=0, spells=0)
        bench = Bench(
            clock=lambda: clock,
            timer=lambda clock, _: LoopTimer(clock),
            run=clock.run,
            check_core=lambda _: undisturbed,
        )
        task = RunWriterInput(item=writer_item(STARTS_NS, writer=writer), attempt=attempt)
        return run_writer(task, self.memory.services, lambda *_: driver, bench), driver

    def records(self) -> TrialRecords:
        """Return all that is left of it."""
        return read_records(self.spec, self.memory.services.runs, self.memory.services.table)

    def joined(self) -> Joined:
        """Join the records of each operation, and check the accounting."""
        joined = self.records().joined
        account(joined, np.ones(joined.outcome.size, dtype=np.bool_))
        return joined

    def analysed(self) -> TrialSummary:
        """Analyse the trial."""
        runs = self.memory.services.runs
        task = AnalyseTrialInput(ref=REF, failure=StateError())
        return runs.get_model(analyse_trial(task, self.memory.services).result_key, TrialResult).summary


def test_each_writer_runs_its_own_clients() -> None:
    """Client c belongs to writer c mod writers: 0 and 2 to the first, 1 to the second, and none twice."""
    trial = Trial()
    first, _ = trial.write(0)
    second, driver = trial.write(1)
    assert {operation.client for operation in driver.offered} == {1}
    joined = trial.joined()
    assert joined.outcome.size == first.ok + second.ok
    by_client = np.bincount(joined.extras["client"])
    assert (by_client.size, by_client.tolist()) == (3, pytest.approx([200, 200, 200], abs=1))
    assert set(joined.extras["client"][joined.grid.writer[joined.slot] == 0].tolist()) == {0, 2}


@pytest.fixture
def trial() -> Trial:
    """Return a trial of one writer."""
    return Trial(writers=1)


def test_kinds_are_recorded_beside_the_times(trial: Trial) -> None:
    """The requests to the store and the records of them agree."""
    _, driver = trial.write()
    joined = trial.joined()
    assert joined.extras["kind"].tolist() == [operation.kind for operation in driver.offered]
    assert set(joined.extras["kind"].tolist()) == {Kind.READ, Kind.INSERT}
    assert (joined.t2_ns - joined.t1_ns == MS).all()


def test_books_of_operations_balance_with_nothing_to_arrive(trial: Trial) -> None:
    """Acknowledged and not arrived is no loss here."""
    trial.write(outcomes={3: Outcome.FAILED, 7: Outcome.UNKNOWN})
    joined = trial.joined()
    accounting = account(joined, np.ones(joined.outcome.size, dtype=np.bool_))
    assert (accounting.failed, accounting.unknown, accounting.unsent, accounting.unrecorded) == (1, 1, 0, 0)
    assert accounting.offered == accounting.sent == accounting.ok + 2
    assert (accounting.lost, accounting.received, accounting.awaited) == (0, 0, False)
    assert not joined.expected.any()
    assert np.count_nonzero(joined.acknowledged) == accounting.ok


def test_pointers_expect_no_arrivals(trial: Trial) -> None:
    """Live progress would wait for them."""
    trial.write()
    assert {file.expected for file in trial.memory.services.table.files(REF.tag)} == {0}


def test_a_second_attempt_offers_other_operations_from_now_to_the_end(trial: Trial) -> None:
    """The first died after a second: its inserts are there, and inserting them again would be refused."""
    _, first = trial.write()
    second, again = trial.write(attempt=1, at_s=1)
    inserted = [{each.key for each in one.offered if each.kind is Kind.INSERT} for one in (first, again)]
    assert not inserted[0] & inserted[1]
    joined = trial.joined()
    later = joined.attempt == 1
    assert np.count_nonzero(later) == second.ok == pytest.approx(300, abs=3)
    assert joined.t0_ns[later].min() >= STARTS_NS + SECOND_NS
    assert (joined.sequence[later].tolist(), joined.sent_twice) == (list(range(second.ok)), 0)


def test_what_a_dead_attempt_had_begun_and_not_recorded_is_unrecorded(trial: Trial) -> None:
    """Its last sign of life says 250; its files have what there is; a second attempt follows."""
    trial.write()
    table, runs = trial.memory.services.table, trial.memory.services.runs
    recorded = trial.joined().outcome.size
    last = table.files(REF.tag)[-1]
    del trial.memory.bucket.objects[last.key]
    table.beat(REF.tag, f"writer#{layout.attempt_id(0, 0, 0, 0)}", {"planned": recorded + 20})
    trial.write(attempt=1, at_s=1)
    joined = trial.joined()
    first = joined.attempt == 0
    assert runs.find_bytes(last.key) is None
    assert np.count_nonzero(first) == recorded + 20
    assert set(joined.outcome[first & (joined.t1_ns == 0)].tolist()) == {UNRECORDED}
    assert np.count_nonzero(joined.outcome == UNRECORDED) == last.rows + 20
    assert joined.t0_ns.min() >= STARTS_NS


def test_a_cancelled_trial_keeps_what_it_measured() -> None:
    """Nobody knows what would have been offered, so nothing of it is unsent."""
    trial = Trial(phase={"closed": {"clients": 3, "duration_s": 20, "think_ms": 9}}, writers=1)
    table = trial.memory.services.table
    beat = table.beat

    def cancel(tag: str, who: str, progress: dict[str, int], **more: object) -> None:
        beat(tag, who, progress, **more)
        if progress["sent"] >= 200:
            table.set_flag(REF.tag, layout.CANCELLED, "Ctrl-C")

    table.beat = cancel  # type: ignore[method-assign]
    with pytest.raises(TrialCancelledError, match="stopped after"):
        trial.write()
    joined = trial.joined()
    assert 200 <= joined.outcome.size < 1_500
    assert set(joined.outcome.tolist()) == {Outcome.OK}


def test_a_number_of_operations_ends_the_load_and_the_window_with_the_last_answer() -> None:
    """20 operations of 4 clients at 10 ms each are over after some 50 ms; over 60 s, their rate would be none."""
    trial = Trial(phase={"closed": {"clients": 4, "duration_s": 60, "operations": 20, "think_ms": 0}}, writers=2)
    for writer in (0, 1):
        assert trial.write(writer, service_ns=(10 * MS,))[0].ok == 10
    assert trial.records().offered_s(0) == pytest.approx(0.05)


def test_no_more_rows_than_the_analysis_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that answers in microseconds, and clients without a pause."""
    monkeypatch.setattr(plans, "MOST_OPERATIONS", 300)
    trial = Trial(phase={"closed": {"clients": 4, "duration_s": 60}}, writers=2)
    assert [trial.write(writer)[0].ok for writer in (0, 1)] == [150, 150]
    assert trial.records().at_most_rows(0)
    assert trial.records().offered_s(0) == pytest.approx(0.075)


def test_windows_end_with_the_rows_that_a_trial_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """300 operations of 4 clients at 1 ms are over after 75 ms: over a window's 20 s, their rate would be none."""
    monkeypatch.setattr(plans, "MOST_OPERATIONS", 300)
    windows = [{"name": "first", "from_s": 0, "to_s": 20}, {"name": "rest", "from_s": 20, "to_s": 60}]
    trial = Trial(phase={"closed": {"clients": 4, "duration_s": 60}, "windows": windows})
    for writer in (0, 1):
        trial.write(writer)
    summary = trial.analysed()
    (first,) = summary.windows
    assert (first.name, round(first.achieved_per_s)) == ("first", 4_000)
    (caveat,) = (each for each in summary.caveats if each.kind == "unsent")
    assert "Cut where its load ended, after 0.1 s: window first. Not reached: window rest." in caveat.text


def test_many_waiting_rows_are_flushed_before_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a fast store fills the writer's memory between two flushes."""
    monkeypatch.setattr("stepbench.load.recorder.GrowingRecorder.__init__.__defaults__", (50, None))
    trial = Trial(writers=1)
    output, _ = trial.write()
    files = trial.memory.services.table.files(REF.tag)
    assert sum(file.rows for file in files) == output.ok
    assert max(file.rows for file in files) <= 55
    assert trial.joined().outcome.size == output.ok


def test_open_loop_offers_operations_at_their_times_on_few_connections() -> None:
    """100 a second that take 15 ms: two at a time, and one for the next, which is made ahead; of the writer's own."""
    trial = Trial(phase={"load": [{"rate_per_s": 200, "duration_s": 1}]}, writers=2)
    for writer in (0, 1):
        assert trial.write(writer, service_ns=(15 * MS,))[0].ok == 100
    joined = trial.joined()
    assert (joined.t1_ns == joined.t0_ns).all()
    for writer in (0, 1):
        own = joined.grid.writer[joined.slot] == writer
        assert set(joined.extras["client"][own].tolist()) == {writer, writer + 2, writer + 4}
    assert set(joined.extras["kind"].tolist()) == {Kind.READ, Kind.INSERT}


def test_open_loop_never_has_two_operations_on_one_connection() -> None:
    """A driver has one connection a client."""
    trial = Trial(phase={"load": [{"rate_per_s": 1_000, "duration_s": 0.1}]}, writers=1)
    trial.write(service_ns=(20 * MS, 5 * MS, 30 * MS, MS))
    joined = trial.joined()
    for client in np.unique(joined.extras["client"]).tolist():
        own = np.nonzero(joined.extras["client"] == client)[0]
        own = own[np.argsort(joined.t1_ns[own])]
        assert (joined.t1_ns[own][1:] >= joined.t2_ns[own][:-1]).all()


def test_open_loop_accounts_for_operations_that_it_came_too_late_for() -> None:
    """The rule is that of triggers."""
    trial = Trial(phase={"load": [{"rate_per_s": 10, "duration_s": 3}]}, writers=1)
    output, _ = trial.write(at_s=1)
    assert (output.ok, output.unsent) == (20, 10)
    joined = trial.joined()
    assert np.count_nonzero(joined.outcome == UNSENT) == 10


@pytest.mark.parametrize(
    "phase", [{"closed": {"clients": 1, "duration_s": 1}}, {"load": [{"rate_per_s": 10, "count": 10}]}]
)
def test_what_connecting_took_and_retries_are_kept(phase: dict[str, Any]) -> None:
    """Connection reuse off: the report splits the time."""
    trial = Trial(phase=phase, writers=1)
    trial.write(connecting=ConnectionParts(300, 200, 100, 400), retries={1: 3})
    joined = trial.joined()
    assert (set(joined.extras["connect_ns"].tolist()), set(joined.extras["operate_ns"].tolist())) == ({300}, {400})
    assert joined.extras["retries"].tolist()[:3] == [0, 3, 0]


@pytest.mark.parametrize(
    ("phase", "n", "per_s"),
    [
        ({"closed": {"clients": 3, "duration_s": 2, "think_ms": 9}}, 600, 300),
        ({"closed": {"clients": 3, "duration_s": 60, "operations": 600}}, 600, 3_000),
        ({"load": [{"rate_per_s": 100, "duration_s": 3}]}, 300, 100),
    ],
)
def test_a_trial_of_operations_is_analysed_as_any_other(phase: dict[str, Any], n: int, per_s: float) -> None:
    """Answers take 1 ms: rates are over the time in which load was offered, and nothing is missing or lost."""
    trial = Trial(phase=phase)
    for writer in (0, 1):
        trial.write(writer)
    summary = trial.analysed()
    (window,) = summary.windows
    assert window.n == pytest.approx(n, abs=3)
    assert window.achieved_per_s == pytest.approx(per_s, rel=0.01)
    assert window.latency_ms.p50.value == pytest.approx(1)
    assert {caveat.kind for caveat in summary.caveats} <= {"missing_logs", "short_sample"}


def test_a_writer_of_closed_loop_that_never_came_is_missed() -> None:
    """Nothing was scheduled for it, so no event is; the load was less than planned all the same."""
    trial = Trial()
    trial.write(0)
    assert "missing_writer" in {caveat.kind for caveat in trial.analysed().caveats}


def test_the_connections_of_the_load_are_made_before_the_barrier() -> None:
    """Only here: the stages that prepare and clear up open a driver, too, and leave the places to the load."""
    _, driver = Trial().write()
    assert driver.calls == ["open", "warm_up", "close"]
