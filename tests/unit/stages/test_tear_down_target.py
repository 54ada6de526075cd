from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.samples.services import MemoryServices, stored_trial
from tests.support.fake_clock import FakeClock
from tests.support.memory_driver import MemoryDriver

from stepbench.contracts.documents import Failure
from stepbench.contracts.plan import TrialRef
from stepbench.contracts.tasks import PreparedTarget, RemainingObjects, StateError, TearDownTargetInput, TornDown
from stepbench.errors import TargetUnavailableError
from stepbench.records.storage import layout
from stepbench.stages.leftovers import CALL_LIMIT_S, ENDED
from stepbench.stages.tear_down_target import failure_of, tear_down_target

SECOND_NS = 10**9
BROKEN = StateError(Error="TargetUnavailableError", Cause="no canary")


class Stubborn(MemoryDriver):
    """Takes so many turns to be torn down."""

    def __init__(self, memory: MemoryServices, turns: int) -> None:
        super().__init__(memory.services.clock)
        self._turns = turns

    async def tear_down(self) -> bool:
        """Take one turn."""
        await super().tear_down()
        self._turns -= 1
        return self._turns <= 0


class Scene:
    """A trial that holds its lease."""

    def __init__(self) -> None:
        self.clock = FakeClock(now_ns=1_000 * SECOND_NS)
        self.memory = MemoryServices(self.clock)
        self.table = self.memory.services.table
        self.ref: TrialRef = stored_trial(self.memory.services)
        self.table.take_lease("s3#target", self.ref, "arn:one", 1)
        self.table.set_flag(self.ref.tag, layout.PREPARED_FLAG, "s3#target")

    def done(self, driver: MemoryDriver, failure: StateError | None = None) -> bool:
        """Call the stage once."""
        task = TearDownTargetInput(ref=self.ref, failure=failure or StateError())
        return tear_down_target(task, self.memory.services, build=lambda _spec, _settings, _clock: driver).done

    def note_prepared(self) -> None:
        """Note what the trial makes, as PrepareTarget does."""
        prepared = PreparedTarget(target="s3#target", execution_arn="arn:one", names=("things",))
        self.memory.services.runs.put_model(layout.trial_key(self.ref, "made.json"), prepared)

    def beat(self, who: str, **rest: Any) -> None:  # noqa: ANN401 -- attributes
        """Leave a heartbeat, now."""
        item = {"pk": layout.trial_pk(self.ref.tag), "sk": layout.HEARTBEAT + who, "at_ns": self.clock.now_ns(), **rest}
        self.memory.table.put_item(Item=item)


@pytest.fixture
def scene() -> Scene:
    """Return a trial that holds its lease."""
    return Scene()


def test_the_lease_is_released_only_when_nothing_is_left(scene: Scene) -> None:
    """The next trial would find the remains of this one."""
    driver = Stubborn(scene.memory, turns=2)
    assert not scene.done(driver)
    assert scene.table.find_lease("s3#target") is not None
    assert scene.done(driver)
    assert scene.table.find_lease("s3#target") is None
    assert scene.table.leases() == []
    assert list(scene.table.beats(layout.HOLDERS)) == [scene.ref.run_id]  # by which other runs know that it was there


def test_what_was_removed_is_noted_once_nothing_is_left(scene: Scene) -> None:
    """The run's output lists it; a part that is left is not removed."""
    driver = Stubborn(scene.memory, turns=2)

    def noted() -> TornDown | None:
        return scene.memory.services.runs.find_model(layout.trial_key(scene.ref, "removed.json"), TornDown)

    assert not scene.done(driver)
    assert noted() is None
    assert scene.done(driver)
    assert noted() == TornDown(removed=driver.resource_names())


@pytest.mark.parametrize(
    ("reason", "beats", "done"),
    [("stopped by hand", (), False), ("stopped by hand", ("writer#00-0001-0000-00",), True), (ENDED, (), True)],
)
def test_what_has_begun_just_now_in_a_stopped_trial_is_waited_for(
    scene: Scene, reason: str, beats: tuple[str, ...], *, done: bool
) -> None:
    """An invocation by a Map gives no sign of life in its first second, and writes where the tear-down has been."""
    scene.table.mark_started(scene.ref.tag, "00-0001-0000-00")
    scene.table.set_flag(scene.ref.tag, layout.CANCELLED, reason)
    for who in beats:
        scene.beat(who, ended=True)
    assert scene.done(MemoryDriver(scene.clock)) is done


