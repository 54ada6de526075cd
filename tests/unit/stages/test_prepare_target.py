from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from stepbench.contracts.tasks import PrepareTargetInput, PrepareTargetOutput, TrialRef
from stepbench.drivers.aws_access import AwsAccess
from stepbench.errors import TargetBusyError, TargetUnavailableError, TrialCancelledError
from stepbench.records import layout
from stepbench.stages.prepare_target import READY_LIMIT_S, is_emulated, prepare_target
from stepbench.testing.fake_clock import FakeClock
from stepbench.testing.memory_driver import MemoryDriver
from stepbench.testing.memory_services import MemoryServices
from stepbench.testing.trials import small_plan, stored_trial


def prepare(memory: MemoryServices, ref: TrialRef, driver: MemoryDriver) -> PrepareTargetOutput:
    """Run the stage with this driver."""
    task = PrepareTargetInput(ref=ref, execution_arn="arn:one")
    return prepare_target(task, memory.services, build=lambda _spec, _settings, _clock: driver)


def test_the_store_is_prepared_under_a_lease_and_closed() -> None:
    """Two trials on one store would measure each other; a connection left open would warm the next trial's."""
    memory = MemoryServices()
    ref = stored_trial(memory.services)
    driver = MemoryDriver(memory.services.clock, ready_after=2)
    prepare(memory, ref, driver)
    assert driver.calls == ["open", "prepare", "ready", "ready", "ready", "close"]
    lease = memory.services.table.find_lease("s3#target")
    assert lease is not None
    assert (lease.tag, lease.run_id, lease.trial, lease.execution_arn) == (ref.tag, "run-1", 0, "arn:one")


def test_delivery_gets_ten_minutes_on_aws_and_two_on_an_emulator() -> None:
    """A new S3 notification may take minutes to act; a laptop's user would rather know soon."""
    for emulator, limit_s in (("", 600), ("MiniStack", 120)):
        clock = FakeClock(now_ns=1_000_000 * 10**9)
        memory = MemoryServices(clock, emulator=emulator)
        output = prepare(memory, stored_trial(memory.services), MemoryDriver(clock))
        assert output.ready_by == datetime.fromtimestamp(1_000_000 + limit_s, UTC)


def test_a_batching_window_is_waited_for() -> None:
    """With it, not even the first canary can arrive sooner."""
    clock = FakeClock(now_ns=0)
    memory = MemoryServices(clock)
    ref = stored_trial(memory.services, small_plan("dynamodb", target={"batching_window_s": 300}))
    assert prepare(memory, ref, MemoryDriver(clock)).ready_by == datetime.fromtimestamp(900, UTC)


@pytest.mark.parametrize(("store", "lanes"), [("s3", ()), ("dynamodb", ()), ("postgresql", ()), ("etcd", (0, 1))])
def test_pull_triggers_get_two_watcher_lanes_and_push_triggers_none(store: str, lanes: tuple[int, ...]) -> None:
    """The watch branch is a Map over them."""
    memory = MemoryServices()
    output = prepare(memory, stored_trial(memory.services, small_plan(store)), MemoryDriver(memory.services.clock))
    assert output.lanes == lanes


@pytest.mark.parametrize(
    ("store", "emulator", "noted"),
    [
        ("s3", "MiniStack 1", {"provider": "MiniStack 1", "emulated": True}),
        ("s3", "", {"provider": "memory", "emulated": False}),
        ("etcd", "MiniStack 1", {"provider": "memory", "emulated": False}),
    ],
)
def test_who_serves_the_store_is_noted_and_labelled(store: str, emulator: str, noted: dict[str, object]) -> None:
    """An emulator's latency must never pass for Amazon's."""
    memory = MemoryServices(emulator=emulator)
    ref = stored_trial(memory.services, small_plan(store))
    prepare(memory, ref, MemoryDriver(memory.services.clock))
    assert memory.services.runs.find_json(layout.trial_key(ref, "provider.json")) == noted


def test_a_store_at_an_endpoint_of_its_own_is_not_the_emulator_s() -> None:
    """MinIO is a real S3."""
    settings = MemoryServices(emulator="MiniStack").services.settings
    assert is_emulated(small_plan("s3").target, settings)
    assert not is_emulated(small_plan("s3", target={"endpoint": "http://127.0.0.1:9000"}).target, settings)


def test_a_leased_target_is_not_touched() -> None:
    """Whoever measures there would see it."""
    memory = MemoryServices()
    other = stored_trial(memory.services, run_id="run-2")
    memory.services.table.take_lease("s3#target", other, "arn:two", 1)
    driver = MemoryDriver(memory.services.clock)
    with pytest.raises(TargetBusyError, match="run-2"):
        prepare(memory, stored_trial(memory.services), driver)
    assert driver.calls == []


def test_preparing_again_is_fine() -> None:
    """The state machine retries, and by then this very trial holds the lease."""
    memory = MemoryServices()
    ref = stored_trial(memory.services)
    with pytest.raises(TargetUnavailableError):
        prepare(memory, ref, MemoryDriver(memory.services.clock, unavailable=True))
    prepare(memory, ref, driver := MemoryDriver(memory.services.clock))
    assert "prepare" in driver.calls


def test_a_store_that_is_never_ready_is_given_up_by_name() -> None:
    """Bounded, so that the function does not die of its time-out without a word."""
    clock = FakeClock(now_ns=0)
    memory = MemoryServices(clock)
    driver = MemoryDriver(clock, ready_after=10**6)
    with pytest.raises(TargetUnavailableError, match=f"s3 for trial s3 was not ready within {READY_LIMIT_S} s"):
        prepare(memory, stored_trial(memory.services), driver)
    assert clock.now_ns() == READY_LIMIT_S * 10**9
    assert driver.calls[-1] == "close"


