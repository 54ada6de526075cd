"""
Our PostgreSQL operations beside pgbench, on the same server.

    python -m benchmarks.postgresql [--rounds 7] [--seconds 3] [--endpoint HOST:PORT/DATABASE --authority PEM]

Without an endpoint it starts PostgreSQL of the wheel that has TLS, as it comes: commits are flushed. pgbench is that
wheel's, too. Both are one process with one thread, execute the same prepared statements on the same table and go
through the keys in the same order: number 7919 c + 104729 k, modulo how many there are, for the k-th operation of
client c, in 19 decimal digits; values have 889 bytes. Ours goes through the closed-loop engine and its recorder, so
that all that it does between two operations is in its mean, as in pgbench's: time passed by operations done. pgbench's
p50 is from its own log, in whole microseconds, of every tenth operation. Then, with TLS and a connection per operation:
what it is made of, beside `pgbench -C` (its mean time, connection included).
"""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import statistics
import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from unittest import mock

import psycopg
from benchmarks import command, rounds
from benchmarks.command import Found, MissingComparatorError
from benchmarks.result import Case, Goal, Measure
from psycopg import sql

from stepbench.clock import AnchoredClock
from stepbench.contracts.workload import Kind
from stepbench.drivers.postgresql.operations import PostgresqlOperations
from stepbench.drivers.sql import operations
from stepbench.load.closed_loop import Offer
from stepbench.model.errors import WRONG_VALUE
from stepbench.model.pending import perform
from stepbench.model.request import Outcome, Request
from stepbench.workload.checks import RecordCheck
from stepbench_tools.local.stores import wheel_folder
from stepbench_tools.local.stores.certificates import make_certificates
from stepbench_tools.local.stores.postgresql import TLS_WHEEL, discard_postgresql, start_postgresql_with_tls

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.workload import Workload


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


class _TextCheck(RecordCheck):
    """Every value read is compared with the one text that pgbench can write as well: its keys are numbers."""

    def __init__(self, workload: Workload, tag: str) -> None:
        super().__init__(workload, tag)
        self.read = lambda _key, found: "" if found == VALUE.encode() else WRONG_VALUE


class Server(NamedTuple):
    """The server's address, the signer of its certificate, and the pgbench that measures it."""

    endpoint: str
    authority: str
    pgbench: Path


