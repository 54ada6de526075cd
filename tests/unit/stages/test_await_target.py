from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from tests.samples.records import t4_item
from tests.samples.services import MemoryServices, small_plan, stored_trial
from tests.support.fake_clock import FakeClock
from tests.support.memory_driver import MemoryDriver

from stepbench.contracts.identity import CANARY_PHASE, parse_event_id
from stepbench.contracts.plan import TrialRef
from stepbench.contracts.tasks import AwaitTargetInput
from stepbench.contracts.transfer.plan import TransferTrial
from stepbench.contracts.workload import Kind
from stepbench.drivers.preload import PRELOAD_WRITER
from stepbench.errors import TargetUnavailableError, TargetUnreachableError, TrialCancelledError
from stepbench.model.request import Outcome, Request, Result
from stepbench.records.formats.t4 import Entry
from stepbench.records.storage import layout
from stepbench.stages.await_target import (
    CALL_LIMIT_S,
    REFUSED_AGAIN_LIMIT_S,
    REFUSED_LIMIT_S,
    SPREADING_S,
    arrived_canaries,
    await_target,
)
from stepbench.stages.prepare_target import DELIVERY_LIMIT_S, EMULATED_DELIVERY_LIMIT_S
from stepbench.stages.target_driver import note_unreached

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialPlan

SECOND_NS = 10**9
NOW_S = 1_000_000


class Delivering(MemoryDriver):
    """A store whose trigger works: each write's t4 item appears, except for those lost, by order."""

    def __init__(
        self, memory: MemoryServices, lost: range = range(0), outcomes: dict[int, Outcome] | None = None
    ) -> None:
        super().__init__(memory.services.clock, outcomes=outcomes)
        self._table = memory.services.table
        self._lost = lost

    async def serve(self, request: Request) -> Result:
        """Write, and deliver."""
        number = len(self.offered)
        written = await super().serve(request)
        if number not in self._lost and written.outcome is Outcome.OK:
            arrive(self._table.put_t4, request, written.t2_ns)
        return written


def arrive(put_t4: object, write: Request, t4_ns: int) -> None:
    """Record the arrival as a receiver does."""
    event = parse_event_id(write.key if write.kind is Kind.DELETE else write.value.decode())
    assert event is not None
    entry = Entry(event.phase, event.attempt, event.writer, event.slice, 0, event.sequence, t4_ns)
    assert callable(put_t4)
    put_t4(event.tag, f"request-{event.sequence}", t4_ns, t4_item([entry]))


class Scene:
    """A trial whose target is to be awaited, at second `NOW_S`, until a minute later."""

    def __init__(self, plan: TrialPlan | None = None, emulator: str = "", **aws: object) -> None:
        self.clock = FakeClock(now_ns=NOW_S * SECOND_NS)
        self.memory = MemoryServices(self.clock, aws, emulator=emulator)
        self.ref: TrialRef = stored_trial(self.memory.services, plan)

    def ready(self, driver: MemoryDriver, ready_by_s: float = NOW_S + 60) -> bool:
        """Call the stage once."""
        task = AwaitTargetInput(ref=self.ref, ready_by=datetime.fromtimestamp(ready_by_s, UTC))
        return await_target(task, self.memory.services, build=lambda _spec, _settings, _clock: driver).ready

    def beat(self, who: str, age_s: float, *, ended: bool = False) -> None:
        """Leave a heartbeat of that age."""
        item = {"at_ns": self.clock.now_ns() - int(age_s * SECOND_NS), "progress": {}, "ended": ended}
        self.memory.table.put_item(Item={"pk": layout.trial_pk(self.ref.tag), "sk": layout.HEARTBEAT + who, **item})

    def waited_s(self) -> float:
        """Return how long the call took."""
        return self.clock.now_ns() / SECOND_NS - NOW_S


def operations(records: int, mix: dict[str, int] | None = None) -> TrialPlan:
    """Return a trial of operations on Redis."""
    workload = {"records": records, "mix": mix or {"read": 1}}
    return small_plan("redis", experiment="operations", workload=workload)


@pytest.fixture
def scene() -> Scene:
    """Return a trial whose trigger is to be proved."""
    return Scene()


def test_three_canaries_in_a_row_prove_the_trigger(scene: Scene) -> None:
    """One may have been luck: S3 and event source mappings start unevenly."""
    driver = Delivering(scene.memory)
    assert scene.ready(driver)
    assert (len(driver.offered), driver.calls) == (3, ["open", "close"])


