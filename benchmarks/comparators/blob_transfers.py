"""
Puts and gets of blobs by boto3, redis-py with hiredis, and cassandra-driver, for `benchmarks.blobs`.

It prints what they took. Cassandra's blobs are cut as ours are: rows of 2 MiB, four in flight.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

MIB, GIB = 2**20, 2**30
WARM_UPS = 2
CHUNK_BYTES, IN_FLIGHT = 2 * MIB, 4
KEYSPACE = "stepbench_peer"
LIBRARIES = {"s3": ("boto3",), "redis": ("redis", "hiredis"), "cassandra": ("cassandra-driver",)}


class Peer(NamedTuple):
    """Puts a blob, gets it, and removes what it has made."""

    put: Callable[[bytes], object]
    get: Callable[[], bytes]
    end: Callable[[], object]


def boto3(url: str, bucket: str) -> Peer:
    """Return boto3: one client, and one connection; the body is handed over, and read, whole."""
    client = import_module("boto3").client("s3", endpoint_url=url, region_name="us-east-1")
    place = {"Bucket": bucket, "Key": "peer"}
    return Peer(
        put=lambda blob: client.put_object(**place, Body=blob),
        get=lambda: bytes(client.get_object(**place)["Body"].read()),
        end=lambda: client.delete_object(**place),
    )


def redis_py(address: str, _bucket: str) -> Peer:
    """Return redis-py, whose replies hiredis reads: it would do without, and be slower."""
    import_module("hiredis")
    host, _, port = address.rpartition(":")
    client = import_module("redis").Redis(host, int(port))
    return Peer(lambda blob: client.set("peer", blob), lambda: client.get("peer"), lambda: client.delete("peer"))


def is_busy(error: Exception) -> bool:
    """Tell whether the driver has refused to send, since its one socket is full: it leaves waiting to its caller."""
    return "ConnectionBusy" in repr(error)


def cassandra_driver(address: str, _bucket: str) -> Peer:
    """Return cassandra-driver: one session, which has one connection to the one node."""
    host, _, port = address.rpartition(":")
    cluster = import_module("cassandra.cluster").Cluster([host], port=int(port), protocol_version=4)
    session, table = cluster.connect(), f"{KEYSPACE}.blobs"
    strategy = "{'class': 'NetworkTopologyStrategy', 'replication_factor': 1}"
    session.execute(f"CREATE KEYSPACE IF NOT EXISTS {KEYSPACE} WITH replication = {strategy}")
    columns = "key text, part int, blob_bytes bigint, chunk blob, PRIMARY KEY (key, part)"
    session.execute(f"CREATE TABLE IF NOT EXISTS {table} ({columns})")
    write = session.prepare(f"INSERT INTO {table} (key, part, blob_bytes, chunk) VALUES (?, ?, ?, ?)")  # noqa: S608
    read = session.prepare(f"SELECT blob_bytes, chunk FROM {table} WHERE key = ? AND part = ?")  # noqa: S608
    run_each = import_module("cassandra.concurrent").execute_concurrent_with_args

    def put(blob: bytes) -> None:
        places = range(0, len(blob), CHUNK_BYTES)
        left = [("peer", part, len(blob), blob[at : at + CHUNK_BYTES]) for part, at in enumerate(places)]
        while left:
            ends = run_each(session, write, left, concurrency=IN_FLIGHT, raise_on_first_error=False)
            if other := [end for sent, end in ends if not sent and not is_busy(end)]:
                raise other[0]
            left = [values for values, (sent, _) in zip(left, ends, strict=True) if not sent]

    def get() -> bytes:
        size, first = session.execute(read, ("peer", 0)).one()
        parts = [("peer", part) for part in range(1, -(-size // len(first)))]
        if not parts:
            return bytes(first)
        found = run_each(session, read, parts, concurrency=IN_FLIGHT, raise_on_first_error=True)
        return b"".join([first, *(rows.one().chunk for _, rows in found)])

    def end() -> None:
        session.execute(f"DROP KEYSPACE {KEYSPACE}")
        cluster.shutdown()

    return Peer(put, get, end)


PEERS = {"s3": boto3, "redis": redis_py, "cassandra": cassandra_driver}


def used_s() -> float:
    """Return the process's CPU time."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def timed(work: Callable[[], object], count: int, blob_bytes: int) -> tuple[float, float]:
    """Return MiB/s, and CPU seconds per GiB."""
    for _ in range(WARM_UPS):
        work()
    before_s, begun_s = used_s(), time.perf_counter()
    for _ in range(count):
        work()
    took_s, cpu_s = time.perf_counter() - begun_s, used_s() - before_s
    whole_bytes = count * blob_bytes
    return whole_bytes / MIB / took_s, cpu_s / (whole_bytes / GIB)


def main(store: str, address: str = "", bucket: str = "", blob_bytes: str = "", count: str = "") -> None:
    """Transfer so many blobs of so many bytes, and print the figures; of a store alone, print the libraries."""
    if not address:
        print(json.dumps([f"{each} {version(each)}" for each in LIBRARIES[store]]))
        return
    peer, blob = PEERS[store](address, bucket), os.urandom(int(blob_bytes))

    def get() -> None:
        if len(peer.get()) != len(blob):
            sys.exit("another blob came")

    found = [timed(work, int(count), len(blob)) for work in (lambda: peer.put(blob), get)]
    peer.end()
    print(json.dumps([rate for rate, _ in found] + [cpu for _, cpu in found]))


if __name__ == "__main__":
    main(*sys.argv[1:])
