"""A table of ours in PostgreSQL, and both ways to its rows: our driver under its engine, and pgbench."""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psycopg
from benchmarks import rounds
from psycopg import sql

from stepbench.clock import AnchoredClock
from stepbench.contracts.workload import Kind
from stepbench.drivers.operations.postgresql import PostgresqlOperations
from stepbench.drivers.protocol import Operation, Outcome
from stepbench.load.closed_loop import Offer
from stepbench.stages.event_loop import run_measuring

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.plan import TrialSpec

KEYS, NEW_KEYS, FIRST_KEY = 10_000, 10_000_000, 10**18
PER_CLIENT, PER_OPERATION = 7_919, 104_729
VALUE = "v" * 889
_LOGGED = 0.1
_SCRIPT = """\\set i :i + 1
\\set key {first} + ({per_client} * :client_id + {per_operation} * :i) % {keys}
{statement};
"""
_STATEMENTS = {
    Kind.INSERT: (
        "INSERT INTO {table} (key, value) VALUES (:key, :value) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
    ),
    Kind.READ: "SELECT value FROM {table} WHERE key = :key",
    Kind.OVERWRITE: "UPDATE {table} SET value = :value WHERE key = :key",
}


class Server(NamedTuple):
    """Where it is, who has signed its certificate, and the pgbench that is asked about it."""

    endpoint: str
    authority: str
    pgbench: Path


class Figures(NamedTuple):
    """One round of one of the two: a client's time by its operations, median latency, throughput, CPU of the client."""

    mean_us: float
    p50_us: float
    per_s: float
    cpu_us: float


class Parts(NamedTuple):
    """Medians of what operations with a connection each are made of, in ms; and the mean of the whole."""

    connect: float
    tls: float
    authenticate: float
    operate: float
    whole: float
    mean: float


def key_of(kind: Kind, client: int, operation: int) -> str:
    """As the script of pgbench has it, whose first operation is number 1."""
    return str(FIRST_KEY + (PER_CLIENT * client + PER_OPERATION * operation) % _keys_of(kind))


def _keys_of(kind: Kind) -> int:
    return NEW_KEYS if kind is Kind.INSERT else KEYS


