from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.samples.estimates import present
from tests.samples.services import MemoryServices, small_plan, stored_trial
from tests.support.fake_clock import FakeClock
from tests.support.memory_driver import MemoryDriver

from stepbench.contracts.documents import Served
from stepbench.contracts.plan import TrialRef
from stepbench.contracts.tasks import PrepareTargetInput, PrepareTargetOutput, StateError, TearDownTargetInput
from stepbench.drivers.aws import AwsAccess
from stepbench.errors import TargetBusyError, TargetUnavailableError, TargetUnreachableError, TrialCancelledError
from stepbench.records.storage import layout
from stepbench.records.storage.run_store import find_served
from stepbench.records.storage.trial_table import Lease
from stepbench.stages.prepare_target import READY_LIMIT_S, is_emulated_store, prepare_target
from stepbench.stages.target_driver import EMULATED_REACH_LIMIT_S, REACH_LIMIT_S
from stepbench.stages.tear_down_target import tear_down_target
from stepbench_tools.local.processes import wait_until


def stored(**plan: Any) -> tuple[MemoryServices, TrialRef]:  # noqa: ANN401 -- a plan's fields
    """Return a small trial in memory."""
    memory = MemoryServices()
    return memory, stored_trial(memory.services, small_plan(**plan))


def prepare(memory: MemoryServices, ref: TrialRef, driver: MemoryDriver) -> PrepareTargetOutput:
    """Run the stage with this driver."""
    task = PrepareTargetInput(ref=ref, execution_arn="arn:one")
    return prepare_target(task, memory.services, build=lambda _spec, _settings, _clock: driver)


def test_the_store_is_prepared_under_a_lease_and_closed() -> None:
    """Two trials on one store would measure each other; a connection left open would warm the next trial's."""
    memory, ref = stored()
    driver = MemoryDriver(memory.services.clock, ready_after=2)
    prepare(memory, ref, driver)
    assert driver.calls == ["open", "ready", "prepare", "ready", "ready", "close"]
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
        (
            "postgresql",
            "MiniStack 1",
            {
                "provider": "memory, with Lambda of MiniStack 1",
                "emulated": True,
                "stand_ins": {"lambda": "MiniStack 1"},
            },
        ),
        ("postgresql", "", {"provider": "memory", "emulated": False}),
    ],
)
def test_who_serves_the_store_is_noted_and_labelled(store: str, emulator: str, noted: dict[str, object]) -> None:
    """An emulator's latency must never pass for Amazon's; a trial that never got there has no note."""
    memory = MemoryServices(emulator=emulator)
    ref = stored_trial(memory.services, small_plan(store))
    assert find_served(ref, memory.services.runs) is None
    prepare(memory, ref, MemoryDriver(memory.services.clock))
    assert find_served(ref, memory.services.runs) == Served.model_validate(noted)


@pytest.mark.parametrize(("architecture", "arm64"), [("arm64", True), ("x86_64", False)])
def test_the_processor_of_a_copy_is_noted(architecture: str, *, arm64: bool) -> None:
    """It has a price of its own, and the copy is gone when the trial is billed."""

    class Lambda:
        def get_function_configuration(self, **asked: str) -> dict[str, list[str]]:
            assert asked == {"FunctionName": f"stack-measured-{ref.tag}"}
            return {"Architectures": [architecture]}

    memory = MemoryServices(aws={"lambda": Lambda()}, function_prefix="stack")
    ref = stored_trial(memory.services, small_plan("s3", target={"function": {"name": "orders"}}))
    prepare(memory, ref, MemoryDriver(memory.services.clock))

    assert present(find_served(ref, memory.services.runs)).function_arm64 == arm64


def test_a_store_at_an_endpoint_of_its_own_is_not_the_emulator_s() -> None:
    """MinIO is a real S3."""
    settings = MemoryServices(emulator="MiniStack").services.settings
    assert is_emulated_store(small_plan("s3").target, settings)
    assert not is_emulated_store(small_plan("s3", target={"endpoint": "http://127.0.0.1:9000"}).target, settings)


def test_a_leased_target_is_not_touched() -> None:
    """A trial that measures there would see it."""
    held = Held("RUNNING")
    driver = MemoryDriver(held.memory.services.clock)
    with pytest.raises(TargetBusyError, match="run-2"):
        prepare(held.memory, held.ref, driver)
    assert driver.calls == []


