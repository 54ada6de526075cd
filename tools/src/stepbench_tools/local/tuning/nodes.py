"""
Nodes of Cassandra that are measured in turns: each is started anew, with a table of its own for each workload.

Both of a pair are up for as long as they are compared, in turns of a few seconds, so that what else the machine does
falls on both; the one whose turn it is not is paused.

Its load are clients that put and get blobs without a pause. Each has a ring of keys that it writes again and again, as
executions of a DAG do whose objects are removed in the end: files have to be merged, and the store's data stays
bounded. It reads what it has written, in an order that follows from its number. A failed request ends the evaluation.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import shutil
import uuid
from typing import TYPE_CHECKING, NamedTuple

import psutil

from stepbench.clock import AnchoredClock
from stepbench.contracts.dataflow.dag import Dag, Stage
from stepbench.contracts.identity import trial_tag
from stepbench.contracts.phase import LoadStep, Phase
from stepbench.contracts.plan import TrialPlan, TrialSpec
from stepbench.contracts.target import CassandraTarget
from stepbench.drivers.cassandra.blobs import CassandraBlobs
from stepbench.drivers.cassandra.tuning import CassandraTuning, wanted_of
from stepbench.errors import TargetUnavailableError
from stepbench.load.process import run_measuring
from stepbench.model.request import Outcome
from stepbench.settings import Settings
from stepbench_tools.local.stores.cassandra.node import Node

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from stepbench.clock import Clock
    from stepbench.contracts.tuning import (
        AppliedConfiguration,
        CassandraConfiguration,
        EffectiveConfiguration,
        StoreWorkload,
    )
    from stepbench.drivers.blobs import BlobStore
    from stepbench.drivers.cassandra.control import Scalar
    from stepbench_tools.local.stores.cassandra.configuration import Installation, Profile


RING_BYTES, FEWEST_KEYS, MOST_KEYS = 64 * 2**20, 4, 256
"""What all clients' keys hold together, about; and how many a client has at least and at most."""
_ROUNDING = 1e-9


class Turn(NamedTuple):
    """A stretch of load. tag: what keys begin with. counted_s: how long it is."""

    tag: str
    workload: StoreWorkload
    counted_s: float


def reads_of(workload: StoreWorkload) -> Iterator[bool]:
    """Yield whether the next request reads, by the workload's share exactly; the first one writes."""
    owed = 0.0
    yield False
    while True:
        owed += workload.read_share
        reads = owed >= 1 - _ROUNDING
        owed -= reads
        yield reads


