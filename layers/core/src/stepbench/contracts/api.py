"""
What the HTTP API takes and answers, and what the dashboard's pages show beside it.

`stepbench_tools.documents.openapi` makes the API's description from these models.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field, StringConstraints

from stepbench.contracts.base import Contract
from stepbench.contracts.experiment import ExperimentName
from stepbench.contracts.features import StoreFeatures
from stepbench.contracts.plan import Plan
from stepbench.contracts.regressions import DetectorSettings, Regressions, RunSeries
from stepbench.contracts.runs import RunId, RunState, TeamName
from stepbench.contracts.values import MOST_FILE_BYTES
from stepbench.contracts.workload import Kind

Moment = Annotated[str, StringConstraints(pattern=r"^(\d{4}(-\d{2}(-\d{2}(T[\d:.]{2,15}Z?)?)?)?)?$")]


class Submission(Contract):
    """A run that is asked for: a plan, or a preset's name, and changes to it."""

    plan: Plan | str = Field(description="A plan, or the name of a preset (`GET /plans`).")
    set: dict[str, Any] = Field(
        default={},
        max_length=100,
        description="Changes: values by path, such as `trials[0].writers` or, of all trials, `trials[*].repeats`.",
    )
    regressions: DetectorSettings | None = Field(
        default=None, description="Set the run against the plan's earlier ones, and tell of what got worse."
    )


class Acknowledgement(Contract):
    """That the level which begins with a run is accepted: its shift is no regression, and the new baseline."""

    why: str = Field(min_length=1, max_length=500, description="For who asks later; runs' reports show it.")


class ProblemItem(Contract):
    """One thing that is wrong with a request."""

    path: str = Field(description="Where: `plan.trials[0].phases[1].load[0].rate_per_s`, or a parameter's name.")
    value: str = Field(description="What was found there.")
    message: str
    remedy: str


class ProblemDetails(Contract):
    """An error, as RFC 9457 describes it (application/problem+json)."""

    type: str = Field(description="urn:stepbench:problem:<name>, which does not change.")
    title: str
    status: int = Field(ge=400, le=599)
    detail: str
    instance: str = Field(default="", description="The request's id, by which its log lines are found.")
    problems: tuple[ProblemItem, ...] = ()


class WaitedFor(Contract):
    """A run ahead in the queue."""

    run_id: RunId | None = None
    team: TeamName | None = None
    plan: str | None = None
    targets: tuple[str, ...] = Field(description="The stores that both need.")
    running_since: AwareDatetime | None = None
    expected_s: float = Field(ge=0)


class QueuePlace(Contract):
    """Who a waiting run waits for. A run of another team has no id here."""

    position: int = Field(
        ge=1, description="1 and the runs ahead that wait, too; who runs on its targets is in `waits_for`."
    )
    waits_for: tuple[WaitedFor, ...]
    waiting_since: AwareDatetime
    expected_start: AwareDatetime


class Progress(Contract):
    """How far a running run is. Counters are the current trial's, as its writers reported last."""

    activity: str
    share: float = Field(ge=0, le=1)
    left_s: float = Field(ge=0)
    trial: int | None = Field(default=None, ge=0, description="From 0; None between two trials.")
    trials: int = Field(ge=0)
    trial_name: str = ""
    phase: str = ""
    planned: int = Field(default=0, ge=0, description="The events that the trial offers, at most.")
    sent: int = Field(default=0, ge=0)
    errors: int = Field(default=0, ge=0)
    received: int | None = Field(
        default=None,
        ge=0,
        description="None where no events arrive, as of operations, and where counting would read too much.",
    )
    lag: int | None = Field(
        default=None,
        ge=0,
        description="How many events are still to arrive that were written, and that the trigger's filter lets pass.",
    )
    at: AwareDatetime = Field(description="When the counters were reported.")


class Links(Contract):
    """Where the rest of a run is, as paths of this API."""

    self: str
    report: str
    summary: str
    records: str


class RunView(Contract):
    """A run."""

    run_id: RunId
    team: TeamName
    caller: str
    source: Literal["api", "console", "schedule"]
    plan: str = Field(description="The plan's name; empty where the plan could not be read.")
    state: RunState
    submitted_at: AwareDatetime
    started_at: AwareDatetime | None = None
    finished_at: AwareDatetime | None = None
    trials: int
    estimate_usd: float
    actual_usd: float | None = None
    expected_s: float
    verdict: str
    headline: tuple[str, ...]
    cause: str
    confirms: str
    regressed: tuple[str, ...] = ()
    acknowledged: str = ""
    queue: QueuePlace | None = None
    progress: Progress | None = None
    links: Links


