"""
Whether the report tells what the records say: every number of a run computed again, by pandas and numpy alone.

    python -m benchmarks.recompute out/RUN [--csv FILE] [--text FILE] [--draws N]

From `records.parquet` of each trial (columns and metadata: docs/records.md) it computes each window's counts, rates,
quantiles and maxima, those of its kinds of operations, and the accounting; from these what groups of repeats and
verdicts say; of DAGs, from the three files beside it, their parts, paths, stages, edges and objects. Dollars it
computes from the quantities and prices beside them. It compares them with `summary.json`, with the cells of
`report.html` that say what they show (`data-metric`), and if given with the CSV and the table that `stepbench report`
prints. Nothing of Stepbench is imported. Numbers that no record tells (clocks, estimates, calls, tests, fits) are
named, not compared.

The intervals are set against those of another method, a bootstrap of moving blocks, whose ends are known up to its
Monte Carlo error (a binomial's, of the draws beyond an end). Two methods differ by more; how much is printed, and is no
failure.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from benchmarks.recompute.costs import costs
from benchmarks.recompute.dags import dags
from benchmarks.recompute.intervals import compare_intervals
from benchmarks.recompute.over_runs import over_runs
from benchmarks.recompute.records import Key, recompute
from benchmarks.recompute.shown import Page, of_csv, of_summary, of_text

if TYPE_CHECKING:
    from benchmarks.recompute.records import Numbers, Samples


def agree(ours: Any, theirs: Any) -> bool:  # noqa: ANN401 -- numbers of any type, or none
    """Tell whether two numbers are one: counts exactly, others up to the order in which they were summed."""
    half = 0.0
    if isinstance(theirs, tuple):
        theirs, half = theirs
    if ours is None or theirs is None:
        return ours is theirs
    return bool(np.isclose(float(ours), float(theirs), rtol=1e-9, atol=1.001 * half + 1e-12))


def compare(name: str, ours: Numbers, theirs: list[tuple[Key, Any]]) -> int:
    """Print how many numbers of a source agree, which differ, and what it has that no record tells."""
    differing, untold, compared = [], Counter[str](), 0
    for key, value in theirs:
        place = key if key in ours else Key(key.trial, "", "", "", key.metric)
        if key.metric.startswith("difference."):
            differing += [] if agree(0.0, value) or np.isnan(value) else [f"{key}: by {value}"]
        elif place in ours:
            differing += (
                [] if agree(ours[place], value) else [f"{place}: {ours[place]} from the records, {value} there"]
            )
        else:
            untold[key.metric] += 1
        compared += key.metric.startswith("difference.") or place in ours
    print(f"{name}: {compared} numbers compared, {len(differing)} differ")
    print(*(f"  {line}" for line in differing[:20]), sep="\n", end="\n" if differing else "")
    print(f"  not from records: {', '.join(sorted(untold)) or 'nothing'}")
    return len(differing)


def main(arguments: list[str] | None = None) -> int:
    """Compare one run; the exit code is 1 if any number differs."""
    parser = argparse.ArgumentParser(description="Compute every number of a run again, from its records.")
    parser.add_argument("run", type=Path)
    parser.add_argument("--csv", type=Path, help="what `stepbench report RUN --format csv` printed")
    parser.add_argument("--text", type=Path, help="its table: of the terminal, or --format md")
    parser.add_argument("--draws", type=int, default=2000, help="of the bootstrap; 0: leave it out")
    options = parser.parse_args(arguments)
    summary = json.loads((options.run / "summary.json").read_bytes())
    samples: Samples = {}
    ours = recompute(options.run, samples)
    ours |= over_runs(summary, ours)
    ours |= costs(summary, ours)
    ours |= dags(options.run)
    theirs = list(of_summary(summary, samples))
    differing = compare("summary.json", ours, theirs)
    differing += compare("report.html", ours, Page((options.run / "report.html").read_text("utf-8")).cells)
    if options.csv:
        differing += compare("csv", ours, list(dict.fromkeys(of_csv(options.csv.read_text("utf-8")))))
    if options.text:
        places = [Key(t["index"], w["phase"], w["name"], "", "") for t in summary["trials"] for w in t["windows"]]
        differing += compare("text", ours, list(of_text(options.text.read_text("utf-8"), places)))
    if options.draws:
        compare_intervals(summary, samples, options.draws)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