class Holding(Stubborn):
    """Has objects that its first turn removes."""

    async def remaining(self) -> int:
        """Return as many objects as turns."""
        return max(self._turns, 0)


def test_what_executions_have_left_is_counted_before_the_first_of_it_is_removed(scene: Scene) -> None:
    """A later call finds less: its own work is not the executions'."""
    driver = Holding(scene.memory, turns=2)

    def noted() -> RemainingObjects | None:
        return scene.memory.services.runs.find_model(layout.trial_key(scene.ref, "remaining.json"), RemainingObjects)

    assert not scene.done(driver)
    assert noted() == RemainingObjects(objects=2)
    assert scene.done(driver)
    assert noted() == RemainingObjects(objects=2)


def test_tearing_down_twice_does_nothing_the_second_time(scene: Scene) -> None:
    """A retry after the last answer was lost must not touch what the next trial has made."""
    scene.done(MemoryDriver(scene.clock))
    again = MemoryDriver(scene.clock)
    assert scene.done(again)
    assert again.calls == []


def test_a_trial_that_has_lost_its_lease_removes_what_it_has_made(scene: Scene) -> None:
    """Its item was deleted, and nobody else has the target: 450 keys stayed in etcd for ever."""
    scene.note_prepared()
    scene.table.release_lease("s3#target", scene.ref.tag)
    driver = MemoryDriver(scene.clock)
    assert scene.done(driver)
    assert (driver.calls, scene.table.leases(), scene.table.left()) == (["open", "tear_down", "close"], [], [])


def test_what_is_left_in_a_target_that_another_trial_has_by_now_is_put_on_record(scene: Scene) -> None:
    """To remove it now would disturb that trial's measurement."""
    scene.note_prepared()
    scene.table.release_lease("s3#target", scene.ref.tag)
    other = stored_trial(scene.memory.services, run_id="run-2")
    scene.table.take_lease("s3#target", other, "arn:two", 1)
    driver = MemoryDriver(scene.clock)
    assert scene.done(driver)
    (lost,) = scene.table.left()
    assert (driver.calls, lost.tag, lost.execution_arn) == ([], scene.ref.tag, "arn:one")


def test_a_target_that_another_trial_holds_is_not_touched(scene: Scene) -> None:
    """That is how a trial ends which found its target busy."""
    scene.ref = stored_trial(scene.memory.services, run_id="run-2")
    driver = MemoryDriver(scene.clock)
    assert scene.done(driver, StateError(Error="TargetBusyError", Cause="leased"))
    assert driver.calls == []
    lease = scene.table.find_lease("s3#target")
    assert lease is not None
    assert lease.run_id == "run-1"


def test_a_failed_trial_stops_its_writers_first_and_keeps_the_reason(scene: Scene) -> None:
    """A failing load branch does not stop the children of its Map."""
    assert scene.done(MemoryDriver(scene.clock), BROKEN)
    assert scene.table.flag(scene.ref.tag, layout.CANCELLED) == "the trial failed: TargetUnavailableError"
    assert scene.memory.failure_of(scene.ref) == Failure(error="TargetUnavailableError", cause="no canary")


def test_a_bucket_that_takes_nothing_does_not_keep_the_lease(scene: Scene) -> None:
    """The next trial would wait for a target that nobody uses; the execution itself says why it failed."""

    def deny(**_: object) -> None:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": ""}}, "PutObject")

    scene.memory.bucket.put_object = deny  # type: ignore[method-assign]
    assert scene.done(MemoryDriver(scene.clock), BROKEN)
    assert scene.table.leases() == []
    assert scene.memory.failure_of(scene.ref) is None


