"""
The analysis of one trial of ten million events: from stored files and items to books, percentiles and a series.

    python -m benchmarks.analysis [--rounds 7] [--quick] [--events 10000000]

Four do the same trial (`benchmarks.trial_files` makes it up), each in a fresh process on one core, taking turns. CPU is
counted from after the imports, memory is the process's whole.

    ours        files and items, as writers and receivers leave them: decoded, joined, the books, five percentiles of
                each of the six measures, a point for every second. Confidence intervals are apart, see `intervals`
    reading     the same files and items decoded to integers, which are summed, and nothing else
    polars      the same join, books, percentiles and series by its streaming engine, from two Parquet files of the
                same rows and arrivals: it has nothing to decode but Parquet
    raw         eight plain columns of integers, one after the other, read and summed: what no analysis can be below
    intervals   what `ours` does, and each of the 30 percentiles with its interval
"""

from __future__ import annotations

import json
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import command
from benchmarks.building import peers_python
from benchmarks.command import ROOT, Found, run_program
from benchmarks.machine import calmest
from benchmarks.result import Case, Figure, Goal, Measure, figures_of

if TYPE_CHECKING:
    import argparse

EVENTS, QUICK_EVENTS = 10_000_000, 200_000
QUESTION = "What does the analysis of ten million events take, beside reading them, and beside polars?"
_LIMIT_S = 600
_WHO = ("ours", "reading", "polars", "raw")
_AGREE = ("offered", "ok", "received", "duplicates")


def measure(asked: argparse.Namespace) -> Found:
    """Measure all rounds."""
    events, polars = asked.events or (QUICK_EVENTS if asked.quick else EVENTS), peers_python()
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory) / "trial"
        made = _run([sys.executable, "-m", "benchmarks.trial_files", folder, str(events)])
        each_round = calmest(asked.rounds, [partial(_once, who, folder, polars) for who in _WHO])
        intervals = _once("intervals", folder, polars)
    taken = dict(zip(_WHO, map(list, zip(*each_round, strict=True)), strict=True))
    _check(taken)
    name = f"{events:,} events"
    cases = (
        Case(name=name, peer="reading and summing the same", figures=_figures(taken, "reading", at_most=3, memory=320)),
        Case(name=name, peer=f"polars {polars_version(polars)}, streaming", figures=_figures(taken, "polars", 0.5)),
        Case(name=name, peer="raw columns, read and summed", figures=_figures(taken, "raw")),
        Case(
            name=f"{name}, with intervals",
            figures=(
                Figure(name="CPU", unit="s", ours=(intervals["cpu_s"],)),
                Figure(name="peak memory", unit="MB", ours=(intervals["rss_mb"],)),
            ),
        ),
        Case(
            name="column files",
            figures=(Figure(name="size", unit="bytes a record", ours=(made["bytes"],), goal=_SIZE),),
        ),
    )
    return Found(cases, ("The trial is made up: 10 writers, 4,000 events a second, a stream's batches of 100.",))


_SIZE = Goal(of="value", at_most=8)


def polars_version(python: Path) -> str:
    """Return the version of polars that a Python has."""
    return run_program([python, "-c", "import polars; print(polars.__version__)"]).strip()


def _once(who: str, folder: Path, polars: Path) -> dict[str, float]:
    if who == "polars":
        return _run([polars, ROOT / "benchmarks" / "comparators" / "polars_analysis.py", folder])
    return _run([sys.executable, "-m", "benchmarks.analysis_runs", who, folder])


def _run(line: list[object]) -> dict[str, float]:
    found: dict[str, float] = json.loads(run_program(line, _LIMIT_S))
    return found


def _check(taken: dict[str, list[dict[str, float]]]) -> None:
    """Check that both have found the same; else one of them has not done its work."""
    ours, theirs = taken["ours"][0], taken["polars"][0]
    same = [*_AGREE, *(name for name in theirs if name.startswith("p_"))]
    wrong = [name for name in same if abs(ours[name] - theirs[name]) > 1e-9 * abs(theirs[name])]
    if wrong:
        sys.exit(f"ours and polars disagree: {', '.join(f'{name} {ours[name]} {theirs[name]}' for name in wrong)}")


def _figures(
    taken: dict[str, list[dict[str, float]]], peer: str, at_most: float | None = None, memory: float | None = None
) -> tuple[Figure, ...]:
    own, other = ([(each["cpu_s"], each["rss_mb"]) for each in taken[who]] for who in ("ours", peer))
    measures = (
        Measure("CPU", "s", None if at_most is None else Goal(at_most=at_most)),
        Measure("peak memory", "MB", None if memory is None else Goal(of="value", at_most=memory)),
    )
    return figures_of(measures, list(zip(own, other, strict=True)))


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--events", type=int, help=f"default {EVENTS:,}; with --quick {QUICK_EVENTS:,}")


if __name__ == "__main__":
    command.run("analysis", QUESTION, measure, _options)
