"""
One writer as the task `RunWriter` runs it, with the DynamoDB driver, in front of the sink: a process of its own.

    python -m benchmarks.writer --endpoint http://127.0.0.1:PORT --rate 3000 --seconds 20 --records DIRECTORY

Results table in memory, results bucket in a directory, so that flushes cost what they do without a network. Prints
what came of it as one line of JSON; `offered` starts it and reads that.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import psutil
from tests.samples.records import REF, trial_spec, writer_item

from stepbench.clock import SystemClock
from stepbench.contracts.phase import LoadStep
from stepbench.contracts.target import DynamoDbTarget
from stepbench.contracts.tasks import RunWriterInput
from stepbench.contracts.trial import Record
from stepbench.records.formats.columns import UNSENT, decode
from stepbench.records.storage import layout
from stepbench.records.storage.run_store import RunStore
from stepbench.stages.run_writer import Bench, run_writer
from stepbench_tools.local.memory_services import MemoryBucket, MemoryServices

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

RECORD = Record(key_bytes=59, value_bytes=889)
MAX_IN_FLIGHT = 256
_LEAD_S = 3
_MORE_S = 60
_CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "example",
    "AWS_EC2_METADATA_DISABLED": "1",
}


class Offered(NamedTuple):
    """
    The outcome of one writer's load.

    cpu_us: of the whole process under load, an event. waited_share: of the time, in which the writer could have run and
    something else had its core. rss_mb: resident memory when load began, when it had ended, and at most.
    """

    events: int
    ok: int
    unsent: int
    p50_us: float
    p99_us: float
    p999_us: float
    max_us: float
    cpu_us: float
    waited_share: float
    rss_mb: tuple[float, float, float]


def offered(endpoint: str, rate_per_s: float, seconds: float, records: Path) -> Offered:
    """Start a writer and return what it says; end the benchmark if any event was not acknowledged."""
    options = ["--endpoint", f"http://{endpoint}", "--rate", str(rate_per_s), "--seconds", str(seconds)]
    command = [sys.executable, "-m", "benchmarks.writer", *options, "--records", str(records)]
    environment = {**os.environ, **_CREDENTIALS}
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=seconds + _MORE_S, env=environment
    )
    if done.returncode:
        sys.exit(f"the writer failed: {done.stderr[-2_000:]}")
    made = Offered(**json.loads(done.stdout))
    if made.ok + made.unsent != made.events:
        sys.exit(f"the sink has not acknowledged everything: {made}")
    return made


class DirectoryBucket(MemoryBucket):
    """Files instead of memory, whose growth is to be the writer's own."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory

    def put_object(self, *, Key: str, Body: bytes, **_: object) -> None:  # noqa: N803 -- boto3's
        """Store one object: a column file on disk, a document in memory."""
        if not Key.endswith(".json"):
            self._directory.joinpath(Key.replace("/", "-")).write_bytes(Body)
        else:
            self.objects[Key] = Body


def _run(endpoint: str, rate_per_s: float, seconds: float, records: Path) -> Offered:
    services = MemoryServices(SystemClock(), aws_endpoint_url=endpoint).services
    services = replace(services, runs=RunStore(cast("S3Client", DirectoryBucket(records)), "results"))
    load = LoadStep(rate_per_s=rate_per_s, duration_s=seconds)
    spec = trial_spec(DynamoDbTarget(store="dynamodb"), load, record=RECORD, max_in_flight=MAX_IN_FLIGHT)
    services.runs.put_model(layout.trial_key(REF, "trial.json"), spec)
    item = writer_item(time.time_ns() + _LEAD_S * 10**9)
    ends = _Ends()
    output = run_writer(RunWriterInput(item=item, attempt=0), services, bench=Bench(cpu_s=ends.cpu_s))
    most_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024 / 1e6
    late_us = lateness_us(records)
    p50_us, p99_us, p999_us, max_us = np.quantile(late_us, (0.5, 0.99, 0.999, 1)).tolist()
    events = round(rate_per_s * seconds)
    return Offered(
        events=events,
        ok=output.ok,
        unsent=output.unsent,
        p50_us=p50_us,
        p99_us=p99_us,
        p999_us=p999_us,
        max_us=max_us,
        cpu_us=(ends.cpu_s_so_far[-1] - ends.cpu_s_so_far[0]) / events * 1e6,
        waited_share=(ends.waited_s[-1] - ends.waited_s[0]) / (ends.at_s[-1] - ends.at_s[0]),
        rss_mb=(ends.rss_mb[0], ends.rss_mb[-1], max(most_mb, *ends.rss_mb)),  # the kernel's most is coarse
    )


class _Ends:
    """What `Bench.cpu_s` is asked for, when load begins and when it has ended: a good moment to look at more."""

    def __init__(self) -> None:
        self.at_s: list[float] = []
        self.cpu_s_so_far: list[float] = []
        self.waited_s: list[float] = []
        self.rss_mb: list[float] = []

    def cpu_s(self) -> float:
        self.at_s.append(time.monotonic())
        self.cpu_s_so_far.append(time.process_time())
        self.waited_s.append(_waited_s())
        self.rss_mb.append(psutil.Process().memory_info().rss / 1e6)
        return self.cpu_s_so_far[-1]


def _waited_s() -> float:
    """Return how long this thread could have run, and another did (Linux, Documentation/scheduler/sched-stats)."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except OSError:
        return 0.0  # a system that does not tell


def lateness_us(records: Path) -> Any:  # noqa: ANN401 -- an array of floats, of which numpy's stubs make Any
    """Return t1 - t0 of every event that was sent, from the column files: how late the generator was."""
    files = [decode(path.name, path.read_bytes()).rows for path in sorted(records.iterdir())]
    return np.concatenate([(rows.t1_ns - rows.t0_ns)[rows.outcome != UNSENT] / 1e3 for rows in files])


def main() -> None:
    """Offer, and say what came of it."""
    parser = argparse.ArgumentParser(description="One writer in front of the sink.")
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--rate", type=float, required=True, help="events a second")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--records", type=Path, required=True, help="an empty directory")
    asked = parser.parse_args()
    print(json.dumps(_run(asked.endpoint, asked.rate, asked.seconds, asked.records)._asdict()))


if __name__ == "__main__":
    main()
