from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.stub import Stubber
from tests.samples.dags import dataflow_trial, stage
from tests.samples.refusals import plan_of
from tests.samples.services import MemoryServices, small_plan
from tests.support.fake_clock import FakeClock
from tests.unit.stages.test_await_turn import queue

from stepbench.analysis.comparability import place_in_run
from stepbench.contracts.identity import trial_tag
from stepbench.contracts.plan import Plan, TrialPlan, TrialRef, TrialSpec
from stepbench.contracts.runs import ConcludeRunInput, PhaseRef, PlannedTrial, RunRecord, ValidatePlanInput
from stepbench.errors import PlanError, Problem, RunEndedError
from stepbench.experiments.registry import experiment_of
from stepbench.planning import find_plan, parse_plan
from stepbench.planning.expansion import group_names
from stepbench.planning.quotas import HISTORY_EVENTS, QUOTA_NAMES, history_events
from stepbench.records.storage import layout
from stepbench.stages.application_traces import LIMIT_S, ROUNDS, resolve_traces
from stepbench.stages.conclude_run import conclude_run
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


@pytest.fixture
def memory() -> MemoryServices:
    """Return services in memory."""
    return MemoryServices()


def test_a_good_plan_becomes_stored_trials(memory: MemoryServices) -> None:
    """Later states read them by key; the console's graph shows names and phases."""
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


def test_the_estimate_is_the_sum_over_the_trials(memory: MemoryServices) -> None:
    """Each trial's own is kept for its report."""
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


def test_a_run_that_is_over_is_not_begun_again(memory: MemoryServices) -> None:
    """Step Functions forgets a name after 90 days; and one may be stopped while its plan is looked at."""
    validate_plan(task(two_trials()), memory.services)
    memory.register.change("run-1", ("submitted",), state="succeeded")
    before = dict(memory.bucket.objects)
    with pytest.raises(RunEndedError, match="run-1 is succeeded already"):
        validate_plan(task({**two_trials(), "name": "other"}), memory.services)
    assert memory.bucket.objects == before


def test_a_schedule_that_delivers_twice_starts_one_run(memory: MemoryServices) -> None:
    """Each attempt of EventBridge Scheduler's has an id of its own: its second delivery would cost a second run."""
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
def test_a_refused_plan_leaves_nothing_behind(plan: object, memory: MemoryServices) -> None:
    """Nothing is created before the whole plan is known to be good, its budget included."""
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


def test_scaling_is_refused_where_the_stack_has_no_cluster_to_scale(memory: MemoryServices) -> None:
    """Once a phase, however often the trial is repeated or varied: it is mended in one place."""
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


def test_what_a_plan_expands_into_is_stored_trial_by_trial(memory: MemoryServices) -> None:
    """The state machine maps over them, and every later state finds its own."""
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


NOW = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)
NOW_NS = int(NOW.timestamp()) * 10**9
HOUR = timedelta(hours=1)


def xray_client(endpoint: str | None = None) -> Any:  # noqa: ANN401 -- boto3 clients have no common type
    """Return a real client that never waits."""
    config = Config(retries={"total_max_attempts": 1}, connect_timeout=2, read_timeout=2)
    session = boto3.session.Session("some", "body", region_name="us-east-1")
    return session.client("xray", endpoint_url=endpoint, config=config)


def document(traces: dict[str, Any] | None = None, **application: Any) -> dict[str, Any]:  # noqa: ANN401 -- JSON
    """Return a plan with one application that X-Ray has seen."""
    seen = {"name": "app", "source": "ours", "traces": {"name": "chain", "last_hours": 1, **(traces or {})}}
    trial = {"target": {"store": "s3"}, "phases": [{"name": "m", "load": [{"rate_per_s": 1, "count": 5}]}]}
    return {"name": "traced", "trials": [trial], "applications": [{**seen, **application}]}


def summaries(since: datetime, until: datetime, token: str | None = None) -> dict[str, Any]:
    """Return the request for a part of the window."""
    request = {"TimeRangeType": "TraceId", "StartTime": since, "EndTime": until, "FilterExpression": 'service("chain")'}
    return request if token is None else {**request, "NextToken": token}


