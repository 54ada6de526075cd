"""What of a stack's name is in an account."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench_tools.rehearsal.account import Account

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
