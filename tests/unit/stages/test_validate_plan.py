from __future__ import annotations

import json
from typing import Any

import pytest
from tests.samples.dags import dataflow_trial, stage
from tests.samples.refusals import plan_of
from tests.samples.services import MemoryServices
from tests.unit.stages.test_await_turn import queue

from stepbench.analysis.comparability import place_in_run
from stepbench.contracts.identity import trial_tag
from stepbench.contracts.plan import Plan, TrialRef, TrialSpec
from stepbench.contracts.run_tasks import PhaseRef, PlannedTrial, ValidatePlanInput
from stepbench.contracts.runs import RunRecord
from stepbench.errors import PlanError, Problem, RunEndedError
from stepbench.planning import find_plan
from stepbench.planning.expansion import group_names
from stepbench.records.storage import layout
from stepbench.stages.validate_plan import validate_plan


def task(plan: object, run_id: str = "run-1") -> ValidatePlanInput:
    """Return the state's input, as the state machine makes it."""
    return ValidatePlanInput.model_validate({"plan": plan, "run_id": run_id, "started_at": "2026-01-02T03:04:05Z"})


def problem_of(plan: object, memory: MemoryServices | None = None) -> Problem:
    """Return the one problem for which the plan is refused."""
    with pytest.raises(PlanError) as refused:
        validate_plan(task(plan), (memory or MemoryServices()).services)
    (problem,) = refused.value.problems
    return problem


def two_trials(**target: Any) -> dict[str, Any]:  # noqa: ANN401 -- JSON
    """Return an S3 trial and an etcd trial."""
    load = [{"rate_per_s": 10, "count": 20}]
    phases = [{"name": "w", "measured": False, "load": load}, {"name": "m", "settle_s": 1.2, "load": load}]
    targets = [{"store": "s3", **target}, {"store": "etcd"}]
    return {"name": "two", "trials": [{"target": each, "phases": phases} for each in targets]}


def test_a_good_plan_becomes_stored_trials() -> None:
    """Later states read them by key; the console's graph shows names and phases."""
    memory = MemoryServices()
    output = validate_plan(task(two_trials()), memory.services)
    first = TrialRef(run_id="run-1", trial=0, tag=trial_tag("run-1", 0))
    assert output.trials[0] == PlannedTrial(
        ref=first,
        name="s3",
        child_name=f"{first.tag}-s3",
        pull=False,
        # A Wait state takes whole seconds only.
        phases=(PhaseRef(index=0, settle_s=0, scale=False), PhaseRef(index=1, settle_s=2, scale=False)),
    )
    assert ([trial.pull for trial in output.trials], memory.services.trial(first).name) == ([False, True], "s3")
    stored = memory.services.runs.get_model(layout.run_key("run-1", "plan.json"), Plan)
    assert [trial.target.store for trial in stored.trials] == ["s3", "etcd"]


def test_the_estimate_is_the_sum_over_the_trials() -> None:
    """Each trial's own is kept for its report."""
    memory = MemoryServices()
    output = validate_plan(task(two_trials()), memory.services)
    specs = [memory.services.runs.get_model(layout.trial_key(t.ref, "trial.json"), TrialSpec) for t in output.trials]
    assert output.estimate_usd == pytest.approx(sum(spec.estimate_usd for spec in specs))


def test_child_names_are_unique_and_short_however_long_the_run_s_name() -> None:
    """Step Functions takes 80 characters, and never the same name twice in 90 days."""
    plan = {**two_trials()}
    plan["trials"] = [{**trial, "name": f"{'n' * 58}{index}"} for index, trial in enumerate(plan["trials"])]
    names = [
        trial.child_name
        for run in ("r" * 80, "r" * 79 + "s")
        for trial in validate_plan(task(plan, run), MemoryServices().services).trials
    ]
    assert len(set(names)) == 4
    assert all(len(name) < 80 for name in names)


