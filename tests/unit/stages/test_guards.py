"""Quotas and budgets, with what AWS would answer; no account is asked."""

from __future__ import annotations

import io
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from tests.samples.dags import dataflow_trial, stage
from tests.samples.services import MemoryServices, small_plan

from stepbench.contracts.plan import TrialPlan
from stepbench.contracts.run_tasks import ConcludeRunInput, ValidatePlanInput
from stepbench.errors import PlanError, Problem
from stepbench.experiments.registry import experiment_of
from stepbench.planning.quotas import HISTORY_EVENTS, QUOTA_NAMES, history_events
from stepbench.stages.conclude_run import conclude_run
from stepbench.stages.validate_plan import validate_plan

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


def problem_of(document: JSON, account: Account) -> Problem:
    """Return the one problem for which a plan is refused."""
    with pytest.raises(PlanError) as refused:
        validate(document, account)
    (problem,) = refused.value.problems
    return problem


def test_a_plan_that_needs_more_sandboxes_than_are_left_is_refused() -> None:
    """Its writers would be throttled, and the load would be another than the plan's."""
    validate(plan(writers=39), Account(sandboxes=50))
    problem = problem_of(plan(writers=40, repeats=3), Account(sandboxes=50))
    assert (problem.path, problem.value) == ("trials[0].writers", "40")
    assert "needs 51 concurrent executions of Lambda (40 writers, 1 receivers, 10 others)" in problem.message
    assert problem.message.endswith("the account has 50")
    assert "Concurrent executions raised" in problem.remedy


def test_where_the_account_cannot_be_read_aws_s_default_is_taken_and_said() -> None:
    """A right that is missing refuses no plan that the default permits."""
    validate(plan(writers=40), Account(sandboxes=None))
    problem = problem_of(plan(rate_per_s=9_900), Account(sandboxes=None))
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
    problem = problem_of(plan("dynamodb", target=capacity), Account(table_units=10_000))
    assert (problem.path, problem.value) == ("trials[0].target.capacity", "12000")
    assert "asks for 12,000 write units, and the account gives a table 10,000" in problem.message
    problem = problem_of(plan("dynamodb", rate_per_s=11_000), Account(table_units=10_000))
    assert "is offered 11,000 write units a second, and a table of the account takes 10,000" in problem.message


def test_names_of_attributes_are_written_too() -> None:
    """59 bytes of key and 965 of value are 1 KB; with 20 of names each write is billed, and throttled, as two units."""
    record = {"value_bytes": 965}
    problem = problem_of(plan("dynamodb", rate_per_s=6_000, record=record), Account(table_units=10_000))
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
    problem = problem_of(dag_plan(400, 60_000), Account(sandboxes=100_000))
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
    problem = problem_of(dag_plan(10), Account(orchestration=small))
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
    problem = problem_of(plan("etcd", phases=[{**sure, "name": f"phase-{index}"} for index in range(60)]), Account())
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
