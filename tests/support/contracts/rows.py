"""A trial whose events write rows of somebody's own, as its plan is admitted and its slices are written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.support.contracts.trigger_subject import KEY_BYTES, contract_spec

from stepbench.contracts.identity import EventId
from stepbench.contracts.plan import TrialPlan
from stepbench.contracts.trial import Record
from stepbench.contracts.values import RecordValues
from stepbench.drivers.protocol import TakesValues
from stepbench.workload.payloads import ValuePayloads
from stepbench.workload.values import PreparedValues, prepare_values

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.protocol import Driver

EVENTS = 20


class OwnRows(NamedTuple):
    """The trial, its rows, and the writes of a slice."""

    spec: TrialSpec
    values: PreparedValues
    payloads: ValuePayloads

    def given_to(self, driver: Driver) -> Driver:
        """Return the driver, with the rows that it preloads."""
        assert isinstance(driver, TakesValues)
        driver.use_values(self.values)
        return driver


def own_rows(
    target: dict[str, Any],
    rows: list[dict[str, Any]],
    types: dict[str, str] | None = None,
    **record: Any,  # noqa: ANN401 -- its fields
) -> OwnRows:
    """Return a trial with these rows."""
    spec = contract_spec(target)
    key = f"values/{'0' * 64}.json"
    values = RecordValues(key=key, types=types or {})
    described = Record(key_bytes=KEY_BYTES, values=values, **record)
    plan = TrialPlan.model_validate({**spec.offered.model_dump(), "record": described.model_dump()})
    prepared = prepare_values(plan, json.dumps(rows).encode(), "json")
    described = described.model_copy(update={"values": values.model_copy(update={"facts": prepared.facts})})
    spec = spec.model_copy(update={"plan": plan.model_copy(update={"record": described})})
    first = EventId(spec.tag, 0, 0, 0, 0, 0)
    return OwnRows(spec, prepared, ValuePayloads(described, first, EVENTS, 7, prepared, 1))
