"""Puts and gets by our stores of blobs, for `benchmarks.blobs`: a process that prints what they took."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING

from benchmarks import rounds
from tests.support.contracts.blobs_subject import blobs_spec

from stepbench.clock import AnchoredClock
from stepbench.drivers.registry import build_blobs
from stepbench.model.request import Outcome
from stepbench.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from stepbench.drivers.blobs import BlobStore, BlobTransfer

MIB, GIB = 2**20, 2**30
WARM_UPS = 2


async def transfer(store: BlobStore, key: str, blob: bytes, count: int) -> list[float]:
    """Return MiB/s of puts and of gets, and CPU seconds per GiB of each."""

    async def put() -> BlobTransfer:
        return await store.put(key, blob)

    async def get() -> BlobTransfer:
        got, transferred = await store.get(key)
        if len(got) != len(blob):
            sys.exit(f"{len(got):,} bytes came in place of {len(blob):,}: {transferred}")
        return transferred

    found = [await _timed(work, count, len(blob)) for work in (put, get)]
    return [rate for rate, _ in found] + [cpu for _, cpu in found]


async def _timed(work: Callable[[], Awaitable[BlobTransfer]], count: int, blob_bytes: int) -> tuple[float, float]:
    for _ in range(WARM_UPS):
        await work()
    before_s, begun_s = rounds.cpu_s(), time.perf_counter()
    for _ in range(count):
        transferred = await work()
        if transferred.outcome is not Outcome.OK:
            sys.exit(str(transferred))
    took_s, used_s = time.perf_counter() - begun_s, rounds.cpu_s() - before_s
    whole_bytes = count * blob_bytes
    return whole_bytes / MIB / took_s, used_s / (whole_bytes / GIB)


async def main(store: str, address: str, bucket: str, blob_bytes: str, count: str) -> None:
    """Transfer so many blobs of so many bytes, and print the figures."""
    settings = Settings(
        results_table="", results_bucket="", target_bucket=bucket, aws_endpoint_url=address,
        redis_endpoint=address, cassandra_endpoint=address,
    )  # fmt: skip
    spec = blobs_spec({"store": store})
    blobs = build_blobs(spec, settings, AnchoredClock())
    await blobs.prepare()
    await blobs.open()
    print(json.dumps(await transfer(blobs, f"{spec.tag}/blob", os.urandom(int(blob_bytes)), int(count))))
    if store != "s3":  # whose folder goes with the server
        await blobs.tear_down()
    await blobs.close()


if __name__ == "__main__":
    rounds.measured(main, *sys.argv[1:])
