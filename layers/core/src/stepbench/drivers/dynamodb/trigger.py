"""
DynamoDB: a table for the trial, whose stream a Lambda event source mapping hands to `ReceiveEvents`.

For the clock check, the sandbox that receives writes, too: the mapping's function is `CheckClock`, and each write is an
invocation of the same function, which has one sandbox at most. So one clock stamps t1, t2 and t4.
"""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from stepbench.contracts.identity import matching_head
from stepbench.contracts.target import DynamoDbTarget
from stepbench.contracts.tasks import CheckClockInput, CheckClockOutput
from stepbench.contracts.workload import Kind
from stepbench.drivers.aws import ANSWER_LIMIT_S, AwsAccess, error_code, limits_of
from stepbench.drivers.dynamodb.items import ItemRequests, RowRequests
from stepbench.drivers.dynamodb.table import DynamoDbStore, stream_of
from stepbench.drivers.preload import preload_keys, write_each
from stepbench.drivers.protocol import in_turn
from stepbench.drivers.receivers import build_receiver
from stepbench.errors import PlanError, Problem, TargetUnavailableError
from stepbench.model.errors import GARBAGE
from stepbench.model.pending import CoroutineRequest
from stepbench.model.request import Outcome, PendingRequest, Result
from stepbench.wire.http1.aws import json_error_code, write_result
from stepbench.wire.http1.sigv4 import Form

if TYPE_CHECKING:
    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.receivers import Receiver
    from stepbench.model.request import PendingRequest, Request
    from stepbench.settings import Settings
    from stepbench.wire.http1.connection import HttpExchange
    from stepbench.workload.values import PreparedValues


class DynamoDbDriver(DynamoDbStore):
    """`Driver` and `Scalable` for DynamoDB's streams. DynamoDB gives a write no token."""

    def __init__(
        self, spec: TrialSpec, settings: Settings, clock: Clock, *, answer_limit_s: float = ANSWER_LIMIT_S
    ) -> None:
        super().__init__(spec, settings, clock, limits_of(spec.offered, answer_limit_s))
        self._receiver = build_receiver(spec, settings, clock)
        self._mapping = StreamMapping(
            self._aws, self._receiver, with_filter(self._table.target, spec), self._table.name
        )
        record = spec.offered.record
        self._items = ItemRequests(self._table.name)
        if record.values is not None:
            self._items = RowRequests(self._table.name, record.identity_attribute)
        self._values: PreparedValues | None = None

    def use_values(self, values: PreparedValues) -> None:
        """See `TakesValues`."""
        self._values = values

    async def prepare(self) -> None:
        """
        Make table, preloaded keys, stream and mapping, each where it is missing.

        The stream is turned on after the preload, so that it holds nothing but the load.
        """
        await self._receiver.ensure()
        table = await self._table.ensure(streamed=not self._spec.offered.preloaded_keys)
        if not table.get("StreamSpecification", {}).get("StreamEnabled"):
            async with self._aws.opened():
                await preload_keys(self._spec, write_each(self._prepare_directly), self._clock, values=self._values)
            await self._table.call("update_table", **stream_of(self._table.target))
        if "LatestStreamArn" not in table:
            table = await self._table.until_active(streamed=True)
        await self._table.ensure_autoscaling()
        await self._mapping.ensure(table["LatestStreamArn"])

    async def ready(self) -> bool:
        """Return whether the table is active and the mapping enabled; Lambda may still take a minute to poll."""
        return await super().ready() and await self._mapping.enabled() and await self._receiver.ready()

    def prepare_request(self, request: Request) -> PendingRequest:
        """Return a PutItem or DeleteItem of one item, signed."""
        return self._prepare_directly(request)

    def _prepare_directly(self, request: Request) -> PendingRequest:
        return self._items.prepare(self._aws.wire, request)

    async def _remove(self) -> bool:
        """Remove the mapping, then the table with its stream, and what the trial invoked."""
        return await in_turn(self._mapping.remove, super()._remove, self._receiver.remove)

    def resource_names(self) -> tuple[str, ...]:
        """See `Driver`."""
        return *super().resource_names(), *self._receiver.resource_names()

    async def close(self) -> None:
        """End connections."""
        await self._receiver.close()
        await super().close()


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

    def __init__(self, aws: AwsAccess, receiver: Receiver, target: DynamoDbTarget, table: str) -> None:
        self._aws = aws
        self._receiver = receiver
        self._target = target
        self._in_arn = f":table/{table}/stream/"

    async def ensure(self, stream_arn: str) -> None:
        """Create the mapping, unless it exists."""
        if await self._find() is None:
            request = mapping_request(self._target, stream_arn, self._receiver.arn, self._receiver.failures_arn)
            await self._aws.ask("create_event_source_mapping", "lambda", **request)

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
            try:
                await self._aws.ask("delete_event_source_mapping", "lambda", UUID=found["UUID"])
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
        pages = client.get_paginator("list_event_source_mappings").paginate(FunctionName=self._receiver.arn)
        mappings = (mapping for page in pages for mapping in page["EventSourceMappings"])
        return next((each for each in mappings if self._in_arn in each["EventSourceArn"]), None)


def with_filter(target: DynamoDbTarget, spec: TrialSpec) -> DynamoDbTarget:
    """
    Return the target with the filter that `matching_share` asks for.

    It goes by the head of the new value, or of the key where that alone names the event. Lambda reads all of the
    stream, and drops what does not match before it makes up a batch.
    """
    record = spec.offered.record
    if record.matching_share == 1:
        return target
    matches = {"S": [{"prefix": matching_head(spec.tag)}]}
    named = record.identity_attribute
    in_keys = record.operation == "delete" or not named
    image = {"Keys": {"pk": matches}} if in_keys else {"NewImage": {named: matches}}
    return target.model_copy(update={"filter": {"dynamodb": image}})


