"""The stack made and removed by SAM CLI, in the user's account or on an emulator."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from stepbench.errors import LocalEnvironmentError, StepbenchError
from stepbench.records.storage.emptying import empty_bucket
from stepbench_tools.local.deploy import deploy_arguments, run_sam
from stepbench_tools.rehearsal.inventory import (
    BUCKETS,
    TAG,
    Inventory,
    remove_leftovers,
    take_inventory,
)
from stepbench_tools.rehearsal.record import Deletion

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepbench_tools.local.paths import Paths
    from stepbench_tools.rehearsal.account import Account

DEPLOY_S, DELETE_S = 3_600, 4_500
"""Longer than CloudFormation itself waits for what the stack makes."""
GONE_S, GONE_ON_EMULATOR_S = 900, 10
"""How long what was deleted may still be listed: interfaces of functions, and tags."""
_POLL_S = 5
NO_STACK = "does not exist"


def make_artefacts(account: Account, stack: str) -> None:
    """Make the bucket that `sam deploy` uploads to, with the rehearsal's tag."""
    s3, bucket = account.client("s3"), account.artefacts(stack)
    if account.region == "us-east-1":
        s3.create_bucket(Bucket=bucket)
    else:
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": account.region})
    s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": [{"Key": TAG, "Value": stack}]})


def deploy(account: Account, paths: Paths, stack: str, parameters: Mapping[str, str]) -> None:
    """
    Make or update the stack.

    Raises:
        LocalEnvironmentError: SAM CLI failed; with the end of its output, which has CloudFormation's reasons.
    """
    arguments = deploy_arguments(paths, stack, parameters, account.artefacts(stack))
    arguments += ["--tags", f"{TAG}={stack}"]
    run_sam(paths, arguments, timeout_s=DEPLOY_S, account=account.variables)


def delete_everything(account: Account, paths: Paths, stack: str, notify: Callable[[str], None]) -> Deletion:
    """Delete the stack, what it keeps and what its trials have made; never raises for what AWS refuses."""
    began_s = time.monotonic()
    failures: list[str] = []
    steps: tuple[tuple[str, Callable[[], None]], ...] = (
        ("stopping what runs", lambda: _stop_executions(account, stack)),
        ("emptying buckets", lambda: _empty_buckets(account, stack)),
        ("sam delete", lambda: _delete_stack(account, paths, stack)),
        ("deleting what the stack keeps", lambda: failures.extend(remove_leftovers(account, stack))),
        ("looking for the stack again", lambda: _delete_stack(account, paths, stack)),
    )
    for name, step in steps:
        notify(name)
        try:
            step()
        except (StepbenchError, ClientError, BotoCoreError, OSError) as error:
            failures.append(f"{name}: {error}")
    notify("listing what is left")
    left = _await_nothing(account, stack)
    return Deletion(
        seconds=time.monotonic() - began_s, failures=tuple(failures), left=left.found, unlisted=left.unlisted
    )


def _stop_executions(account: Account, stack: str) -> None:
    """Stop the executions of a rehearsal that was killed; one that is alive has stopped its own in order."""
    functions = account.client("stepfunctions")
    machines = functions.get_paginator("list_state_machines").paginate().search("stateMachines[].stateMachineArn")
    for machine in [each for each in machines if f":{stack}-" in each]:
        for execution in functions.list_executions(stateMachineArn=machine, statusFilter="RUNNING")["executions"]:
            functions.stop_execution(executionArn=execution["executionArn"], cause="the rehearsal is over")


def _empty_buckets(account: Account, stack: str) -> None:
    for bucket in take_inventory(account, stack).found.get(BUCKETS, ()):
        empty_bucket(account.client("s3"), bucket)


def _delete_stack(account: Account, paths: Paths, stack: str) -> None:
    """Run `sam delete`; where that fails, as for a stack whose change set never ran, CloudFormation is asked itself."""
    formation = account.client("cloudformation")
    if _settled_status(formation, stack) is None:
        return
    arguments = ["delete", "--stack-name", stack, "--region", account.region, "--no-prompts"]
    try:
        run_sam(paths, arguments, timeout_s=DELETE_S, account=account.variables)
    except LocalEnvironmentError:
        formation.delete_stack(StackName=stack)
        formation.get_waiter("stack_delete_complete").wait(
            StackName=stack, WaiterConfig={"Delay": _POLL_S, "MaxAttempts": DELETE_S // _POLL_S}
        )


def _settled_status(formation: Any, stack: str) -> str | None:  # noqa: ANN401 -- a boto3 client
    """Return the stack's status once it can be deleted, which it cannot while it is updated; None if there is none."""
    deadline_s = time.monotonic() + DEPLOY_S
    while True:
        try:
            status = str(formation.describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"])
        except ClientError as error:
            if NO_STACK in str(error):
                return None
            raise
        updating = status.startswith("UPDATE_") and status.endswith("IN_PROGRESS")
        if not updating or time.monotonic() > deadline_s:
            return status
        if status == "UPDATE_IN_PROGRESS":
            with suppress(ClientError):  # it may just have ended
                formation.cancel_update_stack(StackName=stack)
        time.sleep(_POLL_S)


def _await_nothing(account: Account, stack: str) -> Inventory:
    """Return the inventory, once it is empty or the time is up."""
    deadline_s = time.monotonic() + (GONE_ON_EMULATOR_S if account.emulator else GONE_S)
    while True:
        left = take_inventory(account, stack)
        if not left.found or time.monotonic() > deadline_s:
            return left
        time.sleep(1 if account.emulator else _POLL_S * 3)
