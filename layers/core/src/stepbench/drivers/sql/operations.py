"""What the drivers of operations on SQL stores have in common: all but making, finding and dropping the table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

from psycopg import sql

from stepbench.drivers.preload import preload_records
from stepbench.drivers.sql import insert_rows, key_and_value, statements
from stepbench.drivers.sql.access import CONNECT_LIMIT_S, target_error
from stepbench.drivers.sql.connection import connect
from stepbench.drivers.sql.executor import SqlExecutor, limits_of
from stepbench.drivers.sql.pool import SessionPool
from stepbench.drivers.sql.session import SqlSession
from stepbench.model.request import PROBED
from stepbench.workload.checks import RecordCheck
from stepbench.workload.operations import Contents

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.workload import Workload
    from stepbench.drivers.sql import Table
    from stepbench.drivers.sql.access import Access, BoundedConnection, PermanentErrors
    from stepbench.model.request import PendingRequest, Request

_IS_THERE = "SELECT 1 FROM {table} WHERE {key} = %s"


class Database(NamedTuple):
    """
    The place of a trial's table.

    permanent: what the store answers where the trial can never be prepared. batch_rows, batch_bytes: at most, in one
    INSERT of preloaded records. batch_sessions: how many preload at a time. session_options: libpq's `options` of the
    sessions that execute requests. load_access: theirs, where they have another login.
    """

    access: Access
    permanent: PermanentErrors
    table: Table
    batch_rows: int
    batch_bytes: int
    batch_sessions: int
    session_options: str = ""
    load_access: Access | None = None


class SqlOperations(ABC):
    """`Driver` of one trial's table; `Warmable`."""

    def __init__(self, spec: TrialSpec, clock: Clock, database: Database, answer_limit_s: float) -> None:
        """`answer_limit_s`: when a statement is given up."""
        self._spec = spec
        self._clock = clock
        self._database = database
        self._workload = workload_of(spec)
        offered = self._workload.mix.kinds | PROBED
        all_kinds = statements(database.table, RecordCheck(self._workload, spec.tag))
        by_kind = {kind: run for kind, run in all_kinds.items() if kind in offered}
        load_access = database.load_access or database.access
        self._conninfo = partial(load_access.conninfo, options=database.session_options)
        limits = limits_of(spec.offered, answer_limit_s)
        self._executor = SqlExecutor(self._conninfo, by_kind, clock, limits, reuse=self._workload.reuse)

    async def open(self) -> None:
        """Look up address and credentials; connect to nothing, since a control connection needs a place, too."""
        await self._conninfo()

    async def warm_up(self) -> None:
        """Have a prepared session per client of one writer before any clock starts, where they are reused."""
        await self._executor.warm_up()

    @property
    def connections(self) -> int:
        """See `CountsConnections`."""
        return self._executor.connections

    async def close(self) -> None:
        """Close the writer's sessions."""
        self._executor.close()

    def prepare_request(self, request: Request) -> PendingRequest:
        """Prepare one operation: one transaction (a read-modify-write has two), all of it again after a conflict."""
        return self._executor.prepare_request(request)

    async def prepare(self) -> None:
        """
        Make the table, and preload its records: each batch whole, so that a second call goes on where it was.

        Raises:
            PlanError: we may not create what we need.
            TargetUnavailableError: the server does not answer, or not so.
        """
        async with self._control() as connection:
            await self._create_table(connection)
            await self._preload(connection)

    async def ready(self) -> bool:
        """Return whether the table is there, with its last preloaded record."""
        records = self._workload.records
        async with self._control() as connection:
            if not await self._has_table(connection):
                return False
            last = Contents(self._workload, self._spec.tag).preloaded(records - 1).key if records else ""
            return not records or await self._has_record(connection, last)

    @abstractmethod
    async def tear_down(self) -> bool:
        """See `Driver`."""

    @abstractmethod
    def resource_names(self) -> tuple[str, ...]:
        """See `Driver`."""

    @abstractmethod
    async def provider(self) -> str:
        """See `Driver`."""

    @abstractmethod
    async def _create_table(self, connection: BoundedConnection) -> None:
        """Make the table, and what it is in, where they are not there yet."""

    async def _has_table(self, connection: BoundedConnection) -> bool:
        row = await connection.row("SELECT to_regclass(%s)", (self._database.table.name.as_string(None),))
        return row[0] is not None

    async def _has_record(self, connection: BoundedConnection, key: str) -> bool:
        table = self._database.table
        query = sql.SQL(_IS_THERE).format(table=table.name, key=table.key)
        return await connection.row(query, (key,)) == (1,)

    async def _preload(self, connection: BoundedConnection) -> None:
        """Insert the records in batches, on sessions of their own; `connection` looks where to go on."""
        database = self._database
        sessions = SessionPool(self._preloading_session, database.batch_sessions, queue=False)
        insert = cache(partial(insert_rows, database.table))  # all batches but the last have one length

        async def write_batch(records: Sequence[Request]) -> str:
            session = await sessions.acquire()
            try:
                values = [value for each in records for value in key_and_value(each)]
                return (await session.query(insert(len(records)), values)).error
            finally:
                sessions.release(session)

        async def exists(key: str) -> bool:
            return await self._has_record(connection, key)

        size = self._workload.record.key_bytes + self._workload.record.value_bytes
        batch = max(1, min(database.batch_rows, database.batch_bytes // size))
        try:
            await preload_records(
                self._spec, write_batch, self._clock, batch=batch, lanes=database.batch_sessions, exists=exists
            )
        finally:
            sessions.close()

    async def _preloading_session(self) -> SqlSession:
        access = self._database.access
        connection = await connect(await access.conninfo(), self._clock, CONNECT_LIMIT_S)
        return SqlSession(connection.pgconn, self._clock, access.control_limit_s)

    def _control(self) -> AbstractAsyncContextManager[BoundedConnection]:
        return self._database.access.control(self._spec, self._database.permanent)


def workload_of(spec: TrialSpec) -> Workload:
    """Return the workload of an operations trial; raises PlanError where there is none."""
    if spec.offered.workload is None:
        raise target_error(spec, "operations need a workload", 'Give one, such as {"mix": {"read": 1}}.')
    return spec.offered.workload
