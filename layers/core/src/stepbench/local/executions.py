"""One run as Step Functions sees it: its execution, and the trials' executions below."""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError
from pydantic import ValidationError

from stepbench.contracts.tasks import TrialRef
from stepbench.local.stack import BENCHMARK, TRIAL

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from stepbench.contracts.plan import TrialSpec
    from stepbench.local.stack import Stack

RUNNING, SUCCEEDED = "RUNNING", "SUCCEEDED"
_MAX_NAME = 80
_GONE = frozenset({"ExecutionDoesNotExist", "ValidationException"})


def new_run_id(plan: str, now: datetime) -> str:
    """`<plan>-<UTC time>-<4 hex>`: the execution's name, so 80 characters at most."""
    tail = f"-{now:%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"
    return re.sub(r"[^A-Za-z0-9_-]", "-", plan)[: _MAX_NAME - len(tail)] + tail


@dataclass(frozen=True)
class Child:
    """A running execution of the trial machine that belongs to the run."""

    arn: str
    ref: TrialRef


@dataclass(frozen=True)
class Run:
    """A run: its id, what it consists of, and when it was started. Its execution need not exist yet."""

    run_id: str
    specs: tuple[TrialSpec, ...]
    started_at: datetime


@dataclass
class Executions:
    """Starts, finds and stops what belongs to a run. Remembers which execution runs which trial."""

    stack: Stack
    run: Run
    _refs: dict[str, TrialRef | None] = field(default_factory=dict)

    @property
    def arn(self) -> str:
        """The benchmark execution's; known before it is started, since its name is the run's id."""
        machine = self.stack.outputs[BENCHMARK]
        return f"{machine.replace(':stateMachine:', ':execution:')}:{self.run.run_id}"

    def start(self, plan: Mapping[str, Any]) -> None:
        """StartExecution with the plan as input; starting the same run twice is one run."""
        self._sfn.start_execution(
            stateMachineArn=self.stack.outputs[BENCHMARK], name=self.run.run_id, input=json.dumps(plan)
        )

    def describe(self) -> dict[str, Any]:
        """DescribeExecution's answer for the benchmark."""
        answer: dict[str, Any] = self._sfn.describe_execution(executionArn=self.arn)
        return answer

    def status(self) -> str | None:
        """The benchmark's status, or None if it was never started."""
        try:
            return str(self.describe()["status"])
        except ClientError as error:
            if error.response["Error"]["Code"] in _GONE:
                return None
            raise

    def children(self) -> list[Child]:
        """The trials that run now: one, or none."""
        listed = self._sfn.list_executions(stateMachineArn=self.stack.outputs[TRIAL], statusFilter=RUNNING)
        arns = [str(execution["executionArn"]) for execution in listed["executions"]]
        found = [(arn, self._ref(arn)) for arn in arns]
        return [Child(arn, ref) for arn, ref in found if ref is not None and ref.run_id == self.run.run_id]

    def map_children(self, arn: str) -> int:
        """How many children of a trial's Distributed Maps still run: writers, or those that wait to become one."""
        runs = self._sfn.list_map_runs(executionArn=arn)["mapRuns"]
        listed = [self._sfn.list_executions(mapRunArn=run["mapRunArn"], statusFilter=RUNNING) for run in runs]
        return sum(len(answer["executions"]) for answer in listed)

    def stop(self, arn: str, cause: str) -> None:
        """StopExecution; one that has ended, or was never started, is as good as stopped."""
        try:
            self._sfn.stop_execution(executionArn=arn, error="Stopped", cause=cause)
        except ClientError as error:
            if error.response["Error"]["Code"] not in _GONE:
                raise

    def _ref(self, arn: str) -> TrialRef | None:
        """Which trial an execution runs, by its input; None for anything else on that machine."""
        if arn not in self._refs:
            described = self._sfn.describe_execution(executionArn=arn)
            try:
                self._refs[arn] = TrialRef.model_validate(json.loads(described.get("input") or "{}").get("ref"))
            except (ValidationError, ValueError, AttributeError):
                self._refs[arn] = None
        return self._refs[arn]

    @property
    def _sfn(self) -> Any:  # noqa: ANN401 -- a boto3 client
        return self.stack.aws("stepfunctions")
