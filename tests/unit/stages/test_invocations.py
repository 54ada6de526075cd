"""One invocation of a phase with `invoked`: its operations, its record, and what a sandbox keeps for the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.samples.records import REF, trial_spec, writer_item
from tests.samples.services import MemoryServices, fail
from tests.support.fake_clock import START_NS, FakeClock
from tests.support.memory_driver import MemoryDriver

from stepbench.contracts.identity import trial_tag
from stepbench.contracts.phase import Phase
from stepbench.contracts.plan import TrialRef, TrialSpec
from stepbench.contracts.target import PostgresqlTarget
from stepbench.contracts.tasks import RunWriterInput, RunWriterOutput
from stepbench.contracts.workload import InvokedLoad, Mix, Workload
from stepbench.errors import RecordsLostError, TargetUnavailableError, TrialCancelledError
from stepbench.load.timer import LoopTimer
from stepbench.records.formats.columns import UNSENT, ColumnFile, decode
from stepbench.records.storage import layout
from stepbench.records.storage.stored import RetainedRecords, StoredFiles
from stepbench.stages.invocations import InvocationBench, Sandbox, invoke

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.clock import Clock
    from stepbench.services import Services

MS, SECOND_NS = 10**6, 10**9
OTHER = TrialRef(run_id="run-2", trial=0, tag=trial_tag("run-2", 0))


class _Loop:
    """A runner on a clock that a test moves."""

    def __init__(self, clock: FakeClock) -> None:
        self.run = clock.run
        self.closed = False

    def close(self) -> None:
        """Note it."""
        self.closed = True


class _Server(MemoryDriver):
    """Has one connection, which a test may declare dead."""

    dead = True
    connections = 0

    async def warm_up(self) -> None:
        """Make it where it does not live."""
        await super().warm_up()
        self.connections, self.dead = self.connections + self.dead, False


@dataclass
class Function:
    """A function with one sandbox, in front of a store in memory that takes 10 ms an operation."""

    operations: int = 1
    reuse: bool = True
    duration_s: float = 600
    store: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.clock = FakeClock()
        self.behind = MemoryServices(self.clock)
        self.services: Services = self.behind.services
        self.drivers: list[_Server] = []
        self.loops: list[_Loop] = []
        self.sandbox = Sandbox(id="one")
        for ref in (REF, OTHER):
            self.services.runs.put_model(layout.trial_key(ref, "trial.json"), self.spec(ref))

    def spec(self, ref: TrialRef) -> TrialSpec:
        """Return a trial of inserts by six invocations, two at once."""
        load = InvokedLoad(operations=self.operations, duration_s=self.duration_s)
        return trial_spec(
            PostgresqlTarget(store="postgresql"),
            ref=ref,
            experiment="operations",
            workload=Workload(mix=Mix(insert=1), records=0, reuse=self.reuse),
            phases=(Phase(name="measured", invoked=load),),
            writers=6,
            max_concurrency=2,
        )

    def build(self, _spec: TrialSpec, _settings: object, clock: Clock) -> _Server:
        """Return a new driver."""
        self.drivers.append(_Server(clock, **{"service_ns": (10 * MS,), **self.store}))
        return self.drivers[-1]

    def _runner(self) -> _Loop:
        self.loops.append(_Loop(self.clock))
        return self.loops[-1]

    def invoke(self, writer: int = 0, *, attempt: int = 0, ref: TrialRef = REF) -> RunWriterOutput:
        """Make an invocation."""
        item = writer_item(START_NS, ref, writer=writer).model_copy(update={"invoked": True})
        bench = InvocationBench(lambda: self.clock, self._runner, lambda clock, _: LoopTimer(clock))
        task = RunWriterInput(item=item, attempt=attempt)
        return invoke(task, self.services, self.build, bench, self.sandbox)

    def files(self) -> list[ColumnFile]:
        """Return the recorded invocations, as the analysis reads them."""
        retained = RetainedRecords(keep_files=False, keep_items=False)
        return list(StoredFiles(REF, self.services.runs, retained, self.services.table))


def test_an_invocation_does_its_operations_in_a_row_and_ends() -> None:
    """Each is due when it is sent: nothing else says when it should have been."""
    function = Function(operations=3)
    assert function.invoke() == RunWriterOutput(sent=3, ok=3, failed=0, unknown=0, unsent=0)
    (file,) = function.files()
    assert (file.rows.t1_ns - START_NS).tolist() == [0, 10 * MS, 20 * MS]
    assert file.rows.t0_ns.tolist() == file.rows.t1_ns.tolist()
    assert file.header.last


def test_its_rows_are_one_item_of_the_table_with_what_the_invocation_took() -> None:
    """A file in the bucket, and a pointer to it, would take longer than the operation."""
    function = Function()
    function.invoke()
    assert list(function.services.runs.keys(layout.trial_key(REF, "writers/"))) == []
    ((_, body),) = function.services.table.kept_files(REF.tag)
    note = decode("here", body).header.invocation
    assert note is not None
    assert (note.sandbox, note.cold, note.connections, note.acknowledged) == ("one", True, 1, 1)
    assert (note.begin_ns, note.end_ns, note.operating_ns) == (START_NS, START_NS + 10 * MS, 10 * MS)


def test_a_connection_lives_in_the_sandbox_from_one_invocation_to_the_next() -> None:
    """This is reuse: the second is neither the sandbox's first, nor does it connect."""
    function = Function()
    for writer in range(3):
        function.invoke(writer)
    assert len(function.drivers) == 1
    assert function.drivers[0].calls.count("open") == 1
    notes = [file.header.invocation for file in function.files()]
    assert [note and (note.cold, note.connections) for note in notes] == [(True, 1), (False, 0), (False, 0)]
    assert [note and note.stored_ns is None for note in notes] == [True, False, False]


