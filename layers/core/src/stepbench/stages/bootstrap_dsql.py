"""
Entry point `BootstrapDsql`: what CloudFormation cannot do for Aurora DSQL by itself, as custom resources.

A stack is in one region, and so are its resources; nor do they log in to databases. So this makes a cluster in another
region (and peers it with one here), takes it away again, and binds the functions' roles of IAM to roles in a cluster.

Peers need each other's names. So the one here exists with its witness only, the other is made with witness and peer,
and the first is given its peer. Of two peers the first to be deleted waits for the other (PENDING_DELETE): this one is
deleted first, since it depends on the other, and does not wait.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, WaiterError

from stepbench.contracts.custom_resource import (
    DSQL_PROPERTIES,
    BootstrapDsqlInput,
    CustomResourceAnswer,
    DsqlClusterProperties,
    DsqlRoleProperties,
)
from stepbench.drivers.dsql.access import (
    ADMIN,
    DATABASE_ROLE,
    WRITER_ROLE,
    DsqlCluster,
    bind,
    cluster_access,
    set_up,
)
from stepbench.errors import StepbenchError, TargetUnavailableError
from stepbench.observability import logger
from stepbench.stages.custom_resource import UNNAMED, failed, is_of_cloudformation, put_answer, refused, succeeded
from stepbench.wire.http1.boto import bounded_client

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from stepbench.clock import Clock
    from stepbench.drivers.sql.access import Access
    from stepbench.services import Services
    from stepbench.stages.custom_resource import Answer

    ClientOf = Callable[[str], Any]
    """boto3's client of `dsql` in a region."""

TAG = "stepbench:stack"
ACTIVE_AFTER_TAG = "stepbench:active-after-s"
"""Seconds from a cluster's creation until it, and a peer that it was made for, were active; updates find it again."""
CLUSTER_WAIT = {"Delay": 1, "MaxAttempts": 300}
"""Each of two peers has so much of the function's 900 s. Published: active after 8 s, peers after 115 s at most."""
LOGIN_WAIT_S, LOGIN_POLL_S = 300, 5
"""A right that IAM was just given takes some seconds until it is one everywhere."""
BINDING_LIMIT_S = 780
"""How much of the function's 900 s may pass: the answer must still be sent."""
_BOUNDS = Config(connect_timeout=5, read_timeout=30, retries={"mode": "standard", "max_attempts": 5})


class _UnfinishedError(StepbenchError):
    """There is a cluster, but not as it should be. `arn` is how CloudFormation gets to delete it."""

    def __init__(self, arn: str, cause: Exception) -> None:
        super().__init__(f"{arn}: {cause}")
        self.arn = arn


def bootstrap_dsql(
    task: BootstrapDsqlInput, services: Services, *, client_of: ClientOf | None = None, answer: Answer | None = None
) -> CustomResourceAnswer:
    """
    Do what CloudFormation asks for, and tell it what came of that: without an answer it would wait for an hour.

    A request with another address for the answer is none of CloudFormation's, such as the sample event: nothing is done
    and no answer is sent, since a cluster that no stack knows would cost money for good.

    Raises:
        OSError: the answer could not be delivered; Lambda then calls again, which finds what is there already.
    """
    if not is_of_cloudformation(task.ResponseURL, services.settings):
        return refused(task)
    try:
        properties = DSQL_PROPERTIES.validate_python(task.ResourceProperties)
        if isinstance(properties, DsqlRoleProperties):
            output = _bind_roles(task, properties, services)
        else:
            output = _cluster(task, properties, client_of or _client, services.clock)
    except Exception as error:  # noqa: BLE001 -- whatever it is, CloudFormation waits for an answer
        logger.exception("bootstrap failed")
        named = error.arn if isinstance(error, _UnfinishedError) else task.PhysicalResourceId or UNNAMED
        output = failed(task, named, error)
    (answer or put_answer)(task.ResponseURL, output.model_dump_json().encode())
    return output


# --- clusters ----------------------------------------------------------------------------------------------------