def test_preparing_again_is_fine() -> None:
    """The state machine retries, and by then this very trial holds the lease."""
    memory, ref = stored()
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
    assert (clock.now_ns(), driver.calls[-1]) == (READY_LIMIT_S * 10**9, "close")


def test_a_trial_cancelled_before_it_began_takes_no_lease() -> None:
    """The sweeper flags children that start while their run is being stopped."""
    memory, ref = stored()
    memory.services.table.set_flag(ref.tag, layout.CANCELLED, "Ctrl-C")
    with pytest.raises(TrialCancelledError, match=r"Ctrl-C"):
        prepare(memory, ref, MemoryDriver(memory.services.clock))
    assert memory.services.table.leases() == []


def test_a_trial_cancelled_while_preparing_stops_waiting() -> None:
    """A table may take two minutes to become active."""
    memory, ref = stored()

    class Cancelling(MemoryDriver):
        async def ready(self) -> bool:
            memory.services.table.set_flag(ref.tag, layout.CANCELLED, "Ctrl-C")
            return False

    with pytest.raises(TrialCancelledError):
        prepare(memory, ref, Cancelling(memory.services.clock))


def test_a_lease_taken_while_the_run_was_being_stopped_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is stopped by its flag first, and then by its leases; stopping an execution does not stop this function."""
    memory, ref = stored()
    table = memory.services.table
    take = table.take_lease

    def stopped_just_before(target: str, ref: TrialRef, arn: str, now_ns: int) -> None:
        table.set_flag(ref.tag, layout.CANCELLED, "Ctrl-C")
        take(target, ref, arn, now_ns)

    monkeypatch.setattr(table, "take_lease", stopped_just_before)
    driver = MemoryDriver(memory.services.clock)
    with pytest.raises(TrialCancelledError):
        prepare(memory, ref, driver)
    assert (table.leases(), driver.calls) == ([], [])


def test_what_was_made_after_the_sweeper_came_is_removed() -> None:
    """It has torn down and freed the target while this function was still at it: nobody else would come back."""
    memory, ref = stored()

    class Slow(MemoryDriver):
        async def prepare(self) -> None:
            memory.services.table.set_flag(ref.tag, layout.CANCELLED, "swept")
            memory.services.table.release_lease("s3#target", ref.tag)
            await super().prepare()

    driver = Slow(memory.services.clock)
    with pytest.raises(TrialCancelledError):
        prepare(memory, ref, driver)
    assert driver.calls == ["open", "ready", "prepare", "tear_down", "close"]


@pytest.mark.parametrize(("log_t4", "flag"), [("all", "all"), ("sample", "sample"), ("none", None)])
def test_receivers_are_told_what_to_log_before_the_store_can_deliver(log_t4: str, flag: str | None) -> None:
    """They know a trial only by its tag."""
    memory, ref = stored(log_t4=log_t4)
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
    monkeypatch.setattr("stepbench.stages.prepare_target.CANCEL_POLL_S", 0.001)
    memory, ref = stored()
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
    monkeypatch.setattr("stepbench.stages.prepare_target.CANCEL_POLL_S", 0.001)
    memory, ref = stored(store="dynamodb")
    driver = _Making(memory.services.clock)
    driver.access = AwsAccess("dynamodb", memory.services.trial(ref), memory.services.settings, memory.services.clock)
    driver.begun = lambda: memory.services.table.set_flag(ref.tag, layout.CANCELLED, "swept")
    with pytest.raises(TrialCancelledError, match="swept"):
        prepare(memory, ref, driver)
    assert driver.calls == ["open", "ready", "prepare", "table made", "tear_down", "close"]


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
            wait_until("it is told to stop", lambda: preparing.cancelling() > 0, timeout_s=60)
            time.sleep(0.005)
            self.calls.append("table made")

        await self.access.call(create_table)


class OneExecution:
    """Implements as much of a boto3 Step Functions client as is asked about whoever holds a lease."""

    def __init__(self, status: str = "RUNNING") -> None:
        self.status = status

    def describe_execution(self, *, executionArn: str) -> dict[str, str]:  # noqa: N803 -- boto3's
        """Return its status, or fail."""
        if self.status == "unclear":
            raise ClientError({"Error": {"Code": "ThrottlingException", "Message": ""}}, "DescribeExecution")
        return {"status": self.status, "executionArn": executionArn}


class Refusing(MemoryDriver):
    """Answers, and refuses to remove anything, so often."""

    refusals = 1

    async def tear_down(self) -> bool:
        """Refuse."""
        if self.refusals:
            self.refusals -= 1
            message = "s3: 25006 cannot execute DROP SCHEMA in a read-only transaction"
            raise TargetUnavailableError(message)
        return await super().tear_down()


class Held:
    """A target that another run's trial holds, which has made something in it; its execution has this status."""

    def __init__(self, status: str) -> None:
        self.memory = MemoryServices(aws={"stepfunctions": OneExecution(status)})
        self.table = self.memory.services.table
        self.other = stored_trial(self.memory.services, run_id="run-2")
        self.ref = stored_trial(self.memory.services)
        self.table.take_lease("s3#target", self.other, "arn:two", 1)
        self.table.set_flag(self.other.tag, layout.PREPARED_FLAG, "s3#target")

    @property
    def holder(self) -> str:
        """Return the run that holds the target."""
        (lease,) = self.table.leases()
        return lease.run_id


