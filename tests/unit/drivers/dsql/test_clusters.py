"""`DsqlClusters` on a service on loopback with the shapes and states of AWS's: what is created, timed, deleted."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.dsql_service import DsqlService
from tests.samples.records import REF, writer_item
from tests.samples.services import MemoryServices
from tests.support.fake_clock import FakeClock
from tests.unit.stages.test_sweep_targets import TRIAL_ARN, Executions

from stepbench.clock import AnchoredClock
from stepbench.contracts.findings import SlowSpells
from stepbench.contracts.phase import PhaseSchedule
from stepbench.contracts.plan import Plan, TrialPlan, TrialSpec
from stepbench.contracts.result import TrialResult
from stepbench.contracts.runs import SweepTargetsInput
from stepbench.contracts.tasks import (
    AnalyseTrialInput,
    AwaitTargetInput,
    PrepareTargetInput,
    RunWriterInput,
    StateError,
    TearDownTargetInput,
)
from stepbench.contracts.workload import Kind
from stepbench.drivers.dsql.clusters import POLL_S, STACK_TAG, TRIAL_TAG, DsqlClusters
from stepbench.drivers.registry import lease_target
from stepbench.errors import PlanError, TargetUnavailableError
from stepbench.load.timer import LoopTimer
from stepbench.model.pending import perform
from stepbench.model.request import Outcome, Request, Result
from stepbench.planning import expanded
from stepbench.planning.limits import check_stack
from stepbench.records.storage import layout
from stepbench.settings import Settings
from stepbench.stages.analyse_trial import analyse_trial
from stepbench.stages.await_target import await_target
from stepbench.stages.prepare_target import prepare_target
from stepbench.stages.run_writer import Bench, run_writer
from stepbench.stages.sweep_targets import sweep_targets
from stepbench.stages.tear_down_target import tear_down_target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.clock import Clock

SECOND_NS = 10**9
HERE, THERE, WITNESS = "ap-northeast-1", "ap-northeast-2", "ap-northeast-3"
PAIR = {"peer_region": THERE, "witness_region": WITNESS}
CREATION = Request(Kind.INSERT, "key")


def spec_of(regions: dict[str, str] | None = None, operations: int = 2) -> TrialSpec:
    """Return a trial that creates so many clusters; with regions, pairs."""
    fields: dict[str, Any] = {
        "experiment": "operations",
        "target": {"store": "dsql", "cluster": "multi" if regions else "single"},
        "workload": {"mix": {"insert": 1}, "record": {"shape": "cluster", **(regions or {})}, "records": 0},
        "phases": [{"name": "creation", "closed": {"clients": 1, "operations": operations, "duration_s": 600}}],
        "published": [{"metric": "p50", "value_ms": 7_000, "to": 8_000, "source": "somebody"}],
    }
    plan = TrialPlan.model_validate(fields)
    return TrialSpec(run_id=REF.run_id, index=0, name="creation", tag=REF.tag, plan=plan, estimate_usd=0)


@pytest.fixture
def clock() -> FakeClock:
    """Return the time of driver and service alike."""
    return FakeClock()


@pytest.fixture
def service(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[DsqlService]:
    """Start the service, and have credentials to sign with."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with DsqlService(clock) as started:
        yield started


def settings_of(service: DsqlService) -> Settings:
    """Return those of a stack in Tokyo, called bench."""
    return Settings(
        results_table="t", results_bucket="b", function_prefix="bench", aws_region=HERE, aws_endpoint_url=service.url
    )


def driver_of(service: DsqlService, clock: Clock, spec: TrialSpec | None = None, **limits: float) -> DsqlClusters:
    """Return a driver whose service that is."""
    return DsqlClusters(spec or spec_of(), settings_of(service), clock, **limits)


def created(service: DsqlService, clock: FakeClock, spec: TrialSpec | None = None, **limits: float) -> Result:
    """Create one cluster, or one pair, and return the result."""

    async def create() -> Result:
        driver = driver_of(service, clock, spec, **limits)
        await driver.open()
        result = await perform(driver, CREATION)
        await driver.close()
        return result

    return clock.run(create())


def torn_down(service: DsqlService, clock: FakeClock, spec: TrialSpec | None = None) -> bool:
    """Call a new driver's `tear_down` once."""

    async def tear_down() -> bool:
        driver = driver_of(service, clock, spec)
        try:
            return await driver.tear_down()
        finally:
            await driver.close()

    return clock.run(tear_down())