def test_where_lines_name_no_event_each_canary_has_to_bring_one_request_more() -> None:
    """A retry has the request id of the first try, and proves nothing of the canary that is waited for."""
    function = {"name": "orders", "times": "platform", "attempts": 1}
    empty = SimpleNamespace(filter_log_events=lambda **_: {})
    scene = Scene(small_plan("dynamodb", target={"batch_size": 1, "function": function}), logs=empty)
    assert scene.ready(driver := Delivering(scene.memory))
    assert len(driver.offered) == 3
    assert not scene.ready(Delivering(scene.memory, lost=range(1, 10_000, 2)))


def test_a_lost_canary_starts_the_row_again(scene: Scene) -> None:
    """Two, a loss, then three: six sent, and five seconds waited for the one lost."""
    driver = Delivering(scene.memory, lost=range(2, 3))
    assert scene.ready(driver)
    assert len(driver.offered) == 6
    assert 5 <= scene.waited_s() < 5.5


def test_canaries_stand_outside_the_accounting_and_are_all_different() -> None:
    """Puts with an identity of their own phase, also in a trial of updates; padded as the trial's records are."""
    scene = Scene(small_plan("dynamodb", record={"operation": "update", "distinct_keys": 5, "key_bytes": 70}))
    driver = Delivering(scene.memory)
    assert scene.ready(driver)
    events = [parse_event_id(write.key) for write in driver.offered]
    assert {event.phase for event in events if event} == {CANARY_PHASE}
    assert len({event.sequence for event in events if event}) == 3
    assert {(len(write.key), len(write.value)) for write in driver.offered} == {(70, 889)}


def test_a_silent_trigger_ends_the_call_not_the_trial(scene: Scene) -> None:
    """The state machine calls again, until `ready_by`."""
    assert not scene.ready(Delivering(scene.memory, lost=range(1_000)))
    assert CALL_LIMIT_S <= scene.waited_s() < CALL_LIMIT_S + 1


def test_a_refusing_store_is_asked_again_but_not_hammered(scene: Scene) -> None:
    """Ten times a second at most; three refusals delay readiness and nothing else."""
    driver = Delivering(scene.memory, outcomes=dict.fromkeys(range(3), Outcome.FAILED))
    assert scene.ready(driver)
    assert len(driver.offered) == 6
    assert scene.waited_s() >= 0.3


def test_after_ready_by_the_target_is_given_up(scene: Scene) -> None:
    """With the time and with where to look, since this line is the execution's Cause."""
    with pytest.raises(TargetUnavailableError, match=r"s3's trigger by 1970-01-12 13:46:39 UTC: look at ReceiveEvents"):
        scene.ready(Delivering(scene.memory), ready_by_s=NOW_S - 1)


@pytest.mark.parametrize("plan", [small_plan("dynamodb"), operations(1)])
def test_a_target_that_is_given_up_says_what_the_store_answered(plan: TrialPlan) -> None:
    """A missing table is answered with an error, which is what its owner has to know."""
    scene = Scene(plan)
    with pytest.raises(TargetUnavailableError, match=r"UTC \(FAILED, 'refused'\): look at"):
        scene.ready(MemoryDriver(scene.clock, outcomes={0: Outcome.FAILED}), ready_by_s=NOW_S - 1)


@pytest.mark.parametrize("plan", [small_plan("dynamodb"), operations(1)])
def test_a_driver_that_breaks_fails_at_once_and_with_its_cause(plan: TrialPlan) -> None:
    """To ask it again until the limit takes minutes, and tells nobody why."""
    scene = Scene(plan)
    with pytest.raises(KeyError, match="number 0 breaks"):
        scene.ready(MemoryDriver(scene.clock, raising={0}))
    assert scene.waited_s() == 0


def test_a_late_watcher_s_remedy_is_another() -> None:
    """A receiver's log would be empty."""
    scene = Scene(small_plan("etcd"))
    with pytest.raises(TargetUnavailableError, match="look at WatchChanges' log"):
        scene.ready(Delivering(scene.memory), ready_by_s=NOW_S - 1)


def test_a_cancelled_trial_is_not_waited_for(scene: Scene) -> None:
    """Ctrl-C may come in any state."""
    scene.memory.services.table.set_flag(scene.ref.tag, layout.CANCELLED, "Ctrl-C")
    with pytest.raises(TrialCancelledError):
        scene.ready(Delivering(scene.memory))


