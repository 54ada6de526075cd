"""One run as Step Functions sees it, its execution and the trials' executions below; and how it is stopped."""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError
from pydantic import ValidationError

from stepbench.contracts.documents import Failure
from stepbench.contracts.plan import TrialRef
from stepbench.contracts.runs import ConcludeRunInput, SweepTargetsInput
from stepbench.digits import counted
from stepbench.errors import StepbenchError
from stepbench.records.storage import layout
from stepbench.stages.conclude_run import CUT_SHORT
from stepbench_tools.local.stack import BENCHMARK, TRIAL, StackError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench_tools.local.stack import Stack

RUNNING, SUCCEEDED = "RUNNING", "SUCCEEDED"
_MAX_NAME = 80
_GONE = frozenset({"ExecutionDoesNotExist", "ValidationException"})


def new_run_id(plan: str, now: datetime) -> str:
    """Return `<plan>-<UTC time>-<4 hex>`: the execution's name, so 80 characters at most."""
    tail = f"-{now:%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"
    return re.sub(r"[^A-Za-z0-9_-]", "-", plan)[: _MAX_NAME - len(tail)] + tail


@dataclass(frozen=True)
class Child:
    """A running execution of the trial machine that belongs to the run."""

    arn: str
    ref: TrialRef


@dataclass(frozen=True)
class RunSpec:
    """A run: its id, what it consists of, and when it was started. Its execution need not exist yet."""

    run_id: str
    specs: tuple[TrialSpec, ...]
    started_at: datetime


@dataclass
class Executions:
    """It starts, finds and stops the executions of a run, and remembers which of them runs which trial."""

    stack: Stack
    run: RunSpec
    _refs: dict[str, TrialRef | None] = field(default_factory=dict)

    @property
    def arn(self) -> str:
        """Return the benchmark execution's ARN; known before it is started, since its name is the run's id."""
        machine = self.stack.outputs[BENCHMARK]
        return f"{machine.replace(':stateMachine:', ':execution:')}:{self.run.run_id}"

    def start(self, plan: Mapping[str, Any]) -> None:
        """Call StartExecution with the plan as input; starting the same run twice is one run."""
        self._sfn.start_execution(
            stateMachineArn=self.stack.outputs[BENCHMARK], name=self.run.run_id, input=json.dumps(plan)
        )

    def describe(self) -> dict[str, Any]:
        """Return DescribeExecution's answer for the benchmark."""
        answer: dict[str, Any] = self._sfn.describe_execution(executionArn=self.arn)
        return answer

    def status(self) -> str | None:
        """Return the benchmark's status, or None if it was never started."""
        try:
            return str(self.describe()["status"])
        except ClientError as error:
            if error.response["Error"]["Code"] in _GONE:
                return None
            raise

    def failure_of(self, spec: TrialSpec) -> Failure | None:
        """Return error and cause of a trial's execution, known by its name; None if it has not failed."""
        machine = self.stack.outputs[TRIAL].replace(":stateMachine:", ":execution:")
        described = self._sfn.describe_execution(executionArn=f"{machine}:{spec.tag}-{spec.name}")
        error, cause = str(described.get("error", "")), str(described.get("cause", ""))
        return Failure(error=error, cause=cause) if error or cause else None

    def children(self) -> list[Child]:
        """Return the trials that run now: one, or none."""
        listed = self._sfn.list_executions(stateMachineArn=self.stack.outputs[TRIAL], statusFilter=RUNNING)
        arns = [str(execution["executionArn"]) for execution in listed["executions"]]
        found = [(arn, self._ref(arn)) for arn in arns]
        return [Child(arn, ref) for arn, ref in found if ref is not None and ref.run_id == self.run.run_id]

    def map_children(self, arn: str) -> int:
        """Count the children of a trial's Distributed Maps that still run: writers, running or waiting."""
        runs = self._sfn.list_map_runs(executionArn=arn)["mapRuns"]
        listed = [self._sfn.list_executions(mapRunArn=run["mapRunArn"], statusFilter=RUNNING) for run in runs]
        return sum(len(answer["executions"]) for answer in listed)

    def stop(self, arn: str, cause: str) -> None:
        """Call StopExecution; one that has ended, or was never started, is as good as stopped."""
        try:
            self._sfn.stop_execution(executionArn=arn, error="Stopped", cause=cause)
        except ClientError as error:
            if error.response["Error"]["Code"] not in _GONE:
                raise

    def _ref(self, arn: str) -> TrialRef | None:
        """Return which trial an execution runs, by its input; None for anything else on that machine."""
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


CAUSE = "stopped by the user"
STALE_S = 8
"""A sandbox beats once a second; after so long without a beat it is gone."""
REST_LIMIT_S, NOTICE_S = 960, 5
"""A Lambda runs for 15 minutes at most."""
SWEEP_LIMIT_S = 30
"""No call is started after this time: a store that is dead by then stays so, and somebody waits at the terminal."""
_POLL_S = 0.5
_POLLS_AT_REST = 2


