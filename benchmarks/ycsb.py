"""
Our operations beside go-ycsb's, on one server and workload, interleaved.

    python -m benchmarks.ycsb [--rounds 7] [--operations 20000] [--stores redis postgresql]

Workloads A (half reads, half updates) and C (reads) of YCSB: 10,000 records with keys of 37 bytes and one field of
1,000, records chosen by the scrambled Zipfian with 0.99, P clients without pauses. Without endpoints the wheels'
servers are started, PostgreSQL without TLS. Median latency is over all operations, from go-ycsb's raw measurements
(whole microseconds); throughput is from the first start to the last answer of these.

Where the two differ:

- Redis: go-ycsb keeps a record as a hash of one field (`HSET`, `HMGET key field0`), ours as a string (`SET`, `GET`).
- PostgreSQL: go-ycsb has columns VARCHAR(64) and VARCHAR(1000), keys of 27 bytes and the database's collation; ours are
  `text`, the key in collation "C". Both prepare each statement once a connection and read the value alone.
- go-ycsb draws a value's 1,000 bytes anew for each update, outside its latency and within its throughput; ours fills in
  its first 32 bytes, in the same place.
- go-ycsb draws from a generator seeded by the clock, among 10,001 records of which one is not there; ours from the
  workload's seed, the same in every round.
- Between two operations go-ycsb's lock and its clients' wait for the core are in neither's latency, only in throughput,
  which is the fairer figure with ten clients.
"""

from __future__ import annotations

import csv
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks import building, command, rounds
from benchmarks.result import Case, Measure, figures_of

from stepbench.clock import AnchoredClock
from stepbench.drivers.registry import build_operable
from stepbench.local.certificates import make_certificates
from stepbench.local.postgresql_server import discard_postgresql
from stepbench.local.postgresql_tls import start_postgresql_with_tls
from stepbench.local.valkey import start_valkey
from stepbench.stages.event_loop import run_measuring

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.protocol import Operable
    from stepbench.local.processes import LocalStore

QUESTION = "What do operations of YCSB's workloads A and C take?"
NOTES = (
    "Redis: go-ycsb keeps a record as a hash of one field (`HSET`, `HMGET`), ours as a string (`SET`, `GET`).",
    "go-ycsb draws 1,000 bytes anew for each update, outside its latency and within its throughput; ours draws 32.",
    "With ten clients on one core latency is mostly the wait for the client's own turn: compare throughput.",
)
RECORDS, VALUE_BYTES, KEY_BYTES = 10_000, 1_000, 37
MIXES = {"A": {"read": 50, "overwrite": 50}, "C": {"read": 100}}
CLIENTS = (1, 10)
_SLOWNESS = {"redis": 1, "postgresql": 4}
_MEASURES = (Measure("p50", "µs"), Measure("throughput", "operations/s"))
_PROPERTIES = {
    "recordcount": RECORDS,
    "fieldcount": 1,
    "fieldlength": VALUE_BYTES,
    "requestdistribution": "zipfian",
    "keyprefix": "user" + "-" * 4,  # with "usertable/" and 19 digits, `KEY_BYTES` in Redis
    "zeropadding": 19,
    "measurementtype": "raw",
    "debug.pprof": "127.0.0.1:0",
}


class Figures(NamedTuple):
    """One round of one of the two."""

    p50_us: float
    per_s: float


class Setting(NamedTuple):
    """What both do."""

    store: str
    endpoint: str
    workload: str
    clients: int
    operations: int


class Prepared(NamedTuple):
    """A trial of ours with its records in the store."""

    spec: TrialSpec
    case: Setting

    def driver(self) -> Operable:
        """A driver, not yet open."""
        settings = rounds.settings(**{f"{self.case.store}_endpoint": self.case.endpoint})
        return build_operable(self.spec, settings, AnchoredClock())


@contextmanager
def prepared(case: Setting) -> Iterator[Prepared]:
    """Our records, removed at the end."""
    record = {"shape": "blob", "key_bytes": KEY_BYTES, "value_bytes": VALUE_BYTES}
    keys = {"distribution": "zipfian"}
    workload = {"mix": MIXES[case.workload], "record": record, "records": RECORDS, "keys": keys}
    made = Prepared(rounds.trial({"store": case.store}, workload, case.clients), case)
    run_measuring(_prepare(made.driver()))
    try:
        yield made
    finally:
        run_measuring(_tear_down(made.driver()))


async def _prepare(driver: Operable) -> None:
    await driver.prepare()
    await driver.close()


async def _tear_down(driver: Operable) -> None:
    while not await driver.tear_down():
        pass
    await driver.close()


def ours(subject: Prepared) -> Figures:
    """A writer's clients, on its event loop."""
    return run_measuring(_ours(subject))


async def _ours(subject: Prepared) -> Figures:
    driver, case = subject.driver(), subject.case
    each = case.operations // case.clients
    clock = AnchoredClock()
    makers = rounds.makers_of(driver, subject.spec, case.clients, each, clock)
    await driver.open()
    await driver.warm_up()
    try:
        rows = await rounds.closed_loop(makers, clock, rounds.Pace(each=each))
    finally:
        await driver.close()
    return Figures(rounds.p50_us(rows), rounds.per_s(rows))


