"""
One read by our program's reader, for `benchmarks.transfer`: a process that does nothing else, and prints what it took.

It is what a task runs, but for the sign of life and the rows, for which there is no table here.
"""

from __future__ import annotations

import json
import os
import sys

from stepbench.contracts.transfer.rows import FileRead
from stepbench.experiments.transfer.program.progress import Progress
from stepbench.experiments.transfer.program.sources import BucketAccess, BucketRead
from stepbench.experiments.transfer.program.surroundings import peak_memory_bytes
from stepbench.records.storage.receiver_paths import bucket_place, credentials_of


def main(url: str, bucket: str, path: str, authority: str, file_bytes: str) -> None:
    """Print bytes, seconds, CPU seconds, MiB of memory, and the digest's share of the time."""
    progress = Progress()
    place = bucket_place(bucket, os.environ, url)
    access = BucketAccess(place, "us-east-1", credentials_of(os.environ), authority or None)
    file = FileRead(source="s3", path=path, file_bytes=int(file_bytes), digest="")
    BucketRead(access, file, 1, 2**20, progress).run()
    took_ns = progress.transfer_ns or 0
    times_s = took_ns / 1e9, progress.cpu_ns / 1e9
    print(json.dumps([progress.received_bytes, *times_s, peak_memory_bytes() / 2**20, progress.digest_ns / took_ns]))


if __name__ == "__main__":
    main(*sys.argv[1:])