def page(*ids: str, then: str | None = None, partial: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return summaries of these traces, as X-Ray answers."""
    found = [{"Id": name, "IsPartial": name in partial} for name in (*ids, *partial)]
    return {"TraceSummaries": found} if then is None else {"TraceSummaries": found, "NextToken": then}


def trace(name: str, first_s: float = 0.2, second_s: float = 0.05) -> dict[str, Any]:
    """Return a trace of two functions, one after the other."""
    spans = (("resize", 100.0, first_s), ("store", 102.0, second_s))
    segments = [
        {"name": function, "origin": "AWS::Lambda::Function", "start_time": start, "end_time": start + length}
        for function, start, length in spans
    ]
    documents = [{"Id": str(number), "Document": json.dumps(each)} for number, each in enumerate(segments)]
    return {"Id": name, "Segments": documents}


def resolved(plan: dict[str, Any], stubber: Stubber) -> Plan:
    """Return the plan after X-Ray has been asked for all that was expected."""
    memory = MemoryServices(FakeClock(NOW_NS), {"xray": stubber.client})
    with stubber:
        found = resolve_traces(parse_plan(plan), memory.services)
    stubber.assert_no_pending_responses()
    return found


def refusal(plan: dict[str, Any], stubber: Stubber) -> str:
    """Return why the plan is refused, in one line."""
    with pytest.raises(PlanError) as refused:
        resolved(plan, stubber)
    (problem,) = refused.value.problems
    assert (problem.path, problem.value) == ("applications[0].traces", '"chain"')
    assert "duration_ms" in problem.remedy
    return problem.message


def test_durations_are_medians_of_all_traces_page_by_page() -> None:
    """Five ids go into one call; the report's source says from how many traces, and from when."""
    stubber = Stubber(xray_client())
    stubber.add_response("get_trace_summaries", page("a", "b", then="more"), summaries(NOW - HOUR, NOW))
    stubber.add_response("get_trace_summaries", page("c", "d", "e", "f"), summaries(NOW - HOUR, NOW, "more"))
    five = [trace(name, first_s) for name, first_s in zip("abcd", (0.1, 0.2, 0.2, 0.4), strict=True)]
    stubber.add_response(
        "batch_get_traces", {"Traces": five, "NextToken": "more"}, {"TraceIds": ["a", "b", "c", "d", "e"]}
    )
    request = {"TraceIds": ["a", "b", "c", "d", "e"], "NextToken": "more"}
    stubber.add_response("batch_get_traces", {"Traces": [trace("e", 0.4)]}, request)
    stubber.add_response("batch_get_traces", {"Traces": [trace("f", 0.3)]}, {"TraceIds": ["f"]})
    (application,) = resolved(document(), stubber).applications
    durations = [(each.name, each.duration_ms, each.trigger) for each in application.functions]
    assert durations == [("resize", 250, None), ("store", 50, "measured")]
    assert application.source == "ours; X-Ray, medians of 6 traces, 2026-11-21 11:30 to 2026-11-21 12:30 UTC"


def test_the_newest_traces_are_taken_and_no_more_than_wanted() -> None:
    """Hour by hour backwards, and the last part is what is left of the window."""
    stubber = Stubber(xray_client())
    stubber.add_response("get_trace_summaries", page("a", partial=("running",)), summaries(NOW - HOUR, NOW))
    stubber.add_response("get_trace_summaries", page(), summaries(NOW - 2 * HOUR, NOW - HOUR))
    oldest = summaries(NOW - 2.5 * HOUR, NOW - 2 * HOUR)
    stubber.add_response("get_trace_summaries", page("b", "c", then="there are more"), oldest)
    stubber.add_response("batch_get_traces", {"Traces": [trace("a"), trace("b")]}, {"TraceIds": ["a", "b"]})
    found = resolved(document({"last_hours": 2.5, "max_traces": 2}), stubber)
    assert "2 traces, 2026-11-21 10:00 to" in found.applications[0].source


def test_what_x_ray_leaves_unprocessed_is_asked_for_again() -> None:
    """A throttled part of a batch is no missing trace; what never comes is not counted."""
    stubber = Stubber(xray_client())
    stubber.add_response("get_trace_summaries", page("a", "b"), summaries(NOW - HOUR, NOW))
    answer = {"Traces": [trace("a")], "UnprocessedTraceIds": ["b"]}
    stubber.add_response("batch_get_traces", answer, {"TraceIds": ["a", "b"]})
    for _ in range(ROUNDS - 1):
        stubber.add_response("batch_get_traces", {"UnprocessedTraceIds": ["b"]}, {"TraceIds": ["b"]})
    assert "medians of 1 trace," in resolved(document(), stubber).applications[0].source


def test_a_window_without_traces_is_refused() -> None:
    """A wrong name looks the same as an application that nobody used."""
    stubber = Stubber(xray_client())
    stubber.add_response("get_trace_summaries", page(), summaries(NOW - HOUR, NOW))
    assert refusal(document(), stubber) == "are none in the last 1 h"


def test_traces_without_functions_are_refused() -> None:
    """A state machine can be traced while its functions are not."""
    stubber = Stubber(xray_client())
    stubber.add_response("get_trace_summaries", page("a"), summaries(NOW - HOUR, NOW))
    machine = {"name": "chain", "origin": "AWS::StepFunctions::StateMachine", "start_time": 1.0, "end_time": 2.0}
    segments = [{"Id": "1", "Document": json.dumps(machine)}]
    stubber.add_response("batch_get_traces", {"Traces": [{"Id": "a", "Segments": segments}]}, {"TraceIds": ["a"]})
    assert refusal(document(), stubber) == "are 1, and none shows a Lambda function that has ended"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("AccessDeniedException", "are denied to ValidatePlan by X-Ray"),
        ("InvalidRequestException", "are refused by X-Ray: InvalidRequestException: no"),
    ],
)
def test_a_refusal_of_x_ray_is_one_of_the_plan(code: str, message: str) -> None:
    """Nothing has been created yet, and the plan's author can do something about it."""
    stubber = Stubber(xray_client())
    stubber.add_client_error("get_trace_summaries", service_error_code=code, service_message="no")
    assert refusal(document(), stubber) == message


