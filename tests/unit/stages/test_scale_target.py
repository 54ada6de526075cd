from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.dag_rows import ORIGIN_NS, dag_end
from tests.samples.dags import dataflow_trial, stage
from tests.samples.services import MemoryServices, small_plan, stored_trial
from tests.samples.tuning import BROADCAST, CACHED, confirmation, model
from tests.support.fake_clock import FakeClock
from tests.support.memory_driver import MemoryDriver

from stepbench.contracts.identity import EventId
from stepbench.contracts.phase import PhaseSchedule
from stepbench.contracts.plan import TrialPlan, TrialRef, TrialSpec
from stepbench.contracts.target import configures
from stepbench.contracts.tasks import ScaleTargetInput
from stepbench.contracts.tuning import AppliedConfiguration, EffectiveConfiguration, TuningStep
from stepbench.errors import TargetUnavailableError, TrialCancelledError
from stepbench.records.storage import layout
from stepbench.records.storage.dag_rows import DagRows
from stepbench.stages import tune_store as stage_module
from stepbench.stages.scale_target import SCALE_LIMIT_S, scale_target
from stepbench.stages.target_driver import UNDO_LIMIT_S, UNDO_POLL_S
from stepbench.stages.tune_store import restore_released, tune_store

if TYPE_CHECKING:
    from stepbench.contracts.phase import Scale
    from stepbench.contracts.tuning import CassandraConfiguration
    from stepbench.services import Services

LOAD = [{"rate_per_s": 1, "count": 2}]
PHASES = [
    {"name": "before", "load": LOAD},
    {"name": "after", "load": LOAD, "scale": {"capacity": {"mode": "provisioned", "write_units": 50}}},
]


class Slow(MemoryDriver):
    """Its new capacity is never active."""

    async def scale(self, scale: Scale) -> bool:
        """Ask, and be not there yet."""
        await super().scale(scale)
        return False


class Overtaken(MemoryDriver):
    """Its trial is cancelled while the capacity is being changed; `refusals` calls of tear-down are not enough."""

    def __init__(self, memory: MemoryServices, tag: str, refusals: float) -> None:
        super().__init__(memory.services.clock)
        self.table = memory.services.table
        self.tag = tag
        self.refusals = refusals

    async def scale(self, scale: Scale) -> bool:
        """Change it, in vain."""
        self.table.set_flag(self.tag, layout.CANCELLED, "Ctrl-C")
        return await super().scale(scale)

    async def tear_down(self) -> bool:
        """Be busy at first, as a table that is being updated."""
        self.refusals -= 1
        return await super().tear_down() and self.refusals < 0


