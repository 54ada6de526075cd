"""A stack that is deployed with KeepResults=false, runs, and is deleted: afterwards the account is as it was before."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from stepbench_tools.local.deploy import Deployment, build, deploy, exclusive_lock, python_runtime
from stepbench_tools.local.emulator.server import start_emulator
from stepbench_tools.local.processes import terminate
from stepbench_tools.local.sam import emulator_account
from stepbench_tools.local.stack import BENCHMARK
from stepbench_tools.rehearsal.account import KINDS, find_account, take_inventory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench_tools.local.paths import Paths
    from stepbench_tools.rehearsal.account import Account

DEPLOY_LIMIT_S, RUN_LIMIT_S, DELETE_LIMIT_S = 900, 240, 240
STACK = "to-be-deleted"
pytestmark = [pytest.mark.emulator, pytest.mark.timeout(DEPLOY_LIMIT_S + RUN_LIMIT_S + DELETE_LIMIT_S)]
LOAD = [{"rate_per_s": 20, "count": 20}]
PHASES = [{"name": "warm-up", "measured": False, "load": LOAD}, {"name": "steady", "load": LOAD}]
PLAN = {
    "name": "last-run",
    "trials": [{"target": {"store": store}, "phases": PHASES, "drain_limit_s": 10} for store in ("s3", "dynamodb")],
}


@pytest.fixture(scope="module")
def account(paths: Paths) -> Iterator[Account]:
    """Start an emulator on which everything of the template that it can play is deployed once."""
    with exclusive_lock(paths.build, print):
        built = build(paths, python_runtime(paths))
        emulator = start_emulator(paths)
        parameters = {
            "PythonRuntime": python_runtime(paths),
            "Emulator": emulator.name,
            "LeadSeconds": "2",
            "KeepResults": "false",
            "Monitoring": "on",
            "AlarmEmail": "someone@example.com",
        }
        try:
            deploy(Deployment(paths, emulator.endpoint, parameters, STACK), built)
            with pytest.MonkeyPatch.context() as patch:
                for name, value in emulator_account(emulator.endpoint).items():
                    patch.setenv(name, value)
                yield find_account(emulator.name)
        finally:
            terminate(emulator.pids)


def _await(account: Account, service: str, operation: str, wanted: str, limit_s: float, **asked: str) -> dict[str, Any]:
    """Ask until a status is none that only passes; return the answer, which is `wanted` or a failure."""
    deadline = time.monotonic() + limit_s
    while True:
        answer: dict[str, Any] = getattr(account.client(service), operation)(**asked)
        status = answer.get("status") or answer["Stacks"][0]["StackStatus"]
        if status == wanted or "FAILED" in status or time.monotonic() > deadline:
            return answer
        time.sleep(0.5)


def test_deleting_the_stack_leaves_nothing_of_it(account: Account) -> None:
    """Not a bucket, table, log group, mapping, topic or alarm; and what a run has written goes too."""
    deployed = take_inventory(account, STACK)
    assert deployed.unlisted == {}
    here = {kind.name for kind in KINDS if not kind.on_aws_only}
    assert deployed.found.keys() == here - {"mappings"}  # trials make those
    stack = account.stack(STACK)
    started = account.client("stepfunctions").start_execution(
        stateMachineArn=stack.outputs[BENCHMARK], name="last-run", input=json.dumps(PLAN)
    )
    ended = _await(
        account,
        "stepfunctions",
        "describe_execution",
        "SUCCEEDED",
        RUN_LIMIT_S,
        executionArn=started["executionArn"],
    )
    assert ended["status"] == "SUCCEEDED", ended
    assert take_inventory(account, STACK) == deployed, "a run leaves nothing beside its results"
    results, s3 = stack.outputs["ResultsBucketName"], account.client("s3")
    assert s3.list_objects_v2(Bucket=results)["KeyCount"] > 10
    s3.create_multipart_upload(Bucket=results, Key="runs/half")
    formation = account.client("cloudformation")
    identity = formation.describe_stacks(StackName=STACK)["Stacks"][0]["StackId"]
    formation.delete_stack(StackName=STACK)
    gone = _await(account, "cloudformation", "describe_stacks", "DELETE_COMPLETE", DELETE_LIMIT_S, StackName=identity)
    assert gone["Stacks"][0]["StackStatus"] == "DELETE_COMPLETE", gone
    assert take_inventory(account, STACK).found == {}
