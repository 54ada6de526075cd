"""DynamoDB: a table for the trial, whose stream a Lambda event source mapping hands to `ReceiveEvents`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from stepbench.contracts.identity import matching_head
from stepbench.drivers.aws.access import ANSWER_LIMIT_S, error_code, limits_of
from stepbench.drivers.dynamodb.items import ItemRequests
from stepbench.drivers.dynamodb.table import STREAM, DynamoDbStore
from stepbench.drivers.preload import preload_keys, write_each
from stepbench.drivers.protocol import in_turn
from stepbench.errors import TargetUnavailableError

if TYPE_CHECKING:
    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.target import DynamoDbTarget
    from stepbench.drivers.aws.access import AwsAccess
    from stepbench.model.request import PendingRequest, Request
    from stepbench.settings import Settings


class DynamoDbDriver(DynamoDbStore):
    """`Driver` and `Scalable` for DynamoDB's streams. DynamoDB gives a write no token."""

    def __init__(
        self, spec: TrialSpec, settings: Settings, clock: Clock, *, answer_limit_s: float = ANSWER_LIMIT_S
    ) -> None:
        super().__init__(spec, settings, clock, limits_of(spec.offered, answer_limit_s))
        self._mapping = StreamMapping(self._aws, settings, with_filter(self._table.target, spec), self._table.name)
        self._items = ItemRequests(self._table.name)

    async def prepare(self) -> None:
        """
        Make table, preloaded keys, stream and mapping, each where it is missing.

        The stream is turned on after the preload, so that it holds nothing but the load.
        """
        table = await self._table.ensure(streamed=not self._spec.offered.preloaded_keys)
        if not table.get("StreamSpecification", {}).get("StreamEnabled"):
            async with self._aws.opened():
                await preload_keys(self._spec, write_each(self._prepare_directly), self._clock)
            await self._table.call("update_table", StreamSpecification=STREAM)
        if "LatestStreamArn" not in table:
            table = await self._table.until_active(streamed=True)
        await self._table.ensure_autoscaling()
        await self._mapping.ensure(table["LatestStreamArn"])

    async def ready(self) -> bool:
        """Return whether the table is active and the mapping enabled; Lambda may still take a minute to poll."""
        return await super().ready() and await self._mapping.enabled()

    def prepare_request(self, request: Request) -> PendingRequest:
        """Return a PutItem or DeleteItem of one item, signed."""
        return self._prepare_directly(request)

    def _prepare_directly(self, request: Request) -> PendingRequest:
        return self._items.prepare(self._aws.wire, request)

    async def _remove(self) -> bool:
        """Remove the mapping, then the table with its stream."""
        return await in_turn(self._mapping.remove, super()._remove)


RETRIES = 3
MAX_RECORD_AGE_S = 3_600
"""Both are finite: by default one bad batch would block its shard for a day."""
_GONE = "ResourceNotFoundException"
_BUSY = frozenset({"ResourceInUseException", "ResourceConflictException"})


class StreamMapping:
    """
    The mapping of one table, found by the table's name in the stream's ARN.

    So it is found even after the table, which alone knew that ARN, is gone.
    """

    def __init__(self, aws: AwsAccess, settings: Settings, target: DynamoDbTarget, table: str) -> None:
        self._aws = aws
        self._receiver_arn = (
            settings.check_clock_function_arn if target.same_sandbox else settings.receive_events_function_arn
        )
        self._failures_arn = settings.stream_failures_queue_arn
        self._target = target
        self._in_arn = f":table/{table}/stream/"

    async def ensure(self, stream_arn: str) -> None:
        """Create the mapping, unless it exists."""
        if await self._find() is None:
            request = mapping_request(self._target, stream_arn, self._receiver_arn, self._failures_arn)
            client = await self._aws.client("lambda")
            await self._aws.call(client.create_event_source_mapping, **request)

    async def enabled(self) -> bool:
        """Return whether Lambda reports it as enabled."""
        found = await self._find()
        return found is not None and found["State"] == "Enabled"

    async def remove(self) -> bool:
        """Ask for its deletion; True when it is gone."""
        found = await self._find()
        if found is None:
            return True
        if found["State"] != "Deleting":
            client = await self._aws.client("lambda")
            try:
                await self._aws.call(client.delete_event_source_mapping, UUID=found["UUID"])
            except TargetUnavailableError as error:
                if error_code(error) not in _BUSY | {_GONE}:
                    raise
        return False

    async def _find(self) -> dict[str, Any] | None:
        client = await self._aws.client("lambda")
        try:
            return await self._aws.call(self._find_now, client)
        except TargetUnavailableError as error:
            if error_code(error) == _GONE:  # the function is: its mappings went with it
                return None
            raise

    def _find_now(self, client: Any) -> dict[str, Any] | None:  # noqa: ANN401 -- boto3's
        pages = client.get_paginator("list_event_source_mappings").paginate(FunctionName=self._receiver_arn)
        mappings = (mapping for page in pages for mapping in page["EventSourceMappings"])
        return next((each for each in mappings if self._in_arn in each["EventSourceArn"]), None)


def with_filter(target: DynamoDbTarget, spec: TrialSpec) -> DynamoDbTarget:
    """
    Return the target with the filter that `matching_share` asks for.

    It goes by the head of the new value, or of a deletion's key. Lambda reads all of the stream, and drops what does
    not match before it makes up a batch.
    """
    record = spec.offered.record
    if record.matching_share == 1:
        return target
    matches = {"S": [{"prefix": matching_head(spec.tag)}]}
    image = {"Keys": {"pk": matches}} if record.operation == "delete" else {"NewImage": {"value": matches}}
    return target.model_copy(update={"filter": {"dynamodb": image}})


def mapping_request(target: DynamoDbTarget, stream_arn: str, receiver_arn: str, failures_arn: str) -> dict[str, Any]:
    """
    Return CreateEventSourceMapping's arguments.

    TRIM_HORIZON, because LATEST can miss what is written while the mapping comes up.
    """
    request: dict[str, Any] = {
        "EventSourceArn": stream_arn,
        "FunctionName": receiver_arn,
        "StartingPosition": "TRIM_HORIZON",
        "BatchSize": target.batch_size,
        "ParallelizationFactor": target.parallelization_factor,
        "MaximumRetryAttempts": RETRIES,
        "MaximumRecordAgeInSeconds": MAX_RECORD_AGE_S,
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
    }
    if target.batching_window_s:  # none is the default; asked for, it would not go with batches of more than 10
        request["MaximumBatchingWindowInSeconds"] = target.batching_window_s
    if target.filter is not None:
        request["FilterCriteria"] = {"Filters": [{"Pattern": json.dumps(target.filter)}]}
    if failures_arn:
        request["DestinationConfig"] = {"OnFailure": {"Destination": failures_arn}}
    return request