def test_a_connection_that_died_meanwhile_is_made_anew_and_counted() -> None:
    """A frozen sandbox does not see its server go; the next invocation must neither fail nor seem warm."""
    function = Function()
    function.invoke()
    function.drivers[0].dead = True
    function.invoke(1)
    notes = [file.header.invocation for file in function.files()]
    assert [note and (note.cold, note.connections) for note in notes] == [(True, 1), (False, 1)]


def test_without_reuse_each_invocation_has_a_driver_of_its_own_and_connects() -> None:
    """As published: a new connector each time, which ends with the invocation."""
    function = Function(reuse=False)
    function.invoke(0)
    function.invoke(1)
    assert [driver.calls for driver in function.drivers] == [["open", "close"]] * 2
    assert [loop.closed for loop in function.loops] == [True, True]


def test_another_trials_connection_is_closed_when_this_one_comes() -> None:
    """Its table may be gone, and its places at the server are wanted."""
    function = Function()
    function.invoke(ref=OTHER)
    function.invoke()
    assert [driver.calls[-1] for driver in function.drivers] == ["close", "warm_up"]
    assert [loop.closed for loop in function.loops] == [True, False]


def test_a_connection_that_cannot_be_closed_costs_the_next_trial_nothing() -> None:
    """Its server may be gone; the invocation that comes upon it is another trial's."""
    function = Function()
    function.invoke(ref=OTHER)
    function.drivers[0].close = fail  # type: ignore[assignment, method-assign]
    assert function.invoke().ok == 1


def test_a_store_that_cannot_be_reached_has_been_sent_nothing() -> None:
    """Without the mark, the retry's operations are the only ones; and the next one connects anew."""
    function = Function(store={"unavailable": True})
    with pytest.raises(TargetUnavailableError):
        function.invoke()
    assert function.services.table.started(REF.tag) == []
    function.store = {}
    assert function.invoke(attempt=1).ok == 1
    assert function.services.table.started(REF.tag) == ["00-0000-0000-01"]


