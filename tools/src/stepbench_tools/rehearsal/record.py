"""What a rehearsal has seen: `rehearsal.json`, from which every judgement is made, and can be made again."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from stepbench.contracts.base import Contract
from stepbench.contracts.clock_check import ClockCheck
from stepbench.contracts.measure import ExperimentName
from stepbench.contracts.result import Accounting

Status = Literal["confirmed", "refuted", "not tried"]


class ColdStart(Contract):
    """An invocation of a receiver that either source calls a cold start; None where one of them does not."""

    stamped_ms: float | None
    reported_ms: float | None


class TrialEvidence(Contract):
    """
    What one trial has shown. `failure` is its error and cause, "" for one that went through.

    reports, reports_expected: REPORT lines of its receiver's invocations, and how many there should be; None where logs
    were not collected. reads, cold_reads: of a trial of transfers, how many rows it has, and how many of them are
    of new sandboxes. await_s: how long its trigger took until it delivered. records_per_batch: on average.
    """

    name: str
    store: str
    experiment: ExperimentName
    writers: int = 1
    reads: int | None = None
    cold_reads: int | None = None
    batching_window_s: int = 0
    failure: str = ""
    accounting: Accounting | None = None
    caveats: tuple[str, ...] = ()
    p50_ms: float | None = None
    offset_ms: float | None = None
    bound_ms: float | None = None
    reports: int | None = None
    reports_expected: int | None = None
    cold_starts: tuple[ColdStart, ...] = ()
    await_s: float | None = None
    records_per_batch: float | None = None
    estimate_usd: float = 0
    counted_usd: float | None = None


class RunEvidence(Contract):
    """What one run has shown. `left`: what it had not cleared away when it was over, where that was looked at."""

    run_id: str
    status: str
    to_be_stopped: bool = False
    trials: tuple[TrialEvidence, ...] = ()
    clock_checks: tuple[ClockCheck, ...] = ()
    left: tuple[str, ...] = ()
    failure: str = ""


class RoundEvidence(Contract):
    """
    One deployment and its runs. `left_out` says why it was not tried, `failure` why it could not be deployed.

    hourly_usd: of what it makes. hours: between its beginning and the next one's.
    """

    name: str
    in_network: bool = False
    hourly_usd: float = 0
    hours: float = 0
    left_out: str = ""
    deployed: bool = False
    deploy_s: float = 0
    failure: str = ""
    runs: tuple[RunEvidence, ...] = ()

    @property
    def trials(self) -> tuple[TrialEvidence, ...]:
        """Return the trials that were to go through, and those of an interrupted run that had done so."""
        runs = [run for run in self.runs if not run.to_be_stopped]
        return tuple(trial for run in runs for trial in run.trials if run.status != "stopped" or not trial.failure)


class Deletion(Contract):
    """The end of the stack: by kind, what is `left` of it, and what could not be listed, with the reason."""

    seconds: float
    failures: tuple[str, ...] = ()
    left: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    unlisted: dict[str, str] = Field(default_factory=dict)

    @property
    def clean(self) -> bool:
        """Tell whether nothing is left for certain."""
        return not self.left and not self.unlisted


class Bill(Contract):
    """
    What Cost Explorer says of the rehearsal's days, in US dollars by service.

    tagged: of what has the rehearsal's tag (and of nothing where that is no cost allocation tag). account: of all of
    the account in this region. settled: whether Cost Explorer calls the figures final.
    """

    tagged: dict[str, float]
    account: dict[str, float]
    settled: bool


class Judgement(Contract):
    """What has become of one assumption, and what was observed."""

    id: str
    sentence: str
    status: Status
    observed: str


class Rehearsal(Contract):
    """
    One rehearsal.

    emulator: which one has played AWS; "" on AWS. artefacts: the bucket of the deployments, whose name tells accounts
    apart without their numbers. bound_usd: what it was to cost at most. spent_usd: by its price
    table and its hours. ended: why it ended early; "" where it went through. version: of this shape.
    """

    version: int = 1
    stepbench: str
    stack: str
    region: str
    emulator: str
    artefacts: str
    started_at: str
    ended_at: str = ""
    budget_usd: float
    bound_usd: float
    spent_usd: float = 0
    rounds: tuple[RoundEvidence, ...] = ()
    ended: str = ""
    deletion: Deletion | None = None
    bill: Bill | None = None
    assumptions: tuple[Judgement, ...] = ()

    def round(self, name: str) -> RoundEvidence | None:
        """Return the round of that name."""
        return next((each for each in self.rounds if each.name == name), None)

    @property
    def trials(self) -> tuple[TrialEvidence, ...]:
        """Return the trials of all rounds."""
        return tuple(trial for each in self.rounds for trial in each.trials)

    @property
    def whole(self) -> bool:
        """Tell whether all that was begun went through, and nothing of it is left."""
        tried = [each for each in self.rounds if not each.left_out]
        runs = [run for each in tried for run in each.runs]
        went = all(each.deployed and not each.failure for each in tried) and not any(run.failure for run in runs)
        return went and not self.ended and self.deletion is not None and self.deletion.clean