class Fixed:
    """A store without any capacity to change; it is opened and closed, and asked for nothing else."""

    async def open(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""


def scale(memory: MemoryServices, ref: TrialRef, driver: Any, phase: int = 1) -> bool:  # noqa: ANN401 -- some driver
    """Call the stage once."""
    task = ScaleTargetInput(ref=ref, phase=phase)
    return scale_target(task, memory.services, build=lambda _spec, _settings, _clock: driver).done


def scene() -> tuple[MemoryServices, TrialRef]:
    """Return a DynamoDB trial whose second phase is scaled."""
    memory = MemoryServices(FakeClock(now_ns=0))
    return memory, stored_trial(memory.services, small_plan("dynamodb", phases=PHASES))


@pytest.mark.parametrize(("phase", "calls"), [(0, []), (1, ["open", "scale to provisioned", "close"])])
def test_the_store_is_asked_for_the_phase_s_capacity_if_it_has_one(phase: int, calls: list[str]) -> None:
    """And the connection is closed again: one to a store that is not scaled would already be a disturbance."""
    memory, ref = scene()
    driver = MemoryDriver(memory.services.clock)
    assert scale(memory, ref, driver, phase=phase)
    assert driver.calls == calls


def test_scaling_is_waited_for_and_given_up_in_the_end() -> None:
    """The limit holds over all calls of the loop, which know nothing of one another."""
    memory, ref = scene()
    assert not scale(memory, ref, Slow(memory.services.clock))
    memory.services.clock.sleep(SCALE_LIMIT_S)
    assert not scale(memory, ref, Slow(memory.services.clock))
    memory.services.clock.sleep(1)
    with pytest.raises(TargetUnavailableError, match=f"did not reach .*write_units=50.* within {SCALE_LIMIT_S} s"):
        scale(memory, ref, Slow(memory.services.clock))
    assert scale(memory, ref, MemoryDriver(memory.services.clock))


def test_a_store_without_capacity_says_so() -> None:
    """Validation refuses such plans; a driver that loses the ability must not pass for scaled."""
    memory, ref = scene()
    with pytest.raises(TargetUnavailableError, match="has no capacity to scale"):
        scale(memory, ref, Fixed())


def test_a_cancelled_trial_is_not_scaled() -> None:
    """Capacity costs money."""
    memory, ref = scene()
    memory.services.table.set_flag(ref.tag, layout.CANCELLED, "Ctrl-C")
    driver = MemoryDriver(memory.services.clock)
    with pytest.raises(TrialCancelledError):
        scale(memory, ref, driver)
    assert driver.calls == []


def test_what_was_scaled_for_a_trial_that_is_to_stop_is_taken_back() -> None:
    """The sweeper may have torn down before the change was made, and nobody would come again."""
    memory, ref = scene()
    driver = Overtaken(memory, ref.tag, refusals=2)
    with pytest.raises(TrialCancelledError, match="Ctrl-C"):
        scale(memory, ref, driver)
    assert driver.calls == ["open", "scale to provisioned", *["tear_down"] * 3, "close"]


def test_taking_back_is_given_up_in_the_end() -> None:
    """The function has 15 minutes, and the hourly sweeper comes again."""
    memory, ref = scene()
    driver = Overtaken(memory, ref.tag, refusals=float("inf"))
    with pytest.raises(TrialCancelledError, match="Ctrl-C"):
        scale(memory, ref, driver)
    assert driver.calls[-1] == "close"
    assert UNDO_LIMIT_S <= memory.services.clock.now_ns() / 1e9 <= UNDO_LIMIT_S + UNDO_POLL_S


MODEL = model(confirmations=(confirmation(CACHED, BROADCAST),)).model_dump(mode="json")
READERS = {"name": "readers", "stages": [stage("make"), stage("read", ("make", "broadcast"), tasks=9)]}
LINE = {"name": "line", "stages": [stage("make"), stage("read", ("make", "gather"))]}
"""Of the one nine of ten requests are reads, of the other one of two."""


class Store:
    """Takes what it is given; `refusals` times it is away."""

    def __init__(self, refusals: int = 0) -> None:
        self.given: list[CassandraConfiguration | None] = []
        self._refusals = refusals

    async def effective(self) -> EffectiveConfiguration:
        """Return a node of round numbers."""
        return EffectiveConfiguration(
            version="5.0.5",
            compaction=("STCS",),
            concurrent_writes=32,
            file_cache_mib=0,
            memtable_cleanup_threshold=0.33,
            concurrent_compactors=2,
        )

    async def apply(self, configuration: CassandraConfiguration | None) -> AppliedConfiguration:
        """Take it, in 20 s."""
        if self._refusals:
            self._refusals -= 1
            message = "it is away"
            raise TargetUnavailableError(message)
        self.given.append(configuration)
        now = await self.effective()
        return AppliedConfiguration(before=now, after=now, changed=("file_cache_mib",), away_s=20)


def trial_of(services: Services, *phases: tuple[str, float], **tuning: Any) -> TrialSpec:  # noqa: ANN401 -- a plan's JSON
    """Store a trial whose phases start one execution a second of a DAG, for so many seconds."""
    plan = TrialPlan.model_validate(
        dataflow_trial(
            target={"store": "cassandra", "tuning": {"model": MODEL, "blob_bytes": {"readers": 65_536}, **tuning}},
            dags=[READERS, LINE],
            phases=[
                {"name": f"{dag}-{at}", "dag": dag, "load": [{"rate_per_s": 1, "duration_s": seconds}]}
                for at, (dag, seconds) in enumerate(phases)
            ],
        )
    )
    return services.trial(stored_trial(services, plan))


def step_of(spec: TrialSpec, phase: int, services: Services) -> TuningStep:
    """Return what is kept of a phase."""
    return services.runs.get_model(layout.phase_key(spec.ref, phase, "tuning.json"), TuningStep)


def test_a_store_is_left_alone_where_nothing_would_be_won() -> None:
    """A phase of 5 s pays for no outage of 20 s; the decision is kept with its numbers all the same."""
    services, store = MemoryServices().services, Store()
    spec = trial_of(services, ("line", 5), ("readers", 5), mode="adaptive")
    assert tune_store(spec, 0, services, store)
    assert tune_store(spec, 1, services, store)
    decided = step_of(spec, 1, services).decision
    assert (decided.phase, decided.dag, decided.new, decided.reconfigure) == ("readers-1", "readers", CACHED, False)
    assert 0 < decided.new_benefit - decided.old_benefit < decided.cost
    assert store.given == [None]  # before the first phase: what an earlier trial may have left is no release


def test_a_long_look_ahead_pays_for_the_restart() -> None:
    """By hand: nearly 300/s instead of 200/s for 600 s, against 20 s of either."""
    services, store = MemoryServices().services, Store()
    spec = trial_of(services, ("readers", 600), mode="adaptive", look_ahead_s=600)
    assert tune_store(spec, 0, services, store)
    assert store.given == [CACHED]
    done = step_of(spec, 0, services).done
    assert done is not None
    assert done.away_s == 20


def test_a_static_store_is_configured_once() -> None:
    """Before the first phase, for all that is to come; later phases do not ask."""
    services, store = MemoryServices().services, Store()
    spec = trial_of(services, ("readers", 5), ("readers", 5), mode="static")
    assert [configures(spec.plan.target, phase) for phase in (0, 1)] == [True, False]
    assert tune_store(spec, 0, services, store)
    assert store.given == [CACHED]


def test_what_is_given_is_taken_in_place_of_the_model_s() -> None:
    """A study of one parameter sets it itself."""
    services, store = MemoryServices().services, Store()
    own = CACHED.model_copy(update={"file_cache_mib": 64})
    assert tune_store(trial_of(services, ("readers", 5), mode="static", settings=own.model_dump()), 0, services, store)
    assert store.given == [own]


def test_what_an_execution_takes_is_learnt_from_those_that_were_made() -> None:
    """By hand: 4 of 100, the last of which ends 20 s after the phase's start: 5 s each, and no time of machines."""
    services, store = MemoryServices().services, Store()
    closed = {"clients": 1, "duration_s": 60}
    plan = dataflow_trial(
        target={"store": "cassandra", "tuning": {"model": MODEL, "mode": "adaptive"}},
        dags=[LINE],
        phases=[
            {"name": "first", "closed": {**closed, "operations": 100}},
            {"name": "second", "settle_s": 10, "closed": {**closed, "operations": 10}},
        ],
    )
    spec = services.trial(stored_trial(services, TrialPlan.model_validate(plan)))
    assert tune_store(spec, 0, services, store)
    services.runs.put_model(layout.phase_key(spec.ref, 0, "plan.json"), PhaseSchedule(start_at_ns=ORIGIN_NS))
    for number in range(4):
        event = EventId(spec.tag, 0, 0, 0, 0, number).text()
        DagRows(services.table).put_end(spec.tag, dag_end(5_000 * (number + 1), event=event, dag="line"))
    services.clock.sleep(90)
    assert tune_store(spec, 1, services, store)
    (coming,) = step_of(spec, 1, services).decision.ahead
    assert coming.duration_s == pytest.approx(10 * 5, rel=0.01)


def test_objects_are_as_large_as_the_model_has_measured_them() -> None:
    """Only the application knows; what the plan says itself goes before it."""
    services, sized = MemoryServices().services, {**MODEL, "blob_bytes": {"readers": 1_000, "line": 2_000}}
    spec = trial_of(services, ("line", 5), ("readers", 5), mode="adaptive", model=sized)
    assert tune_store(spec, 0, services, Store())
    assert [each.workload.blob_bytes for each in step_of(spec, 0, services).decision.ahead] == [2_000, 65_536]


def test_a_store_is_not_restarted_under_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """Executions of the phase before have to end first: their objects are read from it."""
    services, store = MemoryServices().services, Store()
    spec = trial_of(services, ("readers", 600), mode="adaptive", look_ahead_s=600)
    not_yet = type("Seen", (), {"done": False})
    monkeypatch.setattr(stage_module, "await_arrivals", lambda _task, _services: not_yet)
    assert not tune_store(spec, 0, services, store)
    assert store.given == []


def test_a_call_that_is_tried_again_keeps_its_decision() -> None:
    """The state machine retries a store that was away: with the same numbers, and once it is done never again."""
    services, store = MemoryServices().services, Store(refusals=1)
    spec = trial_of(services, ("readers", 600), mode="adaptive", look_ahead_s=600)
    with pytest.raises(TargetUnavailableError):
        tune_store(spec, 0, services, store)
    decided = step_of(spec, 0, services).decision
    services.clock.sleep(5)
    assert tune_store(spec, 0, services, store)
    assert tune_store(spec, 0, services, store)
    assert step_of(spec, 0, services).decision == decided
    assert store.given == [CACHED]


def test_a_store_is_taken_back_if_its_trial_is_cancelled_meanwhile() -> None:
    """The sweeper has seen a released store, and freed it for the next trial."""
    services, store = MemoryServices().services, Store()
    spec = trial_of(services, ("readers", 600), mode="adaptive", look_ahead_s=600)
    services.table.set_flag(spec.tag, layout.CANCELLED, "swept")
    with pytest.raises(TrialCancelledError):
        tune_store(spec, 0, services, store)
    assert store.given == [CACHED, None]


def test_the_store_is_given_back_as_it_is_released() -> None:
    """The next trial on it may be about the released configuration."""
    services, store = MemoryServices().services, Store()
    spec = trial_of(services, ("readers", 5), mode="static")
    restore_released(spec, services, store)
    assert store.given == []  # nothing has been done yet
    tune_store(spec, 0, services, store)
    restore_released(spec, services, store)
    assert store.given == [CACHED, None]