def key_of(kind: Kind, client: int, operation: int) -> str:
    """Return a key as the script of pgbench makes it, whose first operation is number 1."""
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
        """Make the table."""
        asyncio.run(self._driver().prepare())

    def fill(self, kind: Kind) -> None:
        """Fill the table with all keys, or for new ones with none: it is the same before each turn."""
        rows = 0 if kind is Kind.INSERT else KEYS
        fill = sql.SQL("INSERT INTO {} SELECT k::text, %s FROM generate_series(%s, %s) AS k").format(self._table)
        host, port, database = rounds.address_of(self._server.endpoint)
        with psycopg.connect(host=host, port=port, dbname=database, user="postgres", autocommit=True) as connection:
            connection.execute(sql.SQL("TRUNCATE {}").format(self._table))
            connection.execute(fill, (VALUE, FIRST_KEY, FIRST_KEY + rows - 1))
            connection.execute(sql.SQL("VACUUM ANALYZE {}").format(self._table))

    def remove(self) -> None:
        """Drop the table."""
        asyncio.run(self._driver().tear_down())

    async def ours(self, kind: Kind, seconds: float) -> tuple[float, ...]:
        """Measure our operations, in a closed loop without pauses; return a number for each of `MEASURES`."""
        self.fill(kind)
        driver = self._driver()
        await driver.open()
        await driver.warm_up()
        value = b"" if kind is Kind.READ else VALUE.encode()

        def make(client: int, sequence: int) -> Offer:
            operation = Request(kind, key_of(kind, client, sequence + 1), value, client=client)
            return Offer(kind, driver.prepare_request(operation))

        before_s = rounds.cpu_s()
        makers = [partial(make, number) for number in range(self._clients)]
        rows = await rounds.closed_loop(makers, AnchoredClock(), rounds.Pace(seconds))
        cpu_s = rounds.cpu_s() - before_s
        await driver.close()
        per_s = rounds.per_s(rows)
        return self._clients / per_s * 1e6, rounds.p50_us(rows), per_s, cpu_s / rows.sequence.size * 1e6

    def theirs(self, kind: Kind, seconds: float) -> tuple[float, ...]:
        """Measure pgbench, with one thread; return a number for each of `MEASURES`."""
        self.fill(kind)
        with tempfile.TemporaryDirectory() as directory:
            log = ["--log", f"--log-prefix={directory}/log", f"--sampling-rate={_LOGGED}"]
            options = ["-M", "prepared", "-c", str(self._clients), "-j", "1", "-T", str(max(1, round(seconds)))]
            before_s = rounds.cpu_s(resource.RUSAGE_CHILDREN)
            printed = self._run_pgbench(kind, Path(directory), [*options, *log])
            cpu_s = rounds.cpu_s(resource.RUSAGE_CHILDREN) - before_s
            times = [int(line.split()[2]) for file in Path(directory).glob("log.*") for line in file.open()]
        per_s, done = _number(printed, "tps = "), _number(printed, "transactions actually processed: ")
        return self._clients / per_s * 1e6, statistics.median(times), per_s, cpu_s / done * 1e6

    async def our_parts(self, operations: int) -> tuple[float, ...]:
        """Measure reads, each on a connection of its own; return the mean and the medians of `PARTS`, in ms."""
        driver = self._driver()
        found = list[tuple[int, ...]]()
        for number in range(operations):
            done = await perform(driver, Request(Kind.READ, key_of(Kind.READ, 0, number)))
            if done.connecting is None or done.outcome is not Outcome.OK:
                raise RuntimeError(done)
            found.append((*done.connecting, done.t2_ns - done.t1_ns))
        medians = [statistics.median(part) / 1e6 for part in zip(*found, strict=True)]
        return statistics.fmean(each[-1] for each in found) / 1e6, *medians

    def their_mean(self, operations: int) -> tuple[float]:
        """Return the mean of pgbench's reads, each on a connection of its own, in ms."""
        options = ["-M", "extended", "-C", "-c", "1", "-j", "1", "-t", str(operations)]
        with tempfile.TemporaryDirectory() as directory:
            return (1e3 / _number(self._run_pgbench(Kind.READ, Path(directory), options), "tps = "),)

    def _run_pgbench(self, kind: Kind, directory: Path, options: Sequence[str]) -> str:
        """Return what pgbench prints."""
        script = directory / "script.sql"
        statement = _STATEMENTS[kind].format(table=self._table.as_string(None))
        numbers = {"first": FIRST_KEY, "per_client": PER_CLIENT, "per_operation": PER_OPERATION}
        script.write_text(_SCRIPT.format(**numbers, keys=_keys_of(kind), statement=statement))
        tls = {"PGSSLMODE": "verify-full" if "-C" in options else "disable", "PGSSLROOTCERT": self._server.authority}
        host, port, database = rounds.address_of(self._server.endpoint)
        address = ["-h", host, "-p", port, "-U", "postgres", database]
        variables = ["-D", "i=0", "-D", f"value={VALUE}"]
        line = [self._server.pgbench, "-n", "-f", script, *variables, *options, *address]
        return command.run_program(line, env={**os.environ, **tls})

    def _driver(self) -> PostgresqlOperations:
        with mock.patch.object(operations, "RecordCheck", _TextCheck):
            return PostgresqlOperations(self._spec, self._settings, AnchoredClock())


def _number(output: str, after: str) -> float:
    return float(output.partition(after)[2].split()[0])


