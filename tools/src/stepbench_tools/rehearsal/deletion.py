"""The end of a rehearsal: its stack is deleted, with what that keeps and what trials have made; nothing may be left."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from stepbench.records.storage.run_store import empty_bucket
from stepbench_tools.rehearsal.inventory import BUCKETS, LOG_GROUPS, MAPPINGS, TABLES, Inventory, take_inventory
from stepbench_tools.rehearsal.record import Deletion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from stepbench_tools.rehearsal.account import Account

    Step = tuple[str, Callable[[], object]]

DELETE_S = 4_500
"""Longer than CloudFormation itself waits for what the stack makes."""
GONE_S, GONE_ON_EMULATOR_S = 900, 10
"""How long what was deleted may still be listed: interfaces of functions, and tags."""
_POLL_S = 5


def delete_everything(account: Account, stack: str, notify: Callable[[str], None]) -> Deletion:
    """Delete the stack, what it keeps and what its trials have made; never raises for what AWS refuses."""
    began_s = time.monotonic()
    failures = take(_steps(account, stack), notify)
    notify("listing what is left")
    left = _await_nothing(account, stack)
    seconds = time.monotonic() - began_s
    return Deletion(seconds=seconds, failures=tuple(failures), left=left.found, unlisted=left.unlisted)


def take(steps: Iterable[Step], notify: Callable[[str], None]) -> list[str]:
    """Take one step after the other, whatever AWS refuses; return what it did refuse."""
    failures = []
    for name, work in steps:
        notify(name)
        try:
            work()
        except (ClientError, BotoCoreError) as error:
            failures.append(f"{name}: {error}")
    return failures


def _steps(account: Account, stack: str) -> Iterator[Step]:
    yield "stopping what runs", partial(_stop_executions, account, stack)
    for bucket in take_inventory(account, stack).found.get(BUCKETS, ()):
        yield f"emptying {bucket}", partial(empty_bucket, account.client("s3"), bucket)
    yield "deleting the stack", partial(_delete_stack, account, stack)
    yield from leftovers(account, stack)
    yield "deleting the stack again, where something of it was not empty", partial(_delete_stack, account, stack)


def leftovers(account: Account, stack: str) -> Iterator[Step]:
    """Yield the steps that delete buckets, mappings, tables and log groups of the stack's name."""
    found = take_inventory(account, stack).found
    functions, dynamodb, logs = (account.client(service) for service in ("lambda", "dynamodb", "logs"))
    for bucket in found.get(BUCKETS, ()):
        yield f"bucket {bucket}", partial(_delete_bucket, account.client("s3"), bucket)
    for mapping in found.get(MAPPINGS, ()):
        yield f"mapping {mapping}", partial(functions.delete_event_source_mapping, UUID=mapping.split()[-1])
    for table in found.get(TABLES, ()):
        yield f"table {table}", partial(dynamodb.delete_table, TableName=table)
    for group in found.get(LOG_GROUPS, ()):
        yield f"log group {group}", partial(logs.delete_log_group, logGroupName=group)


def _delete_bucket(s3: Any, bucket: str) -> None:  # noqa: ANN401 -- a boto3 client
    empty_bucket(s3, bucket)
    s3.delete_bucket(Bucket=bucket)


def _stop_executions(account: Account, stack: str) -> None:
    """Stop the executions of a rehearsal that was killed; one that is alive has stopped its own in order."""
    functions = account.client("stepfunctions")
    machines = functions.get_paginator("list_state_machines").paginate().search("stateMachines[].stateMachineArn")
    for machine in [each for each in machines if f":{stack}-" in each]:
        for execution in functions.list_executions(stateMachineArn=machine, statusFilter="RUNNING")["executions"]:
            functions.stop_execution(executionArn=execution["executionArn"], cause="the rehearsal is over")


def _delete_stack(account: Account, stack: str) -> None:
    """Delete the stack and wait, also one that is still made or whose change set never ran; none is deleted already."""
    formation = account.client("cloudformation")
    formation.delete_stack(StackName=stack)
    waiting = {"Delay": 1 if account.emulator else _POLL_S, "MaxAttempts": DELETE_S // _POLL_S}
    formation.get_waiter("stack_delete_complete").wait(StackName=stack, WaiterConfig=waiting)


def _await_nothing(account: Account, stack: str) -> Inventory:
    """Return the inventory, once it is empty or the time is up."""
    deadline_s = time.monotonic() + (GONE_ON_EMULATOR_S if account.emulator else GONE_S)
    while True:
        left = take_inventory(account, stack)
        if not left.found or time.monotonic() > deadline_s:
            return left
        time.sleep(1 if account.emulator else _POLL_S * 3)