@pytest.mark.parametrize("reason", ["by hand", ""])
def test_a_cancelled_trial_begins_no_invocation(reason: str) -> None:
    """Items of a Map go on to be invoked after an execution was stopped."""
    function = Function()
    function.services.table.set_flag(REF.tag, layout.CANCELLED, reason)
    with pytest.raises(TrialCancelledError):
        function.invoke()
    assert function.drivers == []


def test_a_trial_that_is_cancelled_while_an_invocation_connects_is_offered_nothing() -> None:
    """Its tear-down has seen no invocation; those of the plan that were not done are unsent."""
    function = Function(operations=3)
    mark = function.services.table.mark_started

    def cancel_and_mark(tag: str, attempt_id: str) -> None:
        function.services.table.set_flag(tag, layout.CANCELLED, "by hand")
        function.clock.advance(SECOND_NS)
        mark(tag, attempt_id)

    function.services.table.mark_started = cancel_and_mark  # type: ignore[method-assign]
    with pytest.raises(TrialCancelledError, match="after 0 operations"):
        function.invoke()
    assert (function.drivers[0].offered, function.files()[0].rows.outcome.tolist()) == ([], [UNSENT] * 3)


def test_a_long_invocation_looks_each_second_whether_to_stop_and_records_what_it_did() -> None:
    """A thousand operations of a slow store would go on for minutes after a cancellation."""
    function = Function(operations=1_000)
    beat, stored_at_end = function.services.table.beat, list[int]()

    def beat_and_cancel(tag: str, who: str, progress: dict[str, int], **more: object) -> None:
        beat(tag, who, progress, **more)
        stored_at_end.extend([len(function.files())] if more.get("ended") else [])
        function.services.table.set_flag(REF.tag, layout.CANCELLED, "by hand")

    function.services.table.beat = beat_and_cancel  # type: ignore[method-assign]
    with pytest.raises(TrialCancelledError, match="after 101 operations"):
        function.invoke()
    (file,) = function.files()
    assert np.bincount(file.rows.outcome).tolist() == [101, 0, 0, 899]
    (alive,) = function.services.table.beats(REF.tag).values()
    assert (alive["ended"], stored_at_end) == (True, [1])  # who waits for silence reads the records next


def test_no_operation_begins_after_the_phases_time_is_up() -> None:
    """An invocation that comes so late has done nothing, and says so."""
    function = Function(duration_s=5)
    function.clock.advance(6 * SECOND_NS)
    assert function.invoke() == RunWriterOutput(sent=0, ok=0, failed=0, unknown=0, unsent=0)
    (file,) = function.files()
    assert file.rows.outcome.tolist() == [UNSENT]


def test_a_record_that_the_table_does_not_take_goes_to_the_bucket() -> None:
    """There it is found by its key, as those of writers are."""
    function = Function()
    function.invoke()
    _refuse(function, lambda item: "body" in item)
    function.invoke(1)
    assert sorted(file.header.writer for file in function.files()) == [0, 1]
    assert len(list(function.services.runs.keys(layout.trial_key(REF, "writers/")))) == 1


def test_a_record_that_nobody_takes_is_an_error_and_the_invocation_is_known_to_have_begun() -> None:
    """Its operations may have been done: the analysis counts them as unrecorded."""
    function = Function()
    function.invoke()
    _refuse(function, lambda item: "rows" in item)
    function.behind.bucket.put_object = fail  # type: ignore[method-assign]
    with pytest.raises(RecordsLostError, match="1 record of writer 00-0001-0000-00 could not be stored"):
        function.invoke(1)
    assert function.services.table.started(REF.tag)[-1] == "00-0001-0000-00"


def _refuse(function: Function, which: Callable[[dict[str, Any]], bool]) -> None:
    """Let the table be away for some items."""
    put = function.behind.table.put_item

    def put_item(Item: dict[str, Any], **more: Any) -> Any:  # noqa: ANN401, N803 -- boto3's
        return fail() if which(Item) else put(Item=Item, **more)

    function.behind.table.put_item = put_item  # type: ignore[method-assign]
