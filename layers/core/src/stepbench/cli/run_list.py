"""The command `runs`: what was measured, newest first."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.cli.command import OK, Command, argument, out
from stepbench.cli.streams import write, write_errors
from stepbench.errors import CorruptRecordsError, PlanError, Problem

if TYPE_CHECKING:
    from pathlib import Path

    from stepbench.contracts.result import RunSummary

WIDTH = 80
"""Of a terminal that nobody has made wider; a line of the list fits it."""


class _Listed(NamedTuple):
    folder: Path
    summary: RunSummary


def runs(options: argparse.Namespace) -> int:
    """List the runs below a folder; folders that are none of them, or not to be read, are named."""
    listed, unreadable = _find(options.out)
    for run in listed:
        if options.json:
            write(json.dumps(_facts(run), ensure_ascii=False))
        else:
            write(_describe(run.summary))
    write_errors(*unreadable)
    return OK


def _find(folder: Path) -> tuple[list[_Listed], list[str]]:
    """Return the runs below a folder, and what is wrong with other folders there."""
    from stepbench.contracts.result import RunSummary
    from stepbench.loading import SUMMARY, newest_first, read_model
    from stepbench.records.storage.layout import DATASETS

    if not folder.is_dir():
        remedy = "Run a plan first, or name the folder of runs."
        raise PlanError([Problem(path="--out", value=f'"{folder}"', message="is no folder", remedy=remedy)])
    listed: list[_Listed] = []
    unreadable: list[str] = []
    finished = newest_first(folder)
    for run in finished:
        try:
            listed.append(_Listed(run, read_model(run / SUMMARY, RunSummary)))
        except (CorruptRecordsError, OSError) as error:
            unreadable.append(f"{run}: {error}")
    datasets = folder / DATASETS.rstrip("/")
    others = sorted(each for each in folder.iterdir() if each.is_dir() and each not in {*finished, datasets})
    unreadable.extend(f"{each}: has no {SUMMARY}; its run goes on, was killed, or is none" for each in others)
    return listed, unreadable


def _facts(run: _Listed) -> dict[str, Any]:
    from stepbench.report.headline import headline_lines

    summary = run.summary
    fields = ("run_id", "plan", "status", "verdict", "started_at", "finished_at")
    facts = {name: getattr(summary, name) for name in fields}
    return {**facts, "trials": len(summary.trials), "headline": headline_lines(summary), "folder": str(run.folder)}


def _describe(summary: RunSummary) -> str:
    """Return two lines: which run, how it ended and when; and what came of it, as much as fits."""
    from stepbench.digits import moment
    from stepbench.report.headline import headline_lines

    head = f"{moment(summary.started_at)}  {_ending(summary):<9}  {summary.run_id}"
    return f"{head}\n  {_fitting(headline_lines(summary), WIDTH - 2)}"


def _ending(summary: RunSummary) -> str:
    """Return `passed`, `missed` (a threshold) or `undecided` of a run that went through, and how another ended."""
    words = {"passed": "passed", "failed": "missed", "undecided": "undecided", None: summary.status}
    return words[summary.verdict] if summary.status == "succeeded" else summary.status


def _fitting(lines: tuple[str, ...], width: int) -> str:
    """Join whole parts as long as they fit: a number that is cut off is another number."""
    parts = [part for line in lines for part in line.split(", ")]
    text = ", ".join(parts)
    while len(text) > width and len(parts) > 1:
        parts.pop()
        text = f"{', '.join(parts)}, …"
    return text if len(text) <= width else f"{text[: width - 1]}…"


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
