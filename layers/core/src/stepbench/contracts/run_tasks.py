"""Inputs and outputs of the benchmark machine's Task states, and of the sweeper: what is about a whole run."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AwareDatetime, Field

from stepbench.contracts.base import Contract
from stepbench.contracts.plan import TrialRef


class ValidatePlanInput(Contract):
    """`plan` is the execution's input as the user gave it: not yet valid."""

    plan: Any
    run_id: str = Field(min_length=1, max_length=80)
    started_at: AwareDatetime


class PhaseRef(Contract):
    """The part of a phase that the trial machine's states need."""

    index: int
    settle_s: int = Field(description="Whole seconds, rounded up: `SecondsPath` takes no fraction.")
    scale: bool
    until: bool = Field(default=False, description="Whether CheckPrecision is asked while load is offered.")
    utilisation: bool = Field(default=False, description="Whether MeasureUtilisation is asked once it has ended.")


class PlannedTrial(Contract):
    """One iteration of `RunTrials`. `child_name` is the child execution's name, under 80 characters."""

    ref: TrialRef
    name: str
    child_name: str
    pull: bool
    phases: tuple[PhaseRef, ...]


class ValidatePlanOutput(Contract):
    """The expanded plan, by keys."""

    run_id: str
    started_at: AwareDatetime
    trials: tuple[PlannedTrial, ...]
    estimate_usd: float


class TrialOutcome(Contract):
    """The end of one child execution, as `RunTrials` collects it; `error` is empty for a success."""

    trial: int
    error: str = ""


class RenderReportInput(Contract):
    """All trials' outcomes. `stopped` is set by the sweeper's and the command line's own renderings."""

    run_id: str
    started_at: AwareDatetime
    outcomes: tuple[TrialOutcome, ...]
    stopped: bool = False


class RenderReportOutput(Contract):
    """The execution's output: headline and where to find the rest; 10 kB at most (`report.run_output`)."""

    run_id: str
    status: str
    verdict: str = Field(
        description="`failed` if a threshold was missed or the run did not succeed, otherwise `undecided` if one is "
        "undecidable, or else `passed`."
    )
    failed_trials: tuple[str, ...]
    cause: str
    headline: tuple[str, ...] = Field(
        description="Thresholds missed or not decided; then one line a trial: name, n, p50 with interval, lost."
    )
    removed: tuple[str, ...] = Field(default=(), description="What tear-downs have removed, as far as there is room.")
    regressions: tuple[str, ...] = Field(
        default=(), description="A line for each series that this run has shown to be worse than its baseline."
    )
    confirm: bool = Field(default=False, description="Whether a further run is to confirm a suspected regression.")
    report: str = Field(description="s3:// address of report.html.")
    summary: str = Field(description="s3:// address of summary.json.")


class SweepTargetsInput(Contract):
    """
    The targets to sweep.

    From the EventBridge rule: the `execution_arn` of a machine that ended without its Catch. From the hourly
    schedule: no arn, so sweep every lease whose execution is over.
    """

    execution_arn: str | None = None


class SweepTargetsOutput(Contract):
    """The targets that were swept, and those left for the next sweep."""

    swept: tuple[str, ...]
    pending: tuple[str, ...]
    causes: dict[str, str] = Field(default_factory=dict, description="Why, by target, as far as it is known.")


class AwaitTurnInput(Contract):
    """A valid run, and the token by which its execution goes on once its turn has come."""

    run_id: str
    trials: int = Field(ge=1)
    started_at: AwareDatetime
    execution_arn: str
    token: str


class AwaitTurnOutput(Contract):
    """Whether the run could begin at once; nobody waits for this answer."""

    admitted: bool


class ConcludeRunInput(Contract):
    """
    A run that is over.

    From the benchmark machine: with the `report` that RenderReport made. From the sweeper, of an execution that ended
    without this state, and from the command line: with the `state` in which it ended.
    """

    run_id: str
    machine_arn: str = Field(default="", description="The machine that a confirming run is started on.")
    report: RenderReportOutput | None = None
    state: Literal["succeeded", "failed", "stopped"] | None = None
    cause: str = ""


class ConcludeRunOutput(Contract):
    """How the run is entered in the register, and which runs' turn has come with its end."""

    state: str
    admitted: tuple[str, ...]
