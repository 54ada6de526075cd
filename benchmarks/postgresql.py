"""
Our PostgreSQL operations beside pgbench, on the same server.

    python -m benchmarks.postgresql [--rounds 7] [--seconds 3] [--endpoint HOST:PORT/DATABASE --authority PEM]

Without an endpoint it starts the wheel's PostgreSQL, with TLS and as it comes: commits are flushed. pgbench is the
wheel's, too. Both are one process with one thread, execute the same prepared statements on the same table and go
through the keys in the same order: number 7919 c + 104729 k, modulo how many there are, for the k-th operation of
client c, in 19 decimal digits; values have 889 bytes. Ours goes through the closed-loop engine and its recorder, so
that all that it does between two operations is in its mean, as in pgbench's: time passed by operations done. pgbench's
p50 is from its own log, in whole microseconds, of every tenth operation. Then, with TLS and a connection per operation:
what it is made of, beside `pgbench -C` (its mean time, connection included).
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks import command, machine, rounds
from benchmarks.command import Found, MissingComparatorError
from benchmarks.postgresql_subject import Parts, Server, Subject
from benchmarks.result import Case, Figure, Goal

from stepbench.contracts.workload import Kind
from stepbench.local.certificates import make_certificates
from stepbench.local.postgresql_server import discard_postgresql, run_program, site_packages
from stepbench.local.postgresql_tls import WHEEL, start_postgresql_with_tls
from stepbench.local.processes import terminate

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator


QUESTION = "What do our PostgreSQL operations take beside pgbench's (prepared statements, one thread)?"
NOTES = (
    "A mean is a client's time by its operations: what either does between two of them counts, as does our recording.",
    "INSERT is of new keys, in no order, into a table that is emptied before each turn; commits are flushed to disk.",
)
GOAL = Goal(at_most=1.05)
SECONDS, QUICK_SECONDS = 3, 1
CONNECTIONS, QUICK_CONNECTIONS = 100, 10
"""Made one after the other, in a round of those without reuse."""
SERIES = ((Kind.INSERT, 1), (Kind.READ, 1), (Kind.READ, 10), (Kind.OVERWRITE, 1), (Kind.OVERWRITE, 10))


class Columns(NamedTuple):
    """Of all rounds."""

    mean_us: tuple[float, ...]
    p50_us: tuple[float, ...]
    per_s: tuple[float, ...]
    cpu_us: tuple[float, ...]


def series(server: Server, peer: str, asked: argparse.Namespace) -> Iterator[Case]:
    """Each kind of operation by so many clients, on kept connections without TLS."""
    for kind, clients in SERIES:
        subject = Subject(server, clients)
        subject.make()
        ours, theirs = (partial(side, kind, asked.seconds) for side in (subject.ours, subject.theirs))
        pairs = rounds.take_turns(ours, theirs, asked.rounds)
        subject.remove()
        own, other = (Columns(*zip(*side, strict=True)) for side in zip(*pairs, strict=True))
        goal = GOAL if (kind, clients) == SERIES[0] else None
        yield Case(
            name=f"{kind.name.lower()}, {clients} client{'s' * (clients > 1)}",
            peer=peer,
            figures=(
                Figure(name="mean", unit="µs", ours=own.mean_us, peer=other.mean_us, goal=goal),
                Figure(name="p50", unit="µs", ours=own.p50_us, peer=other.p50_us),
                Figure(name="throughput", unit="operations/s", ours=own.per_s, peer=other.per_s),
                Figure(name="client's CPU", unit="µs/operation", ours=own.cpu_us, peer=other.cpu_us),
            ),
        )


def connections(server: Server, peer: str, asked: argparse.Namespace) -> Case:
    """A connection with TLS for each read."""
    subject = Subject(server, 1, reuse=False, tls=True)
    subject.make()
    subject.fill(Kind.READ)
    each = QUICK_CONNECTIONS if asked.quick else CONNECTIONS
    pairs = rounds.take_turns(partial(subject.our_parts, each), partial(subject.their_mean, each), asked.rounds)
    subject.remove()
    means = tuple(own[-1] for own, _ in pairs)
    theirs = tuple(other[0] for _, other in pairs)
    parts = zip(Parts._fields[:-1], zip(*(own[:-1] for own, _ in pairs), strict=True), strict=True)
    figures = [Figure(name=f"{part}, p50", unit="ms", ours=values) for part, values in parts]
    mean = Figure(name="mean", unit="ms", ours=means, peer=theirs)
    return Case(name="read over TLS, a connection each", peer=f"{peer} -C", figures=(mean, *figures))


def measure(asked: argparse.Namespace) -> Found:
    """All cases."""
    asked.seconds = asked.seconds or (QUICK_SECONDS if asked.quick else SECONDS)
    pgbench = asked.pgbench or site_packages(WHEEL) / WHEEL.programs / "bin" / "pgbench"
    if shutil.which(pgbench) is None:
        message = f"{pgbench} is no program; give one with --pgbench (it comes with PostgreSQL's server)"
        raise MissingComparatorError(message)
    peer = f"pgbench {run_program([pgbench, '--version'], 'pgbench --version').split()[-1]}"
    with _server(asked.endpoint, asked.authority, pgbench) as server, machine.pinned():
        cases = (*series(server, peer, asked), connections(server, peer, asked))
    return Found(cases, NOTES)


@contextmanager
def _server(endpoint: str | None, authority: str, pgbench: Path) -> Iterator[Server]:
    if endpoint:
        yield Server(endpoint, authority, pgbench)
        return
    with tempfile.TemporaryDirectory() as directory:
        certificates = make_certificates(Path(directory) / "certificates")
        store = start_postgresql_with_tls(Path(directory) / "server", certificates)
        try:
            machine.pin_pids(store.pids)
            yield Server(store.endpoint, str(certificates.authority), pgbench)
        finally:
            terminate(store.pids)
            discard_postgresql(Path(directory) / "server")


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pgbench", type=Path, help="default: the wheel's")
    parser.add_argument("--seconds", type=float, help=f"of a turn; default {SECONDS}, with --quick {QUICK_SECONDS}")
    parser.add_argument("--endpoint", help="of a server that runs already")
    parser.add_argument("--authority", default="", help="PEM file of whoever signed its certificate")


if __name__ == "__main__":
    command.run("postgresql", QUESTION, measure, _options)