def test_a_creation_takes_until_the_cluster_is_seen_active(service: DsqlService, clock: FakeClock) -> None:
    """7.8 s are seen as 8: the state is asked for every half second, which is the resolution."""
    service.creation_s = 7.8
    result = created(service, clock)
    (cluster,) = service.clusters
    assert (result.outcome, result.token, result.error) == (Outcome.OK, cluster.identifier, "")
    assert (result.t2_ns - result.t1_ns) / SECOND_NS == pytest.approx(8.0, abs=1e-6)
    assert POLL_S == 0.5
    request = dict(service.asked[0].request)
    assert request.pop("clientToken")  # a repeated request creates no second cluster
    tags = {STACK_TAG: "bench", TRIAL_TAG: REF.tag}
    assert (service.asked[0].region, request) == (HERE, {"deletionProtectionEnabled": False, "tags": tags})


def test_a_pair_takes_three_steps_and_until_both_are_active(service: DsqlService, clock: FakeClock) -> None:
    """As published: a cluster in each region, peering, and both ACTIVE."""
    result = created(service, clock, spec_of(PAIR))
    first, peer = service.clusters
    assert (result.outcome, result.token) == (Outcome.OK, f"{first.identifier},{peer.identifier}")
    assert (result.t2_ns - result.t1_ns) / SECOND_NS == pytest.approx(110.0, abs=1e-6)
    asked = [(call.region, call.operation, call.request.get("multiRegionProperties")) for call in service.asked[:3]]
    assert asked == [
        (HERE, "CreateCluster", {"witnessRegion": WITNESS}),
        (THERE, "CreateCluster", {"witnessRegion": WITNESS, "clusters": [first.arn]}),
        (HERE, "UpdateCluster", {"witnessRegion": WITNESS, "clusters": [peer.arn]}),
    ]
    assert {call.region for call in service.asked if call.operation == "GetCluster"} == {HERE, THERE}


def test_what_the_service_refuses_has_failed_with_its_code(service: DsqlService, clock: FakeClock) -> None:
    """Of a pair, too, of which one cluster is there by then: tear-down deletes that."""
    service.refusals[THERE, "CreateCluster"] = "ServiceQuotaExceededException"
    result = created(service, clock, spec_of(PAIR))
    assert (result.outcome, result.error) == (Outcome.FAILED, "ServiceQuotaExceededException")
    assert result.token == service.clusters[0].identifier
    assert service.states() == ["PENDING_SETUP"]
    assert not torn_down(service, clock, spec_of(PAIR))
    clock.advance(60 * SECOND_NS)
    assert torn_down(service, clock, spec_of(PAIR))


def test_the_accounts_quota_is_a_refusal(service: DsqlService, clock: FakeClock) -> None:
    """The account has other clusters, which no plan knows of."""
    service.quota = 1
    assert created(service, clock).outcome is Outcome.OK
    assert created(service, clock).error == "ServiceQuotaExceededException"


def test_a_cluster_that_becomes_failed_is_not_waited_for(service: DsqlService, clock: FakeClock) -> None:
    """It never becomes ACTIVE."""
    service.fails = 1
    result = created(service, clock)
    assert (result.outcome, result.error) == (Outcome.FAILED, "cluster FAILED")
    assert result.t2_ns - result.t1_ns < 9 * SECOND_NS


def test_a_creation_without_an_end_is_unknown(service: DsqlService, clock: FakeClock) -> None:
    """It may yet become ACTIVE; the trial goes on."""
    result = created(service, clock, creation_limit_s=5)
    assert (result.outcome, result.error) == (Outcome.UNKNOWN, "timeout")


def test_a_state_that_the_service_does_not_say_ends_no_creation(service: DsqlService, clock: FakeClock) -> None:
    """The cluster is being created all the same: it is asked for again, and what is known of it is kept."""
    service.refusals[HERE, "GetCluster"] = "ThrottlingException"
    result = created(service, clock, creation_limit_s=5)
    (cluster,) = service.clusters
    assert (result.outcome, result.token, result.error) == (Outcome.UNKNOWN, cluster.identifier, "timeout")


@pytest.mark.parametrize(
    ("code", "outcome"), [("AccessDeniedException", Outcome.FAILED), ("InternalServerException", Outcome.UNKNOWN)]
)
def test_an_error_of_the_servers_own_says_nothing_of_what_happened(
    service: DsqlService, clock: FakeClock, code: str, outcome: Outcome
) -> None:
    """The cluster may be there."""
    service.refusals[HERE, "CreateCluster"] = code
    result = created(service, clock)
    assert (result.outcome, result.error) == (outcome, code)


def test_a_peers_region_that_is_away_is_found_before_the_load(service: DsqlService, clock: FakeClock) -> None:
    """And a pair that is asked for all the same has no answer; what is in the other region is deleted then."""
    spec = spec_of(PAIR)
    service.away.add(THERE)
    with pytest.raises(TargetUnavailableError, match=f"^{THERE}: dsql: "):
        clock.run(driver_of(service, clock, spec).ready())
    result = created(service, clock, spec)
    assert (result.outcome, result.error) == (Outcome.UNKNOWN, "ConnectionClosedError")
    with pytest.raises(TargetUnavailableError, match=THERE):
        torn_down(service, clock, spec)
    assert service.states() == ["DELETING"]


