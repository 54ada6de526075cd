"""The command `runs`: what was measured, newest first."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.errors import PlanError, Problem
from stepbench_tools.cli.command import OK, Command, argument, out
from stepbench_tools.cli.streams import messages, write, write_errors

if TYPE_CHECKING:
    from pathlib import Path

    from stepbench.contracts.result import RunSummary

WIDTH = 80
"""The width of a usual terminal, which a line of the list fits."""

_RAGGED = 16
"""Characters that the first of two lines may lose, since no word is broken."""


class _Listed(NamedTuple):
    folder: Path
    summary: RunSummary
    notes: tuple[str, ...]


def runs(options: argparse.Namespace) -> int:
    """List the runs below a folder; folders that are none of them, or not to be read, are named."""
    listed, unreadable = _find(options.out)
    for note in (note for run in listed for note in run.notes):
        messages(options)(note)
    for run in listed:
        if options.json:
            write(json.dumps(_facts(run), ensure_ascii=False))
        else:
            write(_describe(run.summary))
    write_errors(*unreadable)
    return OK


def _find(folder: Path) -> tuple[list[_Listed], list[str]]:
    """Return the runs below a folder, and what is wrong with other folders there."""
    from stepbench.loading import SUMMARY, find_runs, read_summaries
    from stepbench.records.storage.layout import DATASETS

    if not folder.is_dir():
        remedy = "Run a plan first, or name the folder of runs."
        raise PlanError([Problem(path="--out", value=f'"{folder}"', message="is no folder", remedy=remedy)])
    listed: list[_Listed] = []
    unreadable: list[str] = []
    found = find_runs(folder)
    for run, summary in read_summaries(found, unreadable.append):
        listed.append(_Listed(run.folder, summary, tuple(run.notes)))
    finished = {each for run in found for each in (run.folder, *run.copies)}
    datasets = folder / DATASETS.rstrip("/")
    others = sorted(each for each in folder.iterdir() if each.is_dir() and each not in {*finished, datasets})
    unreadable.extend(f"{each}: has no {SUMMARY}; its run goes on, was killed, or is none" for each in others)
    return listed, unreadable


def _facts(run: _Listed) -> dict[str, Any]:
    from stepbench.experiments.report.headline import headline_lines
    from stepbench.experiments.report.short_answer import short_answer

    summary = run.summary
    fields = ("run_id", "plan", "status", "verdict", "started_at", "finished_at")
    facts = {name: getattr(summary, name) for name in fields}
    result = {"answer": short_answer(summary), "headline": headline_lines(summary)}
    return {**facts, "trials": len(summary.trials), **result, "folder": str(run.folder)}


def _describe(summary: RunSummary) -> str:
    """Return which run it is, how it ended and when; and below, its answer, as much as fits into two lines."""
    import textwrap

    from stepbench.digits import moment
    from stepbench.experiments.report.short_answer import short_answer
    from stepbench.report.words import fit

    head = f"{moment(summary.started_at)}  {_ending(summary):<9}  {summary.run_id}"
    answer = fit(short_answer(summary), 2 * (WIDTH - 2) - _RAGGED)
    return "\n".join((head, *textwrap.wrap(answer, WIDTH, initial_indent="  ", subsequent_indent="  ")))


def _ending(summary: RunSummary) -> str:
    """Return `passed`, `missed` (a threshold) or `undecided` of a run that went through, and how another ended."""
    words = {"passed": "passed", "failed": "missed", "undecided": "undecided", None: summary.status}
    return words[summary.verdict] if summary.status == "succeeded" else summary.status


COMMANDS = (
    Command(
        "runs",
        runs,
        "list the runs, newest first, with what came of them",
        (
            out("where runs are"),
            argument("--json", action="store_true", help="print an object a run on stdout, one line each"),
        ),
    ),
)
