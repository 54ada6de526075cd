"""
Our PostgreSQL operations beside pgbench, on the same server, interleaved. Run by hand; a minute and a half.

    python -m benchmarks.postgresql [--rounds 5] [--seconds 2] [--endpoint HOST:PORT/DATABASE --authority PEM]

Without an endpoint it starts the wheel's PostgreSQL with TLS. Both are one process with one thread, execute the same
prepared statements on the same table and go through the keys in the same order: number 7919 c + 104729 k of 10,000
for the k-th operation of client c, in 19 decimal digits; overwritten values have 889 bytes. Ours goes through the
closed-loop engine and its recorder. Prints a Markdown row per operation and number of clients: median over the rounds,
and the median of the rounds' ratios with their least and greatest. Then, with TLS and a connection per operation: what
it is made of, beside `pgbench -C` (its mean time, connection included).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psycopg
from benchmarks import rounds
from psycopg import sql

from stepbench.clock import AnchoredClock
from stepbench.contracts.plan import TrialSpec
from stepbench.contracts.workload import Kind
from stepbench.drivers.operations.postgresql import PostgresqlOperations
from stepbench.drivers.protocol import Operation, Outcome
from stepbench.load.closed_loop import Offer
from stepbench.local.certificates import make_certificates
from stepbench.local.postgresql_server import discard_postgresql, site_packages
from stepbench.local.postgresql_tls import WHEEL, start_postgresql_with_tls
from stepbench.local.processes import terminate
from stepbench.stages.event_loop import run_measuring

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

KEYS, FIRST_KEY = 10_000, 10**18
PER_CLIENT, PER_OPERATION = 7_919, 104_729
VALUE = "v" * 889
CLIENTS = (1, 10)
OPERATIONS = {Kind.READ: "read", Kind.OVERWRITE: "overwrite"}
_SCRIPT = """\\set i :i + 1
\\set key {first} + ({per_client} * :client_id + {per_operation} * :i) % {keys}
{statement};
"""
_STATEMENTS = {
    Kind.READ: "SELECT value FROM {table} WHERE key = :key",
    Kind.OVERWRITE: "UPDATE {table} SET value = :value WHERE key = :key",
}


class Figures(NamedTuple):
    """One round of one of the two."""

    p50_us: float
    per_s: float


class Server(NamedTuple):
    """Where it is, what it is, and who has signed its certificate."""

    endpoint: str
    name: str
    authority: str


def spec_of(clients: int, *, reuse: bool, tls: bool) -> TrialSpec:
    """A trial with a table of its own; the benchmark fills it."""
    workload = {"mix": {"read": 1, "overwrite": 1}, "records": 1, "reuse": reuse}
    return rounds.trial({"store": "postgresql", "tls": tls}, workload, clients)


def key_of(client: int, operation: int) -> str:
    """As the script of pgbench has it, whose first operation is number 1."""
    return str(FIRST_KEY + (PER_CLIENT * client + PER_OPERATION * operation) % KEYS)


class Subject:
    """One trial's table on the server, and both ways to its rows."""

    def __init__(self, server: Server, pgbench: Path, spec: TrialSpec) -> None:
        self._server = server
        self._pgbench = pgbench
        self._spec = spec
        self._settings = rounds.settings(postgresql_endpoint=server.endpoint, tls_authority=server.authority)

    def make(self) -> None:
        """The table, with all keys."""
        asyncio.run(self._driver().prepare())
        table = sql.Identifier(f"stepbench_{self._spec.tag}", "records")
        fill = sql.SQL("INSERT INTO {} SELECT k::text, %s FROM generate_series(%s, %s) AS k").format(table)
        host, port, database = self._address()
        with psycopg.connect(host=host, port=port, dbname=database, user="postgres", autocommit=True) as connection:
            connection.execute(fill, (VALUE, FIRST_KEY, FIRST_KEY + KEYS - 1))
            connection.execute(sql.SQL("VACUUM ANALYZE {}").format(table))

    def remove(self) -> None:
        """The table."""
        asyncio.run(self._driver().tear_down())

    def ours(self, kind: Kind, clients: int, seconds: float) -> Figures:
        """Closed loop without pauses."""
        return run_measuring(self._ours(kind, clients, seconds))

    async def _ours(self, kind: Kind, clients: int, seconds: float) -> Figures:
        driver = self._driver()
        await driver.open()
        await driver.warm_up()
        value = VALUE.encode() if kind is Kind.OVERWRITE else b""

        def offer(client: int, sequence: int) -> Offer:
            operation = Operation(kind, key_of(client, sequence + 1), value, client=client)
            return Offer(kind, driver.operate(operation))

        offers = [partial(offer, number) for number in range(clients)]
        rows = await rounds.closed_loop(offers, AnchoredClock(), rounds.Pace(seconds))
        await driver.close()
        return Figures(rounds.p50_us(rows), rounds.per_s(rows))

    def theirs(self, kind: Kind, clients: int, seconds: float) -> Figures:
        """One thread; each transaction's time from pgbench's own log, in whole microseconds."""
        with tempfile.TemporaryDirectory() as directory:
            options = ["-M", "prepared", "-c", str(clients), "-j", "1", "-T", str(max(1, round(seconds)))]
            output = self.run_pgbench(kind, Path(directory), [*options, "--log", f"--log-prefix={directory}/log"])
            times = [int(line.split()[2]) for log in Path(directory).glob("log.*") for line in log.open()]
        return Figures(statistics.median(times), _number(output, "tps = "))

    def run_pgbench(self, kind: Kind, directory: Path, options: Sequence[str]) -> str:
        """What it prints."""
        statement = _STATEMENTS[kind].format(table=self._table)
        script = directory / "script.sql"
        script.write_text(
            _SCRIPT.format(
                first=FIRST_KEY, per_client=PER_CLIENT, per_operation=PER_OPERATION, keys=KEYS, statement=statement
            )
        )
        environment = {
            **os.environ,
            "PGSSLMODE": "verify-full" if "-C" in options else "disable",
            "PGSSLROOTCERT": self._server.authority,
        }
        host, port, database = self._address()
        where = ["-h", host, "-p", port, "-U", "postgres", database]
        variables = ["-D", "i=0", "-D", f"value={VALUE}"]
        command = [str(self._pgbench), "-n", "-f", str(script), *variables, *options, *where]
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=rounds.LIMIT_S, env=environment
        )
        return done.stdout

    async def split(self, operations: int) -> list[tuple[int, ...]]:
        """Connect, TLS, authenticate, operate and the whole, in ns, of so many reads one after the other."""
        driver = self._driver()
        found: list[tuple[int, ...]] = []
        for number in range(operations):
            done = await driver.operate(Operation(Kind.READ, key_of(0, number)))
            if done.connecting is None or done.outcome is not Outcome.OK:
                sys.exit(f"without reuse: {done.outcome.name} {done.error}")
            found.append((*done.connecting, done.t2_ns - done.t1_ns))
        return found

    @property
    def _table(self) -> str:
        return f'"stepbench_{self._spec.tag}".records'

    def _driver(self) -> PostgresqlOperations:
        return PostgresqlOperations(self._spec, self._settings, AnchoredClock())

    def _address(self) -> tuple[str, str, str]:
        address, _, database = self._server.endpoint.partition("/")
        host, _, port = address.rpartition(":")
        return host, port, database


