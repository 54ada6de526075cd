"""Both floors, against a real etcd and a receiver that records as ours does."""

from __future__ import annotations

import asyncio
import socket
from functools import partial
from statistics import median
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from tests.integration.tools.local.conftest import Functions
from tests.samples.ports import silent_port
from tests.samples.services import RESULTS_TABLE

from stepbench.clock import SystemClock
from stepbench.contracts.plan import Plan
from stepbench.drivers.etcd import etcd_pb2 as pb
from stepbench.drivers.etcd.cluster import RANGE, make_call
from stepbench.errors import LocalEnvironmentError
from stepbench.records.storage.trial_table import TrialTable
from stepbench_tools.local import floors
from stepbench_tools.local import watch_floor as etcd_floor
from stepbench_tools.local.floors import InvokeProbe, measure_floors
from stepbench_tools.local.processes import terminate
from stepbench_tools.local.stack import RECEIVER as RECEIVER_OUTPUT
from stepbench_tools.local.stack import emulator_session, local_client, table
from stepbench_tools.local.stores.wheels import start_etcd
from stepbench_tools.local.watch_floor import WatchProbe

if TYPE_CHECKING:
    from pathlib import Path

    from stepbench_tools.local.emulator.server import Emulator
    from stepbench_tools.local.stack import Stack
    from stepbench_tools.local.stores import LocalStore

pytestmark = [pytest.mark.emulator, pytest.mark.stores]
LIMIT_S = 60

RECEIVER = """
import time, struct, zlib, boto3
TABLE = boto3.resource("dynamodb").Table("floors")
def handler(event, context):
    t4_ns = time.time_ns()
    tag, rest = event["event"].split("/")
    entry = struct.pack("<BBHHHIqqq", 255, 0, 0, 0, 0, int(rest[-8:], 16), t4_ns, 0, 0)
    shard = zlib.crc32(context.aws_request_id.encode()) % 16
    TABLE.put_item(Item={"pk": f"t4#{tag}#{shard:02d}", "sk": context.aws_request_id, "n": 1, "entries": entry})
"""
PHASES = [{"name": "p", "load": [{"rate_per_s": 20, "count": 20}]}]


def plan(*stores: str) -> Plan:
    """Return a plan with one trial for each store."""
    return Plan.model_validate({"name": "p", "trials": [{"target": {"store": s}, "phases": PHASES} for s in stores]})


@pytest.fixture(scope="module")
def receiver(shimmed: Emulator) -> Stack:
    """Make a results table, and a receiver that writes to it."""
    local_client("dynamodb", shimmed.endpoint).create_table(TableName="floors", **RESULTS_TABLE)
    arn = Functions(shimmed.endpoint).make("floor-receiver", RECEIVER)
    records = TrialTable(table(emulator_session(), "floors", shimmed.endpoint))
    # All that a probe needs of a Stack.
    return cast("Stack", SimpleNamespace(endpoint=shimmed.endpoint, table=records, outputs={RECEIVER_OUTPUT: arn}))