@pytest.mark.parametrize(("age_s", "ended", "ready"), [(1, False, True), (6, False, False), (1, True, False)])
def test_a_pull_trigger_waits_for_a_living_watcher_first(age_s: float, ended: bool, ready: bool) -> None:  # noqa: FBT001
    """Without one, canaries are lost by design: etcd keeps no queue for anybody."""
    scene = Scene(small_plan("etcd"))
    scene.beat("watcher#1", age_s, ended=ended)
    scene.beat("writer#00-0000-0000-00", 0)
    driver = Delivering(scene.memory)
    assert scene.ready(driver) is ready
    assert (len(driver.offered) == 3) is ready


def test_a_cancelled_trial_is_not_watched_for() -> None:
    """The watcher will not come any more."""
    scene = Scene(small_plan("etcd"))

    class Cancelling(FakeClock):
        def sleep(self, seconds: float) -> None:
            scene.memory.services.table.set_flag(scene.ref.tag, layout.CANCELLED, "Ctrl-C")
            super().sleep(seconds)

    scene.memory = MemoryServices(Cancelling(NOW_S * SECOND_NS))
    stored_trial(scene.memory.services, small_plan("etcd"))
    with pytest.raises(TrialCancelledError):
        scene.ready(Delivering(scene.memory))


def test_with_a_batching_window_the_canaries_share_a_batch() -> None:
    """One after the other, three windows would have to pass, which no call could wait for."""
    scene = Scene(small_plan("dynamodb", target={"batching_window_s": 60}))
    late = MemoryDriver(scene.clock)
    assert not scene.ready(late)
    for write in late.offered:
        arrive(scene.memory.services.table.put_t4, write, scene.clock.now_ns())
    assert len(late.offered) == 3
    assert scene.ready(MemoryDriver(scene.clock))


def test_a_filter_may_hold_canaries_back_so_they_only_have_to_be_taken() -> None:
    """The mapping reads from TRIM_HORIZON: what comes late is not lost."""
    scene = Scene(small_plan("dynamodb", target={"filter": {"dynamodb": {"Keys": {}}}}))
    assert scene.ready(MemoryDriver(scene.clock))
    assert not scene.ready(MemoryDriver(scene.clock, outcomes={1: Outcome.UNKNOWN}))


def test_a_canary_of_deletes_is_written_first_and_then_deleted() -> None:
    """Only the deletion counts: a trigger that fires on writes and not on deletions must not pass for ready."""
    scene = Scene(small_plan(record={"operation": "delete"}))
    driver = Delivering(scene.memory)
    assert scene.ready(driver)
    assert ([write.kind is Kind.DELETE for write in driver.offered], driver.stored) == ([False, True] * 3, {})
    silent = Delivering(scene.memory, lost=range(2, 10_000, 2), outcomes={0: Outcome.FAILED})
    assert not scene.ready(silent, NOW_S + 600)


def test_preloaded_keys_are_no_canaries_of_ours(scene: Scene) -> None:
    """They carry a canary's phase too, and would prove nothing about what is sent now."""
    entries = [Entry(CANARY_PHASE, 0, PRELOAD_WRITER, 0, 0, 7, 1), Entry(0, 0, 0, 0, 1, 8, 1)]
    scene.memory.services.table.put_t4(scene.ref.tag, "request", 1, t4_item(entries))
    assert arrived_canaries(scene.memory.services.trial(scene.ref), scene.memory.services) == set()


def test_operations_are_ready_once_the_last_preloaded_record_can_be_read() -> None:
    """There is no trigger to prove; that all records are there matters, or reads would miss."""
    scene = Scene(operations(50))
    driver = MemoryDriver(scene.clock, outcomes={0: Outcome.FAILED, 1: Outcome.UNKNOWN})
    assert scene.ready(driver)
    assert [operation.kind for operation in driver.offered] == [Kind.READ] * 3
    assert {operation.key for operation in driver.offered} == {driver.offered[0].key}


def test_without_records_a_probe_is_inserted_apart_from_the_workload_s() -> None:
    """Nobody inserts it again: the next probe has another number."""
    scene = Scene(operations(0, {"insert": 1}))
    driver = MemoryDriver(scene.clock, outcomes={0: Outcome.FAILED}, service_ns=(1_000_000,))
    assert scene.ready(driver)
    assert [operation.kind for operation in driver.offered] == [Kind.INSERT] * 2
    assert len({operation.key for operation in driver.offered}) == 2
    assert all(operation.key.startswith(f"{scene.ref.tag}/") for operation in driver.offered)