def test_an_x_ray_that_does_not_answer_is_named() -> None:
    """A subnet without a way out; the connection is refused at once here."""
    memory = MemoryServices(FakeClock(NOW_NS), {"xray": xray_client("http://127.0.0.1:1")})
    with pytest.raises(PlanError, match="since X-Ray does not answer: Could not connect"):
        resolve_traces(parse_plan(document()), memory.services)


def test_a_slow_x_ray_is_given_up() -> None:
    """The function has three minutes, and a run that hangs in its first state tells nobody why."""
    clock = FakeClock(NOW_NS)

    class Slow:
        def get_trace_summaries(self, **_: object) -> dict[str, Any]:
            """Return another page, always."""
            clock.sleep(LIMIT_S / 4)
            return page(then="more")

    memory = MemoryServices(clock, {"xray": Slow()})
    (one,) = document()["applications"]
    plan = document() | {"applications": [one | {"name": f"app-{number}"} for number in range(5)]}
    with pytest.raises(PlanError, match=f"took X-Ray more than {LIMIT_S} s"):
        resolve_traces(parse_plan(plan), memory.services)
    assert clock.now_ns() <= NOW_NS + 1.5 * LIMIT_S * 10**9


def test_an_emulator_has_no_x_ray() -> None:
    """It answers 400 to anything, which would say nothing to a reader."""
    memory = MemoryServices(emulator="MiniStack 1.4.3")
    with pytest.raises(PlanError, match=r"applications\[0\].traces: needs X-Ray, which MiniStack 1.4.3 does not have"):
        resolve_traces(parse_plan(document()), memory.services)


def test_a_plan_with_all_durations_asks_nobody() -> None:
    """A stored plan can be run again, anywhere, with what X-Ray said then; its client would be a KeyError here."""
    functions = [{"name": "f", "duration_ms": 10, "trigger": "measured"}]
    plan = parse_plan(document(functions=functions))
    assert resolve_traces(plan, MemoryServices(emulator="MiniStack 1.4.3").services) == plan


def test_the_stored_plan_has_the_durations() -> None:
    """RenderReport reads them there, and need not know of X-Ray."""
    stubber = Stubber(xray_client())
    stubber.add_response("get_trace_summaries", page("a"), summaries(NOW - HOUR, NOW))
    stubber.add_response("batch_get_traces", {"Traces": [trace("a")]}, {"TraceIds": ["a"]})
    memory = MemoryServices(FakeClock(NOW_NS), {"xray": stubber.client})
    task = {"plan": document(), "run_id": "run-1", "started_at": NOW}
    with stubber:
        validate_plan(ValidatePlanInput.model_validate(task), memory.services)
    stored = memory.services.runs.get_model(layout.run_key("run-1", "plan.json"), Plan)
    assert [each.duration_ms for each in stored.applications[0].functions] == [200, 50]


