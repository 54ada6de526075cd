"""What stages do for trials of `dataflow`: writers start executions, whose data pass through the target's blobs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from stepbench.drivers.registry import build_blobs
from stepbench.experiments.dataflow.driver import DataflowDriver
from stepbench.experiments.protocol import IN_A_ROW, Logs, Proof
from stepbench.experiments.trigger.staging import plan, recorded_requests
from stepbench.records.formats.t4_lines import t4_filter
from stepbench.records.storage.run_store import logged_requests

if TYPE_CHECKING:
    from stepbench.clock import Clock
    from stepbench.contracts.plan import AnyTrial, TrialSpec
    from stepbench.settings import Settings

__all__ = ["driver", "logs", "plan", "proof"]

FUNCTIONS = (
    *("EndDataflow", "RunTask", "RunVideoTask", "RunLearningTask", "RunWriter", "PrepareTarget"),
    *("MakeInput", "MakeVideoInput", "MakeLearningInput"),
    *("AwaitTarget", "ScaleTarget", "PlanPhase", "AwaitArrivals"),
)


def driver(spec: TrialSpec, settings: Settings, clock: Clock) -> DataflowDriver:
    """Build what starts executions; raises PlanError where the target may not be used, or keeps no blobs."""
    return DataflowDriver(spec, settings, clock, build_blobs(spec, settings, clock))


def proof(spec: TrialSpec) -> Proof:  # noqa: ARG001
    """Return that executions without tasks come to their end."""
    failed = f"no {IN_A_ROW} executions of a DAG in a row, without tasks, came to their end"
    return Proof("arrivals", failed, "look at executions of the machine that runs DAGs, and at EndDataflow's log")


def logs(trial: AnyTrial) -> Logs:  # noqa: ARG001
    """Return the logs of what runs executions, and of the stages."""
    recorded = partial(recorded_requests, log_t4="none")
    return Logs(FUNCTIONS, (), t4_filter, logged_requests, recorded)
