from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError
from tests.samples.records import t4_item
from tests.samples.services import MemoryServices, small_plan, stored_trial
from tests.support.fake_clock import FakeClock
from tests.support.memory_driver import MemoryDriver

from stepbench.contracts.documents import Failure
from stepbench.contracts.identity import trial_tag
from stepbench.contracts.plan import Plan, TrialRef
from stepbench.contracts.runs import ConcludeRunInput, RunRecord, SweepTargetsInput, SweepTargetsOutput
from stepbench.records.formats.t4 import Entry
from stepbench.records.storage import layout
from stepbench.records.storage.trial_table import FilePointer, Lease
from stepbench.stages.sweep_targets import STARTING_S, SWEEP_LIMIT_S, sweep_targets

SECOND_NS = 10**9
PREFIX = "arn:aws:states:us-east-1:000000000000:execution"
TRIAL_ARN = f"{PREFIX}:trial:tag-s3"
MACHINE = "arn:aws:states:us-east-1:000000000000:stateMachine:stack-Benchmark"
BENCHMARK_ARN = f"{PREFIX}:benchmark:run-1"


class Executions:
    """Implements as much of a boto3 Step Functions client as the sweeper uses."""

    def __init__(self, **statuses: str) -> None:
        self.statuses = {TRIAL_ARN: statuses.pop("trial", "ABORTED"), **statuses}
        self.stopped: list[str] = []
        self.concluded: list[ConcludeRunInput] = []
        self.broken = False

    def describe_execution(self, *, executionArn: str) -> dict[str, Any]:  # noqa: N803 -- boto3's
        """Return its status."""
        if self.broken:
            raise ClientError({"Error": {"Code": "ThrottlingException", "Message": ""}}, "DescribeExecution")
        if executionArn not in self.statuses:
            raise ClientError({"Error": {"Code": "ExecutionDoesNotExist", "Message": ""}}, "DescribeExecution")
        return {"status": self.statuses[executionArn]}

    def get_paginator(self, operation: str) -> Executions:
        """Return what lists functions, or log groups: there is no copy of any."""
        assert operation in {"list_functions", "describe_log_groups"}
        return self

    def paginate(self, **_: str) -> list[dict[str, Any]]:
        """Return one page, without any."""
        return [{"Functions": [], "logGroups": []}]

    def invoke(self, *, FunctionName: str, InvocationType: str, Payload: bytes) -> None:  # noqa: N803 -- boto3's
        """Note a run that is to be concluded."""
        assert (FunctionName, InvocationType) == ("stack-ConcludeRun", "Event")
        self.concluded.append(ConcludeRunInput.model_validate_json(Payload))

    def stop_execution(self, *, executionArn: str, **_: str) -> None:  # noqa: N803 -- boto3's
        """End it."""
        self.stopped.append(executionArn)
        self.statuses[executionArn] = "ABORTED"


class Scene:
    """Run-1's trial on S3, which has held its lease for an hour."""

    def __init__(self, executions: Executions | None = None, age_s: int = 3_600) -> None:
        self.executions = executions or Executions()
        self.clock = FakeClock(now_ns=10_000 * SECOND_NS)
        aws = {"stepfunctions": self.executions, "lambda": self.executions, "logs": self.executions}
        self.memory = MemoryServices(self.clock, aws, benchmark_arn=MACHINE, function_prefix="stack")
        self.table = self.memory.services.table
        self.drivers: list[MemoryDriver] = []
        self.ref = stored_trial(self.memory.services)
        self.lease("s3#target", self.ref, age_s)

    def lease(self, target: str, ref: TrialRef, age_s: int = 3_600) -> None:
        """Have a trial hold a target in which it has made something."""
        self.table.take_lease(target, ref, TRIAL_ARN, self.clock.now_ns() - age_s * SECOND_NS)
        self.table.set_flag(ref.tag, layout.PREPARED_FLAG, target)

    def sweep(self, arn: str | None = None, *, unavailable: str = "") -> SweepTargetsOutput:
        """Call the stage once; the store of that name does not answer."""

        def build(spec: Any, _settings: object, clock: Any) -> MemoryDriver:  # noqa: ANN401 -- BuildDriver's
            self.drivers.append(MemoryDriver(clock, unavailable=spec.name == unavailable))
            return self.drivers[-1]

        return sweep_targets(SweepTargetsInput(execution_arn=arn), self.memory.services, build=build)


@pytest.fixture
def scene() -> Scene:
    """Return a lease whose execution has ended."""
    return Scene()


def test_an_aborted_trial_is_stopped_torn_down_and_released(scene: Scene) -> None:
    """An abort runs no Catch, so nobody else will."""
    assert scene.sweep(TRIAL_ARN) == SweepTargetsOutput(swept=("s3#target",), pending=())
    assert scene.table.flag(scene.ref.tag, layout.CANCELLED) is not None
    assert (scene.drivers[0].calls, scene.table.leases()) == (["open", "tear_down", "close"], [])
    failure = scene.memory.failure_of(scene.ref)
    assert failure is not None
    assert failure.error == "ExecutionAborted"


