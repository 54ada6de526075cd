"""The results table and bucket in memory, with a clock that a test moves, and small trials that are stored in them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError, EndpointConnectionError
from tests.support.fake_clock import FakeClock
from tests.support.memory_register import MemoryRegister

from stepbench.contracts.documents import Failure
from stepbench.contracts.identity import trial_tag
from stepbench.contracts.plan import AnyTrial, TrialPlan, TrialRef, TrialSpec
from stepbench.records.storage import layout
from stepbench_tools.local import memory_services

RESULTS_TABLE: dict[str, Any] = {
    "BillingMode": "PAY_PER_REQUEST",
    "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
    "KeySchema": [{"AttributeName": name, "KeyType": kind} for name, kind in (("pk", "HASH"), ("sk", "RANGE"))],
}
"""A results table as CreateTable takes it, and CloudFormation."""

RUNS_TABLE: dict[str, Any] = {
    "BillingMode": "PAY_PER_REQUEST",
    "AttributeDefinitions": [
        {"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk", "team", "team_plan", "submitted")
    ],
    "KeySchema": RESULTS_TABLE["KeySchema"],
    "GlobalSecondaryIndexes": [
        {
            "IndexName": name,
            "KeySchema": [
                {"AttributeName": key, "KeyType": "HASH"},
                {"AttributeName": "submitted", "KeyType": "RANGE"},
            ],
            "Projection": {"ProjectionType": "ALL"},
        }
        for name, key in (("by-team", "team"), ("by-plan", "team_plan"))
    ],
}
"""The table of runs, likewise."""

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepbench.clock import Clock
    from stepbench.services import Services


AWAY = EndpointConnectionError(endpoint_url="http://away")


def fail(*_: object, **__: object) -> None:
    """Fail as table or bucket do while they are away."""
    raise AWAY


NOT_ALLOWED = "not-allowed"
"""Name of a function."""


class Account:
    """An account with AWS's default quotas, as the services tell them, and a bus that takes every event."""

    @staticmethod
    def put_events(**_: object) -> dict[str, Any]:
        """Take it."""
        return {"FailedEntryCount": 0}

    @staticmethod
    def get_account_settings() -> dict[str, Any]:
        """Return Lambda's."""
        return {"AccountLimit": {"UnreservedConcurrentExecutions": 1_000}}

    @staticmethod
    def get_function_configuration(*, FunctionName: str) -> dict[str, Any]:  # noqa: N803 -- boto3's
        """Return any function's, but for one that the stack may not read."""
        if FunctionName == NOT_ALLOWED:
            raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": ""}}, "GetFunctionConfiguration")
        return {"FunctionName": FunctionName, "Runtime": "python3.13", "PackageType": "Zip"}

    @staticmethod
    def describe_limits() -> dict[str, Any]:
        """Return DynamoDB's."""
        return {"AccountMaxWriteCapacityUnits": 80_000, "TableMaxWriteCapacityUnits": 40_000}

    @staticmethod
    def get_paginator(operation: str) -> Paginator:
        """Return one: none of Step Functions' quotas has been applied, and no function or log group is there."""
        assert operation in {"list_service_quotas", "list_functions", "describe_log_groups"}
        return Paginator()


class Paginator:
    """One page without anything."""

    @staticmethod
    def paginate(ServiceCode: str = "states", **_: str) -> list[dict[str, Any]]:  # noqa: N803 -- boto3's
        """Return it."""
        assert ServiceCode == "states"
        return [{"Quotas": [], "Functions": [], "logGroups": []}]


class MemoryServices(memory_services.MemoryServices):
    """`services` for stages; see there. The clock is a FakeClock unless given."""

    def __init__(
        self, clock: Clock | None = None, aws: Mapping[str, object] | None = None, **settings: str | float | bool
    ) -> None:
        account = dict.fromkeys(("lambda", "dynamodb", "events", "logs", "service-quotas"), Account())
        super().__init__(clock or FakeClock(), {**account, **(aws or {})}, **settings)
        self.register = MemoryRegister()
        self.services = replace(self.services, register=self.register)

    def held_until(self, run_id: str, at_ns: int) -> None:
        """Have a run give back its last target at this time."""
        self.services.table.beat(layout.HOLDERS, run_id, {}, ended=True)
        self.table.items[layout.trial_pk(layout.HOLDERS), layout.HEARTBEAT + run_id]["at_ns"] = at_ns

    def failure_of(self, ref: TrialRef) -> Failure | None:
        """Return the trial's failure that is kept for the report."""
        return self.services.runs.find_model(layout.trial_key(ref, "failure.json"), Failure)


def small_plan(store: str = "s3", **fields: Any) -> TrialPlan:  # noqa: ANN401 -- a plan's JSON
    """Return a plan of two events, one a second; `target` adds to the store's fields, the rest replaces the plan's."""
    phases = [{"name": "load", "load": [{"rate_per_s": 1, "count": 2}]}]
    target = {"store": store, **fields.pop("target", {})}
    return TrialPlan.model_validate({"phases": phases, **fields, "target": target})


def stored_trial(
    services: Services,
    plan: AnyTrial | None = None,
    run_id: str = "run-1",
    trial: int = 0,
    abort_on: tuple[str, ...] = (),
) -> TrialRef:
    """Store a trial's specification; its reference."""
    ref = TrialRef(run_id=run_id, trial=trial, tag=trial_tag(run_id, trial))
    plan = plan or small_plan()
    spec = TrialSpec(run_id=run_id, index=trial, name=plan.target.store, tag=ref.tag, plan=plan, estimate_usd=0.0)
    spec = spec.model_copy(update={"abort_on": abort_on})
    services.runs.put_model(layout.trial_key(ref, "trial.json"), spec)
    return ref
