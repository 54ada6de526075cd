"""DynamoDB: a table for the trial, whose stream a Lambda event source mapping hands to `ReceiveEvents`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.target import DynamoDbTarget
from stepbench.drivers.awaiting import answer_of
from stepbench.drivers.aws_access import ANSWER_LIMIT_S, AwsAccess
from stepbench.drivers.dynamodb_items import ItemWrites
from stepbench.drivers.dynamodb_table import STREAM, TrialTable
from stepbench.drivers.preload import preload
from stepbench.drivers.stream_mapping import StreamMapping, with_filter

if TYPE_CHECKING:
    from stepbench.clock import Clock
    from stepbench.contracts.plan import Scale, TrialSpec
    from stepbench.drivers.protocol import Made, Write, Written
    from stepbench.settings import Settings

TEAR_DOWN_FOR_NS = 20_000_000_000
_POLL_S = 0.5


class DynamoDbDriver:
    """`Driver`, `Prompt`, `Scalable` for DynamoDB. Items are `{"pk": key, "value": value}`; DynamoDB gives no token."""

    def __init__(
        self, spec: TrialSpec, settings: Settings, clock: Clock, *, answer_limit_s: float = ANSWER_LIMIT_S
    ) -> None:
        target = spec.plan.target
        if not isinstance(target, DynamoDbTarget):
            message = f"this driver serves dynamodb, not {target.store}"
            raise TypeError(message)
        self._spec = spec
        self._clock = clock
        self._aws = AwsAccess("dynamodb", spec, settings, clock, answer_limit_s)
        self._table = TrialTable(spec, settings, self._aws, clock)
        self._mapping = StreamMapping(self._aws, settings, with_filter(target, spec), self._table.name)
        self._items = ItemWrites(self._table.name)

    async def open(self) -> None:
        """Read credentials, connect. Raises TargetUnavailableError."""
        await self._aws.open()

    async def prepare(self) -> None:
        """
        Table, preloaded keys, stream, mapping, each where it is missing.

        The stream is turned on after the preload, so that it holds nothing but the load.
        """
        table = await self._table.ensure(streamed=not self._spec.plan.preloaded_keys)
        if not table.get("StreamSpecification", {}).get("StreamEnabled"):
            await self._preload()
            await self._table.call("update_table", StreamSpecification=STREAM)
            table = await self._table.until_active()
        await self._table.ensure_autoscaling()
        await self._mapping.ensure(table["LatestStreamArn"])

    async def ready(self) -> bool:
        """Whether the table is active and the mapping enabled; Lambda may still take a minute to poll."""
        table = await self._table.describe()
        return table is not None and table["TableStatus"] == "ACTIVE" and await self._mapping.enabled()

    def make(self, write: Write) -> Made[Written]:
        """PutItem or DeleteItem of one item, signed."""
        return self._items.make(self._aws.wire, write)

    async def write(self, write: Write) -> Written:
        """The same, for who waits."""
        return await answer_of(self.make(write))

    async def scale(self, scale: Scale) -> bool:
        """Ask for the capacity, one change at a time as DynamoDB demands; True when all of it is active."""
        return await self._table.scale(scale)

    async def tear_down(self) -> bool:
        """Remove the mapping, then the table with its stream, and see both gone."""
        until_ns = self._clock.now_ns() + TEAR_DOWN_FOR_NS
        await self._table.stop_autoscaling()
        while not (await self._mapping.remove() and await self._table.remove()):
            if self._clock.now_ns() >= until_ns:
                return False
            await self._clock.sleep_async(_POLL_S)
        return True

    async def close(self) -> None:
        """End connections."""
        await self._aws.close()

    async def provider(self) -> str:
        """What serves the table."""
        return self._aws.provider("Amazon DynamoDB")

    async def _preload(self) -> None:
        async with self._aws.opened():
            await preload(self._spec, self.write, self._clock)