@pytest.mark.parametrize("status", ["FAILED", "ABORTED", "TIMED_OUT", "SUCCEEDED"])
def test_what_an_ended_trial_still_holds_is_torn_down_at_once(status: str) -> None:
    """The sweeper comes by once an hour; who waited for it waited for nothing."""
    held = Held(status)
    prepare(held.memory, held.ref, driver := MemoryDriver(held.memory.services.clock))
    assert driver.calls.index("tear_down") < driver.calls.index("prepare")
    assert held.holder == "run-1"
    assert (held.memory.failure_of(held.other) is not None) == (status != "SUCCEEDED")


@pytest.mark.parametrize("status", ["RUNNING", "unclear"])
def test_what_may_be_measuring_is_not_touched(status: str) -> None:
    """A lease is never taken from anybody on a guess."""
    held = Held(status)
    driver = MemoryDriver(held.memory.services.clock)
    with pytest.raises(TargetBusyError, match="run-2"):
        prepare(held.memory, held.ref, driver)
    assert (driver.calls, held.holder) == ([], "run-2")


def test_who_waits_for_what_cannot_be_removed_yet_is_told_why_and_goes_on_once_it_can() -> None:
    """A server that was read-only is put right while the next run waits."""
    held = Held("FAILED")
    driver = Refusing(held.memory.services.clock)
    with pytest.raises(TargetBusyError):
        prepare(held.memory, held.ref, driver)
    waits_for = held.table.flag(held.ref.tag, layout.WAITING)
    assert waits_for is not None
    assert "trial 1 of run run-2 (it is over; what it left is not removed yet: s3: 25006" in waits_for
    prepare(held.memory, held.ref, driver)
    assert (held.holder, held.table.flag(held.ref.tag, layout.WAITING)) == ("run-1", "")


def test_nobody_waits_for_a_store_that_does_not_answer() -> None:
    """Whoever holds it: there is nothing to measure, as without a lease."""
    held = Held("FAILED")
    with pytest.raises(TargetUnreachableError):
        prepare(held.memory, held.ref, MemoryDriver(held.memory.services.clock, unavailable=True))
    assert held.holder == "run-2"


def test_what_a_trial_of_another_time_has_left_fails_nobody_else() -> None:
    """Its document is gone, so nobody knows what to remove; the next trial has its own work to do."""
    memory, ref = stored()
    memory.services.table.note_left(Lease("s3#target", "gone-0000", "run-9", 0, "arn:two", 1))
    prepare(memory, ref, MemoryDriver(memory.services.clock))
    assert [lease.run_id for lease in memory.services.table.leases()] == ["run-1"]


