"""
What this machine takes without the store, measured beside the run: most of an unloaded latency is made of it.

`async_invoke`: an asynchronous invocation of the receiver by a bare HTTP request to the emulator, until its first
statement; triggers of S3 and PostgreSQL end in one, and DynamoDB's in an invocation without the request. `etcd_watch`:
put until the watch delivers it. Both on an event loop as a writer's, at the pace of an unloaded trial, since an idle
machine is slower to answer than a busy one, and half a pace apart, so that neither disturbs the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from stepbench.contracts.identity import trial_tag
from stepbench.load.quiet import quiet
from stepbench.local.invoke_floor import InvokeProbe
from stepbench.planning import expanded
from stepbench.stages.event_loop import run_measuring

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from stepbench.clock import Clock
    from stepbench.contracts.plan import Plan
    from stepbench.local.stack import Stack

EVENTS, WARM_UP, PER_S = 200, 20, 20
DURATION_S = (WARM_UP + EVENTS) / PER_S
TRIAL = 0xFFFF
"""No trial has this number, so the floors' t4 items are in no trial's way."""
Floors = dict[str, dict[str, list[float]]]


class Probe(Protocol):
    """One floor."""

    async def send(self, sequence: int) -> None:
        """One event, until it is acknowledged."""
        ...

    async def latencies_ns(self) -> list[int]:
        """t4 - t1 of the measured events, in the order of sending."""
        ...

    async def close(self) -> None:
        """Leave nothing behind."""
        ...


def measure_floors(stack: Stack, plan: Plan, run_id: str, etcd: str | None, clock: Clock) -> Floors:
    """
    Both floors, as far as the plan has trials to compare with them; takes some eleven seconds.

    Args:
        stack: the local one.
        plan: decides which floors are of use.
        run_id: for names of keys.
        etcd: address of the local etcd, if it runs.
        clock: paces the loop.

    Raises:
        LocalEnvironmentError: emulator or etcd do not answer.
    """
    pushes = any(trial.plan.experiment == "trigger" and not trial.plan.pull for trial in expanded(plan))
    invoke = InvokeProbe(stack, trial_tag(run_id, TRIAL), EVENTS, clock) if pushes else None
    watched = etcd if etcd and _watches_our_etcd(plan) else None
    found = run_measuring(_measure(invoke, watched, run_id, clock))
    return {name: {"latencies_ms": [round(ns / 1e6, 6) for ns in values]} for name, values in found.items()}


def _watches_our_etcd(plan: Plan) -> bool:
    targets = [trial.plan.target for trial in expanded(plan) if trial.plan.pull]
    return any(target.store == "etcd" and target.endpoint is None for target in targets)


async def _measure(invoke: InvokeProbe | None, etcd: str | None, run_id: str, clock: Clock) -> dict[str, list[int]]:
    probes: dict[str, Probe] = {}
    try:
        if invoke is not None:
            probes["async_invoke"] = invoke
            await invoke.start_receiver(first=EVENTS + WARM_UP)
        if etcd is not None:
            from stepbench.local.etcd_floor import WatchProbe  # noqa: PLC0415 -- of the optional libraries for stores

            probes["etcd_watch"] = await WatchProbe.open(etcd, f"floor/{run_id}/", EVENTS, clock)
        with quiet():
            await pace([probe.send for probe in probes.values()], clock)
        return {name: await probe.latencies_ns() for name, probe in probes.items()}
    finally:
        for probe in probes.values():
            await probe.close()


async def pace(sends: Sequence[Callable[[int], Awaitable[None]]], clock: Clock) -> None:
    """Let each of the senders send at the pace, evenly apart from each other; first what is not measured."""
    if not sends:
        return
    gap_ns = 10**9 // (PER_S * len(sends))
    start_ns = clock.now_ns()
    sequences = [*range(EVENTS, EVENTS + WARM_UP), *range(EVENTS)]
    for turn in range(len(sequences) * len(sends)):
        await clock.sleep_async((start_ns + turn * gap_ns - clock.now_ns()) / 1e9)
        await sends[turn % len(sends)](sequences[turn // len(sends)])
