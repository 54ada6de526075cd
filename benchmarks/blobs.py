"""
Our puts and gets of blobs beside boto3's, redis-py's and cassandra-driver's, one after the other on one server each.

    python -m benchmarks.blobs [--rounds N] [--quick] [--tools DIRECTORY] [--stores s3,redis,cassandra]

Each side is a process of its own that has one connection and puts one blob again and again, then gets it. The servers
are a VersityGW on a local folder, the wheel's Valkey, and one node of Cassandra, whose blobs both sides cut into rows
of 2 MiB with four in flight. The peers are as they usually are: boto3, redis-py with hiredis, cassandra-driver with
libev.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psutil
from benchmarks import building, command, machine, rounds
from benchmarks.result import Case, Goal, Measure, figures_of
from benchmarks.transfer import BUCKET, KEYS, gateway

from stepbench_tools.local.stores.cassandra.configuration import as_released
from stepbench_tools.local.stores.cassandra.node import start_cassandra
from stepbench_tools.local.stores.wheels import start_valkey

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from stepbench_tools.local.stores import LocalStore

QUESTION = "How quickly do functions' blobs get to a store and back, and what does it take, beside the usual libraries?"
NOTES = (
    "One connection and one blob at a time, put and got again and again; the client is made outside of the time.",
    "S3 gets a CRC-32 of each body from both sides; without TLS both hash the body as well, and sign that.",
    "Cassandra's blobs are cut into rows of 2 MiB by both sides, four in flight.",
    "What cassandra-driver refuses to send while its socket is full is given to it again.",
)
MIB = 2**20
SIZES = {"64 KiB": MIB // 16, "1 MiB": MIB, "16 MiB": 16 * MIB}
COUNTS = {"64 KiB": 300, "1 MiB": 60, "16 MiB": 8}
"""For a second or so of each."""
_QUICK_DIVISOR = 4
_PEER = "benchmarks/comparators/blob_transfers.py"
STORES = ("s3", "redis", "cassandra")
RATE, CPU = Goal(at_least=1.0), Goal(at_most=1.0)
MEASURES = (
    Measure("put", "MiB/s", RATE),
    Measure("get", "MiB/s", RATE),
    Measure("CPU of puts", "s/GiB", CPU),
    Measure("CPU of gets", "s/GiB", CPU),
)


class Subject(NamedTuple):
    """Blobs of one size in one store. peer: the Python that has its library. authority: as in `benchmarks.transfer`."""

    store: str
    address: str
    blob_bytes: int
    blobs: int
    peer: Path
    authority: str = ""

    def ours(self) -> list[float]:
        """Run ours; return a number for each measure."""
        return self._run(sys.executable, "-m", "benchmarks.blob_transfers")

    def theirs(self) -> list[float]:
        """Run the library; likewise."""
        return self._run(str(self.peer), _PEER)

    def versions(self) -> list[str]:
        """Return the library's name and version."""
        said: list[str] = json.loads(command.run_program([self.peer, _PEER, self.store]))
        return said

    def _run(self, *program: str) -> list[float]:
        words = [*program, self.store, self.address, BUCKET, self.blob_bytes, self.blobs]
        bundle = {"AWS_CA_BUNDLE": self.authority} if self.authority else {}
        environ = {**os.environ, **KEYS, "AWS_REGION": "us-east-1", **bundle}
        found: list[float] = json.loads(command.run_program(words, env=environ))
        return found


@contextmanager
def served(store: str, tools: Path, *, tls: bool) -> Iterator[tuple[str, str, str]]:
    """Run a store's server on its core for the block; yield its address, its name, and the authority to trust."""
    if store != "s3":
        with rounds.server(None, start_valkey if store == "redis" else _start_cassandra) as (endpoint, name):
            yield endpoint, name, ""
        return
    program = building.versity_gateway(tools)
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "served" / BUCKET).mkdir(parents=True)
        with gateway(program, Path(directory), tls=tls) as (url, authority):
            yield url, f"VersityGW {building.VERSITY_VERSION}", authority


def _start_cassandra(directory: Path) -> LocalStore:
    """Start a node as released, and not the one of the tests."""
    return start_cassandra(directory, profile=as_released(psutil.virtual_memory().available // 2**20 // 2))


def cases_of(asked: argparse.Namespace, store: str, *, tls: bool) -> Iterator[Case]:
    """Run both in turns, for each size."""
    peer = Path(sys.executable) if store == "s3" else building.peers_python()
    with served(store, asked.tools, tls=tls) as (address, server, authority):
        library = ", ".join(Subject(store, address, 0, 0, peer).versions())
        for size in [*SIZES][-1:] if tls else SIZES:
            count = max(2, COUNTS[size] // (_QUICK_DIVISOR if asked.quick else 1))
            subject = Subject(store, address, SIZES[size], count, peer, authority)
            figures = figures_of(MEASURES, machine.calmest(asked.rounds, (subject.ours, subject.theirs)))
            name = f"{store}, {size}{', TLS' if tls else ''}"
            yield Case(name=name, peer=f"{library} ({server})", figures=figures)


def measure(asked: argparse.Namespace) -> command.Found:
    """Measure all stores, S3 with TLS, too."""
    stores = asked.stores.split(",")
    cases = [case for store in stores for case in cases_of(asked, store, tls=False)]
    cases += cases_of(asked, "s3", tls=True) if "s3" in stores else []
    return command.Found(tuple(cases), NOTES)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stores", default=",".join(STORES), help="which, with commas between them")


if __name__ == "__main__":
    command.run("blobs", QUESTION, measure, _options)
