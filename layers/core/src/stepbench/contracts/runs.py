"""
A run as its users see it: how it is asked for, its entry in the register of runs, its place in the queue.

Then inputs and outputs of the benchmark machine's Task states, and of the sweeper: what is about a whole run.
"""

from __future__ import annotations

from datetime import UTC
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field, StringConstraints

from stepbench.contracts.base import Contract
from stepbench.contracts.plan import TrialRef
from stepbench.contracts.regressions import DetectorSettings

RunId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", min_length=1, max_length=80)]
TeamName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.@/+=,-]*$", min_length=1, max_length=100)]
MAX_CAUSE_CHARS = 2_000
DEFAULT_TEAM = "default"
"""The team of runs that no caller of the API has asked for: from the console, the command line, or a schedule."""
MAX_TARGETS = 45
"""Of one run: all are taken in one transaction of DynamoDB, which writes 100 items, two for each target."""

RunState = Literal["submitted", "queued", "running", "succeeded", "failed", "stopped", "refused"]
WAITING_STATES: tuple[RunState, ...] = ("submitted", "queued")
ENDED_STATES: tuple[RunState, ...] = ("succeeded", "failed", "stopped", "refused")


class RunRequest(Contract):
    """
    What starts an execution where more is to be said than a plan: `{"plan": …, "team": …}`.

    An execution's input may be a plan itself, too; then all of these have their defaults.
    """

    plan: Any = Field(description="A plan, or a preset's name.")
    set: dict[str, Any] = Field(default={}, max_length=100, description="Changes to it: values by path.")
    team: TeamName = Field(default=DEFAULT_TEAM, description="Who pays for the run, and sees it.")
    caller: str = Field(default="", max_length=2_048, description="ARN or JWT subject of who asked for it.")
    source: Literal["api", "console", "schedule"] = "console"
    scheduled: str = Field(
        default="",
        max_length=2_048,
        description="A schedule's ARN, and the time of the run: no second run is started for it.",
    )
    regressions: DetectorSettings | None = Field(
        default=None, description="How the run is set against its plan's earlier ones; a scheduled one always is."
    )
    confirms: str = Field(
        default="", max_length=80, description="The run whose suspected regression this one is to confirm."
    )

    @property
    def detector(self) -> DetectorSettings | None:
        """Return how changes over the plan's runs are looked for; None: they are not."""
        return self.regressions or (DetectorSettings() if self.source == "schedule" else None)


class RunRecord(Contract):
    """A run's entry in the register; it outlives the run's records."""

    run_id: RunId
    team: TeamName
    caller: str = ""
    source: Literal["api", "console", "schedule"] = "console"
    plan: str = Field(description="The plan's name; empty where the plan could not be read.")
    state: RunState
    submitted_at: AwareDatetime
    queued_at: AwareDatetime | None = None
    started_at: AwareDatetime | None = Field(default=None, description="When its turn came.")
    finished_at: AwareDatetime | None = None
    trials: int = Field(default=0, ge=0)
    estimate_usd: float = Field(default=0.0, ge=0, description="What it is expected to cost.")
    at_most_usd: float = Field(
        default=0.0,
        ge=0,
        description="What it may cost, which is reserved of budgets; 0 in older records, whose estimate was that.",
    )
    actual_usd: float | None = Field(default=None, ge=0)
    charged_usd: float | None = Field(
        default=None, ge=0, description="What counts against budgets, where the actual cost is not all of it."
    )
    expected_s: float = Field(default=0.0, ge=0, description="How long it should take from its turn to its report.")
    verdict: str = Field(
        default="", description="`passed`, `failed` or `undecided`, by its thresholds; empty while unknown."
    )
    headline: tuple[str, ...] = ()
    cause: str = Field(default="", description="Why it failed, was refused, or was stopped.")
    confirms: str = ""
    regressed: tuple[str, ...] = Field(default=(), description="What it has shown to be worse than its baseline.")
    acknowledged: str = Field(default="", description="Why the level that begins with this run is accepted.")
    digest: str = Field(default="", description="SHA-256 of the request, by which a repeated one is known.")

    @property
    def ended(self) -> bool:
        """Return whether nothing more will happen to it."""
        return self.state in ENDED_STATES

    @property
    def spent_usd(self) -> float:
        """
        Return what counts against budgets: what it may cost until the actual cost is known, and where it is not.

        Nothing for a run that was refused, or that ended before its turn.
        """
        if self.ended and self.started_at is None:
            return 0.0
        known = (self.charged_usd, self.actual_usd, self.at_most_usd or self.estimate_usd)
        return next(usd for usd in known if usd is not None)

    @property
    def month(self) -> str:
        """Return the month, in UTC, whose budgets pay for the run: that of its submission."""
        return f"{self.submitted_at.astimezone(UTC):%Y-%m}"

    @property
    def place(self) -> str:
        """Return its place among runs by time of submission: an ISO text in UTC, and its id."""
        return f"{self.submitted_at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}~{self.run_id}"


class QueueEntry(Contract):
    """A run that waits for its targets, or that has them; until it is over, it stays in the queue."""

    run_id: RunId
    team: TeamName
    plan: str
    targets: tuple[str, ...] = Field(min_length=1, max_length=MAX_TARGETS, description="As leases name them.")
    arrived_at: AwareDatetime = Field(description="When its execution began: the queue's order.")
    admitted_at: AwareDatetime | None = None
    left_at: AwareDatetime | None = Field(
        default=None, description="It has given its targets back; whoever may begin instead is being notified."
    )
    expected_s: float = Field(default=0.0, ge=0)
    execution_arn: str

    @property
    def order(self) -> tuple[str, str]:
        """Return its place: by arrival, and by id among those that arrived at the same moment."""
        return f"{self.arrived_at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}", self.run_id


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
