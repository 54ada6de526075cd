"""What `OperationsContract` needs of a store, and what its tests, and a store's own, are made of: trials and steps."""

from __future__ import annotations

import asyncio
import json
import uuid
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, Protocol

import pytest
from tests.support.contracts.life import ProxiedSubject, running
from tests.support.contracts.trigger_subject import TargetOrFields, declared, plan_for

from stepbench.contracts.identity import trial_tag
from stepbench.contracts.plan import TrialSpec
from stepbench.contracts.workload import Kind
from stepbench.drivers.protocol import Driver, Warmable
from stepbench.model.pending import perform
from stepbench.model.request import Outcome, Request, Result
from stepbench.workload.operations import Contents

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from stepbench.contracts.workload import Workload

Shape = Literal["blob", "product"]
Stored = bytes | dict[str, str]
"""A blob's value, or a product's fields as text."""

CLIENTS, RECORDS, VALUE_BYTES = 4, 25, 889
SILENT_LIMIT_S = 0.5
"""The drivers of `through` wait so long for an answer."""


class OperationsSubject(ProxiedSubject, Protocol):
    """One store, as the contract needs it. All methods work on the namespace `spec.tag` only."""

    @property
    def target(self) -> TargetOrFields:
        """Return the plan's `target`, such as `{"store": "redis"}`."""
        ...

    def operable(self, spec: TrialSpec) -> Driver:
        """Return a driver for the running store."""
        ...

    def unreachable(self, spec: TrialSpec) -> Driver:
        """Return a driver whose store refuses connections (a loopback port without a listener)."""
        ...

    async def read_back(self, spec: TrialSpec, key: str) -> Stored | None:
        """
        Return what is stored under `key`, read with a client that is not the driver's; None: no such record.

        Of a product all fields as text (see `fields_of` for stores that keep JSON), and nothing else (no key).
        """
        ...

    async def leftovers(self, spec: TrialSpec) -> list[str]:
        """Return names of everything that the trial has in the store: records, tables, indexes."""
        ...


def fields_of(json_text: str | bytes) -> dict[str, str]:
    """Return a product that is stored as JSON, with its numbers as they are written."""
    fields: dict[str, str] = json.loads(json_text, parse_int=str, parse_float=str)
    return fields


def operations_spec(  # noqa: PLR0913 -- one per thing that a test varies
    target: TargetOrFields,
    shape: Shape = "blob",
    *,
    records: int = RECORDS,
    clients: int = CLIENTS,
    reuse: bool = True,
    workload: Mapping[str, Any] | None = None,
) -> TrialSpec:
    """Return a trial of some clients on one writer, with a namespace that no other test has."""
    run_id = f"operable-{uuid.uuid4()}"
    record = {"shape": shape} if shape == "product" else {"shape": shape, "value_bytes": VALUE_BYTES}
    mix = {kind.name.lower(): 1 for kind in kinds_of(target, shape) if kind is not Kind.SCAN}
    plan = plan_for(
        target,
        {
            "experiment": "operations",
            "workload": {"mix": mix, "record": record, "records": records, "reuse": reuse, **(workload or {})},
            "phases": [{"name": "only", "closed": {"clients": clients, "duration_s": 10}}],
        },
    )
    return TrialSpec(run_id=run_id, index=0, name="contract", tag=trial_tag(run_id, 0), plan=plan, estimate_usd=0)


def kinds_of(target: TargetOrFields, shape: Shape) -> frozenset[Kind]:
    """Return the kinds of operation that the store declares, less updates of fields where records have none."""
    return declared(target).operations - ({Kind.UPDATE} if shape == "blob" else set())


def workload_of(spec: TrialSpec) -> Workload:
    """Return the trial's workload."""
    workload = spec.offered.workload
    if workload is None:
        message = f"trial {spec.name} has no workload"
        raise ValueError(message)
    return workload


def contents_of(spec: TrialSpec) -> Contents:
    """Return the trial's records."""
    return Contents(workload_of(spec), spec.tag)


def stored_of(operation: Request) -> Stored:
    """Return what has to be there after an insert or overwrite."""
    return operation.value if operation.fields is None else dict(operation.fields)


@asynccontextmanager
async def operating(driver: Driver) -> AsyncIterator[Driver]:
    """Yield the driver prepared, ready, open and warm; tear it down and close it at the end, also after a failure."""
    async with running(driver):
        if isinstance(driver, Warmable):
            await driver.warm_up()
        yield driver


async def until_operated(driver: Driver, operation: Request) -> list[Result]:
    """Perform an operation until it is acknowledged; return all results, of which the last is OK."""
    results: list[Result] = []
    for _ in range(200):
        results.append(await perform(driver, operation))
        if results[-1].outcome is Outcome.OK:
            return results
        await asyncio.sleep(0.02)
    pytest.fail(f"the driver does not recover: {results[-1].error}")
