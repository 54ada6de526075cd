"""
DynamoDB written to by the sandbox that receives: for the clock check.

The mapping's function is `CheckClock`, and each write is an invocation of the same function, which has one sandbox at
most. So one clock stamps t1, t2 and t4.
"""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from stepbench.contracts.tasks import CheckClockInput, CheckClockOutput
from stepbench.contracts.workload import Kind
from stepbench.drivers.aws.access import AwsAccess
from stepbench.drivers.aws.answers import json_error_code, write_result
from stepbench.drivers.dynamodb.trigger import DynamoDbDriver
from stepbench.errors import PlanError, Problem
from stepbench.model.errors import GARBAGE
from stepbench.model.request import CoroutineRequest, Outcome, PendingRequest, Result
from stepbench.wire.http1.sigv4 import Form

if TYPE_CHECKING:
    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.model.request import Request
    from stepbench.settings import Settings
    from stepbench.wire.http1.connection import HttpExchange

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