def test_a_stack_without_the_right_is_named_with_the_remedy(service: DsqlService, clock: FakeClock) -> None:
    """Dsql=on gives none."""
    service.refusals[HERE, "ListClusters"] = "AccessDeniedException"
    with pytest.raises(TargetUnavailableError, match="Deploy the stack with Dsql=creations"):
        clock.run(driver_of(service, clock).ready())


def test_only_what_has_the_trials_tag_is_deleted(service: DsqlService, clock: FakeClock) -> None:
    """Among an account's clusters: the stack's own, another trial's, somebody's without tags."""
    others = [
        service.add(HERE, **{"stepbench:stack": "bench"}),
        service.add(HERE, **{STACK_TAG: "bench", TRIAL_TAG: "another"}),
        service.add(THERE),
    ]
    spec = spec_of(PAIR)
    assert created(service, clock, spec).outcome is Outcome.OK
    assert created(service, clock, spec_of()).outcome is Outcome.OK  # listed on a second page
    assert not torn_down(service, clock, spec)
    assert service.states() == ["ACTIVE"] * 3 + ["DELETING"] * 3
    assert not torn_down(service, clock, spec)  # what is on its way is not asked again
    assert service.operations().count("DeleteCluster") == 3
    clock.advance(60 * SECOND_NS)
    assert torn_down(service, clock, spec)
    assert service.states() == ["ACTIVE"] * len(others)


def test_a_cluster_that_may_not_be_deleted_yet_is_deleted_next_time(service: DsqlService, clock: FakeClock) -> None:
    """Its state is changing."""
    created(service, clock)
    service.refusals[HERE, "DeleteCluster"] = "ConflictException"
    assert not torn_down(service, clock)
    service.refusals.clear()
    assert not torn_down(service, clock)
    assert service.states() == ["DELETING"]


async def test_a_writer_that_stops_answers_at_once_and_leaves_nothing_unseen(service: DsqlService) -> None:
    """The request is on its way: the cluster exists when the driver is closed, so that tear-down finds it."""
    service.held.clear()
    driver = driver_of(service, AnchoredClock())
    pending, results = driver.prepare_request(CREATION), list[Result]()
    pending.send(results.append)
    await asyncio.to_thread(service.heard.wait)
    pending.abandon()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [(each.outcome, each.error) for each in results] == [(Outcome.UNKNOWN, "no answer before the drain limit")]
    closing = asyncio.ensure_future(driver.close())
    await asyncio.sleep(0.02)
    assert not closing.done()
    service.held.set()
    await closing
    assert len(service.clusters) == 1


def test_it_says_what_it_times_and_with_which_resolution(service: DsqlService, clock: FakeClock) -> None:
    """Beside the number, and before the load."""
    driver = driver_of(service, clock, spec_of(PAIR))
    assert clock.run(driver.provider()) == (
        f"Aurora DSQL, creation of pairs in {HERE} and {THERE} (witness {WITNESS}), looked at every 0.5 s"
    )
    assert driver.resource_names()[1] == f"clusters tagged {TRIAL_TAG}={REF.tag} in {THERE}"


@pytest.mark.parametrize("field", ["peer_region", "witness_region"])
def test_a_pair_needs_regions_that_are_not_the_stacks_own(field: str, service: DsqlService) -> None:
    """The first cluster is there, where the plan names no other place."""
    trial = spec_of(PAIR | {field: HERE}).plan.model_dump(exclude_unset=True)
    settings = settings_of(service).model_copy(update={"dsql_endpoints": "single=x"})
    with pytest.raises(PlanError) as refused:
        check_stack(expanded(Plan.model_validate({"name": "pair", "trials": [trial]})), settings)
    assert [problem.path for problem in refused.value.problems] == [f"trials[0].workload.record.{field}"]
    trial["target"]["region"] = "eu-west-1"
    check_stack(expanded(Plan.model_validate({"name": "pair", "trials": [trial]})), settings)


def test_a_trial_of_rows_creates_no_clusters(service: DsqlService, clock: FakeClock) -> None:
    """A driver of the wrong trial would cost the account clusters."""
    spec = spec_of()
    rows = {"workload": {"mix": {"insert": 1}, "records": 0}}
    plan = TrialPlan.model_validate({**spec.plan.model_dump(exclude={"workload"}), **rows})
    with pytest.raises(PlanError, match="creates no clusters"):
        driver_of(service, clock, spec.model_copy(update={"plan": plan}))


# --- a trial, from its preparation to its result ---------------------------------------------------------------------


