"""
Each role may do what it has to, and nothing else: calls recorded on the emulator, judged by the template's policies.

The deployment refuses what a function's role does not allow (STEPBENCH_DECISIONS), so every test here is one of the
policies, too. This module adds runs that between them take every path of every driver that the emulator knows.
"""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any

import pytest
from tests.end_to_end.api_client import ApiClient
from tests.end_to_end.deployment import (
    INVENTORY_S,
    MEASURED_ATTEMPT,
    TO_BE_STOPPED,
    Deployment,
    finish,
    plan,
    started_attempts,
    wait_for,
)
from tests.end_to_end.own_function import NAME, OwnFunction
from tests.samples.dags import SMALL, dataflow_trial
from tests.samples.roles import Roles
from tests.samples.second_opinion import SecondOpinion, ask_emulator
from tests.samples.service_calls import service_calls

from stepbench_tools.local.stack import BENCHMARK

RUNS_LIMIT_S = 500
pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(RUNS_LIMIT_S + 200), pytest.mark.nightly("permissions")]

FUNCTION = {"name": NAME, "attempts": 1, "reserved_concurrency": 2}
Json = dict[str, Any]


def _load(count: int, rate_per_s: int = 20, **fields: Any) -> Json:  # noqa: ANN401 -- a phase's fields
    return {"load": [{"rate_per_s": rate_per_s, "count": count}], **fields}


def _trials() -> list[Json]:
    steady = _load(60, name="steady")
    units = [{"capacity": {"mode": "provisioned", "write_units": units}} for units in (50, 100)]
    scaled = _load(40, name="scaled", scale=units[1])
    until = {"metric": "p50", "relative_width": 2, "max_events": 2_000}
    found = {"utilisation": 0.6, "tolerance": 0.1, "low_per_s": 5, "high_per_s": 20, "probe_s": 5, "probes": 3}
    at_found = {"name": "load", "load": [{"rate_per_s": 20, "of_found": 1, "duration_s": 4}]}
    products = {"mix": {"read": 1, "insert": 1, "overwrite": 1, "update": 1}, "records": 50}
    closed = [{"name": "steady", "closed": {"clients": 2, "duration_s": 3}}]
    updates, capacity = {"operation": "update", "distinct_keys": 20}, {"store": "dynamodb", **units[0]}
    return [
        {"name": "s3", "target": {"store": "s3"}, "record": {"operation": "delete"}, "phases": [steady]},
        {"name": "scaled", "target": capacity, "record": updates, "phases": [steady, scaled], "log_t4": "all"},
        {"name": "deleted", "target": {"store": "dynamodb"}, "record": {"operation": "delete"}, "phases": [steady]},
        {"name": "one-sandbox", "target": {"store": "dynamodb", "same_sandbox": True, "batch_size": 1},
         "phases": [_load(16, 8, name="steady")]},
        {"name": "until", "target": {"store": "etcd"},
         "phases": [{"name": "steady", "load": [{"rate_per_s": 50, "duration_s": 5}], "until": until}]},
        {"name": "busy", "target": capacity, "phases": [at_found], "find_rate": found},
        {"name": "from-host", "target": {"store": "s3"}, "load_from": "host", "phases": [steady]},
        {"name": "files", "experiment": "transfer", "platforms": ["lambda", "fargate"], "file_sizes_mib": [1, 20],
         "choice": "each", "transfers": 2, "dataset": "permissions"},
        {**dataflow_trial(SMALL), "name": "dags", "drain_limit_s": 60,
         "phases": [{"name": "serial", "closed": {"clients": 1, "operations": 2, "duration_s": 60}}]},
        *({"name": f"own-{store}", "target": {"store": store, "function": FUNCTION}, "phases": [steady]}
          for store in ("s3", "dynamodb")),
        {"name": "items", "experiment": "operations", "target": {"store": "dynamodb"},
         "workload": {**products, "record": {"shape": "product"}}, "phases": closed},
    ]  # fmt: skip


def _use_api(deployment: Deployment) -> None:
    """Ask for everything that the API answers, of a run that is stopped and of one in the queue behind it."""
    api = ApiClient(deployment)
    running, waiting = (
        api.call("POST", "/runs", {"plan": plan(f"api-{name}", "s3", measured=TO_BE_STOPPED, function=FUNCTION)}).body[
            "run_id"
        ]
        for name in "ab"
    )
    assert wait_for(lambda: (api.call("GET", f"/runs/{running}").body["progress"] or {}).get("sent", 0) > 0)
    assert api.call("GET", f"/runs/{waiting}").body["queue"]["position"] == 1
    assert api.upload(b'{"body": "mine"}\n').startswith("values/")
    assert api.call("GET", "/runs").status == api.call("GET", "/runs?plan=api-a").status == 200
    for run_id in (waiting, running):
        assert api.call("DELETE", f"/runs/{run_id}").status == 202
        assert wait_for(partial(_is_stopped, api, run_id))
    assert api.call("GET", f"/runs/{running}/report").status == 303
    assert "permissions" in api.call("GET", "/datasets").body["datasets"]
    assert api.call("GET", "/datasets/permissions/report").status == 200


def _is_stopped(api: ApiClient, run_id: str) -> bool:
    return bool(api.call("GET", f"/runs/{run_id}").body["state"] == "stopped")


def _refuse_and_sweep(deployment: Deployment) -> None:
    """Have the stack refuse a plan, of which an event tells, and the sweeper look at everything, as each hour."""
    sfn, machine = deployment.stack.aws("stepfunctions"), deployment.stack.outputs[BENCHMARK]
    arn = sfn.start_execution(stateMachineArn=machine, input='{"name": "refused", "trials": []}')["executionArn"]
    assert wait_for(lambda: sfn.describe_execution(executionArn=arn)["status"] == "FAILED")
    deployment.stack.call("SweepTargetsFunction", {})