JSON = dict[str, Any]
STARTED = "2026-01-02T03:04:05Z"


class Account:
    """An account whose answers are checked against the services' own models; None: it refuses."""

    def __init__(
        self,
        sandboxes: int | None = 1_000,
        table_units: int | None = 40_000,
        orchestration: dict[str, float] | None = None,
    ) -> None:
        self.stubbers, self.clients = list[Stubber](), dict[str, Any]()
        limits = {"CodeSizeZipped": 1, "CodeSizeUnzipped": 1, "ConcurrentExecutions": 5_000, "TotalCodeSize": 1}
        concurrent = {"UnreservedConcurrentExecutions": sandboxes}
        self._stub("lambda", "get_account_settings", sandboxes and {"AccountLimit": {**limits, **concurrent}})
        units = {f"{of}Max{kind}CapacityUnits": 80_000 for of in ("Account", "Table") for kind in ("Read", "Write")}
        self._stub("dynamodb", "describe_limits", table_units and {**units, "TableMaxWriteCapacityUnits": table_units})

        quotas = [{"QuotaName": name, "Value": value} for name, value in (orchestration or {}).items()]
        self._stub("service-quotas", "list_service_quotas", orchestration and {"Quotas": quotas}, ServiceCode="states")

    def _stub(self, service: str, operation: str, answer: Any, **asked: str) -> None:  # noqa: ANN401 -- JSON
        session = boto3.session.Session("test", "test", region_name="us-east-1")
        self.clients[service] = session.client(service)  # type: ignore[call-overload]
        self.stubbers.append(stubber := Stubber(self.clients[service]))
        if answer:
            stubber.add_response(operation, answer, asked)
        else:
            stubber.add_client_error(operation, "AccessDeniedException")
        stubber.activate()


class Aws:
    """EventBridge, which takes everything, and Lambda, where nothing is to be rendered."""

    @staticmethod
    def invoke(**_: object) -> JSON:
        """Answer nothing."""
        return {"Payload": io.BytesIO(b"null")}

    @staticmethod
    def put_events(**_: object) -> JSON:
        """Take events."""
        return {"FailedEntryCount": 0}


def plan(store: str = "s3", rate_per_s: float = 10, **trial: Any) -> JSON:  # noqa: ANN401 -- a trial's fields
    """Return a plan of one trial."""
    load = {"rate_per_s": rate_per_s, "duration_s": 2}
    target = {"store": store, **trial.pop("target", {})}
    return {
        "name": "p",
        "budget_usd": 100,
        "trials": [{"target": target, "phases": [{"name": "load", "load": [load]}], **trial}],
    }


def validate(document: JSON, account: Account | None = None, run_id: str = "run-1", **settings: Any) -> MemoryServices:  # noqa: ANN401
    """Have a plan validated on an account."""
    memory = MemoryServices(aws=(account or Account()).clients, **settings)
    validate_plan(ValidatePlanInput(plan=document, run_id=run_id, started_at=STARTED), memory.services)
    return memory


def refusal_of(document: JSON, account: Account) -> Problem:
    """Return the one problem for which a plan is refused."""
    with pytest.raises(PlanError) as refused:
        validate(document, account)
    (problem,) = refused.value.problems
    return problem


def test_a_plan_that_needs_more_sandboxes_than_are_left_is_refused() -> None:
    """Its writers would be throttled, and the load would be another than the plan's."""
    validate(plan(writers=39), Account(sandboxes=50))
    problem = refusal_of(plan(writers=40, repeats=3), Account(sandboxes=50))
    assert (problem.path, problem.value) == ("trials[0].writers", "40")
    assert "needs 51 concurrent executions of Lambda (40 writers, 1 receivers, 10 others)" in problem.message
    assert problem.message.endswith("the account has 50")
    assert "Concurrent executions raised" in problem.remedy


