"""
Our operations beside go-ycsb's, on one server and workload, interleaved.

    python -m benchmarks.ycsb [--rounds 7] [--operations 20000] [--stores redis postgresql]

Workloads A (half reads, half updates) and C (reads) of YCSB: 10,000 records with keys of 37 bytes and one field of
1,000, records chosen by the scrambled Zipfian with 0.99, P clients without pauses. Without endpoints the wheels'
servers are started, PostgreSQL without TLS. Median latency is over all operations, from go-ycsb's raw measurements
(whole microseconds); throughput is from the first start to the last answer of these.

Where the two differ, beyond `NOTES`:

- PostgreSQL: go-ycsb has columns VARCHAR(64) and VARCHAR(1000), keys of 27 bytes and the database's collation; ours are
  `text`, the key in collation "C". Both prepare each statement once a connection and read the value alone.
- go-ycsb draws from a generator seeded by the clock, among 10,001 records of which one is not there; ours from the
  workload's seed, the same in every round.
- Between two operations go-ycsb's lock and its clients' wait for the core are in neither's latency.
"""

from __future__ import annotations

import csv
import statistics
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks import building, command, rounds
from benchmarks.result import Case, Measure

from stepbench.clock import AnchoredClock
from stepbench.experiments.registry import build_driver
from stepbench_tools.local.stores.certificates import make_certificates
from stepbench_tools.local.stores.postgresql import start_postgresql_with_tls
from stepbench_tools.local.stores.postgresql_server import discard_postgresql
from stepbench_tools.local.stores.valkey import start_valkey

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.protocol import Driver
    from stepbench_tools.local.processes import LocalStore

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


class Setting(NamedTuple):
    """One case for both."""

    store: str
    endpoint: str
    workload: str
    clients: int
    operations: int


class Prepared(NamedTuple):
    """A trial of ours with its records in the store."""

    spec: TrialSpec
    case: Setting

    def driver(self) -> Driver:
        """Return a driver, not yet open."""
        settings = rounds.settings(**{f"{self.case.store}_endpoint": self.case.endpoint})
        return build_driver(self.spec, settings, AnchoredClock())


@contextmanager
def prepared(case: Setting) -> Iterator[Prepared]:
    """Write our records, and remove them at the end."""
    record = {"shape": "blob", "key_bytes": KEY_BYTES, "value_bytes": VALUE_BYTES}
    keys = {"distribution": "zipfian"}
    workload = {"mix": MIXES[case.workload], "record": record, "records": RECORDS, "keys": keys}
    made = Prepared(rounds.trial({"store": case.store}, workload, case.clients), case)
    rounds.measured(_prepare, made.driver())
    try:
        yield made
    finally:
        rounds.measured(rounds.tear_down, made.driver())


async def _prepare(driver: Driver) -> None:
    await driver.prepare()
    await driver.close()


async def ours(subject: Prepared) -> tuple[float, float]:
    """Run a writer's clients; return median latency and throughput."""
    case = subject.case
    each = case.operations // case.clients
    rows, _ = await rounds.run_writer(subject.driver(), subject.spec, case.clients, each)
    return rounds.p50_us(rows), rounds.per_s(rows)


def load(tool: Path, case: Setting) -> None:
    """Write their records."""
    _run(tool, "load", case, {"operationcount": RECORDS, "dropdata": "true"})


def theirs(tool: Path, case: Setting) -> tuple[float, float]:
    """Run the tool; return median latency and throughput by its raw measurements, which leave its start out."""
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
    return statistics.median(took_us), len(took_us) / (end_us - min(begins_us)) * 1e6


def _run(tool: Path, mode: str, case: Setting, wanted: Mapping[str, object]) -> None:
    properties = {**_PROPERTIES, **_where(case), "threadcount": case.clients, **wanted}
    options = [part for name, value in properties.items() for part in ("-p", f"{name}={value}")]
    backend = "pg" if case.store == "postgresql" else case.store
    said = command.run_program([tool, mode, backend, *options])
    if "operation err" in said:
        sys.exit(f"go-ycsb {mode} {backend}: {said[-500:]}")


def _where(case: Setting) -> dict[str, str]:
    if case.store == "redis":
        return {"redis.addr": case.endpoint}
    host, port, database = rounds.address_of(case.endpoint)
    return {"pg.host": host, "pg.port": port, "pg.user": "postgres", "pg.db": database}


def _start(store: str, directory: Path) -> LocalStore:
    if store == "redis":
        return start_valkey(directory)
    return start_postgresql_with_tls(directory, make_certificates(directory / "certificates"))


@contextmanager
def _servers(asked: argparse.Namespace) -> Iterator[dict[str, tuple[str, str]]]:
    """Yield endpoint and name of each store's server."""
    with ExitStack() as stack:
        found: dict[str, tuple[str, str]] = {}
        for store in asked.stores:
            endpoint = getattr(asked, f"{store}_endpoint")
            started = rounds.server(endpoint, partial(_start, store), discard_postgresql)
            found[store] = stack.enter_context(started)
        yield found


def _cases(tool: Path, setting: Setting, times: int) -> Iterator[Case]:
    load(tool, setting)
    for workload in MIXES:
        for clients in CLIENTS:
            each = setting._replace(workload=workload, clients=clients)
            with prepared(each) as subject:
                own = partial(rounds.measured, ours, subject)
                figures = rounds.compare(_MEASURES, own, partial(theirs, tool, each), times)
            name = f"{each.store}, workload {workload}, {rounds.clients_words(clients)}"
            yield Case(name=name, peer=f"go-ycsb {building.YCSB_VERSION}", figures=figures)


def measure(asked: argparse.Namespace) -> command.Found:
    """Measure both stores, workloads and numbers of clients."""
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


if __name__ == "__main__":
    command.run("ycsb", QUESTION, measure, _options)
