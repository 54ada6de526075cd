"""A rehearsal's account, or an emulator: what of a stack's name is in it, and how all of that is deleted."""

from __future__ import annotations

import hashlib
import json
import os
import time
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from stepbench.errors import PlanError, Problem
from stepbench.stages.drop_results import empty_bucket
from stepbench_tools.local.sam import emulator_account
from stepbench_tools.local.stack import CREDENTIALS_REMEDY, Stack, client, emulator_session, open_stack
from stepbench_tools.rehearsal.judges import Deletion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    Step = tuple[str, Callable[[], object]]

ENDPOINT = "AWS_ENDPOINT_URL"
_AWS_SUFFIXES = (".amazonaws.com", ".amazonaws.com.cn", ".api.aws")


@dataclass(frozen=True)
class Account:
    """
    An account and region, reached with the user's own credentials, or an emulator.

    Attributes:
        number: the account's.
        region: its region.
        emulator: the name of what plays AWS; "" on AWS.
        endpoint: the emulator's; None on AWS.
        session: boto3's.
        variables: by which SAM CLI reaches the same.
    """

    number: str
    region: str
    emulator: str
    endpoint: str | None
    session: boto3.session.Session
    variables: Mapping[str, str]

    def client(self, service: str) -> Any:  # noqa: ANN401 -- boto3 clients have no common type
        """Return a client."""
        return client(self.session, service, self.endpoint)

    def stack(self, name: str) -> Stack:
        """Return a deployed stack. Raises StackError: there is none."""
        return open_stack(name, self.session, self.endpoint)

    def artefacts(self, stack: str) -> str:
        """Return the name of the bucket that `sam deploy` uploads to: names of buckets are everybody's."""
        digest = hashlib.sha256(f"{self.number} {self.region} {stack}".encode()).hexdigest()
        return f"{stack}-artefacts-{digest[:8]}"


def find_account(emulator: str) -> Account:
    """
    Return the account of the environment's credentials, or the emulator of this name at AWS_ENDPOINT_URL.

    Raises:
        PlanError: there are no credentials or no region, or a profile sends calls to what is not AWS without saying so.
        botocore.exceptions.BotoCoreError: nobody answers.
    """
    endpoint = os.environ.get(ENDPOINT)
    session = emulator_session() if endpoint else boto3.session.Session()
    if not (region := session.region_name):
        remedy = "Set it, or a region in your profile."
        raise PlanError([Problem("AWS_DEFAULT_REGION", "nothing", "names no region", remedy)])
    if session.get_credentials() is None:
        remedy = f"{CREDENTIALS_REMEDY[:1].upper()}{CREDENTIALS_REMEDY[1:]}."
        raise PlanError([Problem("AWS_PROFILE", "nothing", "gives no credentials", remedy)])
    sts = client(session, "sts", endpoint)
    host = str(sts.meta.endpoint_url).partition("//")[2].partition("/")[0]
    if endpoint is None and not host.endswith(_AWS_SUFFIXES):
        message = "is no address of AWS, so that nothing seen there can be distinguished from AWS"
        raise PlanError([Problem("endpoint_url", f'"{host}"', message, f"Give an emulator's address as {ENDPOINT}.")])
    number = str(sts.get_caller_identity()["Account"])
    own = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    variables = emulator_account(endpoint) if endpoint else own | {"AWS_REGION": region, "AWS_DEFAULT_REGION": region}
    name = (emulator or f"the emulator at {ENDPOINT}") if endpoint else ""
    return Account(number, region, name, endpoint, session, variables)


TAG = "stepbench-rehearsal"
BUCKETS, TABLES, MAPPINGS, LOG_GROUPS = "buckets", "tables", "mappings", "log groups"
_LIVE_STACKS = "StackSummaries[?StackStatus!='DELETE_COMPLETE'].StackName"
_LIVE_HOSTS = "Reservations[].Instances[?State.Name!='terminated'][].InstanceId"
_NOT_EC2 = "ResourceTagMappingList[?!contains(ResourceARN, ':ec2:')].ResourceARN"  # it lists ended hosts for an hour
_GROUPS = (
    "logGroups[?starts_with(logGroupName, '/aws/lambda/STACK-') || logGroupName=='/aws/vendedlogs/states/STACK' "
    "|| logGroupName=='/aws/vendedlogs/apis/STACK'].logGroupName"
)
"""The second has both machines' logs; another stack's name may begin with this one's."""
_DASHBOARDS = "DashboardEntries[?DashboardName=='STACK'].DashboardName"
_TAGGED = '{"Filters": [{"Name": "tag:stepbench-rehearsal", "Values": ["STACK"]}]}'
_INTERFACES = '{"Filters": [{"Name": "description", "Values": ["AWS Lambda VPC ENI-STACK-*"]}]}'