def test_a_run_that_is_refused_is_announced() -> None:
    """By nobody else: its execution has failed before anything could be concluded."""
    memory, aws = queue()
    for _ in range(2):  # asked again, it is the same refusal
        with pytest.raises(PlanError):
            validate_plan(task({"name": "x"}), memory.services)
    assert aws.events == ["RunFailed"]


def test_a_run_that_is_over_is_not_begun_again() -> None:
    """Step Functions forgets a name after 90 days; and one may be stopped while its plan is looked at."""
    memory = MemoryServices()
    validate_plan(task(two_trials()), memory.services)
    memory.register.change("run-1", ("submitted",), state="succeeded")
    before = dict(memory.bucket.objects)
    with pytest.raises(RunEndedError, match="run-1 is succeeded already"):
        validate_plan(task({**two_trials(), "name": "other"}), memory.services)
    assert memory.bucket.objects == before


def test_a_schedule_that_delivers_twice_starts_one_run() -> None:
    """Each attempt of EventBridge Scheduler's has an id of its own: its second delivery would cost a second run."""
    memory = MemoryServices()
    night = {"plan": "quick-unloaded-s3", "source": "schedule", "scheduled": "arn:schedule 2026-01-02T03:00:00Z"}
    validate_plan(task(night), memory.services)
    validate_plan(task(night), memory.services)  # the state is tried again
    with pytest.raises(RunEndedError, match="2026-01-02T03:00:00Z has started run run-1 already"):
        validate_plan(task(night, "run-2"), memory.services)
    assert set(memory.register.runs) == {"run-1"}
    validate_plan(task({**night, "scheduled": "arn:schedule 2026-01-03T03:00:00Z"}, "run-3"), memory.services)
    assert set(memory.register.runs) == {"run-1", "run-3"}


@pytest.mark.parametrize(
    "plan", [{"Comment": "Insert your JSON here"}, None, {**two_trials(), "budget_usd": 0}, {**two_trials(), "x": 1}]
)
def test_a_refused_plan_leaves_nothing_behind(plan: object) -> None:
    """Nothing is created before the whole plan is known to be good, its budget included."""
    memory = MemoryServices()
    with pytest.raises(PlanError):
        validate_plan(task(plan), memory.services)
    assert (memory.bucket.objects, memory.table.items) == ({}, {})


def test_an_endpoint_is_refused_where_the_stack_does_not_permit_any() -> None:
    """Who may start a run is not always who may decide where its functions connect to."""
    plan = two_trials(endpoint="http://minio.example.com:9000")
    problem = problem_of(plan)
    assert problem.path == "trials[0].target.endpoint"
    assert "minio.example.com" in problem.value
    for permitted in (MemoryServices(allow_custom_endpoints=True), MemoryServices(emulator="MiniStack")):
        assert len(validate_plan(task(plan), permitted.services).trials) == 2


def test_an_endpoint_is_refused_wherever_it_hides() -> None:
    """A matrix may bring it in; each is told once."""
    plan = two_trials()
    endpoints = [None, "http://minio.example.com:9000", "http://ceph.example.com:9000"]
    plan["trials"][0] |= {"matrix": {"target.endpoint": endpoints}, "repeats": 2}
    with pytest.raises(PlanError) as refused:
        validate_plan(task(plan), MemoryServices().services)
    assert [(problem.path, problem.value) for problem in refused.value.problems] == [
        ("trials[0].target.endpoint", '"http://minio.example.com:9000"'),
        ("trials[0].target.endpoint", '"http://ceph.example.com:9000"'),
    ]


def with_source(source: str, **files: str) -> dict[str, Any]:
    """Return a plan of one DAG that begins with a file, and whose stage has others."""
    dag = {"name": "dag", "input": {"source": source}, "stages": [{**stage("a"), "files": files}]}
    return {"name": "p", "trials": [dataflow_trial(dag)]}