class RunFilter(Contract):
    """Which runs are listed: the parameters of `GET /runs`."""

    plan: str = Field(default="", max_length=60, description="Only runs of this plan.")
    team: str = Field(default="", max_length=100, description="Your own if left out, or `default`.")
    state: tuple[RunState, ...] = Field(default=(), description="Only runs in one of these states.")
    since: Moment = Field(default="", description="First moment of submission, in UTC; its beginning is enough.")
    until: Moment = Field(default="", description="Last moment of submission.")
    limit: int = Field(default=50, ge=1, le=200)
    page: str = Field(default="", max_length=200, description="What an earlier answer named as `next`.")


class RunList(Contract):
    """A page of runs, newest first."""

    runs: tuple[RunView, ...]
    next: str | None = Field(default=None, description="The parameter `page` of the next page; None after the last.")


class PlanInfo(Contract):
    """A preset."""

    name: str
    question: str
    trials: int
    events: int
    expected_s: float
    estimate_usd: float
    to_set: tuple[str, ...] = Field(default=(), description="Paths that it leaves to whoever starts it (`set`).")
    refused: str = Field(default="", description="Why this stack does not run it; empty where it does.")


class PlanList(Contract):
    """The presets, by the order of their questions."""

    plans: tuple[PlanInfo, ...]


class StoreInfo(Contract):
    """
    A store: what a plan may measure of it, and what its trigger can do.

    usd_per_million: of events of 1 kB, the write and what the trigger adds, without the function; None where no event
    has a price, as that of a server by the hour.
    """

    store: str
    experiments: tuple[ExperimentName, ...]
    delivery: Literal["push", "pull"] | None = Field(description="Of a trigger: it invokes a function, or is watched.")
    operations: tuple[Kind, ...]
    features: StoreFeatures
    usd_per_million: float | None
    prices: str = Field(description="Region and date of the prices.")


class StoreList(Contract):
    """All stores that a plan may name."""

    stores: tuple[StoreInfo, ...]


class Validation(Contract):
    """What a valid plan would do."""

    plan: str
    trials: int
    events: int
    load_s: float
    expected_s: float
    estimate_usd: float
    budget_usd: float
    notes: tuple[str, ...] = Field(
        default=(), description="What it does beside measuring, such as by a function's copy."
    )


class RowsFile(Contract):
    """A file of rows (`record.values`) that a caller is about to upload."""

    format: Literal["json", "jsonl", "csv", "zip"] = Field(description="As `record.values.key` has it.")
    size_bytes: int = Field(ge=1, le=MOST_FILE_BYTES)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$", description="Of the content, in hexadecimal digits.")


class Upload(Contract):
    """Where a file is put, by one PUT with these headers and the whole content."""

    key: str = Field(description="The plan's `record.values.key`, once the file is there.")
    url: str
    headers: dict[str, str] = Field(description="Signed with the link: S3 takes no other content.")
    expires_at: AwareDatetime


class Download(Contract):
    """Where a document can be fetched for a short while, without a signature of one's own."""

    url: str
    expires_at: AwareDatetime


class DatasetList(Contract):
    """The datasets of transfers to which runs that the caller may see have added rows."""

    datasets: tuple[str, ...] = Field(description="Names: `/datasets/{name}/report` is the page of one.")


class QueuedRun(WaitedFor):
    """A run in the queue, with its targets or waiting for them. One of another team has no id here."""

    waiting_since: AwareDatetime
    expected_start: AwareDatetime
    waits_for: tuple[int, ...] = Field(default=(), description="Numbers of those ahead, as listed, from 1.")


class PlanTrend(Contract):
    """The last runs of a plan, and what was found in them. `left_out`: further series, which the reports have."""

    series: RunSeries
    found: Regressions
    left_out: int = Field(default=0, ge=0)


class StartForm(Contract):
    """What stands in a form that starts a run. `document`, a plan's text, comes before `plan`, a preset's name."""

    plan: str = Field(default="", max_length=200)
    changes: str = Field(default="", max_length=20_000, description="PATH=VALUE, one a line.")
    document: str = Field(default="", max_length=400_000)
    key: str = Field(default="", max_length=255, description="Of this form: sent twice, it is one run.")


class CheckedForm(Contract):
    """A form, and what became of it: checked, refused, or neither yet."""

    form: StartForm = StartForm()
    checked: Validation | None = None
    problems: tuple[ProblemItem, ...] = ()