def test_what_a_trial_without_its_lease_has_left_is_removed_before_the_next_one_measures() -> None:
    """It is on record for whoever comes; a second look finds nothing."""
    memory, ref = stored()
    lost = stored_trial(memory.services, run_id="run-2")
    memory.services.table.set_flag(lost.tag, layout.PREPARED_FLAG, "s3#target")
    memory.services.table.note_left(Lease("s3#target", lost.tag, lost.run_id, 0, "arn:two", 1))
    memory.services.table.note_left(Lease("s3#target-2", lost.tag, lost.run_id, 0, "arn:two", 1))
    prepare(memory, ref, driver := MemoryDriver(memory.services.clock))
    assert driver.calls.count("tear_down") == 1
    assert [left.target for left in memory.services.table.left()] == ["s3#target-2"]


class Scene:
    """Three trials of one run on the same target, on an emulator, with the time from 0 on."""

    def __init__(self, emulator: str = "MiniStack") -> None:
        self.clock = FakeClock(now_ns=0)
        self.memory = MemoryServices(self.clock, aws={"stepfunctions": OneExecution()}, emulator=emulator)
        self.table = self.memory.services.table
        self.refs = [stored_trial(self.memory.services, trial=number) for number in range(3)]

    def driver(self, *, unavailable: bool = False) -> MemoryDriver:
        """Return a store."""
        return MemoryDriver(self.clock, unavailable=unavailable)

    def fail(self, number: int, driver: MemoryDriver) -> str:
        """Prepare a trial in vain, and tear it down as the state machine does; return why."""
        with pytest.raises(TargetUnreachableError) as failed:
            prepare(self.memory, self.refs[number], driver)
        self.tear_down(number, driver, str(failed.value))
        return str(failed.value)

    def tear_down(self, number: int, driver: MemoryDriver, cause: str) -> bool:
        """Tear down a trial whose target was not reached."""
        failure = StateError(Error="TargetUnreachableError", Cause=cause)
        task = TearDownTargetInput(ref=self.refs[number], failure=failure)
        return tear_down_target(task, self.memory.services, build=lambda _spec, _settings, _clock: driver).done


@pytest.mark.parametrize(("emulator", "limit_s"), [("MiniStack", EMULATED_REACH_LIMIT_S), ("", REACH_LIMIT_S)])
def test_a_store_that_does_not_answer_is_asked_for_a_while(emulator: str, limit_s: int) -> None:
    """One that is only just starting is waited for; on AWS it may have to resume first."""
    scene = Scene(emulator=emulator)
    driver = scene.driver(unavailable=True)
    with pytest.raises(TargetUnreachableError, match="told to be unavailable"):
        prepare(scene.memory, scene.refs[0], driver)
    assert scene.clock.now_ns() == (limit_s - 1) * 10**9
    assert driver.calls == ["open", "close"] * limit_s


@pytest.fixture
def scene() -> Scene:
    """Return three trials of one run on the same target."""
    return Scene()


def test_a_store_that_will_not_have_us_is_asked_once(scene: Scene) -> None:
    """A wrong password is as wrong ten seconds later."""

    class Refusing(MemoryDriver):
        async def open(self) -> None:
            message = "WRONGPASS"
            raise TargetUnreachableError(message)

    assert scene.fail(0, Refusing(scene.clock)) == "WRONGPASS"
    assert scene.clock.now_ns() == 0


def test_a_store_that_comes_back_within_the_time_is_used(scene: Scene) -> None:
    """It was started together with the run."""

    class Starting(MemoryDriver):
        async def ready(self) -> bool:
            self.calls.append("ready")
            if self.calls.count("ready") == 1:
                message = "not yet"
                raise TargetUnavailableError(message)
            return True

    driver = Starting(scene.clock)
    prepare(scene.memory, scene.refs[0], driver)
    assert driver.calls == ["open", "ready", "close", "open", "ready", "prepare", "ready", "close"]


def test_a_trial_that_has_made_nothing_gives_its_lease_back_without_the_store(scene: Scene) -> None:
    """The next trial once waited ten minutes for it, and every run after this one."""
    driver = scene.driver(unavailable=True)
    scene.fail(0, driver)
    assert scene.table.leases() == []
    assert "tear_down" not in driver.calls