def _cluster(
    task: BootstrapDsqlInput, properties: DsqlClusterProperties, client_of: ClientOf, clock: Clock
) -> CustomResourceAnswer:
    if task.RequestType == "Delete":
        _delete(task.PhysicalResourceId, client_of)
        return succeeded(task, task.PhysicalResourceId)
    if task.RequestType == "Update" and region_of_arn(task.PhysicalResourceId) == properties.Region:
        arn, is_new = task.PhysicalResourceId, False
    else:
        created = _make(task, properties, client_of(properties.Region))
        arn, is_new = str(created["arn"]), created["status"] != "ACTIVE"
    try:
        cluster = _complete(arn, properties, client_of)
        active_after_s = cluster.get("tags", {}).get(ACTIVE_AFTER_TAG, "")
        if is_new and not active_after_s:
            active_after_s = f"{clock.now_ns() / 1e9 - cluster['creationTime'].timestamp():.1f}"
            tags = {TAG: properties.Stack, ACTIVE_AFTER_TAG: active_after_s}
            client_of(properties.Region).tag_resource(resourceArn=arn, tags=tags)
    except (BotoCoreError, ClientError, WaiterError) as error:
        raise _UnfinishedError(arn, error) from error
    return succeeded(task, arn, {"Arn": arn, "Endpoint": str(cluster["endpoint"]), "ActiveAfterS": active_after_s})


def _make(task: BootstrapDsqlInput, properties: DsqlClusterProperties, client: Any) -> dict[str, Any]:  # noqa: ANN401 -- boto3's
    """Create the cluster; the same request makes one cluster, however often it is delivered."""
    regions: dict[str, Any] = {}
    if properties.PeerArn:
        asked = {"witnessRegion": properties.WitnessRegion, "clusters": [properties.PeerArn]}
        regions = {"multiRegionProperties": asked}
    created: dict[str, Any] = client.create_cluster(
        deletionProtectionEnabled=False, tags={TAG: properties.Stack}, clientToken=task.RequestId, **regions
    )
    return created


def _complete(arn: str, properties: DsqlClusterProperties, client_of: ClientOf) -> dict[str, Any]:
    """Register it with its peer, wait until the cluster is active, and return it as GetCluster has it."""
    if properties.PeerArn:
        peer, identifier = client_of(region_of_arn(properties.PeerArn)), _identifier(properties.PeerArn)
        if arn not in peer.get_cluster(identifier=identifier).get("multiRegionProperties", {}).get("clusters", ()):
            asked = {"witnessRegion": properties.WitnessRegion, "clusters": [arn]}
            peer.update_cluster(identifier=identifier, multiRegionProperties=asked)
        peer.get_waiter("cluster_active").wait(identifier=identifier, WaiterConfig=CLUSTER_WAIT)
    client = client_of(properties.Region)
    client.get_waiter("cluster_active").wait(identifier=_identifier(arn), WaiterConfig=CLUSTER_WAIT)
    cluster: dict[str, Any] = client.get_cluster(identifier=_identifier(arn))
    return cluster


def _delete(arn: str, client_of: ClientOf) -> None:
    """Delete the cluster; one that is gone already, or was never made, is as good."""
    if not region_of_arn(arn):
        return
    try:
        client_of(region_of_arn(arn)).delete_cluster(identifier=_identifier(arn))
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceNotFoundException":
            raise


def region_of_arn(arn: str) -> str:
    """Return the region in `arn:aws:dsql:<region>:<account>:cluster/<id>`; "" for what is no ARN of a cluster."""
    parts = arn.split(":")
    return parts[3] if len(parts) == 6 and parts[2] == "dsql" else ""  # noqa: PLR2004 -- an ARN has six


def _identifier(arn: str) -> str:
    return arn.rpartition("/")[2]


def _client(region: str) -> Any:  # noqa: ANN401 -- boto3's
    return bounded_client(boto3.client("dsql", region_name=region, config=_BOUNDS))


# --- roles ---------------------------------------------------------------------------------------------------------


def _bind_roles(task: BootstrapDsqlInput, properties: DsqlRoleProperties, services: Services) -> CustomResourceAnswer:
    """Bind the roles; those that are deleted with their cluster need no unbinding."""
    if task.RequestType != "Delete":
        asyncio.run(asyncio.wait_for(_bind(properties, services), BINDING_LIMIT_S))
    return succeeded(task, f"{properties.Endpoint}/role")


async def _bind(properties: DsqlRoleProperties, services: Services) -> None:
    clock = services.clock
    cluster = DsqlCluster.at(properties.Endpoint, services.settings.aws_region)
    access = cluster_access(cluster, services.settings, clock, ADMIN)
    connection = await _log_in(access, clock.now_ns() + LOGIN_WAIT_S * 1_000_000_000, services)
    try:
        await set_up(connection, clock)
        await bind(connection, DATABASE_ROLE, properties.IamRoles, clock)
        await bind(connection, WRITER_ROLE, properties.WriterRoles, clock)
    finally:
        await connection.close()


async def _log_in(access: Access, until_ns: int, services: Services) -> psycopg.AsyncConnection:
    while True:
        try:
            return await access.connect()
        except TargetUnavailableError:
            if services.clock.now_ns() >= until_ns:
                raise
        await services.clock.sleep_async(LOGIN_POLL_S)
