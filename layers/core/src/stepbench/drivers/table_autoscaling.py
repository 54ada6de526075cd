"""Application Auto Scaling of a trial's DynamoDB table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepbench.drivers.aws_access import error_code
from stepbench.errors import TargetUnavailableError

if TYPE_CHECKING:
    from stepbench.contracts.target import AutoscaledCapacity
    from stepbench.drivers.aws_access import AwsAccess

SERVICE = "application-autoscaling"
POLICY = "stepbench"
_UNKNOWN = "ObjectNotFoundException"


class TableAutoscaling:
    """Target tracking of a table's write units, registered for the trial and removed with it."""

    def __init__(self, aws: AwsAccess, table: str) -> None:
        self._aws = aws
        self._target = {
            "ServiceNamespace": "dynamodb",
            "ResourceId": f"table/{table}",
            "ScalableDimension": "dynamodb:table:WriteCapacityUnits",
        }

    async def ensure(self, capacity: AutoscaledCapacity) -> None:
        """Register bounds and policy; both calls replace what was there. Raises TargetUnavailableError."""
        bounds = {"MinCapacity": capacity.min_write_units, "MaxCapacity": capacity.max_write_units}
        tracking = {
            "TargetValue": float(capacity.target_utilisation_percent),
            "PredefinedMetricSpecification": {"PredefinedMetricType": "DynamoDBWriteCapacityUtilization"},
        }
        await self._call("register_scalable_target", **bounds)
        await self._call(
            "put_scaling_policy",
            PolicyName=POLICY,
            PolicyType="TargetTrackingScaling",
            TargetTrackingScalingPolicyConfiguration=tracking,
        )

    async def remove(self) -> None:
        """Deregister, which deletes the policy and its alarms too. Raises TargetUnavailableError."""
        try:
            await self._call("deregister_scalable_target")
        except TargetUnavailableError as error:
            if error_code(error) != _UNKNOWN:
                raise

    async def _call(self, operation: str, **request: Any) -> None:  # noqa: ANN401 -- as boto3 takes it
        client = await self._aws.client(SERVICE)
        await self._aws.call(getattr(client, operation), **self._target, **request)