def _number(output: str, after: str) -> float:
    return float(output.partition(after)[2].split()[0])


def compare(subject: Subject, kind: Kind, clients: int, times: int, seconds: float) -> str:
    """One row."""
    own, other = (partial(side, kind, clients, seconds) for side in (subject.ours, subject.theirs))
    return f"| {OPERATIONS[kind]} | {clients} | {rounds.cells(rounds.take_turns(own, other, times))} |"


def split_table(subject: Subject, operations: int) -> str:
    """Medians, and how far the parts' sum is from the whole at worst."""
    found = run_measuring(subject.split(operations))
    medians = [statistics.median(part) / 1e6 for part in zip(*found, strict=True)]
    worst = max(abs(sum(each[:4]) / each[4] - 1) for each in found)
    with tempfile.TemporaryDirectory() as directory:
        output = subject.run_pgbench(
            Kind.READ, Path(directory), ["-M", "extended", "-C", "-c", "1", "-j", "1", "-t", str(operations)]
        )
    mean, theirs = statistics.fmean(each[4] for each in found) / 1e6, 1e3 / _number(output, "tps = ")
    return (
        "| connect | TLS | authenticate | operate | whole | parts off the whole, at most |\n|---|---|---|---|---|---|\n"
        f"| {' | '.join(f'{each:.3f}' for each in medians)} | {worst:.2%} |\n\n"
        f"mean {mean:.3f} ms, pgbench -C {theirs:.3f} ms: {mean / theirs:.2f}"
    )


@contextmanager
def _server(endpoint: str | None, authority: str) -> Iterator[Server]:
    if endpoint:
        yield Server(endpoint, endpoint, authority)
        return
    with tempfile.TemporaryDirectory() as directory:
        certificates = make_certificates(Path(directory) / "certificates")
        store = start_postgresql_with_tls(Path(directory) / "server", certificates)
        try:
            yield Server(store.endpoint, f"PostgreSQL {store.version}", str(certificates.authority))
        finally:
            terminate(store.pids)
            discard_postgresql(Path(directory) / "server")


def _wheels_pgbench() -> Path:
    return site_packages(WHEEL) / WHEEL.programs / "bin" / "pgbench"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="Our PostgreSQL operations beside pgbench.")
    parser.add_argument("--pgbench", type=Path, default=None, help="the wheel's, if not given")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--operations", type=int, default=300, help="without reuse")
    parser.add_argument("--endpoint")
    parser.add_argument("--authority", default="")
    asked = parser.parse_args()
    pgbench = asked.pgbench or _wheels_pgbench()
    if shutil.which(pgbench) is None:
        sys.exit(f"{pgbench} is no program; give one with --pgbench")
    with _server(asked.endpoint, asked.authority) as server:
        print(f"{server.name}; {rounds.load_average()}; ours / pgbench = ratio (least-greatest)")
        print("\n| operation | clients | p50, µs | operations/s |\n|---|---|---|---|")
        for clients in CLIENTS:
            subject = Subject(server, pgbench, spec_of(clients, reuse=True, tls=False))
            subject.make()
            for kind in OPERATIONS:
                print(compare(subject, kind, clients, asked.rounds, asked.seconds), flush=True)
            subject.remove()
        print(f"\nTLS, a connection per read, {asked.operations} one after the other; medians, ms\n")
        subject = Subject(server, pgbench, spec_of(1, reuse=False, tls=True))
        subject.make()
        print(split_table(subject, asked.operations))
        subject.remove()
    print(f"\n{rounds.load_average()} at the end")


if __name__ == "__main__":
    main()