@pytest.mark.parametrize(("arrivals_s", "swept_s"), [((), 5), ((0, 2, 3), 4)], ids=["none", "all"])
def test_a_trigger_is_left_in_place_for_a_moment_for_what_it_is_delivering(
    arrivals_s: tuple[int, ...], swept_s: int
) -> None:
    """Three events are acknowledged; with the trigger, those on their way would be gone."""
    scene = Scene()
    table, begun_ns, count = scene.table, scene.clock.now_ns(), scene.table.t4_count
    table.add_file(scene.ref.tag, FilePointer("00-0000-0000-00", 0, "key", 3, 3, 0))

    def arrive_and_count(tag: str) -> int:
        since_s = (scene.clock.now_ns() - begun_ns) / SECOND_NS
        for number in (number for number, at_s in enumerate(arrivals_s) if at_s <= since_s):
            table.put_t4(tag, f"request-{number}", number, t4_item([Entry(0, 0, 0, 0, 0, number, number)]))
        return count(tag)

    cast("Any", table).t4_count = arrive_and_count
    assert scene.sweep(TRIAL_ARN).swept == ("s3#target",)
    assert (scene.clock.now_ns() - begun_ns) / SECOND_NS == swept_s


def test_what_the_trial_said_of_itself_stands() -> None:
    """Its own tear-down failed after its own failure: the second is not the cause."""
    scene = Scene(Executions(trial="FAILED"))
    own = Failure(error="TargetUnavailableError", cause="no canary")
    scene.memory.services.runs.put_model(layout.trial_key(scene.ref, "failure.json"), own)
    scene.sweep(TRIAL_ARN)
    assert scene.memory.failure_of(scene.ref) == own


def test_a_success_is_never_noted_as_a_failure() -> None:
    """A lease that was left behind is no reason to call the measurement bad."""
    scene = Scene(Executions(trial="SUCCEEDED"))
    assert scene.sweep().swept == ("s3#target",)
    assert scene.memory.failure_of(scene.ref) is None


def test_an_aborted_benchmark_takes_its_running_trial_along() -> None:
    """Stopping a parent stops no child on every engine; the lease says which child there is."""
    scene = Scene(Executions(trial="RUNNING"))
    assert scene.sweep(BENCHMARK_ARN).swept == ("s3#target",)
    assert scene.executions.stopped == [TRIAL_ARN]


def test_trials_of_an_ended_benchmark_that_have_no_lease_yet_are_flagged(scene: Scene) -> None:
    """One may be starting at this moment; those with an outcome are left as they ended."""
    runs = scene.memory.services.runs
    plan = Plan(name="x", trials=(small_plan(repeats=2), small_plan()))
    runs.put_model(layout.run_key("run-1", "plan.json"), plan)
    finished = TrialRef(run_id="run-1", trial=1, tag=trial_tag("run-1", 1))
    runs.put_json(layout.trial_key(finished, "result.json"), {})
    scene.sweep(BENCHMARK_ARN)
    flags = [scene.table.flag(trial_tag("run-1", index), layout.CANCELLED) is not None for index in range(3)]
    assert flags == [True, False, True]


def test_another_run_s_lease_is_untouched() -> None:
    """It is measuring."""
    scene = Scene(Executions(trial="RUNNING"))
    assert scene.sweep(f"{PREFIX}:benchmark:run-2") == SweepTargetsOutput(swept=(), pending=())
    assert (scene.drivers, scene.executions.stopped) == ([], [])


@pytest.mark.parametrize(
    ("status", "age_s", "swept"),
    [
        ("RUNNING", 3_600, False),
        ("ABORTED", 3_600, True),
        ("TIMED_OUT", 1, True),
        ("unknown", 61, True),
        ("unknown", 59, False),
    ],
)
def test_the_hourly_sweep_takes_leases_whose_execution_is_over(status: str, age_s: int, swept: bool) -> None:  # noqa: FBT001
    """Running ones are measuring, and very young ones may not be known to Step Functions yet."""
    executions = Executions(trial=status)
    if status == "unknown":
        executions.statuses.clear()
    scene = Scene(executions, age_s)
    assert (scene.sweep().swept == ("s3#target",)) is swept
    assert (scene.table.leases() == []) is swept


def test_a_lease_that_another_version_has_named_otherwise_is_released_by_its_own_name(scene: Scene) -> None:
    """It was swept each hour for a month, and stayed."""
    scene.table.release_lease("s3#target", scene.ref.tag)
    scene.lease("s3#target/old", scene.ref)
    assert scene.sweep().swept == ("s3#target/old",)
    assert (scene.drivers[0].calls, scene.table.leases()) == (["open", "tear_down", "close"], [])


