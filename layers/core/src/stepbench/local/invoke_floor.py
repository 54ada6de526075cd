"""The emulator's own floor: an asynchronous invocation of the receiver until its first statement."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from stepbench.contracts.identity import CANARY_PHASE, EventId
from stepbench.errors import LocalEnvironmentError
from stepbench.local.stack import RECEIVER
from stepbench.records.deliveries import POSTGRESQL_SOURCE
from stepbench.records.t4 import ENTRY, Entry, unpack_rows
from stepbench.wire.connection import Connection
from stepbench.wire.tcp import connect_tcp

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepbench.clock import Clock
    from stepbench.local.stack import Stack

STARTS, AT_A_TIME = 3, 2
START_S, DRAIN_S = 60, 10
_CONNECT_S, _ANSWER_S = 10.0, 30.0
_POLL_S = 0.1


@dataclass
class InvokeProbe:
    """
    Sends asynchronous invocations of the receiver, and finds their t4 in the results table.

    `events` are measured, numbered from 0; any after them are warm-up.
    """

    stack: Stack
    tag: str
    events: int
    clock: Clock
    t1_ns: dict[int, int] = field(default_factory=dict)
    _connection: Connection | None = None

    async def send(self, sequence: int) -> None:
        """
        One event as PostgreSQL's trigger sends it, until the emulator has taken it.

        Raises:
            LocalEnvironmentError: it refuses, or is not there.
        """
        connection = await self._connected()
        exchange = await connection.exchange(self._request(sequence))
        if exchange.answer is None or exchange.answer.status != HTTPStatus.ACCEPTED:
            reason = exchange.error if exchange.answer is None else exchange.answer.status
            message = f"the emulator refused an asynchronous invocation of the receiver: {reason}"
            raise LocalEnvironmentError(message)
        self.t1_ns[sequence] = exchange.t1_ns

    async def start_receiver(self, first: int) -> None:
        """
        Some events, numbered from `first`, in pairs.

        Of a pair the second finds the receiver busy, so that a second sandbox starts now. It would start while the
        floor is measured otherwise, whenever the machine stands still for a moment. Not more: each takes a processor.

        Raises:
            LocalEnvironmentError: one does not arrive.
        """
        for sent in range(AT_A_TIME, (STARTS + 1) * AT_A_TIME, AT_A_TIME):
            for sequence in range(sent - AT_A_TIME, sent):
                await self.send(first + sequence)
            if not await self._await(sent, START_S):
                message = f"the receiver recorded nothing within {START_S} s; see its log on the emulator"
                raise LocalEnvironmentError(message)
            await self.clock.sleep_async(_POLL_S)  # what it has recorded is there before it is free again

    async def latencies_ns(self) -> list[int]:
        """
        t4 - t1, in the order of sending.

        Raises:
            LocalEnvironmentError: not all have arrived in time.
        """
        await self._await(len(self.t1_ns), DRAIN_S)
        items = self.stack.table.t4_items(self.tag)
        found = arrivals([bytes(item["entries"]) for item in items], self.t1_ns, self.events)
        sent = sum(sequence < self.events for sequence in self.t1_ns)
        if len(found) < sent:
            message = (
                f"{sent - len(found)} of {sent} asynchronous invocations did not reach the receiver in {DRAIN_S} s"
            )
            raise LocalEnvironmentError(message)
        return found

    async def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.abort()

    async def _connected(self) -> Connection:
        """The one that there is, unless the emulator has closed it while the receiver started."""
        if self._connection is None or not self._connection.usable:
            address = urlsplit(self.stack.endpoint or "")
            try:
                async with asyncio.timeout(_CONNECT_S):
                    connected = await connect_tcp(address.hostname or "", address.port or 80)
            except OSError as error:
                message = f"the emulator at {address.netloc} takes no connection: {error or 'no answer'}"
                raise LocalEnvironmentError(message) from error
            self._connection = Connection(connected, self.clock, answer_s=_ANSWER_S)
        return self._connection

    def _request(self, sequence: int) -> bytes:
        """In one piece: where the body comes behind the head, the emulator reads twice, which takes 0.4 ms."""
        path = f"/2015-03-31/functions/{quote(self.stack.outputs[RECEIVER], safe='')}/invocations"
        event = EventId(self.tag, CANARY_PHASE, 0, 0, 0, sequence).text()
        body = json.dumps({"source": POSTGRESQL_SOURCE, "event": event, "t3_us": 0})
        lines = (
            f"POST {path} HTTP/1.1",
            f"Host: {urlsplit(self.stack.endpoint or '').netloc}",
            "X-Amz-Invocation-Type: Event",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
        )
        return "\r\n".join((*lines, "", body)).encode()

    async def _await(self, wanted: int, limit_s: float) -> bool:
        deadline_ns = self.clock.now_ns() + int(limit_s * 1e9)
        while self.stack.table.t4_count(self.tag) < wanted:
            if self.clock.now_ns() > deadline_ns:
                return False
            await self.clock.sleep_async(_POLL_S)
        return True


def arrivals(packed: Sequence[bytes], t1_ns: Mapping[int, int], events: int) -> list[int]:
    """First t4 less t1 of each measured event that arrived, in the order of sending."""
    first: dict[int, int] = {}
    for item in packed:
        for values in ENTRY.iter_unpack(unpack_rows(item, "of the floors")):
            entry = Entry(*values)
            first[entry.sequence] = min(entry.t4_ns, first.get(entry.sequence, entry.t4_ns))
    measured = [sequence for sequence in sorted(t1_ns) if sequence < events and sequence in first]
    return [first[sequence] - t1_ns[sequence] for sequence in measured]
