"""What the dashboard's pages show beside what the API answers: the whole queue, a plan's series of runs, its forms."""

from __future__ import annotations

from pydantic import AwareDatetime, Field

from stepbench.contracts.api import ProblemItem, Validation, WaitedFor
from stepbench.contracts.base import Contract
from stepbench.contracts.regressions import Regressions, RunSeries


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
