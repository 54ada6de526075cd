"""What `OperableContract` needs of a store, and the trials and steps that its tests, and a store's own, are made of."""

from __future__ import annotations

import asyncio
import json
import uuid
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, Protocol

import pytest

from stepbench.contracts.identity import trial_tag
from stepbench.contracts.plan import TrialPlan, TrialSpec
from stepbench.drivers.protocol import Operable, Operated, Operation, Outcome
from stepbench.load.operations import Contents
from stepbench.testing.store_life import running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from stepbench.contracts.workload import Workload
    from stepbench.testing.fault_proxy import FaultProxy, Framing

Shape = Literal["blob", "product"]
Stored = bytes | dict[str, str]
"""A blob's value, or a product's fields as text."""

CLIENTS, RECORDS, VALUE_BYTES = 4, 25, 889
SILENT_LIMIT_S = 0.5
"""What `through` drivers give an operation."""


class OperableSubject(Protocol):
    """One store, as the contract needs it. All methods work on the namespace `spec.tag` only."""

    @property
    def target(self) -> dict[str, Any]:
        """The plan's `target`, such as `{"store": "redis"}`."""
        ...

    @property
    def upstream(self) -> str:
        """The server's address, host:port or URL, for a proxy before it."""
        ...

    @property
    def framing(self) -> Callable[[], Framing]:
        """How its bytes are framed, of `stepbench.testing.fault_proxy`."""
        ...

    def operable(self, spec: TrialSpec) -> Operable:
        """A driver for the running store."""
        ...

    def unreachable(self, spec: TrialSpec) -> Operable:
        """A driver whose store refuses connections (a loopback port without a listener)."""
        ...

    def through(self, spec: TrialSpec, proxy: FaultProxy) -> Operable:
        """A driver that reaches the store through a proxy, and gives an operation `SILENT_LIMIT_S`."""
        ...

    async def read_back(self, spec: TrialSpec, key: str) -> Stored | None:
        """
        What is stored under `key`, read with a client that is not the driver's; None: no such record.

        Of a product all fields as text (see `fields_of` for stores that keep JSON), and nothing else (no key).
        """
        ...

    async def leftovers(self, spec: TrialSpec) -> list[str]:
        """Names of everything that the trial has in the store: records, tables, indexes."""
        ...


def fields_of(json_text: str | bytes) -> dict[str, str]:
    """A product that is stored as JSON, with its numbers as they are written."""
    fields: dict[str, str] = json.loads(json_text, parse_int=str, parse_float=str)
    return fields


def operations_spec(  # noqa: PLR0913 -- one per thing that a test varies
    target: dict[str, Any],
    shape: Shape = "blob",
    *,
    records: int = RECORDS,
    clients: int = CLIENTS,
    reuse: bool = True,
    workload: Mapping[str, Any] | None = None,
) -> TrialSpec:
    """A trial of some clients on one writer, with a namespace that no other test has."""
    run_id = f"operable-{uuid.uuid4()}"
    record = {"shape": shape} if shape == "product" else {"shape": shape, "value_bytes": VALUE_BYTES}
    mix = {"read": 1, "insert": 1, "overwrite": 1, "read_modify_write": 1} | (
        {"update": 1} if shape == "product" else {}
    )
    plan = TrialPlan.model_validate(
        {
            "experiment": "operations",
            "target": target,
            "workload": {"mix": mix, "record": record, "records": records, "reuse": reuse, **(workload or {})},
            "phases": [{"name": "only", "closed": {"clients": clients, "duration_s": 10}}],
        }
    )
    return TrialSpec(run_id=run_id, index=0, name="contract", tag=trial_tag(run_id, 0), plan=plan, estimate_usd=0)


def workload_of(spec: TrialSpec) -> Workload:
    """The trial's workload."""
    workload = spec.plan.workload
    if workload is None:
        message = f"trial {spec.name} has no workload"
        raise ValueError(message)
    return workload


def contents_of(spec: TrialSpec) -> Contents:
    """The trial's records."""
    return Contents(workload_of(spec), spec.tag)


def stored_of(operation: Operation) -> Stored:
    """What has to be there after an insert or overwrite."""
    return operation.value if operation.fields is None else dict(operation.fields)


@asynccontextmanager
async def operating(driver: Operable) -> AsyncIterator[Operable]:
    """The driver prepared, ready, open and warm; torn down and closed at the end, also after a failure."""
    async with running(driver):
        await driver.warm_up()
        yield driver


async def until_operated(driver: Operable, operation: Operation) -> list[Operated]:
    """Offer it until it is acknowledged; all that came of it, the last with OK."""
    results: list[Operated] = []
    for _ in range(200):
        results.append(await driver.operate(operation))
        if results[-1].outcome is Outcome.OK:
            return results
        await asyncio.sleep(0.02)
    pytest.fail(f"the driver does not recover: {results[-1].error}")