def mapping_request(target: DynamoDbTarget, stream_arn: str, receiver_arn: str, failures_arn: str) -> dict[str, Any]:
    """
    Return CreateEventSourceMapping's arguments.

    TRIM_HORIZON, because LATEST can miss what is written while the mapping comes up.
    """
    function = target.function
    request: dict[str, Any] = {
        "EventSourceArn": stream_arn,
        "FunctionName": receiver_arn,
        "StartingPosition": "TRIM_HORIZON",
        "BatchSize": target.batch_size,
        "ParallelizationFactor": target.parallelization_factor,
        "MaximumRetryAttempts": RETRIES if function is None else function.attempts - 1,
        "MaximumRecordAgeInSeconds": MAX_RECORD_AGE_S if function is None else function.max_event_age_s,
    }
    if function is None or function.times != "platform":  # of a response, Lambda's own lines say nothing
        request["FunctionResponseTypes"] = ["ReportBatchItemFailures"]
    if function is not None and function.bisect:
        request["BisectBatchOnFunctionError"] = True
    if target.batching_window_s:  # none is the default; asked for, it would not go with batches of more than 10
        request["MaximumBatchingWindowInSeconds"] = target.batching_window_s
    if target.filter is not None:
        request["FilterCriteria"] = {"Filters": [{"Pattern": json.dumps(target.filter)}]}
    if failures_arn:
        request["DestinationConfig"] = {"OnFailure": {"Destination": failures_arn}}
    return request


INVOKE_LIMIT_S = 20.0
"""It exceeds what `CheckClock` waits for DynamoDB, by a cold start."""
_FUNCTION_ERROR = b"x-amz-function-error"
_ERROR_TYPE = b"x-amzn-errortype"
_INVOKE = Form("POST", (("content-type", "application/json"),))


class SameSandboxDriver(DynamoDbDriver):
    """`DynamoDbDriver` with writes by `CheckClock`; a write's token is the id of the sandbox that made it."""

    def __init__(
        self, spec: TrialSpec, settings: Settings, clock: Clock, *, answer_limit_s: float = INVOKE_LIMIT_S
    ) -> None:
        if not settings.check_clock_function_arn:
            remedy = "Set CHECK_CLOCK_FUNCTION_ARN, as the stack does, or remove same_sandbox."
            message = "needs CheckClock, and no such function is known"
            raise PlanError([Problem(path="target.same_sandbox", value="true", message=message, remedy=remedy)])
        super().__init__(spec, settings, clock)
        self._lambda = AwsAccess("lambda", spec, settings, clock, answer_limit_s)
        name = settings.check_clock_function_arn.rpartition(":")[2]
        self._path = f"/2015-03-31/functions/{name}/invocations"
        self._turn = asyncio.Lock()

    async def open(self) -> None:
        """Read credentials, connect to Lambda alone. Raises TargetUnavailableError."""
        await self._lambda.open()

    def prepare_request(self, request: Request) -> PendingRequest:
        """Have it written by `CheckClock`; what is there before the load is written directly."""
        return CoroutineRequest(partial(self._invoke, request), self._clock)

    async def close(self) -> None:
        """End connections."""
        await self._lambda.close()
        await super().close()

    async def _invoke(self, request: Request) -> Result:
        """Have it written, one at a time: a second invocation would be refused while the first runs."""
        wire = self._lambda.wire
        task = CheckClockInput(
            table=self._table.name, key=request.key, value=request.value.decode(), delete=request.kind is Kind.DELETE
        )
        async with self._turn:
            return invocation_result(await wire.exchange(_INVOKE, self._path, task.model_dump_json().encode()))


def invocation_result(exchange: HttpExchange) -> Result:
    """
    Return what an invocation of `CheckClock` says of its write.

    Only its own account has the times of the write. Without one they are those of the invocation, and the write may
    have happened, unless Lambda refused to start the function at all.
    """
    answer = exchange.answer
    if answer is None:
        return write_result(exchange, json_error_code)
    if answer.status != 200:  # noqa: PLR2004 -- all that an invocation with an answer can have
        refused = write_result(exchange, json_error_code)
        code = answer.headers.get(_ERROR_TYPE, b"").decode("latin-1").partition(":")[0]
        outcome = Outcome.UNKNOWN if refused.outcome is Outcome.OK else refused.outcome
        return refused._replace(outcome=outcome, token="", error=code or refused.error or f"HTTP {answer.status}")
    unknown = Result(exchange.t1_ns, exchange.t2_ns, Outcome.UNKNOWN)
    if _FUNCTION_ERROR in answer.headers:
        return unknown._replace(error=_error_type(answer.body))
    try:
        output = CheckClockOutput.model_validate_json(answer.body)
    except ValidationError:
        return unknown._replace(error=GARBAGE)
    return Result(output.t1_ns, output.t2_ns, Outcome(output.outcome), output.sandbox, output.error)


def _error_type(body: bytes) -> str:
    """Return the class of the function's error, such as "Sandbox.Timedout"."""
    try:
        report: Any = json.loads(body)
    except ValueError:
        report = None
    found = report.get("errorType") if isinstance(report, dict) else None
    return str(found or "function error")


def build_trigger(spec: TrialSpec, settings: Settings, clock: Clock) -> DynamoDbDriver:
    """Return the driver of a trial: for the clock check the one whose writer is the receiver."""
    target = spec.offered.target
    same_sandbox = isinstance(target, DynamoDbTarget) and target.same_sandbox
    return (SameSandboxDriver if same_sandbox else DynamoDbDriver)(spec, settings, clock)
