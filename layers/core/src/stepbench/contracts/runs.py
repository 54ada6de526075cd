"""A run as its users see it: how it is asked for, its entry in the register of runs, its place in the queue."""

from __future__ import annotations

from datetime import UTC
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field, StringConstraints

from stepbench.contracts.base import Contract
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