def test_files_are_refused_where_the_stack_does_not_fetch_them() -> None:
    """Found out before anything is created, and by the rule that the function has that fetches them."""
    plan = with_source("s3://results/runs/theirs/report.html", model="https://example.com/m?sig=HUNTER2")
    with pytest.raises(PlanError) as refused:
        validate_plan(task(plan), MemoryServices(files_bucket="files").services)
    assert [(problem.path, problem.value) for problem in refused.value.problems] == [
        ("trials[0].dags[0].input.source", "s3://results/runs/theirs/report.html"),
        ("trials[0].dags[0].stages[0].files.model", "https://example.com/m?(hidden)"),
    ]


def test_of_a_signed_address_only_the_trial_has_the_query() -> None:
    """Its plan goes into the report, and its function has to fetch the file."""
    memory = MemoryServices(files_bucket="files", emulator="MiniStack")
    validate_plan(task(with_source("s3://files/f", model="https://example.com/m?sig=HUNTER2")), memory.services)
    holding = [key for key, body in memory.bucket.objects.items() if b"HUNTER2" in body]
    assert [key.rpartition("/")[2] for key in holding] == ["trial.json"]
    assert b"https://example.com/m?(hidden)" in memory.bucket.objects["runs/run-1/plan.json"]


def test_a_store_that_nobody_runs_is_refused_before_anything_is_created() -> None:
    """It would be found out after the trials before it, by the advice of a driver."""
    plan = two_trials()
    redis = {"experiment": "operations", "workload": {"mix": {"read": 1}}, "target": {"store": "redis"}}
    plan["trials"].append({**plan["trials"][0], **redis, "matrix": {"target.tls": [False, True]}, "repeats": 2})
    memory = MemoryServices()
    problem = problem_of(plan, memory)
    assert (problem.path, problem.value) == ("trials[2].target.endpoint", "nothing")
    assert "this stack has no server of redis" in problem.message
    assert "Give the endpoint of a server of your own" in problem.remedy
    assert memory.bucket.objects == {}
    for known in (MemoryServices(redis_endpoint="r:6379"), MemoryServices(redis_tls_endpoint="r:6379")):
        assert len(validate_plan(task(plan), known.services).trials) == 6
    plan["trials"][2]["target"]["endpoint"] = "redis.example.com:6379"
    assert len(validate_plan(task(plan), MemoryServices(allow_custom_endpoints=True).services).trials) == 6


@pytest.mark.parametrize("field", ["target", "phases[0].scale"])
def test_a_table_that_is_to_scale_itself_is_refused_on_an_emulator(field: str) -> None:
    """Its bounds would have no effect there, or the trial would fail after it had begun."""
    capacity = {"mode": "autoscaled", "min_write_units": 5, "max_write_units": 50}
    phase: dict[str, Any] = {"name": "p", "load": [{"rate_per_s": 10, "count": 20}]}
    trial: dict[str, Any] = {"target": {"store": "dynamodb"}, "phases": [phase]}
    if field == "target":
        trial["target"]["capacity"] = capacity
    else:
        phase["scale"] = {"capacity": capacity}
    plan = {"name": "p", "trials": [trial]}
    problem = problem_of(plan, MemoryServices(emulator="MiniStack 1"))
    assert (problem.path, problem.value) == (f"trials[0].{field}.capacity.mode", "autoscaled")
    assert f"--set 'trials[0].{field}.capacity=" in problem.remedy
    assert validate_plan(task(plan), MemoryServices().services).trials


def scaled(**trial: Any) -> dict[str, Any]:  # noqa: ANN401 -- JSON
    """Return a PostgreSQL trial whose second phase is scaled."""
    load = [{"rate_per_s": 10, "count": 20}]
    capacity = {"mode": "serverless_v2", "min_acu": 1, "max_acu": 4}
    phases = [{"name": "before", "load": load}, {"name": "after", "load": load, "scale": {"capacity": capacity}}]
    return {"name": "scaled", "trials": [{"target": {"store": "postgresql"}, "phases": phases, **trial}]}


