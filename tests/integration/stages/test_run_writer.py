from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from tests.samples.records import REF, concatenate, trial_spec, writer_item
from tests.support.memory_driver import MemoryDriver

from stepbench.clock import Clock
from stepbench.contracts.phase import LoadStep
from stepbench.contracts.plan import TrialSpec
from stepbench.contracts.target import EtcdTarget
from stepbench.contracts.tasks import RunWriterInput, RunWriterOutput
from stepbench.errors import RecordsUnavailableError, TrialCancelledError
from stepbench.model.request import Outcome
from stepbench.records.formats.columns import UNSENT, Rows, decode
from stepbench.records.storage import layout
from stepbench.services import Services
from stepbench.settings import Settings
from stepbench.stages.run_writer import Bench, run_writer
from stepbench_tools.local.processes import terminate
from stepbench_tools.local.stores.references import start_clock_reference

pytestmark = pytest.mark.emulator

BENCH = Bench(beat_s=0.1, flush_s=0.25, drain_s=2, grace_s=0.5)


def memory(_spec: TrialSpec, _settings: Settings, clock: Clock) -> MemoryDriver:
    """Return a store that answers after 1 ms."""
    return MemoryDriver(clock, service_ns=(1_000_000,))


def offer(services: Services, duration_s: float = 1.0, bench: Bench = BENCH, ahead_s: float = 0.5) -> RunWriterOutput:
    """Offer 200 events a second; what a busy machine is not ready for within `ahead_s` goes unsent."""
    load = LoadStep(rate_per_s=200, duration_s=duration_s)
    services.runs.put_model(layout.trial_key(REF, "trial.json"), trial_spec(EtcdTarget(store="etcd"), load))
    task = RunWriterInput(item=writer_item(time.time_ns() + round(ahead_s * 1e9)), attempt=0)
    return run_writer(task, services, memory, bench)


def stored(services: Services) -> Rows:
    """Return all rows of the trial."""
    files = services.table.files(REF.tag)
    return concatenate([decode(file.key, services.runs.get_bytes(file.key)).rows for file in files])


@contextmanager
def when_it_sends(services: Services, strike: Callable[[], object]) -> Iterator[None]:
    """Strike as soon as the writer's signs of life say that it has sent something."""

    def watch() -> None:
        until = time.monotonic() + 60
        while not any(beat["progress"]["sent"] for beat in services.table.beats(REF.tag).values()):
            assert time.monotonic() < until
            time.sleep(0.05)
        strike()

    with ThreadPoolExecutor(1) as threads:
        watching = threads.submit(watch)
        yield
        watching.result(60)


def test_a_slice_on_real_time_is_recorded_whole(services: Services) -> None:
    """System timer, uvloop, threads on the side, table and bucket: all of it together."""
    assert offer(services, bench=replace(BENCH, grace_s=30), ahead_s=3).ok == 200
    rows = stored(services)
    assert rows.sequence.tolist() == list(range(200))
    assert (rows.t1_ns >= rows.t0_ns).all()
    assert (rows.t2_ns > rows.t1_ns).all()
    assert len(services.table.files(REF.tag)) >= 3
    (beat,) = services.table.beats(REF.tag).values()
    assert beat["ended"]
    assert beat["progress"]["ok"] == 200


def test_the_writers_clock_is_read_before_and_after(services: Services, tmp_path: Path) -> None:
    """Drift within a slice would show as a difference of the two."""
    pid, reference = start_clock_reference(tmp_path)
    try:
        settings = services.settings.model_copy(update={"clock_reference": reference})
        offer(replace(services, settings=settings), duration_s=0.2)
    finally:
        terminate([pid])
    samples = services.table.clocks(REF.tag)
    assert [(each.role, each.sandbox) for each in samples] == [("writer", layout.attempt_id(0, 0, 0, 0))] * 2
    assert all(abs(each.offset_ns) <= each.bound_ns + 100_000 for each in samples)


def test_the_flag_in_the_table_stops_a_running_writer(services: Services) -> None:
    """StopExecution does not stop a Lambda; this does."""
    strike = partial(services.table.set_flag, REF.tag, layout.CANCELLED, "Ctrl-C")
    with when_it_sends(services, strike), pytest.raises(TrialCancelledError, match="Ctrl-C"):
        offer(services, duration_s=20)
    outcomes = stored(services).outcome.tolist()
    assert len(outcomes) == 4_000
    assert 0 < outcomes.count(Outcome.OK) < 4_000
    assert outcomes.count(UNSENT) == 4_000 - outcomes.count(Outcome.OK)


def test_a_bucket_that_is_gone_fails_the_writer(services: Services) -> None:
    """Records that nobody has are reported, and not forgotten."""

    def empty_and_delete() -> None:
        s3, name = services.aws("s3"), services.settings.results_bucket
        while True:
            for key in list(services.runs.keys("")):
                s3.delete_object(Bucket=name, Key=key)
            with suppress(s3.exceptions.ClientError):  # a file has come meanwhile
                s3.delete_bucket(Bucket=name)
                return

    error = r"\d+ records of writer 00-0000-0000-00 could not be stored"
    with when_it_sends(services, empty_and_delete), pytest.raises(RecordsUnavailableError, match=error):
        offer(services, duration_s=3.0)
