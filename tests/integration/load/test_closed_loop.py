"""The closed-loop engine on real servers: its books against theirs, with the clock, timer and drivers of a writer."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import urllib.request
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from tests.support.contracts.trigger_subject import contract_spec

from stepbench.clock import AnchoredClock
from stepbench.contracts.workload import Kind, Workload
from stepbench.drivers.etcd.trigger import EtcdDriver
from stepbench.drivers.reference.trigger import ReferenceDriver
from stepbench.load.closed_loop import Client, ClosedLoop, LoopBounds, Offer
from stepbench.load.process import run_measuring
from stepbench.load.recorder import GrowingRecorder
from stepbench.load.timer import best_timer
from stepbench.model.pending import CoroutineRequest, perform
from stepbench.model.request import Outcome, Request, Result
from stepbench.records.formats.columns import Rows
from stepbench.settings import Settings
from stepbench.workload.arrivals import think_times_ns
from stepbench.workload.choices import Choices, ClientStream
from stepbench.workload.operations import RecordKeys
from stepbench.workload.products import Products, json_blob
from stepbench_tools.calibration.truth import read_truth
from stepbench_tools.local.processes import terminate
from stepbench_tools.local.stores.references import TRUTH, start_reference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.protocol import Driver
    from stepbench_tools.local.stores import LocalStore

pytestmark = pytest.mark.stores
CLIENTS, LIMIT_S = 10, 30
INSERTS = Workload.model_validate({"mix": {"insert": 1}, "records": 0, "record": {"shape": "product"}})
NOW = {"store": "reference", "delay": {"kind": "constant", "ms": 0}}


class Run(NamedTuple):
    """What was offered when, and what came of it."""

    start_at_ns: int
    taken: Rows
    keys: dict[int, list[str]]
    """By client, in the order of offering."""


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalStore, Path]]:
    """Run a reference store with its truth."""
    directory = tmp_path_factory.mktemp("reference")
    store = start_reference(directory, parent=os.getpid())
    yield store, directory / TRUTH
    terminate(store.pids)


def insert(build: Callable[[TrialSpec, Clock], Driver], spec: TrialSpec, *, think_s: float, seconds: float) -> Run:
    """Let ten clients insert products for so long, on the event loop of a writer."""
    keys: dict[int, list[str]] = {number: [] for number in range(CLIENTS)}

    async def run() -> Run:
        clock = AnchoredClock()
        driver, recorder, products = build(spec, clock), GrowingRecorder(), Products(INSERTS.seed)
        record_keys = RecordKeys(INSERTS, spec.tag)
        await driver.open()
        await driver.prepare()

        def client(number: int) -> Client:
            choices = Choices(INSERTS, ClientStream(0, 0, number))

            def make(sequence: int) -> Offer:
                choice = choices.at(sequence)
                key, value = record_keys.of(choice.record), json_blob(products.product(choice.record))

                async def offer() -> Result:
                    keys[number].append(key)
                    return Result(*await perform(driver, Request(Kind.INSERT, key, value)))

                return Offer(choice.kind, CoroutineRequest(offer, clock))

            return Client(number, make, think_times_ns(think_s, "constant", (INSERTS.seed, number)))

        start_ns = clock.now_ns() + 100_000_000
        bounds = LoopBounds(start_ns, start_ns + round(seconds * 1e9), drain_s=5, most=1_000_000)
        engine = ClosedLoop([client(number) for number in range(CLIENTS)], clock, best_timer(clock), recorder, bounds)
        try:
            async with asyncio.timeout(LIMIT_S):
                await engine.run()
        finally:
            await driver.close()
        return Run(start_ns, recorder.take(), keys)

    return run_measuring(run())


def etcd(server: LocalStore) -> Callable[[TrialSpec, Clock], Driver]:
    """Build drivers for a running etcd."""
    settings = Settings(results_table="unused", results_bucket="unused", etcd_endpoint=server.endpoint)
    return lambda spec, clock: EtcdDriver(spec, settings, clock)


def check_books(run: Run, think_ns: int) -> None:
    """Check what holds in any closed loop, whatever the timings."""
    rows, client = run.taken, run.taken.extras["client"]
    assert (rows.sequence.tolist(), set(rows.outcome.tolist())) == (list(range(rows.sequence.size)), {Outcome.OK})
    assert (set(run.taken.extras["kind"].tolist()), set(client.tolist())) == ({Kind.INSERT}, set(range(CLIENTS)))
    assert np.all(rows.t0_ns >= run.start_at_ns)
    assert np.all(rows.t0_ns <= rows.t1_ns)
    assert np.all(rows.t1_ns <= rows.t2_ns)
    for number in range(CLIENTS):
        its = client == number
        assert rows.t0_ns[its].tolist()[1:] == (rows.t2_ns[its] + think_ns).tolist()[:-1]
        assert int(its.sum()) == len(run.keys[number])


def test_ten_clients_without_a_pause_on_the_reference_store(reference: tuple[LocalStore, Path]) -> None:
    """Every row is a write that the store has on its own record, within the row's times; and the other way round."""
    server, truth_directory = reference
    settings = Settings(results_table="unused", results_bucket="unused", reference_endpoint=server.endpoint)
    spec = contract_spec(NOW)
    run = insert(lambda spec, clock: ReferenceDriver(spec, settings, clock), spec, think_s=0, seconds=1)
    check_books(run, 0)
    asyncio.run(ReferenceDriver(spec, settings, AnchoredClock()).tear_down())  # the truth is whole by then
    truth = read_truth((truth_directory / f"{spec.tag}.jsonl").read_text().splitlines())
    assert len(truth) == run.taken.sequence.size > CLIENTS
    received = {str(each.number): each.received_at_ns for each in truth}
    tolerance_ns = 1_000_000  # two clocks of one machine, one of them anchored
    for token, t1_ns, t2_ns in zip(run.taken.tokens, run.taken.t1_ns, run.taken.t2_ns, strict=True):
        assert t1_ns - tolerance_ns <= received.pop(token) <= t2_ns + tolerance_ns
    assert not received


def test_ten_clients_that_pause_on_etcd(etcd_server: LocalStore) -> None:
    """Latency mode; read back through etcd's JSON gateway, every product is there under the key that was chosen."""
    spec = contract_spec({"store": "etcd"})
    run = insert(etcd(etcd_server), spec, think_s=0.05, seconds=1)
    check_books(run, 50_000_000)
    assert run.taken.sequence.size <= CLIENTS * 21
    keys = [key for of_client in run.keys.values() for key in of_client]
    assert sorted(keys) == sorted(stored(etcd_server.endpoint, f"{spec.tag}/"))


def stored(endpoint: str, prefix: str) -> list[str]:
    """Return the keys below a prefix."""
    last = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    query = {"key": text(prefix), "range_end": text(last), "keys_only": True}
    request = urllib.request.Request(f"http://{endpoint}/v3/kv/range", json.dumps(query).encode())
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 -- our own loopback address
        return [base64.b64decode(each["key"]).decode() for each in json.load(answer)["kvs"]]


def text(plain: str) -> str:
    """Encode as the gateway takes bytes."""
    return base64.b64encode(plain.encode()).decode()
