"""Commands about all runs of a folder: `regressions`, what changed over those of each plan, and `runs`, the list."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.errors import PlanError, Problem
from stepbench_tools.cli.command import (
    FAILED,
    NOT_DONE,
    OK,
    Command,
    argument,
    between,
    messages,
    out,
    write,
    write_errors,
)

if TYPE_CHECKING:
    from pathlib import Path

    from stepbench.contracts.result import RunSummary


def regressions(options: argparse.Namespace) -> int:
    """Follow each plan's runs, and fail where one of them stands worse than its baseline."""
    import json

    from stepbench.contracts.regressions import DetectorSettings
    from stepbench.errors import PlanError, Problem
    from stepbench.report import regressions as report
    from stepbench_tools.junit import format_regressions
    from stepbench_tools.local.results import acknowledge, regressions_below, unread_last

    if (options.acknowledge is None) != (options.why is None):
        given = "--acknowledge" if options.why is None else "--why"
        remedy = "Give both: --acknowledge RUN --why TEXT."
        raise PlanError([Problem(path=given, value="", message="is given without the other", remedy=remedy)])
    if options.acknowledge is not None:
        accepted = acknowledge(options.acknowledge, options.why, options.out, messages(options))
        messages(options)(f"the level that begins with {accepted} is accepted")
    settings = DetectorSettings(
        min_effect=options.min_effect / 100,
        baseline=options.baseline,
        false_alarms_per_100_runs=options.false_alarms,
    )
    found = regressions_below(options.out, settings, messages(options), options.plan)
    match options.format:
        case "json":
            write(json.dumps([each.model_dump(mode="json") for _, each in found], ensure_ascii=False, indent=2))
        case "junit":
            write(format_regressions([each for _, each in found]))
        case "html":
            write("\n".join(str(report.render_trends(series, each)) for series, each in found))
        case _:
            write("\n\n".join(report.format_text(each) for _, each in found))
    if not all(each.passed for _, each in found):
        return FAILED
    unread = unread_last(options.out, options.plan)
    write_errors(*(f"{folder} may be the last run, and cannot be read: nothing is decided" for folder in unread))
    return NOT_DONE if unread else OK


def _baseline(text: str) -> dict[str, object]:
    """Read `median`, `median:50`, `green`, `green:50` or a run's id."""
    if not 1 <= len(text) <= 200:  # noqa: PLR2004 -- as the contract has it
        message = f"with {len(text)} characters it names no run"
        raise argparse.ArgumentTypeError(message)
    word, _, number = text.partition(":")
    kinds = {"median": "rolling_median", "green": "last_green"}
    if word in kinds:
        runs = int(number) if number else 100
        if not 10 <= runs <= 400:  # noqa: PLR2004 -- as the contract has it
            message = f"{runs} is not between 10 and 400 runs"
            raise argparse.ArgumentTypeError(message)
        return {"kind": kinds[word], "runs": runs}
    return {"kind": "named_run", "run_id": text}


def _why(text: str) -> str:
    if not 1 <= len(text) <= 500:  # noqa: PLR2004 -- as the contract has it
        message = f"has {len(text)} characters and not 1 to 500"
        raise argparse.ArgumentTypeError(message)
    return text


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
    from stepbench.experiments.report.headline import headline_lines, short_answer

    summary = run.summary
    fields = ("run_id", "plan", "status", "verdict", "started_at", "finished_at")
    facts = {name: getattr(summary, name) for name in fields}
    result = {"answer": short_answer(summary), "headline": headline_lines(summary)}
    return {**facts, "trials": len(summary.trials), **result, "folder": str(run.folder)}


def _describe(summary: RunSummary) -> str:
    """Return which run it is, how it ended and when; and below, its answer, as much as fits into two lines."""
    import textwrap

    from stepbench.digits import moment
    from stepbench.experiments.report.headline import short_answer
    from stepbench.report.run import fit

    head = f"{moment(summary.started_at)}  {_ending(summary):<9}  {summary.run_id}"
    answer = fit(short_answer(summary), 2 * (WIDTH - 2) - _RAGGED)
    return "\n".join((head, *textwrap.wrap(answer, WIDTH, initial_indent="  ", subsequent_indent="  ")))


def _ending(summary: RunSummary) -> str:
    """Return `passed`, `missed` (a threshold) or `undecided` of a run that went through, and how another ended."""
    words = {"passed": "passed", "failed": "missed", "undecided": "undecided", None: summary.status}
    return words[summary.verdict] if summary.status == "succeeded" else summary.status


COMMANDS = (
    Command(
        "regressions",
        regressions,
        "follow the runs of each plan, and fail (exit code 1) where one stands worse than its baseline",
        (
            argument("plan", nargs="?", metavar="NAME", help="only the runs of the plan of this name"),
            argument(
                "--baseline",
                type=_baseline,
                default=_baseline("median"),
                metavar="median[:N]|green[:N]|RUN",
                help="the level of the last N runs, of the last N that missed no threshold, or of the runs that "
                "began with RUN (default: median:100)",
            ),
            argument(
                "--min-effect",
                type=between(1, 100),
                default=5.0,
                metavar="PERCENT",
                help="less is no change (default: 5)",
            ),
            argument(
                "--false-alarms",
                type=between(0.001, 5),
                default=0.1,
                metavar="N",
                help="how many are allowed in 100 runs, all series of a plan together (default: 0.1)",
            ),
            argument("--acknowledge", metavar="RUN", help="accept the level that begins with this run; needs --why"),
            argument("--why", type=_why, metavar="TEXT", help="why it is accepted; kept beside the runs"),
            argument(
                "--format",
                choices=("text", "json", "junit", "html"),
                default="text",
                help="junit for a pipeline, html for a page's section (default: text)",
            ),
            out("where runs are"),
        ),
    ),
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
