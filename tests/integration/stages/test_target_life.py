from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from tests.support.memory_driver import MemoryDriver

from stepbench.contracts.identity import parse_event_id
from stepbench.contracts.phase import PhaseSchedule
from stepbench.contracts.runs import PlannedTrial, SweepTargetsInput, ValidatePlanInput
from stepbench.contracts.tasks import (
    AwaitTargetInput,
    PlanPhaseInput,
    PrepareTargetInput,
    TearDownTargetInput,
    WriterItem,
)
from stepbench.errors import PlanError, TargetBusyError, TargetUnavailableError
from stepbench.model.request import Request, Result
from stepbench.planning import find_plan
from stepbench.records.formats.t4 import Entry, pack
from stepbench.records.storage import layout
from stepbench.services import Services
from stepbench.stages.await_target import await_target
from stepbench.stages.plan_phase import plan_phase
from stepbench.stages.prepare_target import prepare_target
from stepbench.stages.sweep_targets import sweep_targets
from stepbench.stages.tear_down_target import tear_down_target
from stepbench.stages.validate_plan import validate_plan

pytestmark = pytest.mark.emulator

WAITING = {"StartAt": "Hold", "States": {"Hold": {"Type": "Wait", "Seconds": 300, "End": True}}}
ROLE = "arn:aws:iam::000000000000:role/test"


def validated(services: Services, run_id: str) -> tuple[PlannedTrial, ...]:
    """Return the quick preset as stored trials; its stores are in memory, and plans are refused without servers."""
    plan = json.loads(find_plan("quick-unloaded"))
    servers = {"postgresql_endpoint": "127.0.0.1:5432/postgres", "etcd_endpoint": "127.0.0.1:2379"}
    services = replace(services, settings=services.settings.model_copy(update=servers))
    task = ValidatePlanInput.model_validate({"plan": plan, "run_id": run_id, "started_at": "2026-01-02T03:04:05Z"})
    return validate_plan(task, services).trials


def in_memory(_spec: object, _settings: object, clock: Any) -> MemoryDriver:  # noqa: ANN401 -- BuildDriver's
    """Return a store that needs no server."""
    return MemoryDriver(clock)


@dataclass(frozen=True)
class Executions:
    """A state machine that waits, for executions that are RUNNING."""

    client: Any
    machine: str

    def start(self, name: str) -> str:
        """Start an execution, and return its ARN."""
        return str(self.client.start_execution(stateMachineArn=self.machine, name=name)["executionArn"])

    def status(self, arn: str) -> str:
        """Return the status that Step Functions tells."""
        return str(self.client.describe_execution(executionArn=arn)["status"])


@pytest.fixture
def executions(services: Services) -> Iterator[Executions]:
    """Yield executions on the emulator's own Step Functions; all are stopped in the end."""
    client = services.aws("stepfunctions")
    name = f"waiting-{time.time_ns()}"
    arn = client.create_state_machine(name=name, definition=json.dumps(WAITING), roleArn=ROLE)["stateMachineArn"]
    yield Executions(client, arn)
    for execution in client.list_executions(stateMachineArn=arn, statusFilter="RUNNING")["executions"]:
        client.stop_execution(executionArn=execution["executionArn"])
    client.delete_state_machine(stateMachineArn=arn)


def test_a_trial_goes_from_plan_to_phase_and_leaves_nothing_leased(services: Services) -> None:
    """Through the real table and bucket: every key that one stage writes is where the next one looks."""
    first, *_ = validated(services, "run-life")
    prepared = prepare_target(PrepareTargetInput(ref=first.ref, execution_arn="arn:one"), services, build=in_memory)
    assert prepared.lanes == ()
    planned = plan_phase(PlanPhaseInput(ref=first.ref, phase=1), services)
    (item,) = json.loads(services.runs.get_bytes(planned.items_key))
    schedule = services.runs.get_model(layout.phase_key(first.ref, 1, "plan.json"), PhaseSchedule)
    assert WriterItem.model_validate(item).start_at_ns == schedule.start_at_ns > time.time_ns()
    assert tear_down_target(TearDownTargetInput(ref=first.ref), services, build=in_memory).done
    assert services.table.leases() == []


def test_a_second_run_finds_the_target_busy_and_its_tear_down_leaves_it_so(services: Services) -> None:
    """Two runs started at once must not measure each other, nor clean up under each other."""
    one, *_ = validated(services, "run-one")
    two, *_ = validated(services, "run-two")
    prepare_target(PrepareTargetInput(ref=one.ref, execution_arn="arn:one"), services, build=in_memory)
    with pytest.raises(TargetBusyError, match="run-one"):
        prepare_target(PrepareTargetInput(ref=two.ref, execution_arn="arn:two"), services, build=in_memory)
    assert tear_down_target(TearDownTargetInput(ref=two.ref), services, build=in_memory).done
    assert [lease.run_id for lease in services.table.leases()] == ["run-one"]