class NotStoppedError(StepbenchError):
    """Something of the run still moves; the message names it."""


@dataclass
class Stopping:
    """An attempt to stop one run."""

    executions: Executions
    clock: Clock
    notify: Callable[[str], None]
    _seen: set[str] = field(default_factory=set)

    def stop(self) -> tuple[str, ...]:
        """
        Stop, sweep and conclude; return the targets that could not be torn down.

        Raises:
            NotStoppedError: not everything came to rest in time.
        """
        deployed = self.executions.stack.endpoint is None
        again = "leave the rest to the stack's sweeper" if deployed else "end the whole environment here at once"
        self.notify(f"stopping: writers end within a second or two (interrupt again to {again})")
        for spec in self.executions.run.specs:
            self.executions.stack.table.set_flag(spec.tag, layout.CANCELLED, CAUSE)
        self.await_rest()
        self._note_cause()
        self.notify("sweeping: targets are torn down")
        left = self.sweep()
        self.conclude()
        return left

    def await_rest(self) -> None:
        """Stop executions until none is left and no sandbox gives a sign of life."""
        began_ns = self.clock.now_ns()
        deadline_ns, notice_ns = began_ns + REST_LIMIT_S * 10**9, began_ns + NOTICE_S * 10**9
        polls_at_rest = 0
        while polls_at_rest < _POLLS_AT_REST:
            moving = self.moving()
            polls_at_rest = 0 if moving else polls_at_rest + 1
            if moving and self.clock.now_ns() > deadline_ns:
                message = f"run {self.executions.run.run_id} still moves: {', '.join(moving)}"
                raise NotStoppedError(message)
            if moving and self.clock.now_ns() > notice_ns:
                self.notify(f"waiting for {', '.join(moving)}")
                notice_ns += NOTICE_S * 10**9
            self.clock.sleep(_POLL_S)

    def moving(self) -> list[str]:
        """Stop what runs, and name what is still moving."""
        moving = []
        if self.executions.status() == RUNNING:
            self.executions.stop(self.executions.arn, CAUSE)
            moving.append("its execution")
        for child in self.executions.children():
            self._seen.add(child.arn)
            self.executions.stop(child.arn, CAUSE)
            moving.append(f"trial {child.ref.trial}")
        waiting = sum(self.executions.map_children(arn) for arn in self._seen)
        if waiting:
            moving.append(counted(waiting, "writer"))
        return moving + self._alive()

    def _alive(self) -> list[str]:
        now_ns = self.clock.now_ns()
        alive = []
        for spec in self.executions.run.specs:
            for who, beat in self.executions.stack.table.beats(spec.tag).items():
                if not beat.get("ended") and now_ns - int(beat["at_ns"]) < STALE_S * 10**9:
                    alive.append(f"{who} of trial {spec.index}")
        return alive

    def sweep(self) -> tuple[str, ...]:
        """Run SweepTargets until none of the run's trials holds a target any more; return those that still do."""
        task = SweepTargetsInput(execution_arn=self.executions.arn).model_dump(mode="json")
        deadline_ns = self.clock.now_ns() + SWEEP_LIMIT_S * 10**9
        while held := self.held():
            if self.clock.now_ns() > deadline_ns:
                return held
            self.executions.stack.call("SweepTargetsFunction", task)
            self.clock.sleep(_POLL_S)
        return ()

    def held(self) -> tuple[str, ...]:
        """Return the targets that the run's trials hold."""
        tags = {spec.tag for spec in self.executions.run.specs}
        return tuple(lease.target for lease in self.executions.stack.table.leases() if lease.tag in tags)

    def _note_cause(self) -> None:
        """Store the cause before the sweeper does, which knows only that the execution was aborted."""
        runs = self.executions.stack.runs
        for ref in self._cut_short():
            key = layout.trial_key(ref, "failure.json")
            if runs.find_bytes(key) is None:
                runs.put_model(key, Failure(error=CUT_SHORT, cause=CAUSE))

    def _cut_short(self) -> tuple[TrialRef, ...]:
        """Return the trials that have started and left no result."""
        run, stack = self.executions.run, self.executions.stack
        refs = (TrialRef(run_id=run.run_id, trial=spec.index, tag=spec.tag) for spec in run.specs)
        return tuple(
            ref
            for ref in refs
            if stack.runs.find_bytes(layout.trial_key(ref, "result.json")) is None and stack.table.started(ref.tag)
        )

    def conclude(self) -> None:
        """Have the run closed, with a report of what was recorded; without one it is stopped all the same."""
        task = ConcludeRunInput(run_id=self.executions.run.run_id, state="stopped", cause=CAUSE)
        try:
            self.executions.stack.call("ConcludeRunFunction", task.model_dump(mode="json"))
        except (StackError, BotoCoreError, ClientError) as error:
            self.notify(f"no partial report: {error}")
