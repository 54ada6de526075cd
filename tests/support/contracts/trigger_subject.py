"""What `TriggerContract` needs of a store, and the trials and writes that its tests, and a store's own, are made of."""

from __future__ import annotations

import uuid
from typing import Any, Literal, Protocol

from stepbench.contracts.identity import EventId, put_key, trial_tag
from stepbench.contracts.phase import LoadStep, Phase
from stepbench.contracts.plan import TrialPlan, TrialSpec
from stepbench.contracts.target import StoreTarget, target_models
from stepbench.contracts.trial import Record
from stepbench.contracts.workload import Kind
from stepbench.drivers.protocol import Driver
from stepbench.model.request import Request

KEY_BYTES = 59
VALUE_BYTES = 889


class TriggerSubject(Protocol):
    """One store, as the contract needs it. All methods work on the namespace `spec.tag` only."""

    @property
    def target(self) -> TargetOrFields:
        """Return the plan's `target`, such as `{"store": "s3"}`."""
        ...

    def driver(self, spec: TrialSpec) -> Driver:
        """Return a driver for the running store."""
        ...

    def unreachable(self, spec: TrialSpec) -> Driver:
        """Return a driver whose store refuses connections (a loopback port without a listener)."""
        ...

    async def read_back(self, spec: TrialSpec, key: str) -> bytes | None:
        """Return the value under `key`, read with a client that is not the driver's; None: no such key."""
        ...

    async def leftovers(self, spec: TrialSpec) -> list[str]:
        """Return names of everything that the trial has in the store: data, triggers, subscriptions, functions."""
        ...


TargetOrFields = dict[str, Any] | StoreTarget
"""A plan's `target`, or the target model of a store that is not among the product's own."""
STAND_IN = {"store": "etcd"}
"""Has every kind of trigger event and operation, so that the plan's rules refuse nothing of another store's."""


def declared(target: TargetOrFields) -> StoreTarget | type[StoreTarget]:
    """Return what declares what the store has."""
    return target if isinstance(target, StoreTarget) else target_models()[target["store"]]


def plan_for(target: TargetOrFields, fields: dict[str, Any]) -> TrialPlan:
    """Return a trial's plan; `Target` is closed, so that another store's takes the place of one that it knows."""
    if not isinstance(target, StoreTarget):
        return TrialPlan.model_validate({"target": target, **fields})
    return TrialPlan.model_validate({"target": STAND_IN, **fields}).model_copy(update={"target": target})


def contract_spec(
    target: TargetOrFields,
    operation: Literal["put", "update", "delete"] = "put",
    distinct_keys: int | None = None,
    matching_share: float = 1,
) -> TrialSpec:
    """Return a trial with a namespace that no other test has."""
    run_id = f"contract-{uuid.uuid4()}"
    plan = plan_for(
        target,
        {
            "record": Record(
                operation=operation,
                key_bytes=KEY_BYTES,
                value_bytes=VALUE_BYTES,
                distinct_keys=distinct_keys,
                matching_share=matching_share,
            ),
            "phases": (Phase(name="only", load=(LoadStep(rate_per_s=10, count=100),)),),
        },
    )
    return TrialSpec(run_id=run_id, index=0, name="contract", tag=trial_tag(run_id, 0), plan=plan, estimate_usd=0)


def contract_write(spec: TrialSpec, sequence: int, attempt: int = 0) -> Request:
    """Return the `sequence`-th put of a trial; values of different sequences and attempts differ in every part."""
    event = EventId(spec.tag, 0, 0, 0, attempt, sequence)
    return Request(Kind.INSERT, put_key(event._replace(attempt=0), KEY_BYTES), _value(event))


def _value(event: EventId) -> bytes:
    filling = f"{event.attempt:02x}{event.sequence:08x}é"
    text = event.text() + filling * VALUE_BYTES
    return text.encode()[:VALUE_BYTES].decode(errors="ignore").encode()
