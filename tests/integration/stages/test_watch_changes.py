from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.samples.records import REF, trial_spec
from tests.support.memory_driver import MemoryDriver

from stepbench.clock import Clock, SystemClock
from stepbench.contracts.identity import EventId
from stepbench.contracts.phase import LoadStep
from stepbench.contracts.plan import TrialSpec
from stepbench.contracts.target import EtcdTarget
from stepbench.contracts.tasks import WatchChangesInput
from stepbench.drivers.registry import lease_target
from stepbench.records.formats.t4_items import parse_item
from stepbench.records.storage import layout
from stepbench.records.storage.watch_log import read_watches
from stepbench.services import Services
from stepbench.settings import Settings
from stepbench.stages.watch_changes import WatchPace, watch_changes

pytestmark = pytest.mark.emulator

SPEC = trial_spec(EtcdTarget(store="etcd"))
PACE = WatchPace(turn_s=1, overlap_s=0.5, gate_s=0.2, tick_s=0.1)
EVENTS, MOST_EVENTS = 60, 2_000
LIMIT_S = 200


class PolledDriver(MemoryDriver):
    """One store for two watchers, each on an event loop of its own."""

    shared: list[bytes]

    def __init__(self, clock: Clock, shared: list[bytes]) -> None:
        super().__init__(clock)
        self.shared = shared

    async def open(self) -> None:
        """Follow the shared store, a hundred times a second."""
        import asyncio

        async def follow() -> None:
            while True:
                for value in self.shared[len(self.changes) :]:
                    self.put(value.decode(), value)
                await asyncio.sleep(0.01)

        self._follower = asyncio.create_task(follow())
        await asyncio.sleep(0)

    async def close(self) -> None:
        """Stop following."""
        self._follower.cancel()


def lane(services: Services, number: int, shared: list[bytes]) -> None:
    """Run the watch branch of the state machine for one lane, until it is told to stop."""

    def build(_spec: TrialSpec, _settings: Settings, clock: Clock) -> PolledDriver:
        return PolledDriver(clock, shared)

    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        output = watch_changes(WatchChangesInput(ref=REF, lane=number), services, build, PACE)
        if output.stopped:
            return
        time.sleep(max(0.0, output.next_at.timestamp() - time.time()))
    pytest.fail("it was never told to stop")


def watchers(services: Services) -> set[str]:
    """Return the lanes that have seen an event."""
    return {parse_item(item).source for item in services.table.t4_items(REF.tag)}


def test_two_lanes_hand_over_without_a_gap(services: Services) -> None:
    """Events go on over turns of both; each is seen, at the latest by the one who takes over."""
    services.runs.put_model(layout.trial_key(REF, "trial.json"), SPEC)
    services.table.take_lease(lease_target(SPEC, services.settings), REF, "arn", SystemClock().now_ns())
    shared: list[bytes] = []

    def offer() -> None:
        while not read_watches(services.table, REF.tag):
            time.sleep(0.02)
        # On a slow machine the second begins late.
        while len(shared) < EVENTS or (len(watchers(services)) < 2 and len(shared) < MOST_EVENTS):
            shared.append(EventId(REF.tag, 0, 0, 0, 0, len(shared)).text().encode())
            time.sleep(0.05)
        services.table.set_flag(REF.tag, layout.STOP_WATCHING, "done")

    with ThreadPoolExecutor(3) as threads:
        offering = threads.submit(offer)
        for each in [threads.submit(lane, services, number, shared) for number in (0, 1)]:
            each.result()
        offering.result()
    items = [parse_item(item) for item in services.table.t4_items(REF.tag)]
    assert {int(each) for item in items for each in item.entries["sequence"]} == set(range(len(shared)))
    assert watchers(services) == {"watcher#0", "watcher#1"}
    assert services.table.position(REF.tag) == len(shared)
    assert all(beat["ended"] for beat in services.table.beats(REF.tag).values())
    assert {watch.sandbox for watch in read_watches(services.table, REF.tag)} >= {item.sandbox for item in items}


@pytest.mark.parametrize(("seconds", "gate_s"), [(20, 1), (60, 3), (3_600, 15)])
def test_a_lane_that_waits_looks_more_often_in_a_short_trial(services: Services, seconds: int, gate_s: float) -> None:
    """A trial of 20 s must not wait 15 s for it at the end; a long one must not fill its history with looking."""
    spec = trial_spec(EtcdTarget(store="etcd"), LoadStep(rate_per_s=1, duration_s=seconds))
    services.runs.put_model(layout.trial_key(REF, "trial.json"), spec)
    services.table.take_lease(lease_target(spec, services.settings), REF, "arn", SystemClock().now_ns())
    before = time.time()
    output = watch_changes(WatchChangesInput(ref=REF, lane=1), services, lambda *_: pytest.fail("not its turn"))
    assert not output.stopped
    assert before + gate_s - 0.01 <= output.next_at.timestamp() <= time.time() + gate_s