def test_where_the_account_cannot_be_read_aws_s_default_is_taken_and_said() -> None:
    """A right that is missing refuses no plan that the default permits."""
    validate(plan(writers=40), Account(sandboxes=None))
    problem = refusal_of(plan(rate_per_s=9_900), Account(sandboxes=None))
    assert problem.message.endswith(
        "the account has 1,000, which is AWS's default, since the account's own could not be read"
    )


def test_the_account_is_asked_once_an_hour() -> None:
    """DynamoDB would refuse the second answer within a minute, and AWS's default be taken for the account's quota."""
    memory = validate(plan(), Account(sandboxes=50))  # which answers once
    later = ValidatePlanInput.model_validate({"plan": plan(writers=40), "run_id": "run-2", "started_at": STARTED})
    with pytest.raises(PlanError, match="the account has 50"):
        validate_plan(later, memory.services)


def needed(trial: TrialPlan) -> tuple[int, int]:
    """Return how many sandboxes of writers, and of others, a trial needs at once."""
    found = experiment_of(trial.experiment).offering.sandboxes(trial)
    return found.writers, found.others


def test_receivers_are_counted_by_how_their_trigger_calls_them() -> None:
    """S3 calls one for each object, a stream one for each shard and lane; who polls is called by nobody."""
    load = [{"name": "load", "load": [{"rate_per_s": 100, "count": 200}]}]
    assert needed(small_plan("s3", phases=load)) == (1, 10)
    assert needed(small_plan("dynamodb", target={"parallelization_factor": 4}, phases=load)) == (1, 4)
    wide = {"capacity": {"mode": "provisioned", "write_units": 2_500}}
    assert needed(small_plan("dynamodb", target=wide, phases=load)) == (1, 3)
    assert needed(small_plan("etcd", phases=load)) == (1, 0)
    assert needed(small_plan("etcd", phases=load, writers=4, load_from="host")) == (0, 0)


def test_a_table_that_the_account_cannot_have_is_refused() -> None:
    """CreateTable would refuse it after the plan's other trials have run; by request, it would be throttled."""
    capacity = {"capacity": {"mode": "provisioned", "write_units": 12_000}}
    validate(plan("dynamodb", target=capacity), Account(table_units=12_000))
    problem = refusal_of(plan("dynamodb", target=capacity), Account(table_units=10_000))
    assert (problem.path, problem.value) == ("trials[0].target.capacity", "12000")
    assert "asks for 12,000 write units, and the account gives a table 10,000" in problem.message
    problem = refusal_of(plan("dynamodb", rate_per_s=11_000), Account(table_units=10_000))
    assert "is offered 11,000 write units a second, and a table of the account takes 10,000" in problem.message


def test_names_of_attributes_are_written_too() -> None:
    """59 bytes of key and 965 of value are 1 KB; with 20 of names each write is billed, and throttled, as two units."""
    record = {"value_bytes": 965}
    problem = refusal_of(plan("dynamodb", rate_per_s=6_000, record=record), Account(table_units=10_000))
    assert "is offered 12,000 write units a second" in problem.message


def dag_plan(rate_per_s: float, count: int = 5_000) -> JSON:
    """Return a plan that starts executions of one task each, nine transitions, at a rate."""
    phases = [{"name": "load", "load": [{"rate_per_s": rate_per_s, "count": count}]}]
    return {
        "name": "p",
        "budget_usd": 10_000,
        "trials": [dataflow_trial({"name": "one", "stages": [stage("one")]}, phases=phases)],
    }


def test_a_plan_that_starts_more_executions_than_step_functions_does_is_refused() -> None:
    """They would be throttled, and counted as the store's failures; the region's default holds until it is raised."""
    problem = refusal_of(dag_plan(400, 60_000), Account(sandboxes=100_000))
    assert (problem.path, problem.value) == ("trials[0].phases[0].load", "400")
    assert problem.message.startswith(
        "asks Step Functions for up to 400 executions a second, and the account has 300 a second in this region, "
    )
    assert "AWS's default" in problem.message
    assert '"StartExecution throttle token refill rate per second"' in problem.remedy


