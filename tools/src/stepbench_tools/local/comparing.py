"""Which runs a word on the command line means: a run, a folder of runs, the latest, and a group of trials of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from stepbench.analysis.run_comparison import Selected, compare_summaries, describe_shared
from stepbench.contracts.result import RunSummary
from stepbench.errors import CorruptRecordsError, PlanError, Problem
from stepbench.loading import find_runs, read_model, read_summaries
from stepbench_tools.local.fetching import SUMMARY
from stepbench_tools.local.results import find_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.contracts.across_trials import RunComparison

OF = "#"
"""It stands between runs and the group of trials that is meant of them."""


def compare(  # noqa: PLR0913, PLR0917 -- what the command line asks
    a: str, b: str, out: Path, tolerance: float, notify: Callable[[str], None], studied: str = ""
) -> RunComparison:
    """
    Compare the runs that `b` names with those that `a` names, which are alike but for what is `studied`.

    Args:
        a: what is compared with, as `select` takes it.
        b: what is judged.
        out: the folder of runs.
        tolerance: a share, as `compare_summaries` takes it.
        notify: called with each note, such as which copies of a run were left out.
        studied: the one thing that may differ, as `compare_summaries` takes it.

    Raises:
        PlanError: there are no such runs, both sides have one, or they have nothing in common (bad input).
        CorruptRecordsError: a summary is not of this version.
    """
    sides = [select(word, out, name, notify) for name, word in (("A", a), ("B", b))]
    if shared := sides[0].shared_runs(sides[1]):
        message = f"{describe_shared(shared)}: a run says nothing about how it differs from itself"
        remedy = f"Name two runs (`stepbench runs` lists them), or two trials of one run, as in RUN{OF}TRIAL."
        raise PlanError([Problem(path="B", value=f'"{b}"', message=message, remedy=remedy)])
    found = compare_summaries(sides[0], sides[1], tolerance, studied)
    if not found.verdicts and not found.unfinished_b:
        has = [", ".join(side.groups()) or "no trial that went through whole" for side in sides]
        message = f"has nothing to compare with A: {has[1]} in B, {has[0]} in A"
        remedy = f"Name a trial on either side, as in RUN{OF}TRIAL, with windows of one name."
        raise PlanError([Problem(path="B", value=f'"{b}"', message=message, remedy=remedy)])
    return found


def select(word: str, out: Path, side: str, notify: Callable[[str], None]) -> Selected:
    """
    Return the runs that a word names: `RUN`, or `RUN#GROUP` for one group of its trials.

    RUN is a run's id or folder, its `summary.json`, or a folder of several runs, which are repeats of one another; of
    copies of one run one is taken, and `notify` is called with which.

    Raises:
        PlanError: there is no such run, or no such group.
    """
    name, _, group = word.partition(OF)
    selected = Selected(_read(name, out, notify), group)
    if group and not selected.groups() and not selected.unfinished():
        has = ", ".join(Selected(selected.runs).groups()) or "none that went through whole"
        message = f"names no trial of that run, whose trials are: {has}"
        raise PlanError([Problem(path=side, value=f'"{word}"', message=message, remedy="Write one of these behind #.")])
    return selected


def _read(name: str, out: Path, notify: Callable[[str], None]) -> list[RunSummary]:
    path = Path(name)
    if path.is_file() and path.name == SUMMARY:
        path = path.parent
    several = () if (path / SUMMARY).is_file() else find_runs(path)
    for note in (note for run in several for note in run.notes):
        notify(note)
    found = [summary for _, summary in read_summaries(reversed(several), notify)]
    if several and not found:
        message = f"no {SUMMARY} below {path} can be read"
        raise CorruptRecordsError(message)
    return found or [read_model(find_run(str(path), out, notify) / SUMMARY, RunSummary)]