def test_made_is_noted_before_anything_is(scene: Scene) -> None:
    """A function that is killed in between leaves a table, or nothing; both are torn down."""

    class Killed(MemoryDriver):
        async def prepare(self) -> None:
            assert scene.table.flag(scene.refs[0].tag, layout.PREPARED_FLAG) == "s3#target"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(scene.memory, scene.refs[0], Killed(scene.clock))
    with pytest.raises(TargetUnavailableError):
        scene.tear_down(0, scene.driver(unavailable=True), "killed")
    assert [lease.trial for lease in scene.table.leases()] == [0]


def test_a_sweeper_that_came_before_anything_was_made_keeps_it_from_being_made(scene: Scene) -> None:
    """It has seen no `made`, and freed the target without asking the store."""

    class Slow(MemoryDriver):
        async def ready(self) -> bool:
            scene.table.set_flag(scene.refs[0].tag, layout.CANCELLED, "swept")
            return await super().ready()

    driver = Slow(scene.clock)
    with pytest.raises(TrialCancelledError):
        prepare(scene.memory, scene.refs[0], driver)
    assert driver.calls == ["open", "ready", "close"]


def test_later_trials_on_a_dead_target_look_once_and_say_so(scene: Scene) -> None:
    """Forty-eight of them would each wait for ten seconds."""
    scene.fail(0, scene.driver(unavailable=True))
    before_ns = scene.clock.now_ns()
    causes = [scene.fail(number, scene.driver(unavailable=True)) for number in (1, 2)]
    assert scene.clock.now_ns() == before_ns
    for cause in causes:
        assert cause.count("told to be unavailable") == 2
        assert "did not answer trial 1 of this run (the store in memory" in cause


def test_a_later_trial_uses_a_store_that_has_come_back(scene: Scene) -> None:
    """Its look is a real one."""
    scene.fail(0, scene.driver(unavailable=True))
    prepare(scene.memory, scene.refs[1], driver := scene.driver())
    assert "prepare" in driver.calls


def test_what_another_run_could_not_reach_is_asked_as_ever(scene: Scene) -> None:
    """That was another time."""
    scene.fail(0, scene.driver(unavailable=True))
    other = stored_trial(scene.memory.services, run_id="run-2")
    driver = scene.driver(unavailable=True)
    with pytest.raises(TargetUnreachableError):
        prepare(scene.memory, other, driver)
    assert driver.calls.count("open") == EMULATED_REACH_LIMIT_S


def test_an_earlier_trial_of_the_run_is_torn_down_and_its_lease_taken(scene: Scene) -> None:
    """Its own tear-down found the store away; the machine begins no trial before the last is over."""
    prepare(scene.memory, scene.refs[0], scene.driver())
    driver = scene.driver()
    prepare(scene.memory, scene.refs[1], driver)
    assert driver.calls == ["open", "tear_down", "close", "open", "ready", "prepare", "ready", "close"]
    assert [lease.trial for lease in scene.table.leases()] == [1]
    assert scene.table.flag(scene.refs[0].tag, layout.CANCELLED) == "trial 2 of its run has begun"


def test_an_earlier_trial_that_cannot_be_torn_down_fails_the_later_ones_at_once(scene: Scene) -> None:
    """What it has made is still there, so its lease stays for the sweeper."""
    prepare(scene.memory, scene.refs[0], scene.driver())
    before_ns = scene.clock.now_ns()
    for number in (1, 2):
        cause = scene.fail(number, scene.driver(unavailable=True))
        assert "What trial 1 of this run has made there could not be torn down" in cause
    assert (scene.clock.now_ns(), [lease.trial for lease in scene.table.leases()]) == (before_ns, [0])


def test_a_trial_that_waits_says_for_whom_until_it_has_the_lease(scene: Scene) -> None:
    """Ten minutes without a word look like a hang."""
    other = stored_trial(scene.memory.services, run_id="run-2", trial=1)
    scene.table.take_lease("s3#target", other, "arn:two", 1)
    with pytest.raises(TargetBusyError, match="trial 2 of run run-2"):
        prepare(scene.memory, scene.refs[0], scene.driver())
    assert scene.table.flag(scene.refs[0].tag, layout.WAITING) == "trial 2 of run run-2"
    scene.table.release_lease("s3#target", other.tag)
    prepare(scene.memory, scene.refs[0], scene.driver())
    assert scene.table.flag(scene.refs[0].tag, layout.WAITING) == ""
