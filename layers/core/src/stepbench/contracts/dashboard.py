"""What the dashboard's pages show beside what the API answers: the whole queue, a plan's series of runs, its forms."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, Field

from stepbench.contracts.api import ProblemItem, Validation, WaitedFor
from stepbench.contracts.base import Contract
from stepbench.contracts.measures import Estimate
from stepbench.contracts.runs import RunId, RunState

TrendQuantile = Literal["p50", "p99"]


class QueuedRun(WaitedFor):
    """A run in the queue, with its targets or waiting for them. One of another team has no id here."""

    waiting_since: AwareDatetime
    expected_start: AwareDatetime
    waits_for: tuple[int, ...] = Field(default=(), description="Numbers of those ahead, as listed, from 1.")


class TrendMark(Contract):
    """Something that was found in a series with one run."""

    quantile: TrendQuantile
    verdict: Literal["regression", "improvement", "shift", "spike", "drift", "suspected"]
    text: str = Field(description="A sentence, for the table and for who cannot see the mark.")


class TrendPoint(Contract):
    """A run's headline numbers, in ms."""

    run_id: RunId
    submitted_at: AwareDatetime
    state: RunState
    p50: Estimate
    p99: Estimate
    marks: tuple[TrendMark, ...] = ()


class TrendSeries(Contract):
    """One group of trials in one window, run after run."""

    name: str
    points: tuple[TrendPoint, ...] = Field(description="In order of submission.")
    baselines: dict[TrendQuantile, Estimate] = Field(default={}, description="Levels that runs are set against.")


class PlanTrend(Contract):
    """The last runs of a plan."""

    plan: str
    runs: int = Field(ge=0, description="How many were read.")
    series: tuple[TrendSeries, ...]
    left_out: int = Field(default=0, ge=0, description="Further series, which the reports have.")


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
