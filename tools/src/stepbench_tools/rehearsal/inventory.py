"""What of a stack's name is in an account, and how that is removed which outlives the stack."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from stepbench.records.storage.emptying import empty_bucket

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench_tools.rehearsal.account import Account

TAG = "stepbench-rehearsal"
_LOGS = ("logs", "describe_log_groups")
_MACHINES_LOGS = "/aws/vendedlogs/states/STACK"
"""One group has both machines' logs; another stack's name may begin with this one's."""
_TAGGED = {"Filters": [{"Name": f"tag:{TAG}", "Values": ["STACK"]}]}
_INTERFACES = {"Filters": [{"Name": "description", "Values": ["AWS Lambda VPC ENI-STACK-*"]}]}


class Kind(NamedTuple):
    """
    A kind of resource, and how those of a stack are listed; STACK stands for the stack's name.

    found: JMESPath to names, too. prefix: of the stack's, at the start of a name or of an ARN's last part.
    on_aws_only: the stack makes it only with stores of its own, which no emulator plays.
    """

    name: str
    service: str
    operation: str
    found: str
    arguments: Mapping[str, Any] = {}
    prefix: str = "STACK-"
    on_aws_only: bool = False


BUCKETS, TABLES, LOG_GROUPS = "buckets", "tables", "log groups"
_LIVE_STACKS = "StackSummaries[?StackStatus!='DELETE_COMPLETE'].StackName"
_LIVE_HOSTS = "Reservations[].Instances[?State.Name!='terminated'][].InstanceId"
_NOT_EC2 = "ResourceTagMappingList[?!contains(ResourceARN, ':ec2:')].ResourceARN"  # it lists ended hosts for an hour
KINDS = (
    Kind("stacks", "cloudformation", "list_stacks", _LIVE_STACKS, prefix="STACK"),
    Kind(BUCKETS, "s3", "list_buckets", "Buckets[].Name"),
    Kind(TABLES, "dynamodb", "list_tables", "TableNames[]"),
    Kind("functions", "lambda", "list_functions", "Functions[].FunctionName"),
    Kind("layers", "lambda", "list_layers", "Layers[].LayerName"),
    Kind("mappings", "lambda", "list_event_source_mappings", "EventSourceMappings[].FunctionArn"),
    Kind("state machines", "stepfunctions", "list_state_machines", "stateMachines[].name"),
    Kind("queues", "sqs", "list_queues", "QueueUrls[]", {"QueueNamePrefix": "STACK-"}, prefix=""),
    Kind("rules", "events", "list_rules", "Rules[].Name"),
    Kind("roles", "iam", "list_roles", "Roles[].RoleName"),
    Kind("policies", "iam", "list_policies", "Policies[].PolicyName", {"Scope": "Local"}),
    Kind(LOG_GROUPS, *_LOGS, "logGroups[].logGroupName", {"logGroupNamePrefix": "/aws/lambda/STACK-"}, prefix=""),
    Kind(
        "machines' log groups",
        *_LOGS,
        f"logGroups[?logGroupName=='{_MACHINES_LOGS}'].logGroupName",
        {"logGroupNamePrefix": _MACHINES_LOGS},
        prefix="",
    ),
    Kind("APIs", "apigatewayv2", "get_apis", "Items[?Name=='STACK'].Name", prefix=""),
    Kind(
        "the API's log group",
        *_LOGS,
        "logGroups[?logGroupName=='/aws/vendedlogs/apis/STACK'].logGroupName",
        {"logGroupNamePrefix": "/aws/vendedlogs/apis/STACK"},
        prefix="",
    ),
    Kind("alarms", "cloudwatch", "describe_alarms", "MetricAlarms[].AlarmName"),
    Kind(
        "dashboards",
        "cloudwatch",
        "list_dashboards",
        "DashboardEntries[?DashboardName=='STACK'].DashboardName",
        prefix="",
    ),
    Kind("topics", "sns", "list_topics", "Topics[].TopicArn"),
    Kind("hosts", "ec2", "describe_instances", _LIVE_HOSTS, _TAGGED, "", on_aws_only=True),
    Kind("disks", "ec2", "describe_volumes", "Volumes[].VolumeId", _TAGGED, "", on_aws_only=True),
    Kind("networks", "ec2", "describe_vpcs", "Vpcs[].VpcId", _TAGGED, "", on_aws_only=True),
    Kind(
        "network interfaces",
        "ec2",
        "describe_network_interfaces",
        "NetworkInterfaces[].NetworkInterfaceId",
        _INTERFACES,
        prefix="",
        on_aws_only=True,
    ),
    Kind(
        "others with the tag",
        "resourcegroupstaggingapi",
        "get_resources",
        _NOT_EC2,
        {"TagFilters": [{"Key": TAG, "Values": ["STACK"]}]},
        prefix="",
        on_aws_only=True,
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
            names = tuple(sorted(set(_names(account, kind, stack))))
        except (ClientError, BotoCoreError) as error:
            if not (account.emulator and _is_not_played(error)):
                unlisted[kind.name] = str(error)
        else:
            found.update({kind.name: names} if names else {})
    return Inventory(found, unlisted)


def _is_not_played(error: Exception) -> bool:
    """Return whether an emulator says that it has no such service, and so nothing of it."""
    return (
        isinstance(error, ClientError)
        and error.response["ResponseMetadata"]["HTTPStatusCode"] == HTTPStatus.NOT_IMPLEMENTED
    )


def _names(account: Account, kind: Kind, stack: str) -> Iterator[str]:
    prefix = kind.prefix.replace("STACK", stack)
    pages = account.client(kind.service).get_paginator(kind.operation).paginate(**_filled(kind.arguments, stack))
    for name in pages.search(_filled(kind.found, stack)):
        if name and (name.startswith(prefix) or f":{prefix}" in name):  # None: a page without a list
            yield str(name)


def _filled(argument: Any, stack: str) -> Any:  # noqa: ANN401 -- JSON
    """Return an argument with the stack's name in its place."""
    if isinstance(argument, Mapping):
        return {name: _filled(value, stack) for name, value in argument.items()}
    if isinstance(argument, list):
        return [_filled(value, stack) for value in argument]
    return argument.replace("STACK", stack) if isinstance(argument, str) else argument


def remove_leftovers(account: Account, stack: str) -> list[str]:
    """Delete buckets, mappings, tables and log groups of the stack's name; return what could not be, and why."""
    failures: list[str] = []
    found = take_inventory(account, stack).found
    s3, dynamodb, logs = account.client("s3"), account.client("dynamodb"), account.client("logs")
    for bucket in found.get(BUCKETS, ()):
        with _noting(f"bucket {bucket}", failures):
            empty_bucket(s3, bucket)
            s3.delete_bucket(Bucket=bucket)
    pages = account.client("lambda").get_paginator("list_event_source_mappings").paginate()
    for mapping in filter(None, pages.search("EventSourceMappings[]")):
        if f":{stack}-" in mapping["FunctionArn"]:
            with _noting(f"mapping {mapping['UUID']}", failures):
                account.client("lambda").delete_event_source_mapping(UUID=mapping["UUID"])
    for table in found.get(TABLES, ()):
        with _noting(f"table {table}", failures):
            dynamodb.delete_table(TableName=table)
    for group in (*found.get(LOG_GROUPS, ()), *found.get("machines' log groups", ())):
        with _noting(f"log group {group}", failures):
            logs.delete_log_group(logGroupName=group)
    return failures


@contextmanager
def _noting(what: str, failures: list[str]) -> Iterator[None]:
    """Go on after what AWS refuses, and note it."""
    try:
        yield
    except (ClientError, BotoCoreError) as error:
        failures.append(f"{what}: {error}")