def test_a_living_watcher_and_its_t4_items_make_a_pull_target_ready(services: Services) -> None:
    """Heartbeat and canaries as they are really stored, numbers as DynamoDB returns them."""
    etcd = validated(services, "run-pull")[3]
    services.table.beat(etcd.ref.tag, "watcher#0", {"seen": 0})

    class Watched(MemoryDriver):
        async def serve(self, request: Request) -> Result:
            written = await super().serve(request)
            event = parse_event_id(request.key)
            assert event is not None
            entry = Entry(*event[1:5], 0, event.sequence, written.t2_ns)
            attributes = {"sandbox": "s", "cold": False, "init_ns": 0, "batch": 1, "source": "watcher#0"}
            item = {"n": 1, "entries": pack([entry]), **attributes}
            services.table.put_t4(event.tag, f"watch-{event.sequence}", written.t2_ns, item)
            return written

    prepared = prepare_target(PrepareTargetInput(ref=etcd.ref, execution_arn="arn:one"), services, build=in_memory)
    task = AwaitTargetInput(ref=etcd.ref, ready_by=prepared.ready_by)
    assert await_target(task, services, build=lambda _spec, _settings, clock: Watched(clock)).ready


def test_the_sweeper_spares_a_running_trial_and_sweeps_it_once_stopped(
    services: Services, executions: Executions
) -> None:
    """With Step Functions' own answers."""
    first, *_ = validated(services, "run-sweep")
    arn = executions.start("trial")
    services.table.take_lease(f"s3#{services.settings.target_bucket}", first.ref, arn, 1)
    assert sweep_targets(SweepTargetsInput(), services, build=in_memory).swept == ()
    executions.client.stop_execution(executionArn=arn)
    swept = sweep_targets(SweepTargetsInput(), services, build=in_memory)
    assert (swept.swept, swept.pending) == ((f"s3#{services.settings.target_bucket}",), ())
    assert services.table.leases() == []


def test_an_aborted_benchmark_s_running_trial_is_stopped(services: Services, executions: Executions) -> None:
    """On this emulator stopping a parent leaves its children running, which is when it matters."""
    first, *_ = validated(services, "run-abort")
    child, parent = executions.start("child"), executions.start("run-abort")
    services.table.take_lease(f"s3#{services.settings.target_bucket}", first.ref, child, 1)
    executions.client.stop_execution(executionArn=parent)
    assert sweep_targets(SweepTargetsInput(execution_arn=parent), services, build=in_memory).pending == ()
    assert executions.status(child) == "ABORTED"
    assert services.table.flag(first.ref.tag, layout.CANCELLED) is not None


def test_an_execution_that_is_gone_is_swept(services: Services, executions: Executions) -> None:
    """After a restart the emulator knows no execution of the process before."""
    first, *_ = validated(services, "run-gone")
    gone = executions.start("gone").replace(":gone", ":never-started")
    services.table.take_lease(f"s3#{services.settings.target_bucket}", first.ref, gone, 1)
    assert sweep_targets(SweepTargetsInput(), services, build=in_memory).pending == ()
    assert services.table.leases() == []


def test_a_refused_plan_creates_nothing_in_the_bucket(services: Services) -> None:
    """A bad plan costs its author nothing, and leaves no litter."""
    task = ValidatePlanInput.model_validate({"plan": {}, "run_id": "bad", "started_at": "2026-01-02T03:04:05Z"})
    with pytest.raises(PlanError):
        validate_plan(task, services)
    assert list(services.runs.keys("")) == []


def test_the_registry_s_own_driver_is_used_where_none_is_given(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Called as the handlers do, etcd's driver finds nobody at a closed port, and the lease stays for the tear-down."""
    monkeypatch.setattr("stepbench.stages.target_driver.EMULATED_REACH_LIMIT_S", 2)
    plan = json.loads(find_plan("quick-unloaded-etcd"))
    plan["trials"][0]["target"]["endpoint"] = "127.0.0.1:1"
    task = ValidatePlanInput.model_validate({"plan": plan, "run_id": "real", "started_at": "2026-01-02T03:04:05Z"})
    (trial,) = validate_plan(task, services).trials
    with pytest.raises(TargetUnavailableError):
        prepare_target(PrepareTargetInput(ref=trial.ref, execution_arn="arn:one"), services)
    assert [lease.target for lease in services.table.leases()] == ["etcd#127.0.0.1:1"]