def test_both_floors_are_measured_event_by_event(
    receiver: Stack, etcd_server: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every event arrives, none before it was sent, and half of them within a second: these are milliseconds."""
    monkeypatch.setattr(floors, "EVENTS", 20)
    monkeypatch.setattr(floors, "WARM_UP", 2)
    found = measure_floors(receiver, plan("s3", "etcd"), "run-1", etcd_server.endpoint, SystemClock())
    assert found.keys() == {"async_invoke", "etcd_watch"}
    for floor in found.values():
        assert len(floor["latencies_ms"]) == 20
        assert min(floor["latencies_ms"]) > 0
        assert 0.01 < median(floor["latencies_ms"]) < 1_000


def test_only_floors_of_use_are_measured(receiver: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten seconds of a user's life are not spent on a number that nobody will look at."""
    monkeypatch.setattr(floors, "EVENTS", 2)
    measure = partial(measure_floors, receiver, run_id="run-2", clock=SystemClock())
    assert measure(plan("postgresql"), etcd=None).keys() == {"async_invoke"}
    assert measure(plan("etcd"), etcd=None) == {}


async def test_a_receiver_that_records_nothing_is_an_error(receiver: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty floor would look like an infinitely fast machine."""
    monkeypatch.setattr(floors, "START_S", 0.3)
    probe = InvokeProbe(receiver, "tag-0000", 1, SystemClock())
    monkeypatch.setattr(receiver.table, "t4_count", lambda _tag: 0)
    try:
        with pytest.raises(LocalEnvironmentError, match="recorded nothing within"):
            await probe.start_receiver(first=1)
    finally:
        await probe.close()


async def test_a_refused_invocation_is_an_error(shimmed: Emulator) -> None:
    """The function may not be there."""
    stack = SimpleNamespace(endpoint=shimmed.endpoint, outputs={RECEIVER_OUTPUT: "nobody"})
    probe = InvokeProbe(cast("Stack", stack), "tag-0000", 1, SystemClock())
    try:
        with pytest.raises(LocalEnvironmentError, match=r"refused an asynchronous invocation.*404"):
            await probe.send(0)
    finally:
        await probe.close()


async def test_an_emulator_that_is_not_there_is_an_error() -> None:
    """The message has its address."""
    with silent_port() as port:
        stack = SimpleNamespace(endpoint=f"http://127.0.0.1:{port}", outputs={RECEIVER_OUTPUT: "nobody"})
        with pytest.raises(LocalEnvironmentError, match=rf"127\.0\.0\.1:{port} takes no connection"):
            await InvokeProbe(cast("Stack", stack), "tag-0000", 1, SystemClock()).send(0)


async def test_a_connection_that_the_emulator_has_closed_is_made_anew(receiver: Stack) -> None:
    """It closes one that rests for seconds, which a receiver's first start may take."""
    probe = InvokeProbe(receiver, "tag-0001", 2, SystemClock())
    await probe.send(0)
    await probe.close()
    await probe.send(1)
    assert len(await probe.latencies_ns()) == 2
    await probe.close()


async def test_an_etcd_that_is_not_there_is_an_error() -> None:
    """The message has its address."""
    with silent_port() as port, pytest.raises(LocalEnvironmentError, match=rf"127\.0\.0\.1:{port}"):
        await WatchProbe.open(f"127.0.0.1:{port}", "floor/x/", 1, SystemClock())


async def delivered(probe: WatchProbe) -> None:
    """Wait until the watch has brought the only event: a limit that is set after it is for those that do not come."""
    async with asyncio.timeout(LIMIT_S):
        while not probe.t4_ns:  # noqa: ASYNC110 -- the probe has no event for it
            await asyncio.sleep(0.005)


async def test_an_etcd_that_says_nothing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is one within the limit."""
    monkeypatch.setattr(etcd_floor, "_LIMIT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(LocalEnvironmentError, match=r"did not start to watch within 0\.1 s"):
            await WatchProbe.open(endpoint, "floor/x/", 1, SystemClock())


async def test_an_etcd_that_goes_away_is_an_error(tmp_path: Path) -> None:
    """Events that are missing may have been the slowest, and a put that is refused has no latency."""
    store = start_etcd(tmp_path)
    try:
        probe = await WatchProbe.open(store.endpoint, "floor/x/", 2, SystemClock())
        await probe.send(0)
        await delivered(probe)
        probe.t1_ns[b"never delivered"] = 0
    finally:
        terminate(store.pids)
    with pytest.raises(LocalEnvironmentError, match="did not deliver 1 of 2 puts and ended the watch"):
        await probe.latencies_ns()
    with pytest.raises(LocalEnvironmentError, match="refused a put: UNAVAILABLE"):
        await probe.send(1)
    await probe.close()


async def test_an_event_that_does_not_come_is_an_error(
    etcd_server: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is one within the limit."""
    probe = await WatchProbe.open(etcd_server.endpoint, "floor/lost/", 1, SystemClock())
    await probe.send(0)
    await delivered(probe)
    probe.t1_ns[b"never put"] = 0
    monkeypatch.setattr(etcd_floor, "_LIMIT_S", 0.1)
    with pytest.raises(LocalEnvironmentError, match=r"did not deliver 1 of 2 puts in 0\.1 s"):
        await probe.latencies_ns()
    await probe.close()


async def test_keys_are_gone_afterwards(etcd_server: LocalStore) -> None:
    """The floor leaves nothing in a store that a trial is about to use."""
    probe = await WatchProbe.open(etcd_server.endpoint, "floor/gone/", 1, SystemClock())
    await probe.send(0)
    (latency_ns,) = await probe.latencies_ns()
    assert latency_ns > 0
    await probe.close()
    again = await WatchProbe.open(etcd_server.endpoint, "floor/gone/", 1, SystemClock())
    everything = pb.RangeRequest(key=b"floor/", range_end=b"floor0", count_only=True).SerializeToString()
    assert pb.RangeResponse.FromString(await make_call(again.connection, RANGE, everything)).count == 0
    await again.close()
