"""What `BlobsContract` needs of a store, and what its tests, and a store's own, are made of."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from tests.support.contracts.life import TEAR_DOWN_LIMIT_S
from tests.support.contracts.trigger_subject import TargetOrFields, plan_for

from stepbench.contracts.identity import trial_tag
from stepbench.contracts.plan import TrialSpec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.support.fault_proxy import FaultProxy, Framing

    from stepbench.drivers.blobs import BlobStore

SILENT_LIMIT_S = 0.5
"""The stores of `through` wait so long for a byte."""


class BlobsSubject(Protocol):
    """One store, as the contract needs it."""

    @property
    def target(self) -> TargetOrFields:
        """Return the plan's `target`, such as `{"store": "redis"}`."""
        ...

    @property
    def upstream(self) -> str:
        """Return the server's address, host:port or URL, for a proxy before it."""
        ...

    @property
    def framing(self) -> Callable[[], Framing]:
        """Return how its bytes are framed: one of `tests.support.fault_proxy`."""
        ...

    def store(self, spec: TrialSpec) -> BlobStore:
        """Return the running store's blobs."""
        ...

    def unreachable(self, spec: TrialSpec) -> BlobStore:
        """Return those of a store that refuses connections."""
        ...

    def through(self, spec: TrialSpec, proxy: FaultProxy) -> BlobStore:
        """Return those of the store behind a proxy, where nothing stands still for more than `SILENT_LIMIT_S`."""
        ...

    async def leftovers(self, spec: TrialSpec) -> list[str]:
        """Return names of everything that the trial has in the store, seen by another client."""
        ...


def blobs_spec(target: TargetOrFields) -> TrialSpec:
    """Return a trial with a namespace that no other test has."""
    run_id = f"blobs-{uuid.uuid4()}"
    dag = {"name": "only", "stages": [{"name": "only", "task": "synthetic.work"}]}
    phases = [{"name": "only", "load": [{"rate_per_s": 1, "count": 1}]}]
    plan = plan_for(target, {"experiment": "dataflow", "dags": [dag], "phases": phases})
    return TrialSpec(run_id=run_id, index=0, name="contract", tag=trial_tag(run_id, 0), plan=plan, estimate_usd=0)


@asynccontextmanager
async def holding(store: BlobStore) -> AsyncIterator[BlobStore]:
    """Yield a store that is prepared and open; tear it down and close it at the end, also after a failure."""
    try:
        await store.prepare()
        assert await store.ready()
        await store.open()
        yield store
    finally:
        await until_blobs_are_gone(store)
        await store.close()


async def until_blobs_are_gone(store: BlobStore) -> None:
    """Call `tear_down` until it returns True; a TimeoutError fails the test."""
    async with asyncio.timeout(TEAR_DOWN_LIMIT_S):
        while not await store.tear_down():  # noqa: ASYNC110 -- a store has no event to wait for
            await asyncio.sleep(0.05)