def test_scaling_is_refused_where_the_stack_has_no_cluster_to_scale() -> None:
    """Once a phase, however often the trial is repeated or varied: it is mended in one place."""
    memory = MemoryServices()
    problem = problem_of(scaled(repeats=3, matrix={"writers": [1, 2]}), memory)
    assert (problem.path, problem.value) == ("trials[0].phases[1].scale", "serverless_v2")
    assert "AuroraPostgresql=serverless" in problem.remedy
    assert memory.bucket.objects == {}


def test_scaling_passes_where_the_stack_has_a_cluster() -> None:
    """And a plan that does not scale passes anywhere."""
    assert validate_plan(task(scaled()), MemoryServices(aurora_cluster="cluster-1").services).trials[0].phases[1].scale
    phases = scaled()["trials"][0]["phases"][:1]
    assert not validate_plan(task(scaled(phases=phases)), MemoryServices().services).trials[0].phases[0].scale


def test_a_clock_check_is_refused_where_the_stack_leaves_its_function_out() -> None:
    """Before the trial takes its target."""
    load = [{"rate_per_s": 5, "count": 20}]
    target = {"store": "dynamodb", "same_sandbox": True}
    plan = {"name": "one", "trials": [{"target": target, "phases": [{"name": "p", "load": load}], "repeats": 2}]}
    problem = problem_of(plan)
    assert (problem.path, problem.value) == ("trials[0].target.same_sandbox", "true")
    assert "ClockCheck=on" in problem.remedy
    assert validate_plan(task(plan), MemoryServices(check_clock_function_arn="arn:x").services).trials


def test_what_a_plan_expands_into_is_stored_trial_by_trial() -> None:
    """The state machine maps over them, and every later state finds its own."""
    memory = MemoryServices()
    plan = two_trials()
    plan["trials"][0] |= {"matrix": {"writers": [1, 2]}, "repeats": 2}
    output = validate_plan(task(plan), memory.services)
    specs = [memory.services.trial(trial.ref) for trial in output.trials]
    names = ["s3.writers-1.r1", "s3.writers-2.r1", "etcd", "s3.writers-1.r2", "s3.writers-2.r2"]
    assert [trial.name for trial in output.trials] == [spec.name for spec in specs] == names
    assert [spec.offered.writers for spec in specs] == [1, 2, 1, 1, 2]
    assert [(spec.group, spec.repeat, spec.point) for spec in specs[2:4]] == [
        ("etcd", 0, {}),
        ("s3.writers-1", 1, {"writers": 1}),
    ]
    assert len({trial.child_name for trial in output.trials}) == 5


def test_a_preset_passes_as_it_is_pasted_into_the_console() -> None:
    """The first thing that a user does."""
    output = validate_plan(task(json.loads(find_plan("quick-unloaded"))), MemoryServices().services)
    assert [trial.name for trial in output.trials] == ["s3", "dynamodb", "postgresql", "etcd"]


def from_host(**trial: Any) -> dict[str, Any]:  # noqa: ANN401 -- a trial's fields
    """Return a plan that takes its load from a host."""
    phases = [{"name": "m", "load": [{"rate_per_s": 10, "duration_s": 10}]}]
    return {"name": "p", "trials": [{"target": {"store": "s3"}, "load_from": "host", "phases": phases, **trial}]}


def test_a_plan_for_a_load_host_is_refused_where_there_is_none() -> None:
    """Its writers would wait in a queue that nobody asks."""
    found = problem_of(from_host())
    assert (found.path, found.value) == ("trials[0].load_from", '"host"')
    assert "LoadHost=on" in found.remedy
    validate_plan(task(from_host()), MemoryServices(load_host_writers=1).services)