def test_what_the_account_has_been_given_of_step_functions_counts() -> None:
    """A quota that was raised refuses nothing, and one that is a new account's refuses earlier."""
    raised = {name: 10_000.0 for names in QUOTA_NAMES.values() for name in names}
    validate(dag_plan(400, 60_000), Account(sandboxes=100_000, orchestration=raised))
    small = {**raised, **dict.fromkeys(QUOTA_NAMES["StateTransition"], 50.0)}
    problem = refusal_of(dag_plan(10), Account(orchestration=small))
    assert "90 state transitions (9 an execution) a second" in problem.message
    assert problem.message.endswith("and the account has 50 a second in this region, and 50 at once")


def test_an_emulator_is_asked_for_no_quota() -> None:
    """It has no account; what it does not play would be an error in its log for each run."""
    account = Account()
    validate(plan(writers=40), account, emulator="an emulator")
    for stubber in account.stubbers:
        with pytest.raises(AssertionError, match="responses remaining"):
            stubber.assert_no_pending_responses()


def test_a_trial_whose_history_would_be_too_long_is_refused_everywhere() -> None:
    """Step Functions ends an execution at 25,000 events, and runs no Catch."""
    assert history_events(small_plan("etcd")) < 1_000
    until = {"metric": "p50", "relative_width": 0.05, "max_events": 1_000}
    sure = {"load": [{"rate_per_s": 10, "duration_s": 10}], "until": until}
    problem = refusal_of(plan("etcd", phases=[{**sure, "name": f"phase-{index}"} for index in range(60)]), Account())
    assert (problem.path, problem.remedy) == ("trials[0].phases", "Split the trial.")
    assert f"which takes {HISTORY_EVENTS:,}" in problem.message


def test_a_team_s_month_is_spent_by_what_runs_may_cost_until_their_cost_is_known() -> None:
    """What is refused is entered as refused, and reserves nothing; what ends before its turn gives all back."""
    memory = validate(plan(), emulator="an emulator")
    run = memory.register.find("run-1")
    assert run is not None
    assert run.at_most_usd > run.estimate_usd > 0
    budget = 1.5 * run.at_most_usd
    memory = MemoryServices(aws={"events": Aws(), "lambda": Aws()}, emulator="an emulator", team_budget_usd=budget)
    first = ValidatePlanInput(plan=plan(), run_id="one", started_at=STARTED)
    validate_plan(first, memory.services)
    validate_plan(first, memory.services)
    with pytest.raises(PlanError) as refused:
        validate_plan(first.model_copy(update={"run_id": "two"}), memory.services)
    (problem,) = refused.value.problems
    assert (problem.path, "TeamBudgetUsd" in problem.remedy) == ("budget_usd", True)
    assert "that team default may spend in 2026-01" in problem.message
    assert (memory.register.find("two") or run).state == "refused"
    assert memory.register.spent("2026-01") == {"default": run.at_most_usd, "*": run.at_most_usd}
    conclude_run(ConcludeRunInput(run_id="one", state="stopped"), memory.services)
    assert memory.register.spent("2026-01") == {"default": 0, "*": 0}
    validate_plan(first.model_copy(update={"run_id": "three"}), memory.services)


def test_operations_need_sandboxes_for_their_writers_alone() -> None:
    """Nothing arrives, whatever trigger their store has."""
    mix: JSON = {"experiment": "operations", "workload": {"mix": {"read": 1}, "records": 10}}
    assert needed(small_plan("dynamodb", **mix)) == (1, 0)


def test_all_teams_together_have_a_budget_too() -> None:
    """Its parameter is named, since a team's own would be no remedy."""
    memory = MemoryServices(emulator="an emulator", account_budget_usd=1e-9)
    with pytest.raises(PlanError, match=r"that all teams may spend .* higher AccountBudgetUsd"):
        validate_plan(ValidatePlanInput(plan=plan(), run_id="one", started_at=STARTED), memory.services)


def test_tasks_of_dags_need_sandboxes_beside_the_writers() -> None:
    """By hand: two clients, or three starts a second, of a DAG whose widest level has four maps and two models."""
    closed = [{"name": "serial", "closed": {"clients": 2, "operations": 4, "duration_s": 60}}]
    at_a_rate = [{"name": "open", "load": [{"rate_per_s": 2.5, "count": 5}]}]
    trials = [TrialPlan.model_validate(dataflow_trial(phases=phases)) for phases in (closed, at_a_rate)]
    assert [needed(trial) for trial in trials] == [(1, 12), (1, 18)]