class Subject:
    """One trial's table on the server, and both ways to its rows."""

    def __init__(self, server: Server, clients: int, *, reuse: bool = True, tls: bool = False) -> None:
        self._server = server
        self._clients = clients
        workload = {"mix": {"read": 1, "overwrite": 1, "insert": 1}, "records": 1, "reuse": reuse}
        self._spec: TrialSpec = rounds.trial({"store": "postgresql", "tls": tls}, workload, clients)
        self._settings = rounds.settings(postgresql_endpoint=server.endpoint, tls_authority=server.authority)
        self._table = sql.Identifier(f"stepbench_{self._spec.tag}", "records")

    def make(self) -> None:
        """The table."""
        asyncio.run(self._driver().prepare())

    def fill(self, kind: Kind) -> None:
        """With all keys, or for new ones with none: the same before each turn."""
        rows = 0 if kind is Kind.INSERT else KEYS
        fill = sql.SQL("INSERT INTO {} SELECT k::text, %s FROM generate_series(%s, %s) AS k").format(self._table)
        host, port, database = self._address()
        with psycopg.connect(host=host, port=port, dbname=database, user="postgres", autocommit=True) as connection:
            connection.execute(sql.SQL("TRUNCATE {}").format(self._table))
            connection.execute(fill, (VALUE, FIRST_KEY, FIRST_KEY + rows - 1))
            connection.execute(sql.SQL("VACUUM ANALYZE {}").format(self._table))

    def remove(self) -> None:
        """The table."""
        asyncio.run(self._driver().tear_down())

    def ours(self, kind: Kind, seconds: float) -> Figures:
        """Closed loop without pauses."""
        self.fill(kind)
        return run_measuring(self._ours(kind, seconds))

    async def _ours(self, kind: Kind, seconds: float) -> Figures:
        driver = self._driver()
        await driver.open()
        await driver.warm_up()
        value = b"" if kind is Kind.READ else VALUE.encode()

        def make(client: int, sequence: int) -> Offer:
            operation = Operation(kind, key_of(kind, client, sequence + 1), value, client=client)
            return Offer(kind, driver.make(operation))

        before_s = rounds.cpu_s()
        makers = [partial(make, number) for number in range(self._clients)]
        rows = await rounds.closed_loop(makers, AnchoredClock(), rounds.Pace(seconds))
        cpu_s = rounds.cpu_s() - before_s
        await driver.close()
        per_s = rounds.per_s(rows)
        return Figures(self._clients / per_s * 1e6, rounds.p50_us(rows), per_s, cpu_s / rows.sequence.size * 1e6)

    def theirs(self, kind: Kind, seconds: float) -> Figures:
        """One thread."""
        self.fill(kind)
        with tempfile.TemporaryDirectory() as directory:
            log = ["--log", f"--log-prefix={directory}/log", f"--sampling-rate={_LOGGED}"]
            options = ["-M", "prepared", "-c", str(self._clients), "-j", "1", "-T", str(max(1, round(seconds)))]
            before_s = rounds.cpu_s(resource.RUSAGE_CHILDREN)
            said = self._run_pgbench(kind, Path(directory), [*options, *log])
            cpu_s = rounds.cpu_s(resource.RUSAGE_CHILDREN) - before_s
            times = [int(line.split()[2]) for file in Path(directory).glob("log.*") for line in file.open()]
        per_s, done = _number(said, "tps = "), _number(said, "transactions actually processed: ")
        return Figures(self._clients / per_s * 1e6, statistics.median(times), per_s, cpu_s / done * 1e6)

    def our_parts(self, operations: int) -> Parts:
        """Of reads one after the other, each on a connection of its own."""
        return run_measuring(self._our_parts(operations))

    async def _our_parts(self, operations: int) -> Parts:
        driver = self._driver()
        found: list[tuple[int, ...]] = []
        for number in range(operations):
            done = await driver.operate(Operation(Kind.READ, key_of(Kind.READ, 0, number)))
            if done.connecting is None or done.outcome is not Outcome.OK:
                message = f"without reuse: {done.outcome.name} {done.error}"
                raise RuntimeError(message)
            found.append((*done.connecting, done.t2_ns - done.t1_ns))
        connect, tls, authenticate, operate, whole = (
            statistics.median(part) / 1e6 for part in zip(*found, strict=True)
        )
        mean = statistics.fmean(each[-1] for each in found) / 1e6
        return Parts(connect, tls, authenticate, operate, whole, mean)

    def their_mean(self, operations: int) -> tuple[float]:
        """In ms."""
        options = ["-M", "extended", "-C", "-c", "1", "-j", "1", "-t", str(operations)]
        with tempfile.TemporaryDirectory() as directory:
            return (1e3 / _number(self._run_pgbench(Kind.READ, Path(directory), options), "tps = "),)

    def _run_pgbench(self, kind: Kind, directory: Path, options: Sequence[str]) -> str:
        """What it prints."""
        script = directory / "script.sql"
        statement = _STATEMENTS[kind].format(table=self._table.as_string(None))
        numbers = {"first": FIRST_KEY, "per_client": PER_CLIENT, "per_operation": PER_OPERATION}
        script.write_text(_SCRIPT.format(**numbers, keys=_keys_of(kind), statement=statement))
        tls = {"PGSSLMODE": "verify-full" if "-C" in options else "disable", "PGSSLROOTCERT": self._server.authority}
        host, port, database = self._address()
        where = ["-h", host, "-p", port, "-U", "postgres", database]
        variables = ["-D", "i=0", "-D", f"value={VALUE}"]
        asked = [str(self._server.pgbench), "-n", "-f", str(script), *variables, *options, *where]
        environment = {**os.environ, **tls}
        return subprocess.run(
            asked, check=True, capture_output=True, text=True, timeout=rounds.LIMIT_S, env=environment
        ).stdout

    def _driver(self) -> PostgresqlOperations:
        return PostgresqlOperations(self._spec, self._settings, AnchoredClock())

    def _address(self) -> tuple[str, str, str]:
        address, _, database = self._server.endpoint.partition("/")
        host, _, port = address.rpartition(":")
        return host, port, database


def _number(output: str, after: str) -> float:
    return float(output.partition(after)[2].split()[0])