def keys_of(workload: StoreWorkload) -> int:
    """Return how many keys each client writes."""
    return max(FEWEST_KEYS, min(MOST_KEYS, RING_BYTES // (workload.blob_bytes * workload.clients)))


async def offer(store: BlobStore, turn: Turn, clock: Clock) -> float:
    """
    Return the throughput of an open store, in requests a second.

    Raises:
        TargetUnavailableError: a request failed.
    """
    end_ns = clock.now_ns() + round(turn.counted_s * 1e9)
    counts = await asyncio.gather(*(_client(store, each, turn, end_ns, clock) for each in range(turn.workload.clients)))
    return sum(counts) / turn.counted_s


async def _client(store: BlobStore, number: int, turn: Turn, end_ns: int, clock: Clock) -> int:
    """Return how many of one client's requests were answered until the end."""
    workload, rng = turn.workload, random.Random(number)  # noqa: S311 -- load, no secret
    blob, keys, written, count = rng.randbytes(workload.blob_bytes), keys_of(workload), 0, 0
    for reads in reads_of(workload):
        if reads:
            _, transfer = await store.get(f"{turn.tag}/{number}-{rng.randrange(min(written, keys))}")
        else:
            transfer = await store.put(f"{turn.tag}/{number}-{written % keys}", blob)
            written += 1
        if transfer.outcome is not Outcome.OK:
            message = f"a {'get' if reads else 'put'} of {workload.blob_bytes:,} bytes failed: {transfer.error}"
            raise TargetUnavailableError(message)
        if clock.now_ns() >= end_ns:
            break
        count += 1
    return count


_READY_POLL_S, _READY_POLLS = 0.1, 300
_LOAD = TrialPlan(
    experiment="dataflow",
    target=CassandraTarget(store="cassandra"),
    dags=(Dag(name="tuning", stages=(Stage(name="load", task="synthetic.work"),)),),
    phases=(Phase(name="load", load=(LoadStep(rate_per_s=1, count=1),)),),
)


class DirectControl:
    """`NodeControl` of a node that this process has started."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def nodetool(self, *arguments: str) -> None:
        """See `NodeControl`."""
        await asyncio.to_thread(self._node.nodetool, *arguments)

    async def restart(self, settings: Mapping[str, Scalar]) -> float:
        """See `NodeControl`."""
        return await asyncio.to_thread(self._node.restart, settings)


class TunedNode:
    """A node that was started with a configuration, and the load on it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._settings = Settings(results_table="unused", results_bucket="unused", cassandra_endpoint=node.endpoint)
        self._control = DirectControl(node)

    def spec(self) -> TrialSpec:
        """Return a trial with a namespace of its own."""
        tag = trial_tag(str(uuid.uuid4()), 0)
        return TrialSpec(run_id="tuning", index=0, name="tuning", tag=tag, plan=_LOAD, estimate_usd=0)

    def prepared(self, configuration: CassandraConfiguration | None) -> TrialSpec:
        """Return a trial whose table is there, and configured as the node is."""
        spec = self.spec()
        run_measuring(self._prepare(spec, configuration))
        return spec

    def apply(self, spec: TrialSpec, configuration: CassandraConfiguration | None) -> AppliedConfiguration:
        """Bring node and table to another configuration."""
        return run_measuring(self._tuning(spec).apply(configuration))

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Let it do nothing, not even in the background, for the block; one that has died fails in its own turn."""
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(self.node.pid).suspend()
        try:
            yield
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(self.node.pid).resume()

    def effective(self, spec: TrialSpec) -> EffectiveConfiguration:
        """Return what it says that it has."""
        return run_measuring(self._tuning(spec).effective())

    def per_s(self, spec: TrialSpec, workload: StoreWorkload, counted_s: float) -> float:
        """Return its throughput under a workload."""
        return run_measuring(self._offer(spec, Turn(spec.tag, workload, counted_s)))

    async def _prepare(self, spec: TrialSpec, configuration: CassandraConfiguration | None) -> None:
        blobs = self._blobs(spec)
        await blobs.prepare()
        for _ in range(_READY_POLLS):
            if await blobs.ready():
                break
            await asyncio.sleep(_READY_POLL_S)
        else:
            message = f"Cassandra's table was not ready within {_READY_POLLS * _READY_POLL_S:g} s"
            raise TargetUnavailableError(message)
        await blobs.close()
        await self._tuning(spec).apply(configuration)

    async def _offer(self, spec: TrialSpec, turn: Turn) -> float:
        blobs = self._blobs(spec)
        await blobs.open()
        try:
            return await offer(blobs, turn, AnchoredClock())
        finally:
            await blobs.close()

    def _blobs(self, spec: TrialSpec) -> CassandraBlobs:
        return CassandraBlobs(spec, self._settings, AnchoredClock())

    def _tuning(self, spec: TrialSpec) -> CassandraTuning:
        return CassandraTuning(spec, self._settings, AnchoredClock(), control=self._control)


class Fleet:
    """Starts nodes below a folder; what has ended leaves nothing there."""

    def __init__(self, folder: Path, installation: Installation, profile: Profile) -> None:
        self.profile = profile
        self.version = installation.version
        self._folder = folder
        self._installation = installation
        self._numbers = itertools.count(1)

    @contextlib.contextmanager
    def started(self, configuration: CassandraConfiguration | None) -> Iterator[TunedNode]:
        """
        Yield a new node, with no data, and end it.

        Raises:
            LocalEnvironmentError: it did not come up.
        """
        folder = self._folder / f"node-{next(self._numbers)}"
        node = Node(folder, self._installation, self.profile)
        values, _ = wanted_of(configuration)
        try:
            node.start(values.as_settings if configuration else {})
            yield TunedNode(node)
        finally:
            node.end(grace_s=0)  # its data goes with it
            shutil.rmtree(folder, ignore_errors=True)
