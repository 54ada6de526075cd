"""
DynamoDB written to by the sandbox that receives: for the clock check.

Table, stream and mapping are those of `DynamoDbDriver`; the mapping's function is `CheckClock`, and each write is an
invocation of the same function, which has one sandbox at most. So one clock stamps t1, t2 and t4.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from stepbench.contracts.problem import Problem
from stepbench.contracts.tasks import CheckClockInput, CheckClockOutput
from stepbench.drivers.aws_access import AwsAccess
from stepbench.drivers.aws_answers import json_error_code, written
from stepbench.drivers.dynamodb import DynamoDbDriver
from stepbench.drivers.protocol import Outcome, Written
from stepbench.errors import PlanError
from stepbench.wire.sigv4 import Form

if TYPE_CHECKING:
    from stepbench.clock import Clock
    from stepbench.contracts.plan import Scale, TrialSpec
    from stepbench.drivers.protocol import Write
    from stepbench.settings import Settings
    from stepbench.wire.connection import Exchange

INVOKE_LIMIT_S = 20.0
"""Longer than `CheckClock` waits for DynamoDB, by a cold start."""
_FUNCTION_ERROR = b"x-amz-function-error"
_ERROR_TYPE = b"x-amzn-errortype"
_INVOKE = Form("POST", (("content-type", "application/json"),))


class SameSandboxDriver:
    """`Driver` and `Scalable`. A write's token is the id of the sandbox that made it."""

    def __init__(
        self, spec: TrialSpec, settings: Settings, clock: Clock, *, answer_limit_s: float = INVOKE_LIMIT_S
    ) -> None:
        if not settings.check_clock_function_arn:
            remedy = "Set CHECK_CLOCK_FUNCTION_ARN, as the stack does, or remove same_sandbox."
            message = "needs CheckClock, and no such function is known"
            raise PlanError([Problem(path="target.same_sandbox", value="true", message=message, remedy=remedy)])
        self._store = DynamoDbDriver(spec, settings, clock)
        self._lambda = AwsAccess("lambda", spec, settings, clock, answer_limit_s)
        self._table = f"{settings.target_table_prefix}{spec.tag}"
        name = settings.check_clock_function_arn.rpartition(":")[2]
        self._path = f"/2015-03-31/functions/{name}/invocations"
        self._turn = asyncio.Lock()

    async def open(self) -> None:
        """Read credentials, connect to Lambda. Raises TargetUnavailableError."""
        await self._lambda.open()

    async def prepare(self) -> None:
        """As DynamoDB's; what is there before the load is written directly."""
        await self._store.prepare()

    async def ready(self) -> bool:
        """As DynamoDB's."""
        return await self._store.ready()

    async def write(self, write: Write) -> Written:
        """Have it written, one at a time: a second invocation would be refused while the first runs."""
        wire = self._lambda.wire
        task = CheckClockInput(table=self._table, key=write.key, value=write.value.decode(), delete=write.delete)
        async with self._turn:
            return invoked(await wire.exchange(_INVOKE, self._path, task.model_dump_json().encode()))

    async def scale(self, scale: Scale) -> bool:
        """As DynamoDB's."""
        return await self._store.scale(scale)

    async def tear_down(self) -> bool:
        """As DynamoDB's."""
        return await self._store.tear_down()

    async def close(self) -> None:
        """End connections."""
        await self._lambda.close()
        await self._store.close()

    async def provider(self) -> str:
        """What serves the table."""
        return await self._store.provider()


def invoked(exchange: Exchange) -> Written:
    """
    What an invocation of `CheckClock` says of its write.

    Only its own account has the times of the write. Without one they are those of the invocation, and the write may
    have happened, unless Lambda refused to start the function at all.
    """
    answer = exchange.answer
    if answer is None:
        return written(exchange, json_error_code)
    if answer.status != 200:  # noqa: PLR2004 -- all that an invocation with an answer can have
        refused = written(exchange, json_error_code)
        code = answer.headers.get(_ERROR_TYPE, b"").decode("latin-1").partition(":")[0]
        outcome = Outcome.UNKNOWN if refused.outcome is Outcome.OK else refused.outcome
        return refused._replace(outcome=outcome, token="", error=code or refused.error or f"HTTP {answer.status}")
    unknown = Written(exchange.t1_ns, exchange.t2_ns, Outcome.UNKNOWN)
    if _FUNCTION_ERROR in answer.headers:
        return unknown._replace(error=_error_type(answer.body))
    try:
        told = CheckClockOutput.model_validate_json(answer.body)
    except ValidationError:
        return unknown._replace(error="malformed answer")
    return Written(told.t1_ns, told.t2_ns, Outcome(told.outcome), told.sandbox, told.error)


def _error_type(body: bytes) -> str:
    """Class of the function's error, such as "Sandbox.Timedout"."""
    try:
        said: Any = json.loads(body)
    except ValueError:
        said = None
    found = said.get("errorType") if isinstance(said, dict) else None
    return str(found or "function error")
