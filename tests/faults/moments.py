"""Plans that a case is run on, and waiting for its moment in them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.end_to_end.deployment import POLL_S, wait_for
from tests.faults.cases import (
    ANALYSIS,
    BETWEEN,
    DRAIN,
    FETCH,
    FILES,
    MEASURED,
    REDIS,
    SLOW,
    STOP,
    TASK,
    TEAR_DOWN,
    TRANSFER,
    WARM_UP,
    Case,
)

from stepbench.contracts.identity import trial_tag
from stepbench.contracts.plan import TrialRef
from stepbench.records.storage import layout
from stepbench_tools.local.executions import RUNNING
from stepbench_tools.local.stack import BENCHMARK, TRIAL, Stack

RATE_PER_S = 20
MOMENT_LIMIT_S = 180
INTO_PHASE_S = 0.7
FETCH_POLL_S = 0.05
"""Between a run's end and the fetching of its results there is no more than a poll of the command's."""
_STATES = {ANALYSIS: "AnalyseTrial", TEAR_DOWN: "TearDownTarget"}
PLATFORMS = {TASK: ["fargate"], TRANSFER: ["lambda"]}
"""Of the trial that hits a process of one; others have both."""
TRANSFER_TRIAL = {
    "experiment": "transfer",
    "sources": ["s3", "efs"],
    "choice": "each",
    "cold": "no",
    "file_sizes_mib": [4],
    "transfers": 2,
}
WORKLOAD = {"mix": {"read": 1, "insert": 1}, "record": {"shape": "product"}, "records": 50}


def plan_of(case: Case) -> dict[str, Any]:
    """Return a plan that is as short as the case allows: a measured phase that outlasts the fault."""
    measured_s = 8 if case.moment in {WARM_UP, MEASURED} and case.fault in {STOP, SLOW} else 4
    phases = [_phase("measured", measured_s)]
    if case.moment == WARM_UP:
        phases.insert(0, {**_phase("warm-up", 2), "measured": False})
    trials = [_trial(case.store, phases, PLATFORMS.get(case.process))]
    return {"name": str(case), "trials": [_trial(case.store, [_phase("measured", 1)]), *trials][-_trials(case) :]}


def following_plan(case: Case) -> dict[str, Any]:
    """Return the plan that has to work after the case."""
    return clean_plan(f"after-{case}", case.store, length_s=1)


def clean_plan(name: str, store: str, length_s: int = 5) -> dict[str, Any]:
    """Return a plan of one measured phase that nobody disturbs."""
    return {"name": name, "trials": [_trial(store, [_phase("measured", length_s)])]}


def _trials(case: Case) -> int:
    return 2 if case.moment == BETWEEN else 1


def _trial(store: str, phases: list[dict[str, Any]], platforms: list[str] | None = None) -> dict[str, Any]:
    trial = {"target": {"store": store}, "phases": phases, "drain_limit_s": 10}
    if store == FILES:
        return {**TRANSFER_TRIAL, "platforms": platforms or ["lambda", "fargate"]}
    return {**trial, "experiment": "operations", "workload": WORKLOAD} if store == REDIS else trial


def _phase(name: str, length_s: int) -> dict[str, Any]:
    return {"name": name, "load": [{"rate_per_s": RATE_PER_S, "count": RATE_PER_S * length_s}]}


@dataclass
class HitTrial:
    """
    The trial that is hit is the last of its run.

    Attributes:
        stack: where it runs.
        case: says which moment is waited for.
        alive: tells whether its run is still there: nothing is waited for without it.
        run_id: empty until the run is found.
    """

    stack: Stack
    case: Case
    alive: Callable[[], bool]
    run_id: str = ""

    def await_moment(self) -> bool:
        """Wait for the case's moment; tell whether it came."""
        if not self._wait(self._find_run):
            return False
        if self.case.moment in {WARM_UP, MEASURED, DRAIN} and self.case.store != FILES:
            return self._await_phase()
        return self._wait(self._has_come, FETCH_POLL_S if self.case.moment == FETCH else POLL_S)

    def _has_come(self) -> object:
        match self.case.moment:
            case "prepare":
                return self._execution(self._ref)
            case "between":
                return self._execution(self._ref_before).get("status", RUNNING) != RUNNING
            case "fetch":
                return self._execution_of_run.get("status", RUNNING) != RUNNING
            case "measured":
                return any(not beat.get("ended") for beat in self.stack.table.beats(self._ref.tag).values())
            case moment:
                return _STATES[moment] in self._entered()

    def _wait(self, condition: Callable[[], object], every_s: float = POLL_S) -> bool:
        wait_for(lambda: condition() or not self.alive(), MOMENT_LIMIT_S, every_s)
        return bool(condition())

    def _await_phase(self) -> bool:
        """Wait until a moment after a phase's start, which is planned and known; for the drain until its end."""
        phases = plan_of(self.case)["trials"][-1]["phases"]
        number = 0 if self.case.moment == WARM_UP else len(phases) - 1
        key = layout.phase_key(self._ref, number, "plan.json")
        if not self._wait(lambda: self.stack.runs.find_bytes(key)):
            return False
        (step,) = phases[number]["load"]
        into_s = step["count"] / step["rate_per_s"] if self.case.moment == DRAIN else INTO_PHASE_S
        time.sleep(max(0, self.stack.runs.find_json(key)["start_at_ns"] / 1e9 + into_s - time.time()))
        return True

    def _find_run(self) -> str:
        names = [str(found["name"]) for found in self._executions(BENCHMARK)]
        self.run_id = max((name for name in names if name.startswith(f"{self.case}-2")), default="")
        return self.run_id

    @property
    def _ref(self) -> TrialRef:
        return self._trial(_trials(self.case) - 1)

    @property
    def _ref_before(self) -> TrialRef:
        return self._trial(_trials(self.case) - 2)

    def _trial(self, index: int) -> TrialRef:
        return TrialRef(run_id=self.run_id, trial=index, tag=trial_tag(self.run_id, index))

    @property
    def _execution_of_run(self) -> dict[str, Any]:
        return next((found for found in self._executions(BENCHMARK) if found["name"] == self.run_id), {})

    def _execution(self, ref: TrialRef) -> dict[str, Any]:
        """Return the trial's execution, as it is listed; nothing before it has started."""
        return next((found for found in self._executions(TRIAL) if found["name"].startswith(ref.tag)), {})

    def _executions(self, machine: str) -> list[dict[str, Any]]:
        listed = self.stack.aws("stepfunctions").list_executions(stateMachineArn=self.stack.outputs[machine])
        executions: list[dict[str, Any]] = listed["executions"]
        return executions

    def _entered(self) -> set[str]:
        """Return the states that the trial's machine has entered."""
        execution = self._execution(self._ref)
        if not execution:
            return set()
        arn = execution["executionArn"]
        told = self.stack.aws("stepfunctions").get_execution_history(executionArn=arn, maxResults=1_000)["events"]
        return {event["stateEnteredEventDetails"]["name"] for event in told if "stateEnteredEventDetails" in event}