class Trial:
    """A trial as its stages run it, on the service."""

    def __init__(self, service: DsqlService, clock: FakeClock, spec: TrialSpec) -> None:
        self.clock = clock
        executions = Executions()
        aws = {"stepfunctions": executions, "lambda": executions, "logs": executions}
        kept = settings_of(service).model_dump(include={"function_prefix", "aws_region", "aws_endpoint_url"})
        self.memory = MemoryServices(clock, aws, **kept)
        self.services = self.memory.services
        self.services.runs.put_model(layout.trial_key(REF, "trial.json"), spec)
        self.target = lease_target(spec, self.services.settings)

    def prepare(self) -> None:
        """Prepare, and prove that the service answers; the load begins now."""
        prepared = prepare_target(PrepareTargetInput(ref=REF, execution_arn=TRIAL_ARN), self.services)
        assert await_target(AwaitTargetInput(ref=REF, ready_by=prepared.ready_by), self.services).ready
        begin = PhaseSchedule(start_at_ns=self.clock.now_ns())
        self.services.runs.put_model(layout.phase_key(REF, 0, "plan.json"), begin)

    def write(self) -> None:
        """Have the one writer do its work."""
        undisturbed = SlowSpells(looked_s=0.5, share=0, longest_ms=0, spells=0)
        bench = Bench(
            clock=lambda: self.clock,
            timer=lambda clock, _: LoopTimer(clock),
            run=self.clock.run,
            check_core=lambda _: undisturbed,
        )
        run_writer(RunWriterInput(item=writer_item(self.clock.now_ns()), attempt=0), self.services, bench=bench)


def test_a_trials_creations_are_operations_like_others(service: DsqlService, clock: FakeClock) -> None:
    """Records, quantiles, score and tear-down need nothing of their own; the lease is free at the end."""
    trial = Trial(service, clock, spec_of(operations=3))
    trial.prepare()
    assert service.operations() == []  # the probe creates nothing
    trial.write()
    key = analyse_trial(AnalyseTrialInput(ref=REF, failure=StateError()), trial.services).result_key
    summary = trial.services.runs.get_model(key, TrialResult).summary
    (window,) = summary.windows
    assert window.operations is not None
    (kind,) = window.operations.kinds
    assert (kind.kind, kind.ok, kind.failed, kind.unknown) == ("insert", 3, 0, 0)
    assert window.latency_ms.p50 is not None
    assert window.latency_ms.p50.value == pytest.approx(8_000, abs=1)
    (published,) = summary.replication
    assert published.ratio is not None
    assert published.ratio.value == pytest.approx(1.0)  # within what was published
    assert summary.provider.endswith(f"creation of clusters in {HERE}, looked at every 0.5 s")
    tear_down = TearDownTargetInput(ref=REF, failure=StateError())
    assert not tear_down_target(tear_down, trial.services).done
    clock.advance(60 * SECOND_NS)
    assert tear_down_target(tear_down, trial.services).done
    assert (service.states(), trial.services.table.find_lease(trial.target)) == ([], None)


def test_what_a_killed_run_has_created_is_swept(service: DsqlService, clock: FakeClock) -> None:
    """The writer was gone between the clusters of a pair, and no record names the one that there is."""
    spec = spec_of(PAIR)
    trial = Trial(service, clock, spec)
    trial.prepare()
    service.refusals[THERE, "CreateCluster"] = "InternalServerException"
    created(service, clock, spec)
    assert service.states() == ["PENDING_SETUP"]
    swept = sweep_targets(SweepTargetsInput(execution_arn=TRIAL_ARN), trial.services)
    assert swept.swept == (trial.target,)
    assert (service.states(), trial.services.table.find_lease(trial.target)) == ([], None)


@pytest.mark.parametrize("killed", [True, False])
def test_what_a_killed_writers_last_request_makes_late_is_swept(
    service: DsqlService, clock: FakeClock, *, killed: bool
) -> None:
    """A writer that said that it ended awaited its answers, and nothing is looked at again."""
    trial = Trial(service, clock, spec_of())
    trial.prepare()
    if killed:
        trial.services.table.mark_started(REF.tag, "0-0-0")
        clock.advance(10 * SECOND_NS)
    else:
        trial.write()
    while not tear_down_target(TearDownTargetInput(ref=REF, failure=StateError()), trial.services).done:
        clock.advance(SECOND_NS)
    assert service.states() == []
    late = service.add(HERE, **{STACK_TAG: "bench", TRIAL_TAG: REF.tag})
    hourly = SweepTargetsInput()
    assert sweep_targets(hourly, trial.services).swept == ()  # too early for that
    clock.advance(3_600 * SECOND_NS)
    assert sweep_targets(hourly, trial.services).swept == ((f"late#{REF.tag}",) if killed else ())
    assert late.leaving is killed
    clock.advance(3_600 * SECOND_NS)
    assert sweep_targets(hourly, trial.services).swept == ()
    assert (trial.services.table.leases(), trial.services.table.left()) == ([], [])
