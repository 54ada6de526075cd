"""`benchmarks.transfer` by boto3's `download_fileobj`, into a sink that forgets it; prints what it took."""

from __future__ import annotations

import json
import resource
import sys
import time

import boto3


class Sink:
    """A file that counts."""

    def __init__(self) -> None:
        self.received = 0

    def write(self, data: bytes) -> int:
        """Forget a piece."""
        self.received += len(data)
        return len(data)


def used_s() -> float:
    """Return the process's CPU time."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main(url: str, bucket: str, key: str, authority: str) -> None:
    """Download once; the client is made outside of the time."""
    client = boto3.client("s3", endpoint_url=url, region_name="us-east-1", verify=authority or None)
    sink, before_s, begun_s = Sink(), used_s(), time.perf_counter()
    client.download_fileobj(bucket, key, sink)  # type: ignore[arg-type]  # it only writes
    took_s = time.perf_counter() - begun_s
    with open("/proc/self/status", encoding="ascii") as status:  # noqa: PTH123 -- nothing of ours
        peak_kib = next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
    print(json.dumps([sink.received, took_s, used_s() - before_s, peak_kib / 1024]))


if __name__ == "__main__":
    main(*sys.argv[1:])