def test_operations_wait_for_what_was_prepared_and_give_the_call_back_in_time() -> None:
    """The state machine calls again; after `ready_by` it is told what did not work."""
    scene = Scene(operations(1))
    assert not scene.ready(MemoryDriver(scene.clock, ready_after=10_000))
    assert scene.clock.now_ns() <= (NOW_S + CALL_LIMIT_S + 1) * SECOND_NS
    with pytest.raises(TargetUnavailableError, match=r"no probe of redis worked by .* look at whether"):
        scene.ready(MemoryDriver(scene.clock), ready_by_s=NOW_S)


def test_no_watcher_is_waited_for_where_operations_are_measured() -> None:
    """The trigger of etcd is watched, its operations are not."""
    plan = small_plan("etcd", experiment="operations", workload={"records": 1})
    scene = Scene(plan)
    assert scene.ready(MemoryDriver(scene.clock))
    assert not plan.pull


@pytest.mark.parametrize("plan", [small_plan(), operations(1)])
def test_a_store_that_takes_nothing_is_given_up_long_before_its_trigger_would_be(plan: TrialPlan) -> None:
    """A trigger may need ten minutes to become active; a store that answers with errors needs none to do so."""
    scene = Scene(plan)
    refusing = dict.fromkeys(range(10_000), Outcome.FAILED)
    with pytest.raises(TargetUnreachableError, match=rf"nothing for {REFUSED_LIMIT_S} s \(FAILED, 'refused'\)"):
        scene.ready(MemoryDriver(scene.clock, outcomes=refusing))
    assert REFUSED_LIMIT_S <= scene.waited_s() < REFUSED_LIMIT_S + 1 < CALL_LIMIT_S


def test_on_aws_refusals_count_only_when_rights_have_had_a_minute_to_spread(scene: Scene) -> None:
    """Right after a deployment or a change of it, a role may be refused what it is allowed: call after call is made."""
    refusing = MemoryDriver(scene.clock, outcomes=dict.fromkeys(range(10_000), Outcome.FAILED))
    for _ in range(2):
        assert not scene.ready(refusing, ready_by_s=NOW_S + DELIVERY_LIMIT_S)
    with pytest.raises(TargetUnreachableError):
        scene.ready(refusing, ready_by_s=NOW_S + DELIVERY_LIMIT_S)
    assert SPREADING_S + REFUSED_LIMIT_S <= scene.waited_s() < SPREADING_S + REFUSED_LIMIT_S + 1


def test_an_emulator_knows_rights_at_once() -> None:
    """A dead store there should not take a minute."""
    scene = Scene(emulator="MiniStack")
    refusing = MemoryDriver(scene.clock, outcomes=dict.fromkeys(range(10_000), Outcome.FAILED))
    with pytest.raises(TargetUnreachableError):
        scene.ready(refusing, ready_by_s=NOW_S + EMULATED_DELIVERY_LIMIT_S)
    assert REFUSED_LIMIT_S <= scene.waited_s() < REFUSED_LIMIT_S + 1


def test_a_store_that_took_nothing_before_is_given_up_sooner(scene: Scene) -> None:
    """Forty-eight trials would each wait for it."""
    note_unreached(scene.memory.services.trial(scene.ref), "refused", scene.memory.services)
    with pytest.raises(TargetUnreachableError):
        scene.ready(MemoryDriver(scene.clock, outcomes=dict.fromkeys(range(10_000), Outcome.UNKNOWN)))
    assert REFUSED_AGAIN_LIMIT_S <= scene.waited_s() < REFUSED_AGAIN_LIMIT_S + 1


def test_a_store_that_is_not_ready_yet_refuses_nothing() -> None:
    """Nodes that have yet to agree on a schema say so, and are asked for nothing before."""
    scene = Scene(operations(1))
    assert not scene.ready(MemoryDriver(scene.clock, ready_after=10_000))
    assert scene.waited_s() >= CALL_LIMIT_S


def test_transfers_are_ready_however_long_their_files_took() -> None:
    """SeedFiles may take longer than a trigger has to deliver, and has seen every file."""
    memory = MemoryServices(FakeClock(NOW_S * SECOND_NS))
    plan = TransferTrial.model_validate({"experiment": "transfer", "transfers": 1})
    task = AwaitTargetInput(ref=stored_trial(memory.services, plan), ready_by=datetime.fromtimestamp(NOW_S - 1, UTC))
    assert await_target(task, memory.services).ready