def test_a_trial_cancelled_before_it_began_takes_no_lease() -> None:
    """The sweeper flags children that start while their run is being stopped."""
    memory = MemoryServices()
    ref = stored_trial(memory.services)
    memory.services.table.set_flag(ref.tag, layout.CANCELLED, "Ctrl-C")
    with pytest.raises(TrialCancelledError, match=r"Ctrl-C"):
        prepare(memory, ref, MemoryDriver(memory.services.clock))
    assert memory.services.table.leases() == []


def test_a_trial_cancelled_while_preparing_stops_waiting() -> None:
    """A table may take two minutes to become active."""
    memory = MemoryServices()
    ref = stored_trial(memory.services)

    class Cancelling(MemoryDriver):
        async def ready(self) -> bool:
            memory.services.table.set_flag(ref.tag, layout.CANCELLED, "Ctrl-C")
            return False

    with pytest.raises(TrialCancelledError):
        prepare(memory, ref, Cancelling(memory.services.clock))


def test_a_lease_taken_while_the_run_was_being_stopped_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever stops sets the flag and then looks for leases; stopping an execution does not stop this function."""
    memory = MemoryServices()
    ref = stored_trial(memory.services)
    table = memory.services.table
    take = table.take_lease

    def stopped_just_before(target: str, ref: TrialRef, arn: str, now_ns: int) -> None:
        table.set_flag(ref.tag, layout.CANCELLED, "Ctrl-C")
        take(target, ref, arn, now_ns)

    monkeypatch.setattr(table, "take_lease", stopped_just_before)
    driver = MemoryDriver(memory.services.clock)
    with pytest.raises(TrialCancelledError):
        prepare(memory, ref, driver)
    assert table.leases() == []
    assert driver.calls == []


def test_what_was_made_after_the_sweeper_came_is_removed() -> None:
    """It has torn down and freed the target while this function was still at it: nobody else would come back."""
    memory = MemoryServices()
    ref = stored_trial(memory.services)

    class Slow(MemoryDriver):
        async def prepare(self) -> None:
            memory.services.table.set_flag(ref.tag, layout.CANCELLED, "swept")
            memory.services.table.release_lease("s3#target", ref.tag)
            await super().prepare()

    driver = Slow(memory.services.clock)
    with pytest.raises(TrialCancelledError):
        prepare(memory, ref, driver)
    assert driver.calls == ["open", "prepare", "tear_down", "close"]


@pytest.mark.parametrize(("log_t4", "flag"), [("all", "all"), ("sample", "sample"), ("none", None)])
def test_receivers_are_told_what_to_log_before_the_store_can_deliver(log_t4: str, flag: str | None) -> None:
    """They know a trial only by its tag."""
    memory = MemoryServices()
    ref = stored_trial(memory.services, small_plan(log_t4=log_t4))
    driver = MemoryDriver(memory.services.clock)
    seen: list[str | None] = []
    prepared = driver.prepare

    async def prepare_store() -> None:
        seen.append(memory.services.table.flag(ref.tag, layout.LOG_T4))
        await prepared()

    driver.prepare = prepare_store  # type: ignore[method-assign] # to look at the table at this very moment
    prepare(memory, ref, driver)
    assert seen == [flag]


def test_operations_on_a_watched_store_need_no_watcher() -> None:
    """The trigger of etcd does; a watcher would load the store that is measured."""
    memory = MemoryServices()
    plan = small_plan("etcd", experiment="operations", workload={"mix": {"read": 1}})
    output = prepare(memory, stored_trial(memory.services, plan), MemoryDriver(memory.services.clock))
    assert output.lanes == ()


def test_preloading_is_left_off_when_the_trial_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The target is freed by whoever cancels: minutes of records more would disturb the next trial's measurement."""
    monkeypatch.setattr("stepbench.stages.prepare_target.LOOK_S", 0.001)
    memory = MemoryServices()
    ref = stored_trial(memory.services)
    driver = _Preloading(memory.services.clock)
    driver.begun = lambda: memory.services.table.set_flag(ref.tag, layout.CANCELLED, "Ctrl-C")
    with pytest.raises(TrialCancelledError, match=r"Ctrl-C"):
        prepare(memory, ref, driver)
    assert driver.calls[-2:] == ["tear_down", "close"]


class _Preloading(MemoryDriver):
    """Never comes to its end."""

    begun: Callable[[], None]

    async def prepare(self) -> None:
        self.begun()
        await asyncio.get_running_loop().create_future()


def test_a_table_that_is_just_being_made_is_removed_after_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweeper saw none and freed the target; removed before it is there, the table would stay for ever."""
    monkeypatch.setattr("stepbench.stages.prepare_target.LOOK_S", 0.001)
    memory = MemoryServices()
    ref = stored_trial(memory.services, small_plan("dynamodb"))
    driver = _Making(memory.services.clock)
    driver.access = AwsAccess("dynamodb", memory.services.trial(ref), memory.services.settings, memory.services.clock)
    driver.begun = lambda: memory.services.table.set_flag(ref.tag, layout.CANCELLED, "swept")
    with pytest.raises(TrialCancelledError, match="swept"):
        prepare(memory, ref, driver)
    assert driver.calls == ["open", "prepare", "table made", "tear_down", "close"]


class _Making(MemoryDriver):
    """Its table is there some milliseconds after it was told to stop."""

    access: AwsAccess
    begun: Callable[[], None]

    async def prepare(self) -> None:
        await super().prepare()
        preparing = asyncio.current_task()
        assert preparing is not None

        def create_table() -> None:
            self.begun()
            while not preparing.cancelling():
                time.sleep(0.001)
            time.sleep(0.005)
            self.calls.append("table made")

        await self.access.call(create_table)
