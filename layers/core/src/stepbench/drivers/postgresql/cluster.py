"""Capacity of an Aurora Serverless v2 cluster, changed for a trial and given back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.errors import TargetUnavailableError

if TYPE_CHECKING:
    from stepbench.contracts.capacity import ServerlessCapacity
    from stepbench.drivers.aws.access import AwsAccess

BEFORE = "stepbench:acu"
"""Tag that keeps the cluster's own bounds (`0.5-16`) while a trial's are in force; no function lives as long."""


class Bounds(NamedTuple):
    """Capacities between which a cluster moves, in ACU."""

    min_acu: float
    max_acu: float

    def text(self) -> str:
        """Format the bounds for the tag."""
        return f"{self.min_acu:g}-{self.max_acu:g}"

    @classmethod
    def parse(cls, text: str) -> Bounds:
        """Parse what `text` wrote."""
        low, high = text.split("-")
        return cls(float(low), float(high))


class ClusterCapacity:
    """The bounds of one cluster; every method may be called again after any failure."""

    def __init__(self, aws: AwsAccess, cluster: str) -> None:
        self._aws = aws
        self._cluster = cluster

    async def scale(self, capacity: ServerlessCapacity) -> bool:
        """
        Ask for bounds, and keep in mind those before; True once they are in force.

        Raises:
            TargetUnavailableError: the cluster is not there, is not Serverless v2, or AWS refuses.
        """
        cluster = await self._describe()
        wanted, bounds = Bounds(capacity.min_acu, capacity.max_acu), self._bounds(cluster)
        if cluster["Status"] != "available":
            return False
        if bounds == wanted:
            return True
        if _before(cluster) is None:
            tags = [{"Key": BEFORE, "Value": bounds.text()}]
            await self._call("add_tags_to_resource", ResourceName=cluster["DBClusterArn"], Tags=tags)
        await self._modify(wanted)
        return False

    async def restore(self) -> bool:
        """Give the cluster its own bounds back; True once it has them, or if they were never changed."""
        cluster = await self._describe()
        before = _before(cluster)
        if before is None:
            return True
        if cluster["Status"] != "available":
            return False
        if self._bounds(cluster) != before:
            await self._modify(before)
            return False
        await self._call("remove_tags_from_resource", ResourceName=cluster["DBClusterArn"], TagKeys=[BEFORE])
        return True

    async def _describe(self) -> dict[str, Any]:
        found = await self._call("describe_db_clusters", DBClusterIdentifier=self._cluster)
        cluster: dict[str, Any] = found["DBClusters"][0]
        return cluster

    def _bounds(self, cluster: dict[str, Any]) -> Bounds:
        configured = cluster.get("ServerlessV2ScalingConfiguration")
        if not configured:
            message = f"cluster {self._cluster} is not Serverless v2, so it has no bounds to change"
            raise TargetUnavailableError(message)
        return Bounds(configured["MinCapacity"], configured["MaxCapacity"])

    async def _modify(self, bounds: Bounds) -> None:
        configuration = {"MinCapacity": bounds.min_acu, "MaxCapacity": bounds.max_acu}
        await self._call(
            "modify_db_cluster",
            DBClusterIdentifier=self._cluster,
            ServerlessV2ScalingConfiguration=configuration,
            ApplyImmediately=True,
        )

    async def _call(self, operation: str, **request: Any) -> dict[str, Any]:  # noqa: ANN401 -- as boto3 takes it
        client = await self._aws.client()
        answer: dict[str, Any] = await self._aws.call(getattr(client, operation), **request)
        return answer


def _before(cluster: dict[str, Any]) -> Bounds | None:
    tags = {tag["Key"]: tag["Value"] for tag in cluster.get("TagList", [])}
    return Bounds.parse(tags[BEFORE]) if BEFORE in tags else None
