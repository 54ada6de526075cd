"""
Blobs in Cassandra and ScyllaDB: each is a partition, with a row for each part of 2 MiB, four in flight at a time.

A whole blob would break the server's limits, as they are released: a mutation may have half a segment of the commit log
(`commitlog_segment_size`, 32 MiB), a request 16 MiB (`native_transport_max_frame_size`), a value 256 MiB
(`max_value_size`). Every row has the blob's length, and the first one's part shows how long the others are: one that
is missing, or of another blob, makes a get FAILED "truncated". A put that broke off may leave some rows: those `keys`
lists, and `delete` removes.

The table has the options that Cassandra gives it by default; whoever tunes them alters it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from stepbench.contracts.target import CassandraTarget
from stepbench.drivers.access import ServerLimits
from stepbench.drivers.blobs import StreamPool, TimedBlobs, TransferTimes
from stepbench.drivers.cassandra.access import (
    CONSISTENCIES,
    DEFAULT_LIMITS,
    CassandraAccess,
    TrialKeyspace,
    create_keyspace,
    server_name,
)
from stepbench.drivers.cassandra.chunks import Assembly, ChunkedTransfer, CqlStream, create_table, statements_of
from stepbench.model.errors import GARBAGE, lost_connection
from stepbench.model.request import Outcome
from stepbench.wire import cql
from stepbench.wire.cql.answers import prepared_id, refusal, rows
from stepbench.wire.stream import StreamEndedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.blobs import Verdict
    from stepbench.settings import Settings
    from stepbench.wire.cql.connection import CqlConnection

_DELETED_AT_ONCE = 32
_ANY_NODE = 0


class CassandraBlobs(TimedBlobs):
    """`BlobStore` for Cassandra: a table in the trial's own keyspace, `stepbench_<tag>`."""

    def __init__(
        self, spec: TrialSpec, settings: Settings, clock: Clock, *, limits: ServerLimits = DEFAULT_LIMITS
    ) -> None:
        target = spec.offered.target
        self._tag = spec.tag
        self._clock = clock
        self._target = target if isinstance(target, CassandraTarget) else CassandraTarget(store="cassandra")
        self._stall_s = limits.operate_s
        self._consistency = CONSISTENCIES[self._target.consistency]
        self._access = CassandraAccess(spec, settings, clock, limits)
        self._keyspace = TrialKeyspace(self._access, spec.tag, self._consistency)
        self._table = f"{self._keyspace.name}.blobs"
        self._statements = statements_of(self._table)
        self._streams = StreamPool(self._connect)

    async def open(self) -> None:
        """Connect to a node, and prepare the statements if there is a table."""
        await self._access.look_up_nodes()
        try:
            async with self._streams.use(_ANY_NODE):
                pass
        except OSError as error:
            raise self._access.unavailable(error) from error

    async def prepare(self) -> None:
        """Make keyspace and table."""
        async with self._access.control() as connection:
            statements = create_keyspace(self._tag, self._target), create_table(self._table)
            await self._keyspace.make(connection, statements)

    async def ready(self) -> bool:
        """See `BlobStore`."""
        return await self._keyspace.is_agreed()

    async def delete(self, keys: Sequence[str]) -> int:
        """See `BlobStore`."""
        found, condition = 0, f"FROM {self._table} WHERE key = ?"
        async with self._access.control() as connection:
            if not await self._keyspace.exists(connection):
                return 0
            for at in range(0, len(keys), _DELETED_AT_ONCE):
                some = keys[at : at + _DELETED_AT_ONCE]
                there = await self._run_each(connection, f"SELECT key {condition} LIMIT 1", some)
                await self._run_each(connection, f"DELETE {condition}", some)
                found += sum(bool(rows(frame)) for frame in there)
        return found

    async def keys(self) -> tuple[str, ...]:
        """See `BlobStore`."""
        async with self._access.control() as connection:
            if not await self._keyspace.exists(connection):
                return ()
            statement = cql.query(f"SELECT DISTINCT key FROM {self._table}", self._consistency)  # noqa: S608 -- ours
            found = rows(await self._access.run(connection, statement))
        return tuple(sorted((key or b"").decode() for (key,) in found))

    async def tear_down(self) -> bool:
        """Drop the keyspace."""
        return await self._keyspace.drop()

    def resource_names(self) -> tuple[str, ...]:
        """See `BlobStore`."""
        return (f"keyspace {self._keyspace.name}",)

    async def close(self) -> None:
        """See `BlobStore`."""
        self._streams.close()

    async def provider(self) -> str:
        """See `BlobStore`: "Apache Cassandra 5.0.5"."""
        return await server_name(self._access)

    async def _connect(self, _node: int) -> CqlStream:
        """Connect to the next node, and prepare the statements there; without a table there are none."""
        connected = await self._access.connect()
        stream = CqlStream(*connected.connection.detach(), stall_s=self._stall_s)
        try:
            await self._prepare_statements(stream)
        except StreamEndedError as ended:
            raise lost_connection(ended.reason) from ended
        except BaseException:
            stream.close()
            raise
        return stream

    async def _prepare_statements(self, stream: CqlStream) -> str:
        """Prepare the statements; return the server's refusal, if it refuses."""
        for statement in self._statements:
            answer = await stream.ask(cql.prepare(statement))
            if error := refusal(answer):
                return error.name
            stream.statement_ids[statement] = prepared_id(answer)
        return ""

    async def _put(self, key: str, view: memoryview, times: TransferTimes) -> Verdict:
        return await self._over(key, times, lambda transfer: transfer.put(view))

    async def _get(self, key: str, times: TransferTimes, found: list[bytearray]) -> Verdict:
        blob = Assembly()
        verdict = await self._over(key, times, lambda transfer: transfer.get(blob))
        if verdict[0] is Outcome.OK:
            found.append(blob.data)
        return verdict

    async def _over(
        self, key: str, times: TransferTimes, work: Callable[[ChunkedTransfer], Awaitable[Verdict]]
    ) -> Verdict:
        """Do a transfer over a stream that has the statements."""
        async with self._streams.use(_ANY_NODE) as stream:
            try:
                if not stream.statement_ids and (error := await self._prepare_statements(stream)):
                    return Outcome.FAILED, error
                transfer = ChunkedTransfer(stream, self._statements, key, self._consistency, times)
                verdict = await work(transfer)
            except cql.MalformedCqlError as error:
                raise stream.end(GARBAGE) from error
            if verdict[1] == cql.UNPREPARED:
                stream.close()  # the next connection prepares them anew
            return verdict

    async def _run_each(self, connection: CqlConnection, statement: str, keys: Sequence[str]) -> list[cql.CqlFrame]:
        requests = [cql.query(statement, self._consistency, (key.encode(),)) for key in keys]
        return await asyncio.gather(*(self._access.run(connection, request) for request in requests))