def load(tool: Path, case: Setting) -> None:
    """Their records."""
    _run(tool, "load", case, {"operationcount": RECORDS, "dropdata": "true"})


def theirs(tool: Path, case: Setting) -> Figures:
    """From the raw measurements, without the tool's start."""
    with tempfile.TemporaryDirectory() as directory:
        raw = Path(directory) / "raw.csv"
        mix = MIXES[case.workload]
        wanted = {
            "operationcount": case.operations,
            "readproportion": mix["read"] / 100,
            "updateproportion": mix.get("overwrite", 0) / 100,
            "measurement.output_file": raw,
        }
        _run(tool, "run", case, wanted)
        with raw.open(newline="") as lines:
            rows = list(csv.DictReader(lines))
    failed = {row["operation"] for row in rows if row["operation"].endswith("_ERROR")}
    if failed:
        sys.exit(f"go-ycsb: {failed}")
    begins_us, took_us = (
        [int(row[column]) for row in rows if row["operation"] == "TOTAL"] for column in ("timestamp_us", "latency_us")
    )
    end_us = max(begin + took for begin, took in zip(begins_us, took_us, strict=True))
    return Figures(statistics.median(took_us), len(took_us) / (end_us - min(begins_us)) * 1e6)


def _run(tool: Path, command: str, case: Setting, wanted: Mapping[str, object]) -> None:
    properties = {**_PROPERTIES, **_where(case), "threadcount": case.clients, **wanted}
    options = [part for name, value in properties.items() for part in ("-p", f"{name}={value}")]
    backend = "pg" if case.store == "postgresql" else case.store
    done = subprocess.run(
        [tool, command, backend, *options], check=False, capture_output=True, text=True, timeout=rounds.LIMIT_S
    )
    if done.returncode or "operation err" in done.stdout:
        sys.exit(f"go-ycsb {command} {backend}: {done.stdout[-500:]} {done.stderr[-500:]}")


def _where(case: Setting) -> dict[str, str]:
    if case.store == "redis":
        return {"redis.addr": case.endpoint}
    address, _, database = case.endpoint.partition("/")
    host, _, port = address.rpartition(":")
    return {"pg.host": host, "pg.port": port, "pg.user": "postgres", "pg.db": database}


def _start(store: str, directory: Path) -> LocalStore:
    if store == "redis":
        return start_valkey(directory)
    return start_postgresql_with_tls(directory / "server", make_certificates(directory / "certificates"))


def _discard(store: str, directory: Path) -> None:
    if store == "postgresql":
        discard_postgresql(directory / "server")


@contextmanager
def _servers(asked: argparse.Namespace) -> Iterator[dict[str, tuple[str, str]]]:
    """Where each store is, and what."""
    with ExitStack() as stack:
        found: dict[str, tuple[str, str]] = {}
        for store in asked.stores:
            endpoint = getattr(asked, f"{store}_endpoint")
            started = rounds.server(endpoint, partial(_start, store), partial(_discard, store))
            found[store] = stack.enter_context(started)
        yield found


def _cases(tool: Path, setting: Setting, times: int) -> Iterator[Case]:
    load(tool, setting)
    for workload in MIXES:
        for clients in CLIENTS:
            each = setting._replace(workload=workload, clients=clients)
            with prepared(each) as subject:
                pairs = rounds.take_turns(partial(ours, subject), partial(theirs, tool, each), times)
            name = f"{each.store}, workload {workload}, {clients} client{'s' if clients > 1 else ''}"
            yield Case(name=name, peer=f"go-ycsb {building.YCSB_VERSION}", figures=figures_of(_MEASURES, pairs))


def measure(asked: argparse.Namespace) -> command.Found:
    """Both stores, workloads and numbers of clients."""
    tool = building.go_ycsb(asked.tools)
    cases: list[Case] = []
    with _servers(asked) as servers:
        for store, (endpoint, _) in servers.items():
            operations = (2_000 if asked.quick else asked.operations) // _SLOWNESS[store]
            cases += _cases(tool, Setting(store, endpoint, "A", CLIENTS[-1], operations), asked.rounds)
        names = ", ".join(name for _, name in servers.values())
    return command.Found(tuple(cases), (f"Servers: {names}.", *NOTES))


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--operations", type=int, default=20_000, help="a round; PostgreSQL a quarter of them")
    parser.add_argument("--stores", nargs="+", choices=["redis", "postgresql"], default=["redis", "postgresql"])
    parser.add_argument("--redis-endpoint", help="HOST:PORT; go-ycsb empties it")
    parser.add_argument("--postgresql-endpoint", help="HOST:PORT/DATABASE; go-ycsb drops its table usertable")


def main() -> None:
    """Measure, print, and keep the result if asked to."""
    command.run("ycsb", QUESTION, measure, _options)


if __name__ == "__main__":
    main()