QUESTION = "What do our PostgreSQL operations take beside pgbench's (prepared statements, one thread)?"
NOTES = (
    "A mean is a client's time by its operations: what either does between two of them counts, as does our recording.",
    "INSERT is of new keys, in no order, into a table that is emptied before each turn; commits are flushed to disk.",
)
GOAL = Goal(at_most=1.05)
SECONDS, QUICK_SECONDS = 3, 1
CONNECTIONS, QUICK_CONNECTIONS = 100, 10
"""Made one after the other, in a round of those without reuse."""
MEASURES = (
    Measure("mean", "µs"),
    Measure("p50", "µs"),
    Measure("throughput", "operations/s"),
    Measure("client's CPU", "µs/operation"),
)
PARTS = ("connect", "tls", "authenticate", "operate", "whole")
SERIES = ((Kind.INSERT, 1), (Kind.READ, 1), (Kind.READ, 10), (Kind.OVERWRITE, 1), (Kind.OVERWRITE, 10))


def series(server: Server, peer: str, asked: argparse.Namespace) -> Iterator[Case]:
    """Measure each kind of operation by so many clients, on kept connections without TLS."""
    for kind, clients in SERIES:
        subject = Subject(server, clients)
        subject.make()
        measures = (MEASURES[0]._replace(goal=GOAL if (kind, clients) == SERIES[0] else None), *MEASURES[1:])
        ours = partial(rounds.measured, subject.ours, kind, asked.seconds)
        figures = rounds.compare(measures, ours, partial(subject.theirs, kind, asked.seconds), asked.rounds)
        subject.remove()
        yield Case(name=f"{kind.name.lower()}, {rounds.clients_words(clients)}", peer=peer, figures=figures)


def connections(server: Server, peer: str, asked: argparse.Namespace) -> Case:
    """Measure reads over TLS, each on a connection of its own."""
    subject = Subject(server, 1, reuse=False, tls=True)
    subject.make()
    subject.fill(Kind.READ)
    each = QUICK_CONNECTIONS if asked.quick else CONNECTIONS
    measures = (Measure("mean", "ms"), *(Measure(f"{part}, p50", "ms") for part in PARTS))
    ours = partial(rounds.measured, subject.our_parts, each)
    figures = rounds.compare(measures, ours, partial(subject.their_mean, each), asked.rounds)
    subject.remove()
    return Case(name="read over TLS, a connection each", peer=f"{peer} -C", figures=figures)


def measure(asked: argparse.Namespace) -> Found:
    """Measure all cases."""
    asked.seconds = asked.seconds or (QUICK_SECONDS if asked.quick else SECONDS)
    pgbench = (
        asked.pgbench or wheel_folder(TLS_WHEEL.package, "PostgreSQL").parent / TLS_WHEEL.programs / "bin" / "pgbench"
    )
    if shutil.which(pgbench) is None:
        message = f"{pgbench} is no program; give one with --pgbench (it comes with PostgreSQL's server)"
        raise MissingComparatorError(message)
    peer = f"pgbench {command.run_program([pgbench, '--version']).split()[-1]}"
    with _server(asked.endpoint, asked.authority, pgbench) as server:
        cases = (*series(server, peer, asked), connections(server, peer, asked))
    return Found(cases, NOTES)


@contextmanager
def _server(endpoint: str | None, authority: str, pgbench: Path) -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as directory:
        made = make_certificates(Path(directory))
        start = partial(start_postgresql_with_tls, certificates=made)
        with rounds.server(endpoint, start, discard_postgresql) as (started, _):
            yield Server(started, authority if endpoint else str(made.authority), pgbench)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pgbench", type=Path, help="default: the wheel's")
    parser.add_argument("--seconds", type=float, help=f"of a turn; default {SECONDS}, with --quick {QUICK_SECONDS}")
    parser.add_argument("--endpoint", help="of a server that runs already")
    parser.add_argument("--authority", default="", help="PEM file of whoever signed its certificate")


if __name__ == "__main__":
    command.run("postgresql", QUESTION, measure, _options)
