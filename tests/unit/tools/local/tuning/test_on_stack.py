"""A stack's node as it is tuned: what plans its evaluations run, and what is made of their summaries."""

from __future__ import annotations

import datetime as dt
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.stub import Stubber
from tests.samples.dags import dag_of, stage
from tests.samples.finished_dags import FORK, slower_each_time
from tests.samples.tuning import CACHED

from stepbench.contracts.tuning import AppliedConfiguration, EffectiveConfiguration, TuningStep
from stepbench.drivers.cassandra.control import RESTART_S
from stepbench.errors import PlanError, TargetUnavailableError
from stepbench.planning import find_plan, parse_plan
from stepbench.tuning.decision import Moment, as_given
from stepbench_tools.cli.tuning import cassandra_trials
from stepbench_tools.local.stack import StackError
from stepbench_tools.local.tuning.on_stack import StackNode, machine_of, object_bytes, outages_s, per_s
from stepbench_tools.local.tuning.tune import Machine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.dataflow.dag import Dag
    from stepbench.contracts.plan import Plan
    from stepbench.contracts.result import RunSummary, TrialSummary

HOST = Machine("i3.large", "", 2, 3_904)


@pytest.fixture(scope="module")
def measured() -> TrialSummary:
    """One trial of eight executions of the fork."""
    return slower_each_time().result().summary


def faster(trial: TrialSummary, times: float) -> TrialSummary:
    """Return a trial that was configured, whose transfers took so many times less, after a restart of 21 s."""
    assert trial.dataflow is not None
    has = EffectiveConfiguration(
        version="5.0.5", compaction=("STCS",), concurrent_writes=32, file_cache_mib=0,
        memtable_cleanup_threshold=0.33, concurrent_compactors=2,
    )  # fmt: skip
    done = AppliedConfiguration(before=has, after=has, changed=("file_cache_mib",), away_s=21)
    step = TuningStep(decision=as_given(Moment("run", "fork", 0), (), None, CACHED), done=done)
    (window,) = trial.dataflow.windows
    edges = tuple(
        edge.model_copy(
            update={
                name: spread.model_copy(update={"mean": (spread.mean or 0) / times})
                for name, spread in (("put_ms", edge.put_ms), ("get_ms", edge.get_ms))
            }
        )
        for edge in window.edges
    )
    flow = {"windows": (window.model_copy(update={"edges": edges}),), "tuning": (step,)}
    return trial.model_copy(update={"dataflow": trial.dataflow.model_copy(update=flow)})


class Runs:
    """Plays a stack: configured trials move their objects twice as fast."""

    def __init__(self, trial: TrialSummary) -> None:
        self.plans: list[Plan] = []
        self._trial = trial

    def __call__(self, plan: Plan) -> RunSummary:
        """Return the summary of a plan's run."""
        self.plans.append(plan)
        trials = tuple(
            (faster(self._trial, 2) if "configured" in (each.name or "") else self._trial).model_copy(
                update={"index": number, "name": each.name, "provider": "Cassandra 5.0.5"}
            )
            for number, each in enumerate(plan.trials)
        )
        return SimpleNamespace(run_id="run-1", trials=trials)  # type: ignore[return-value]  # of which nothing else is read


def fork_plan(*others: Dag) -> Plan:
    """Return a plan of the fork through a Cassandra that tunes itself, with bursts, on one of several hosts."""
    phases = [
        {"name": "warm-up", "dag": "fork", "measured": False, "load": [{"rate_per_s": 1, "count": 1}]},
        *({"name": f"burst-{number}", "dag": "fork", "load": [{"rate_per_s": 1, "count": 5}]} for number in (1, 2)),
        *({"name": dag.name, "dag": dag.name, "load": [{"rate_per_s": 1, "count": 5}]} for dag in others),
    ]
    trial = {
        "experiment": "dataflow", "name": "adaptive", "repeats": 10, "phases": phases,
        "dags": [dag.model_dump(mode="json") for dag in (FORK, *others)],
        "target": {"store": "cassandra", "tuning": {"mode": "adaptive"}},
    }  # fmt: skip
    return parse_plan({"name": "plan", "trials": [trial]})


def test_an_evaluation_runs_a_burst_as_released_and_one_as_configured(measured: TrialSummary) -> None:
    """By hand: transfers in half the time are a gain of 2; sizes, workload and T_r are what was measured."""
    runs = Runs(measured)
    node = StackNode(cassandra_trials(fork_plan()), HOST, runs)
    (workload,) = node.workloads
    assert node.blob_bytes == {"fork": workload.blob_bytes} == {"fork": object_bytes(measured)}
    assert node.machine == HOST._replace(provider="Cassandra 5.0.5")
    found = node.compare(workload, CACHED)
    assert found.gain == pytest.approx(2)
    assert found.released_per_s == (per_s(measured, workload),)
    assert node.outages(CACHED) == (21, 21)
    sizes, evaluation = runs.plans
    assert [trial.name for trial in sizes.trials] == ["released-0"]
    released, configured = evaluation.offered_trials
    assert [phase.name for phase in configured.phases] == ["warm-up", "burst-1"]
    assert released.target.model_dump()["tuning"] == {"mode": "default"}
    assert configured.target.model_dump()["tuning"]["settings"] == CACHED.model_dump()
    assert {trial.copies for trial in evaluation.trials} == {1}


