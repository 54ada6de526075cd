"""
Entry point `CheckClock`: one function in both roles, with one sandbox at most.

Invoked by a stream it does what `ReceiveEvents` does. Invoked by a writer it makes one write to DynamoDB over the
wire that writers have themselves, and answers with the times: so one clock stamps t1, t2 and t4, and the id of the
sandbox, which both the answer and the t4 item have, proves it.

Its handler stamps t4 first, as that of `ReceiveEvents` does; a write has no use for it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import boto3

from stepbench.clock import Clock, SystemClock
from stepbench.contracts.tasks import CheckClockInput, CheckClockOutput
from stepbench.contracts.workload import Kind
from stepbench.drivers.aws import open_wire
from stepbench.drivers.dynamodb.items import ItemRequests
from stepbench.errors import TargetUnavailableError
from stepbench.load.process import measuring_runner
from stepbench.model.pending import result_of
from stepbench.model.request import Outcome, Request, Result
from stepbench.services import Services, connect
from stepbench.stages.receive_events import open_receiver, receive_events
from stepbench.wire.http1.pool import PoolLimits, parse_address

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepbench.stages.receive_events import Receiver
    from stepbench.wire.http1.aws import SignedClient

ANSWER_LIMIT_S = 10.0
"""A write without an answer by then is UNKNOWN, as a writer's own is."""
LISTEN_S = 0.001
"""The loop stood still since the last write: time, before t1, to hear of connections that ended meanwhile."""
_items = lru_cache(maxsize=16)(ItemRequests)


@dataclass
class Checker:
    """
    A sandbox in both roles; made once, closed with its process.

    The event loop stands still between invocations, as the sandbox does. `clock` is read for t1 and t2: CLOCK_REALTIME,
    which t4 is read from.
    """

    receiver: Receiver
    services: Services
    runner: asyncio.Runner = field(default_factory=measuring_runner)
    clock: Clock = field(default_factory=SystemClock)
    wire: SignedClient | None = None

    def close(self) -> None:
        """End connections and loop."""
        if self.wire is not None:
            self.runner.run(self.wire.close())
        self.runner.close()


def open_checker(environ: Mapping[str, str], imported_ns: int) -> Checker:
    """Connect as a receiver does, once per sandbox; to DynamoDB with the first write, since it may not be a write."""
    return Checker(open_receiver(environ, imported_ns), connect(environ))


def check_clock(event: Any, t4_ns: int, request_id: str, checker: Checker) -> dict[str, Any]:  # noqa: ANN401 -- a delivery, or a write
    """
    Receive, or write.

    Raises:
        RecordsUnavailableError: as `receive_events` does.
        pydantic.ValidationError: neither a delivery nor a write.
    """
    if isinstance(event, dict) and "Records" in event:
        return dict(receive_events(event, t4_ns, request_id, checker.receiver))
    task = CheckClockInput.model_validate(event)
    sandbox = checker.receiver.sandbox
    sandbox.cold = False  # the cold start is this invocation's: no delivery has waited for it
    done = checker.runner.run(_write(task, checker))
    return CheckClockOutput(
        sandbox=sandbox.id, t1_ns=done.t1_ns, t2_ns=done.t2_ns, outcome=done.outcome, error=done.error
    ).model_dump(mode="json")


async def _write(task: CheckClockInput, checker: Checker) -> Result:
    began_ns = checker.clock.now_ns()
    try:
        wire = await _connected(checker)
    except TargetUnavailableError as error:
        return Result(began_ns, checker.clock.now_ns(), Outcome.FAILED, error=f"connect: {error}"[:100])
    await asyncio.sleep(LISTEN_S)
    kind = Kind.DELETE if task.delete else Kind.INSERT
    request = Request(kind, task.key, task.value.encode())
    return await result_of(_items(task.table).prepare(wire, request))


async def _connected(checker: Checker) -> SignedClient:
    if checker.wire is None:
        services = checker.services
        address = parse_address(services.aws("dynamodb").meta.endpoint_url)
        session = boto3.session.Session(region_name=services.settings.aws_region)
        limits = PoolLimits(connections=1, answer_s=ANSWER_LIMIT_S)
        checker.wire = await open_wire("dynamodb", address, session, checker.clock, limits)
    return checker.wire