def test_what_comes_after_a_good_trial_is_turned_away(scene: Scene) -> None:
    """A task whose execution was stopped while it was in a cold start would write what nobody removes."""
    driver = Stubborn(scene.memory, turns=1)
    flags: list[str | None] = []
    tear_down = driver.tear_down

    async def look_and_tear_down() -> bool:
        flags.append(scene.table.flag(scene.ref.tag, layout.CANCELLED))
        return await tear_down()

    driver.tear_down = look_and_tear_down  # type: ignore[method-assign]
    assert scene.done(driver)
    assert flags == [ENDED]
    assert scene.memory.failure_of(scene.ref) is None


def test_the_first_reason_for_cancelling_stands(scene: Scene) -> None:
    """Ctrl-C makes the trial fail; that it failed is not why it was stopped."""
    scene.table.set_flag(scene.ref.tag, layout.CANCELLED, "Ctrl-C")
    scene.done(MemoryDriver(scene.clock), BROKEN)
    assert scene.table.flag(scene.ref.tag, layout.CANCELLED) == "Ctrl-C"


def test_nothing_is_removed_under_a_living_writer(scene: Scene) -> None:
    """It would write on into the next trial's store, or into none."""
    driver = MemoryDriver(scene.clock)

    class Beating(FakeClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            scene.beat("writer#00-0000-0000-00")

    beating = Beating(scene.clock.now_ns())
    scene.clock = beating
    scene.memory = MemoryServices(beating)
    scene.table = scene.memory.services.table
    stored_trial(scene.memory.services)
    scene.table.take_lease("s3#target", scene.ref, "arn:one", 1)
    scene.beat("writer#00-0000-0000-00")
    assert not scene.done(driver, BROKEN)
    assert (driver.calls, beating.now_ns()) == ([], (1_000 + CALL_LIMIT_S) * SECOND_NS)


def test_a_writer_silent_for_five_seconds_is_gone(scene: Scene) -> None:
    """A killed one says no farewell."""
    scene.beat("writer#00-0000-0000-00")
    assert scene.done(MemoryDriver(scene.clock))
    assert scene.clock.now_ns() == 1_005 * SECOND_NS


def test_a_writer_that_has_ended_is_not_waited_for(scene: Scene) -> None:
    """The usual case, and half a minute saved per trial."""
    scene.beat("writer#00-0000-0000-00", ended=True)
    scene.beat("watcher#0", ended=True)
    assert scene.done(MemoryDriver(scene.clock))
    assert scene.clock.slept_s == []


def test_an_unreachable_store_keeps_the_lease_for_the_sweeper(scene: Scene) -> None:
    """A store that could not be emptied is still somebody's."""
    with pytest.raises(TargetUnavailableError):
        scene.done(MemoryDriver(scene.clock, unavailable=True))
    assert scene.table.find_lease("s3#target") is not None


def test_failures_after_the_measurement_are_failures_too() -> None:
    """The first one wins; nothing at all is success."""
    assert failure_of(StateError()) is None
    later = StateError(analyse_trial={"Error": "AccountingError", "Cause": "books"}, export_records={"Error": "x"})
    assert failure_of(later) == Failure(error="AccountingError", cause="books")
    both = StateError(Error="States.Timeout", Cause="slow", collect_logs={"Error": "x", "Cause": "y"})
    assert failure_of(both) == Failure(error="States.Timeout", cause="slow")


class Dead(MemoryDriver):
    """Its store does not answer."""

    async def tear_down(self) -> bool:
        """Find nobody."""
        message = "etcd at 127.0.0.1:1: connect: refused"
        raise TargetUnavailableError(message)


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (None, Failure(error="TargetUnavailableError", cause="etcd at 127.0.0.1:1: connect: refused")),
        (BROKEN, Failure(error="TargetUnavailableError", cause="no canary")),
    ],
)
def test_a_target_that_cannot_be_torn_down_leaves_an_account(failure: StateError | None, told: Failure) -> None:
    """The report would send its reader to an execution that is gone; what failed first stands."""
    scene = Scene()
    with pytest.raises(TargetUnavailableError):
        scene.done(Dead(scene.clock), failure)
    stored = scene.memory.services.runs.get_model(layout.trial_key(scene.ref, "failure.json"), Failure)
    assert stored == told
    assert scene.table.find_lease("s3#target") is not None
