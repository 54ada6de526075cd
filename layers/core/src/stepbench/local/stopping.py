"""
Stopping a run for certain.

Stopping an execution does not stop its Lambdas, and on some engines not even its children. So: set the flag that
writers and watchers look at every second, stop the executions, wait until nothing moves any more, let the sweeper
tear down, and only then render what there is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from stepbench.contracts.result import Failure
from stepbench.contracts.tasks import (
    AnalyseTrialInput,
    CollectLogsInput,
    RenderReportInput,
    StateError,
    SweepTargetsInput,
    TrialOutcome,
    TrialRef,
)
from stepbench.errors import StepbenchError
from stepbench.local.executions import RUNNING
from stepbench.local.stack import StackError
from stepbench.records import layout

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.clock import Clock
    from stepbench.local.executions import Executions

CAUSE = "stopped by the user"
STALE_S = 8
"""A sandbox beats once a second; after so long without a beat it is gone."""
QUIET_LIMIT_S = 960
"""A Lambda runs for 15 minutes at most."""
SWEEP_LIMIT_S = 30
"""No call is begun after that: a store that is dead by then stays so, and somebody waits at the terminal."""
LOGS_LIMIT_S = 20
"""No call is begun after that; one takes 5 s."""
_POLL_S = 0.5
_QUIET_LOOKS = 2
_STOPPED = "TrialCancelledError"


class NotStoppedError(StepbenchError):
    """Something of the run still moves; says what."""


@dataclass
class Stopping:
    """One attempt to stop one run."""

    executions: Executions
    clock: Clock
    say: Callable[[str], None]
    _seen: set[str] = field(default_factory=set)

    def stop(self) -> tuple[str, ...]:
        """
        Stop, sweep and render; the targets that could not be torn down.

        Raises:
            NotStoppedError: not everything came to rest in time.
        """
        self.say("stopping: writers end within a second or two")
        for spec in self.executions.run.specs:
            self.executions.stack.table.set_flag(spec.tag, layout.CANCELLED, CAUSE)
        self.await_rest()
        self._note_cause()
        self.say("sweeping: targets are torn down")
        left = self.sweep()
        self.render()
        return left

    def await_rest(self) -> None:
        """Stop executions until none is left and no sandbox gives a sign of life."""
        deadline_ns = self.clock.now_ns() + QUIET_LIMIT_S * 10**9
        looks = 0
        while looks < _QUIET_LOOKS:
            moving = self.moving()
            looks = 0 if moving else looks + 1
            if moving and self.clock.now_ns() > deadline_ns:
                message = f"run {self.executions.run.run_id} still moves: {', '.join(moving)}"
                raise NotStoppedError(message)
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
            moving.append(f"{waiting} writers")
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
        """Run SweepTargets until none of the run's trials holds a target any more; those that still do in the end."""
        task = SweepTargetsInput(execution_arn=self.executions.arn).model_dump(mode="json")
        deadline_ns = self.clock.now_ns() + SWEEP_LIMIT_S * 10**9
        while held := self.held():
            if self.clock.now_ns() > deadline_ns:
                return held
            self.executions.stack.call("SweepTargetsFunction", task)
            self.clock.sleep(_POLL_S)
        return ()

    def held(self) -> tuple[str, ...]:
        """Targets that the run's trials hold."""
        tags = {spec.tag for spec in self.executions.run.specs}
        return tuple(lease.target for lease in self.executions.stack.table.leases() if lease.tag in tags)

    def _note_cause(self) -> None:
        """Before the sweeper does, which knows only that the execution was aborted."""
        runs = self.executions.stack.runs
        for ref in self._cut_short():
            key = layout.trial_key(ref, "failure.json")
            if runs.find_bytes(key) is None:
                runs.put_model(key, Failure(error=_STOPPED, cause=CAUSE))

    def _cut_short(self) -> tuple[TrialRef, ...]:
        """Trials that have begun and left no result."""
        run, stack = self.executions.run, self.executions.stack
        refs = (TrialRef(run_id=run.run_id, trial=spec.index, tag=spec.tag) for spec in run.specs)
        return tuple(
            ref
            for ref in refs
            if stack.runs.find_bytes(layout.trial_key(ref, "result.json")) is None and stack.table.started(ref.tag)
        )

    def render(self) -> None:
        """Analyse what was recorded of the trial that was cut short, and render the report."""
        run, cut_short = self.executions.run, self._cut_short()
        for ref in cut_short:
            self._analyse(ref)
        ended = {ref.trial: _STOPPED for ref in cut_short}
        outcomes = tuple(TrialOutcome(trial=spec.index, error=ended.get(spec.index, "")) for spec in run.specs)
        task = RenderReportInput(run_id=run.run_id, started_at=run.started_at, outcomes=outcomes, stopped=True)
        self._try("RenderReportFunction", task.model_dump(mode="json"))

    def _analyse(self, ref: TrialRef) -> None:
        self._collect_logs(ref)
        task = AnalyseTrialInput(ref=ref, failure=StateError(Error=_STOPPED, Cause=CAUSE))
        self._try("AnalyseTrialFunction", task.model_dump(mode="json"))

    def _collect_logs(self, ref: TrialRef) -> None:
        """As the machine does before it analyses, but not for minutes: somebody waits at the terminal."""
        deadline_ns = self.clock.now_ns() + LOGS_LIMIT_S * 10**9
        token: str | None = ""
        while token is not None and self.clock.now_ns() < deadline_ns:
            task = CollectLogsInput(ref=ref, token=token).model_dump(mode="json")
            answer = self._try("CollectLogsFunction", task, without="the report has no logs")
            token = None if answer is None or answer["done"] else str(answer["token"])
            if token is not None:
                self.clock.sleep(_POLL_S)

    def _try(self, function: str, task: dict[str, object], without: str = "no partial report") -> Any:  # noqa: ANN401 -- JSON
        """A report that cannot be rendered must not keep a run from being stopped."""
        try:
            return self.executions.stack.call(function, task)
        except (StackError, BotoCoreError, ClientError) as error:
            self.say(f"{without}: {error}")
        return None