def test_a_dag_that_passes_nothing_on_is_not_run(measured: TrialSummary) -> None:
    """It asks nothing of the store, and its objects have no size."""
    runs = Runs(measured)
    node = StackNode(cassandra_trials(fork_plan(dag_of(stage("a"), name="lonely"))), HOST, runs)
    assert set(node.blob_bytes) == {"fork"}
    assert [trial.name for trial in runs.plans[0].trials] == ["released-0"]


def test_a_dag_that_is_only_warmed_up_is_not_evaluated(measured: TrialSummary) -> None:
    """No window has numbers of it; a plan that measures no other has nothing to tune with."""
    lonely = dag_of(stage("a"), name="lonely")
    (trial,) = fork_plan(lonely).offered_trials
    phases = tuple(each.model_copy(update={"measured": each.measured and each.dag != "fork"}) for each in trial.phases)
    runs = Runs(measured)
    with pytest.raises(PlanError, match="measure no DAG that passes data through Cassandra"):
        StackNode([trial.model_copy(update={"phases": phases})], HOST, runs)
    assert runs.plans == []


def test_where_no_restart_was_noted_the_longest_one_counts(measured: TrialSummary) -> None:
    """The model of hours is kept, and a change never seems cheaper than it is."""
    node = StackNode(cassandra_trials(fork_plan()), HOST, Runs(measured))
    assert node.outages(CACHED) == (RESTART_S, RESTART_S)


def test_a_trial_that_wrote_nothing_is_no_evaluation(measured: TrialSummary) -> None:
    """There is no size to search with."""
    assert measured.dataflow is not None
    nothing = measured.dataflow.model_copy(update={"windows": ()})
    runs = Runs(measured.model_copy(update={"dataflow": nothing}))
    with pytest.raises(TargetUnavailableError, match="released-0: no object was written"):
        StackNode(cassandra_trials(fork_plan()), HOST, runs)


@pytest.mark.parametrize("preset", ["paper-dynamic", "paper-placement", "quick-dataflow-adaptive"])
def test_evaluations_of_presets_are_plans(preset: str, measured: TrialSummary) -> None:
    """What they leave of a preset has to be valid by itself; both applications are evaluated."""
    runs = Runs(measured)
    node = StackNode(cassandra_trials(parse_plan(find_plan(preset))), HOST, runs)
    assert set(node.blob_bytes) == {"video", "learning"}
    for workload in node.workloads:
        node.compare(workload, CACHED)
    assert all(len(trial.dags) == 1 for plan in runs.plans for trial in plan.offered_trials)


def test_throughput_is_of_transfers_by_little_s_law(measured: TrialSummary) -> None:
    """By hand: the fork's eight transfers take 4 ms each beside their code, and two tasks make them at once."""
    node = StackNode(cassandra_trials(fork_plan()), HOST, Runs(measured))
    assert per_s(measured, node.workloads[0]) == pytest.approx(2 / 0.004)
    assert outages_s(faster(measured, 2)) == [21]


def test_a_trial_that_did_not_go_through_is_no_evaluation(measured: TrialSummary) -> None:
    """Half of its executions would be those that were lucky."""
    runs = Runs(measured.model_copy(update={"incomplete": True}))
    with pytest.raises(TargetUnavailableError, match="run-1: released-0 did not go through whole"):
        StackNode(cassandra_trials(fork_plan()), HOST, runs)


@pytest.fixture
def cloud() -> Iterator[dict[str, Stubber]]:
    """CloudFormation and EC2, played by botocore's Stubber, which checks answers against the services' models."""
    session = boto3.Session(aws_access_key_id="a", aws_secret_access_key="b", region_name="eu-west-1")  # noqa: S106 -- none
    stubs = {"cloudformation": Stubber(session.client("cloudformation")), "ec2": Stubber(session.client("ec2"))}
    for stub in stubs.values():
        stub.activate()
    yield stubs
    for stub in stubs.values():
        stub.assert_no_pending_responses()


def machine_with(cloud: dict[str, Stubber], **parameters: str) -> Machine:
    """Return the machine of a stack that was deployed with these parameters."""
    given = [{"ParameterKey": name, "ParameterValue": value} for name, value in parameters.items()]
    made = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    described = {"StackName": "bench", "CreationTime": made, "StackStatus": "CREATE_COMPLETE", "Parameters": given}
    cloud["cloudformation"].add_response("describe_stacks", {"Stacks": [described]}, {"StackName": "bench"})
    stack: Any = SimpleNamespace(name="bench", aws=lambda service: cloud[service].client)
    return machine_of(stack)


def test_a_host_is_looked_up_by_its_type(cloud: dict[str, Stubber]) -> None:
    """By hand: i3.large has 15.25 GiB, a quarter of which is Cassandra's heap, and two cores."""
    answer = {"InstanceTypes": [{"VCpuInfo": {"DefaultVCpus": 2}, "MemoryInfo": {"SizeInMiB": 15_616}}]}
    cloud["ec2"].add_response("describe_instance_types", answer, {"InstanceTypes": ["i3.large"]})
    assert machine_with(cloud, CassandraNode="on", CassandraInstanceType="i3.large", Emulator="") == HOST


def test_a_stack_without_a_host_of_its_own_cannot_be_tuned(cloud: dict[str, Stubber]) -> None:
    """Nobody would start somebody else's server anew."""
    with pytest.raises(StackError, match="CassandraNode=on"):
        machine_with(cloud, CassandraNode="off")
