"""What `DriverContract` needs of a store, and the trials and writes that its tests, and a store's own, are made of."""

from __future__ import annotations

import uuid
from typing import Any, Literal, Protocol

from stepbench.contracts.identity import EventId, put_key, trial_tag
from stepbench.contracts.plan import LoadStep, Phase, Record, TrialPlan, TrialSpec
from stepbench.drivers.protocol import Driver, Write

KEY_BYTES = 59
VALUE_BYTES = 889


class Subject(Protocol):
    """One store, as the contract needs it. All methods work on the namespace `spec.tag` only."""

    @property
    def target(self) -> dict[str, Any]:
        """The plan's `target`, such as `{"store": "s3"}`."""
        ...

    def driver(self, spec: TrialSpec) -> Driver:
        """A driver for the running store."""
        ...

    def unreachable(self, spec: TrialSpec) -> Driver:
        """A driver whose store refuses connections (a loopback port without a listener)."""
        ...

    async def read_back(self, spec: TrialSpec, key: str) -> bytes | None:
        """The value under `key`, read with a client that is not the driver's; None: no such key."""
        ...

    async def leftovers(self, spec: TrialSpec) -> list[str]:
        """Names of everything that the trial has in the store: data, triggers, subscriptions, functions."""
        ...


def contract_spec(
    target: dict[str, Any],
    operation: Literal["put", "update", "delete"] = "put",
    distinct_keys: int | None = None,
    matching_share: float = 1,
) -> TrialSpec:
    """A trial with a namespace that no other test has."""
    run_id = f"contract-{uuid.uuid4()}"
    plan = TrialPlan.model_validate(
        {
            "target": target,
            "record": Record(
                operation=operation,
                key_bytes=KEY_BYTES,
                value_bytes=VALUE_BYTES,
                distinct_keys=distinct_keys,
                matching_share=matching_share,
            ),
            "phases": (Phase(name="only", load=(LoadStep(rate_per_s=10, count=100),)),),
        }
    )
    return TrialSpec(run_id=run_id, index=0, name="contract", tag=trial_tag(run_id, 0), plan=plan, estimate_usd=0)


def contract_write(spec: TrialSpec, sequence: int, attempt: int = 0) -> Write:
    """The `sequence`-th put of a trial; values of different sequences and attempts differ from first to last byte."""
    event = EventId(spec.tag, 0, 0, 0, attempt, sequence)
    return Write(put_key(event._replace(attempt=0), KEY_BYTES), _value(event))


def _value(event: EventId) -> bytes:
    filling = f"{event.attempt:02x}{event.sequence:08x}é"
    text = event.text() + filling * VALUE_BYTES
    return text.encode()[:VALUE_BYTES].decode(errors="ignore").encode()