@pytest.mark.parametrize(("duration_s", "at_once"), [(10, 8), (1_200, 16)])
def test_more_writers_than_a_load_host_runs_at_once_are_refused(duration_s: float, at_once: int) -> None:
    """In a second slice the successors wait beside those that write; what waits unheard is given up."""
    phases = [{"name": "m", "load": [{"rate_per_s": 10, "duration_s": duration_s}]}]
    document = from_host(writers=8, phases=phases)
    found = problem_of(document, MemoryServices(load_host_writers=at_once - 1))
    assert (found.path, found.value) == ("trials[0].writers", "8")
    assert f"LoadHostWriters={at_once}" in found.remedy
    validate_plan(task(document), MemoryServices(load_host_writers=at_once).services)


@pytest.mark.parametrize(
    ("changes", "refused"),
    [({}, False), ({"team": "payments"}, True), ({"plan": "other"}, True), ({"state": "failed"}, True)],
)
def test_a_named_baseline_has_to_be_a_run_of_the_team_and_plan(changes: dict[str, str], refused: bool) -> None:  # noqa: FBT001 -- a case
    """A mistyped id would be found out when the run is over and paid for."""
    memory = MemoryServices()
    known = {
        "run_id": "r-1",
        "team": "default",
        "plan": "two",
        "state": "succeeded",
        "submitted_at": "2026-01-01T00:00:00Z",
    }
    memory.register.add(RunRecord.model_validate({**known, **changes}))
    request = {"plan": two_trials(), "regressions": {"baseline": {"kind": "named_run", "run_id": "r-1"}}}
    if refused:
        assert problem_of(request, memory).path == "regressions.baseline.run_id"
    else:
        assert validate_plan(task(request), memory.services).trials


def test_tasks_whose_libraries_the_stack_has_not_are_refused() -> None:
    """With Applications=off the functions are there, and would fail each execution."""
    document = json.loads(find_plan("quick-dataflow"))
    servers = {"redis_endpoint": "127.0.0.1:6379", "cassandra_endpoint": "127.0.0.1:9042"}
    every_store = MemoryServices(None, None, applications="off", **servers)
    with pytest.raises(PlanError) as refused:
        validate_plan(task(document), every_store.services)
    first = refused.value.problems[0]
    assert (first.path, first.value) == ("trials[0].dags[0].stages[0].task", '"video.split"')
    assert "Applications=on" in first.remedy
    synthetic = plan_of(dataflow_trial())
    validate_plan(task(synthetic), MemoryServices(applications="off").services)


def test_a_stage_that_wants_more_memory_than_the_functions_have_is_refused() -> None:
    """Each execution would fail with its first task of the stage."""
    stages = [{"name": "work", "task": "synthetic.work", "memory_mib": 2_048}]
    document = plan_of(dataflow_trial({"name": "one", "stages": stages}))
    found = problem_of(document, MemoryServices(task_memory_mb=1_769))
    assert (found.path, found.value) == ("trials[0].dags[0].stages[0].memory_mib", "2048")
    assert "TaskMemorySize" in found.remedy
    validate_plan(task(document), MemoryServices(task_memory_mb=2_048).services)


def test_results_of_a_matrix_over_signed_addresses_have_no_query_either() -> None:
    """Values of a matrix become names, points and settings; names are found again from the plan as it is stored."""
    plan = with_source("https://example.com/a?sig=hunter2")
    signed = [f"https://example.com/{name}?sig=hunter2" for name in ("a", "b")]
    plan["trials"][0]["matrix"] = {"dags[0].input.source": signed}
    memory = MemoryServices(emulator="MiniStack")
    output = validate_plan(task(plan), memory.services)
    specs = [memory.services.trial(trial.ref) for trial in output.trials]
    assert [spec.name for spec in specs] == ["s3.p1", "s3.p2"]
    assert "hunter2" not in json.dumps([place_in_run(spec) for spec in specs])
    stored = memory.services.runs.get_model(layout.run_key("run-1", "plan.json"), Plan)
    assert group_names(stored) == ("s3.p1", "s3.p2")
    plan["trials"][0]["matrix"] = {"dags[0].input.source": [f"{signed[0]}{number}" for number in range(2)]}
    assert problem_of(plan, memory).message == "is listed twice"
