"""What stages do for trials of `trigger`: what they do for any whose load writers offer."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from stepbench.contracts.plan import offered_plan
from stepbench.drivers.registry import build_driver as driver
from stepbench.experiments.protocol import IN_A_ROW, Logs, Proof
from stepbench.records.formats.t4 import PUSHED
from stepbench.records.formats.t4_lines import is_logged, t4_filter
from stepbench.records.storage.run_store import logged_requests

if TYPE_CHECKING:
    from stepbench.contracts.plan import AnyTrial, TrialRef, TrialSpec
    from stepbench.contracts.tasks import PlanPhaseOutput
    from stepbench.records.storage.run_store import RunStore
    from stepbench.records.storage.trial_table import TrialTable
    from stepbench.services import Services

__all__ = ["driver", "logs", "plan", "proof"]

RECEIVER, WATCHER = "ReceiveEvents", "WatchChanges"
FUNCTIONS = (
    "RunWriter",
    WATCHER,
    "PrepareTarget",
    "AwaitTarget",
    "ScaleTarget",
    "PlanPhase",
    "AwaitArrivals",
    "CheckPrecision",
    "MeasureUtilisation",
)
"""The functions that a trial needs beside the receiver."""


def plan(spec: TrialSpec, services: Services) -> PlanPhaseOutput | None:  # noqa: ARG001
    """Return None: writers offer the load."""
    return None


def proof(spec: TrialSpec) -> Proof:
    """Return that canaries come through the trigger; if they do not, the log of who receives may say why."""
    failed = f"no {IN_A_ROW} canaries in a row came through {spec.plan.target.store}'s trigger"
    if spec.plan.pull:
        return Proof("arrivals", failed, "look at WatchChanges' log, and whether its function reaches the store")
    look = f"look at {spec.offered.receiver}'s log, and whether the store may invoke it"
    return Proof("arrivals", failed, look)


def logs(trial: AnyTrial) -> Logs:
    """Return the receiver's and the stages' logs; receivers print arrivals where the plan asks for that."""
    plan = offered_plan(trial)
    printing = WATCHER if plan.pull else RECEIVER
    groups = () if plan.log_t4 == "none" else (f"/aws/lambda/{{prefix}}-{printing}",)
    recorded = partial(recorded_requests, log_t4=plan.log_t4)
    return Logs((plan.receiver, *FUNCTIONS), groups, t4_filter, logged_requests, recorded)


def recorded_requests(
    ref: TrialRef,
    runs: RunStore,  # noqa: ARG001 -- they are in the table
    table: TrialTable,
    *,
    log_t4: str,
) -> tuple[Counter[str], set[str]]:
    """Return how often each request was tried, and the ids of those whose records are printed by that mode."""
    received, logged = Counter[str](), set[str]()
    for item in table.t4_items(ref.tag):
        request_id = str(item["sk"]).rpartition("#")[0]
        if item["source"] in PUSHED:
            received[request_id] += 1
        if item["n"] and is_logged(log_t4, request_id):
            logged.add(request_id)
    return received, logged
