"""A run's answer in a line or two, for lists of runs, the terminal and what an execution says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.experiments.report.headline import describe_media, headline_lines
from stepbench.report.thresholds import describe_missed, describe_undecided
from stepbench.report.verdicts import first_reported, format_verdict

if TYPE_CHECKING:
    from stepbench.contracts.result import RunSummary


def short_answer(summary: RunSummary) -> tuple[str, ...]:
    """Return which thresholds were missed or not decided, and the first verdict; without one, a line for each trial."""
    first = describe_media(summary) or tuple(map(format_verdict, first_reported(summary.verdicts, 1)))
    thresholds = tuple(filter(None, (describe_missed(summary), describe_undecided(summary))))
    return (*thresholds, *first) if first else headline_lines(summary)