@pytest.fixture(scope="module")
def calls(deployment: Deployment, own: OwnFunction) -> list[Json]:
    """Run what takes every path, abort a run as from the console, and return what was asked for in a role's name."""
    with deployment.running({"name": "permissions", "trials": _trials()}) as process:
        finished = finish(process, RUNS_LIMIT_S)
    failures = {trial["name"]: (trial["failure"] or {}).get("error") for trial in finished.summary["trials"]}
    no_rate = failures.pop("busy")  # how busy the store was, is asked all the same
    assert no_rate in {None, "RateNotFoundError"}, finished.stderr
    assert set(failures.values()) == {None}, finished.stderr
    name = "permissions-aborted"
    before = deployment.inventory()
    aborted = plan(name, "dynamodb", measured=TO_BE_STOPPED)
    aborted["trials"][0]["load_from"] = "host"  # whose writers then fail, and say so
    with deployment.running(aborted) as process:
        assert wait_for(lambda: MEASURED_ATTEMPT in started_attempts(deployment, name))
        deployment.abort()
        assert wait_for(lambda: deployment.inventory() == before, every_s=INVENTORY_S), deployment.inventory()
        finish(process)
    _use_api(deployment)
    _refuse_and_sweep(deployment)
    assert own.changes() == {}
    return [json.loads(line) for line in deployment.decisions.read_text().splitlines()]


@pytest.fixture(scope="module")
def roles(deployment: Deployment) -> Roles:
    """Return the template's roles, by the names that the stack gave its resources."""
    pages = deployment.stack.aws("cloudformation").get_paginator("list_stack_resources")
    listed = [
        each for page in pages.paginate(StackName=deployment.state.stack) for each in page["StackResourceSummaries"]
    ]
    return Roles(deployment.state.stack, {each["LogicalResourceId"]: each["PhysicalResourceId"] for each in listed})


_OF_ITEMS = re.compile("dynamodb:((Batch)?(Get|Write)|Put|Update|Delete|ConditionCheck)Item$|dynamodb:Query$")


def _with_keys(context: Json, action: str) -> Json:
    """Return a call's context with the partition key that DynamoDB always names of items, and no recording has."""
    if not _OF_ITEMS.match(action) or "dynamodb:LeadingKeys" in context:
        return context
    return {**context, "dynamodb:LeadingKeys": "trial#t"}


_WITH_DIGITS = re.compile(r"\b\w*\d\w*\b(?!:)")


@pytest.fixture(scope="module")
def asked(roles: Roles, calls: list[Json]) -> Json:
    """
    Return policies, and all unlike calls: recorded ones, AWS's pages', and each of them once in another's name.

    Calls are alike that differ in words with digits only, such as a run's time or a trial's tag.
    """
    recorded = [{**call, "role": roles.owner(call["session"])} for call in calls if roles.knows(call["session"])]
    known = [{**call._asdict(), "context": dict(call.context)} for call in service_calls(roles)]
    parts = ("role", "action", "resource", "context")
    every = [{part: call[part] for part in parts} for call in (*recorded, *known)]
    every = [{**call, "context": _with_keys(call["context"], call["action"])} for call in every]
    unlike = list({_WITH_DIGITS.sub("#", json.dumps(call, sort_keys=True)): call for call in every}.values())
    names = sorted(roles.attached())
    others = [{**call, "role": names[place % len(names)]} for place, call in enumerate(unlike)]
    return {"policies": roles.policies(), "attached": roles.attached(), "calls": unlike, "others": others}


@pytest.fixture(scope="module")
def judged(asked: Json) -> Json:
    """Return what the emulator's evaluator says of all calls, and of the policies."""
    return ask_emulator(asked)


def test_nothing_that_was_asked_for_is_refused(calls: list[Json], judged: Json) -> None:
    """By the emulator as it ran, and by the template's policies with what AWS's services do in a role's name."""
    assert [call for call in calls if call["decision"] != "Allow"] == []
    assert judged["denied"] == []


def test_nothing_is_allowed_that_no_call_needs(judged: Json) -> None:
    """Whatever action or resource is taken from a policy, some call is refused."""
    assert judged["unneeded"] == []
    assert judged["tried"] > 200


def test_a_solver_that_reads_the_policies_decides_as_the_emulator_does(asked: Json, judged: Json) -> None:
    """Neither reading of IAM's rules is AWS's; they share no code, so a slip of one of them would show."""
    opinion = SecondOpinion(asked["policies"], asked["attached"])
    assert [call for call in asked["calls"] if opinion.allows(call) != (call not in judged["denied"])] == []
    allowed = [call for call in asked["others"] if opinion.allows(call)]
    assert allowed == judged["allowed_others"]
    assert 0 < len(allowed) < len(asked["others"]) / 2, "most of what another may do, a role may not"


VARIANTS = {f"{name}Function" for name in ("MakeLearningInput", "MakeVideoInput", "RunLearningTask", "RunVideoTask")}
"""The same code with other libraries: their calls are in the table, whoever else has invoked them here."""


def test_every_function_with_a_role_of_its_own_was_seen(roles: Roles, calls: list[Json]) -> None:
    """One that never ran has calls that nobody has seen."""
    seen = {roles.owner(call["session"]) for call in calls}
    unseen = {name for name in roles.attached() if name.endswith("Function")} - seen
    assert unseen - VARIANTS == {"BootstrapDsqlFunction", "DropResultsFunction"}