class Kind(NamedTuple):
    """
    A kind of resource, and how those of a stack are listed; STACK stands for the stack's name.

    found: JMESPath to names. prefix: of the stack's, at the start of a name or of an ARN's last part. arguments: JSON.
    on_aws_only: the stack makes it only with stores of its own, which no emulator plays.
    """

    name: str
    service: str
    operation: str
    found: str
    prefix: str = "STACK-"
    arguments: str = "{}"
    on_aws_only: bool = False


KINDS = (
    Kind("stacks", "cloudformation", "list_stacks", _LIVE_STACKS, "STACK"),
    Kind(BUCKETS, "s3", "list_buckets", "Buckets[].Name"),
    Kind(TABLES, "dynamodb", "list_tables", "TableNames[]"),
    Kind("functions", "lambda", "list_functions", "Functions[].FunctionName"),
    Kind("layers", "lambda", "list_layers", "Layers[].LayerName"),
    Kind(MAPPINGS, "lambda", "list_event_source_mappings", "EventSourceMappings[].join(' ', [FunctionArn, UUID])"),
    Kind("state machines", "stepfunctions", "list_state_machines", "stateMachines[].name"),
    Kind("queues", "sqs", "list_queues", "QueueUrls[]", "", '{"QueueNamePrefix": "STACK-"}'),
    Kind("rules", "events", "list_rules", "Rules[].Name"),
    Kind("roles", "iam", "list_roles", "Roles[].RoleName"),
    Kind("policies", "iam", "list_policies", "Policies[].PolicyName", "STACK-", '{"Scope": "Local"}'),
    Kind(LOG_GROUPS, "logs", "describe_log_groups", _GROUPS, "", '{"logGroupNamePrefix": "/aws/"}'),
    Kind("APIs", "apigatewayv2", "get_apis", "Items[?Name=='STACK'].Name", ""),
    Kind("alarms", "cloudwatch", "describe_alarms", "MetricAlarms[].AlarmName"),
    Kind("dashboards", "cloudwatch", "list_dashboards", _DASHBOARDS, ""),
    Kind("topics", "sns", "list_topics", "Topics[].TopicArn"),
    Kind("hosts", "ec2", "describe_instances", _LIVE_HOSTS, "", _TAGGED, on_aws_only=True),
    Kind("disks", "ec2", "describe_volumes", "Volumes[].VolumeId", "", _TAGGED, on_aws_only=True),
    Kind("networks", "ec2", "describe_vpcs", "Vpcs[].VpcId", "", _TAGGED, on_aws_only=True),
    Kind(
        *("network interfaces", "ec2", "describe_network_interfaces", "NetworkInterfaces[].NetworkInterfaceId"),
        *("", _INTERFACES, True),
    ),
    Kind(
        *("others with the tag", "resourcegroupstaggingapi", "get_resources", _NOT_EC2),
        *("", '{"TagFilters": [{"Key": "stepbench-rehearsal", "Values": ["STACK"]}]}', True),
    ),
)


class Inventory(NamedTuple):
    """The names that were found, by kind, and the kinds that could not be listed, with the reason."""

    found: dict[str, tuple[str, ...]]
    unlisted: dict[str, str]


def take_inventory(account: Account, stack: str) -> Inventory:
    """Return what the account has of a stack's name."""
    found: dict[str, tuple[str, ...]] = {}
    unlisted: dict[str, str] = {}
    for kind in KINDS:
        if kind.on_aws_only and account.emulator:
            continue
        try:
            names = tuple(sorted(set(find_names(account, kind, stack))))
        except (ClientError, BotoCoreError) as error:
            answer: dict[str, Any] = getattr(error, "response", {}).get("ResponseMetadata", {})
            if not account.emulator or answer.get("HTTPStatusCode") != HTTPStatus.NOT_IMPLEMENTED:
                unlisted[kind.name] = str(error)  # else the emulator has no such service, and so nothing of it
        else:
            found |= {kind.name: names} if names else {}
    return Inventory(found, unlisted)


def find_names(account: Account, kind: Kind, stack: str) -> Iterator[str]:
    """Yield the names of a kind that are of the stack's."""
    prefix, found, arguments = (text.replace("STACK", stack) for text in (kind.prefix, kind.found, kind.arguments))
    pages = account.client(kind.service).get_paginator(kind.operation).paginate(**json.loads(arguments))
    for name in pages.search(found):
        if name and (name.startswith(prefix) or f":{prefix}" in name):  # None: a page without a list
            yield str(name)


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
