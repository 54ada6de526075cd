"""The sentences of the answer: one a window, and one a group of repeats in place of one a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepbench import digits
from stepbench.experiments.report.headline import describe_window
from stepbench.report.labels import window_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.result import RunSummary, TrialSummary
    from stepbench.report.groups import TrialGroup


class Answer(NamedTuple):
    """A sentence on one window of a trial, or of its repeats; `trial` is the first of them."""

    label: str
    trial: TrialSummary
    text: str


def answers(summary: RunSummary, groups: Sequence[TrialGroup]) -> tuple[Answer, ...]:
    """Return all sentences, in the order of the trials; those of groups stand where their first run would."""
    repeated = [group for group in groups if group.repeated]
    firsts = {(group.trial.index, group.phase, group.window): group for group in repeated}
    others = {(run.trial.index, group.phase, group.window) for group in repeated for run in group.runs}
    found = []
    for row in window_rows(summary.trials):
        place = (row.trial.index, row.window.phase, row.window.name)
        if place in firsts:
            found.append(Answer(firsts[place].label, row.trial, describe_group(firsts[place])))
        elif place not in others:
            found.append(Answer(row.label, row.trial, describe_window(row)))
    return tuple(found)


def describe_group(group: TrialGroup) -> str:
    """Describe the median and another quantile over the runs, with their ranges, and how many events never arrived."""
    parts = []
    for name, words in (("p50", "Median"), ("p99" if group.operations else "p90", "")):
        over = group.quantile_over_runs(name).shown
        if over.value:
            within = [over.interval.strip("[]").replace(", ", " to "), over.note]
            parts.append(f"{words or name} {over.value} {over.unit} ({'; '.join(filter(None, within))})")
        else:
            parts.append(f"{words or name}: {over.note}")
    return f"{', '.join(parts)}, over {digits.counted(len(group.runs), 'run')}; {_came_to_nothing(group)}."


def _came_to_nothing(group: TrialGroup) -> str:
    windows = [run.window for run in group.runs]
    if group.operations:
        failed = sum(window.failed + window.unknown for window in windows)
        return f"{digits.count(failed)} of {digits.count(sum(window.sent for window in windows))} failed"
    lost = sum(window.latency_ms.missing for window in windows)
    n = sum(window.n for window in windows)
    if lost:
        return f"{digits.count(lost)} of {digits.count(n)} lost"
    return "the one event arrived" if n == 1 else f"all {digits.count(n)} events arrived"