def test_what_a_trial_without_its_lease_has_left_is_removed_once_its_target_is_free() -> None:
    """Another trial had it when the first ended, and would have been disturbed."""
    scene = Scene(Executions(trial="RUNNING"))
    lost = stored_trial(scene.memory.services, run_id="run-2")
    scene.table.set_flag(lost.tag, layout.PREPARED_FLAG, "s3#target")
    scene.table.note_left(Lease("s3#target", lost.tag, lost.run_id, 0, f"{PREFIX}:trial:lost", 1))
    scene.executions.statuses[f"{PREFIX}:trial:lost"] = "FAILED"
    assert scene.sweep().swept == ()
    scene.table.release_lease("s3#target", scene.ref.tag)
    assert scene.sweep().swept == ("s3#target",)
    assert (scene.drivers[0].calls, scene.table.left(), scene.table.leases()) == (
        ["open", "tear_down", "close"],
        [],
        [],
    )


def test_an_execution_that_nobody_knows_any_more_is_over() -> None:
    """Step Functions forgets after 90 days, an emulator with its process."""
    executions = Executions()
    executions.statuses.clear()
    scene = Scene(executions)
    assert scene.sweep().swept == ("s3#target",)


def test_an_unclear_answer_leaves_the_lease_pending(scene: Scene) -> None:
    """A lease is never swept on a guess."""
    scene.executions.broken = True
    output = scene.sweep()
    assert (output.swept, output.pending) == ((), ("s3#target",))
    assert "ThrottlingException" in output.causes["s3#target"]
    assert scene.drivers == []


def test_one_store_that_does_not_answer_does_not_keep_the_others(scene: Scene) -> None:
    """It is pending for the next hour, and keeps its lease."""
    other = stored_trial(scene.memory.services, small_plan("etcd"), trial=1)
    scene.lease("etcd#127.0.0.1:2379", other)
    output = scene.sweep(unavailable="etcd")
    assert (output.swept, output.pending) == (("s3#target",), ("etcd#127.0.0.1:2379",))
    assert list(output.causes) == ["etcd#127.0.0.1:2379"]
    assert [lease.target for lease in scene.table.leases()] == ["etcd#127.0.0.1:2379"]


def test_a_trial_that_cannot_be_read_does_not_keep_the_others(scene: Scene) -> None:
    """An older version's, say; its writers are flagged all the same."""
    other = stored_trial(scene.memory.services, small_plan("etcd"), trial=1)
    scene.memory.services.runs.put_json(layout.trial_key(other, "trial.json"), {"plan": "of another kind"})
    scene.table.take_lease("etcd#127.0.0.1:2379", other, TRIAL_ARN, 1)
    output = scene.sweep()
    assert (output.swept, output.pending) == (("s3#target",), ("etcd#127.0.0.1:2379",))
    assert list(output.causes) == ["etcd#127.0.0.1:2379"]
    assert scene.table.flag(other.tag, layout.CANCELLED) is not None


def test_a_writer_that_does_not_stop_is_left_for_the_next_sweep(scene: Scene) -> None:
    """Bounded by the sweeper's own time: the function's limit ends that writer before an hour is over."""
    beat = {"pk": layout.trial_pk(scene.ref.tag), "sk": layout.HEARTBEAT + "writer#00-0000-0000-00"}
    scene.memory.table.put_item(Item={**beat, "at_ns": scene.clock.now_ns() + 3_600 * SECOND_NS})
    assert scene.sweep(TRIAL_ARN).pending == ("s3#target",)
    assert scene.drivers == []
    assert SWEEP_LIMIT_S <= scene.clock.now_ns() / SECOND_NS - 10_000 < SWEEP_LIMIT_S + 30


def test_a_lease_of_a_trial_that_has_made_nothing_is_released_without_its_store(scene: Scene) -> None:
    """Its function was killed while it still asked a store that does not answer."""
    other = stored_trial(scene.memory.services, small_plan("etcd"), trial=1)
    scene.table.take_lease("etcd#127.0.0.1:2379", other, TRIAL_ARN, 1)
    assert set(scene.sweep(unavailable="etcd").swept) == {"s3#target", "etcd#127.0.0.1:2379"}
    assert scene.table.leases() == []


@pytest.mark.parametrize(
    ("status", "age_s", "concluded"),
    [
        ("", STARTING_S + 1, ["failed"]),
        ("ABORTED", STARTING_S + 1, ["stopped"]),
        ("RUNNING", STARTING_S + 1, []),
        ("", STARTING_S - 1, []),
    ],
)
def test_the_hourly_sweep_closes_runs_that_never_came_to_the_queue(
    status: str, age_s: int, concluded: list[str]
) -> None:
    """Their estimate is reserved: who submitted them may have broken off, or they were stopped as they were entered."""
    scene = Scene()
    if status:
        scene.executions.statuses[f"{PREFIX}:stack-Benchmark:lost"] = status
    submitted_at = datetime.fromtimestamp(scene.clock.now_ns() / SECOND_NS - age_s, UTC)
    scene.memory.register.add(
        RunRecord(run_id="lost", team="a", plan="p", state="submitted", submitted_at=submitted_at)
    )
    scene.sweep()
    assert [(task.run_id, task.state) for task in scene.executions.concluded] == [("lost", each) for each in concluded]
