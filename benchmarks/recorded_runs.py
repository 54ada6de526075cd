"""
The detector of regressions on recorded runs: the repeats of one trial, each taken for a run of its own.

    stepbench run quick-unloaded-etcd --repeats 100
    python -m benchmarks.recorded_runs out/RUN [--first 80] [--at 60] [--ratio 1.1]

Nothing was changed between the repeats, so that all that is told of them is taken for a false alarm, though nobody
knows that the machine was the same. Then each number is multiplied by a ratio from one run on. Every run counts as a
scheduled one, and none is made to confirm. Prints what was told, and how far runs lie apart.
"""

from __future__ import annotations

import argparse
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stepbench.analysis.regressions import find_regressions
from stepbench.analysis.run_series import run_numbers, series_of_runs
from stepbench.contracts.regressions import DetectorSettings, RunSeries
from stepbench.contracts.result import RunSummary
from stepbench.stats.level_shift import Noise, location

if TYPE_CHECKING:
    from stepbench.contracts.regressions import SeriesRun

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def split_repeats(summary: RunSummary) -> list[RunSummary]:
    """Return a run for each trial that went through whole, a minute apart."""
    whole = [trial for trial in summary.trials if trial.failure is None and not trial.incomplete]
    return [
        summary.model_copy(
            update={
                "run_id": f"r{place:04d}",
                "started_at": (BEGAN + timedelta(minutes=place)).isoformat(),
                "trials": (trial.model_copy(update={"name": trial.group or trial.name, "group": "", "repeat": 0}),),
            }
        )
        for place, trial in enumerate(whole)
    ]


def plant(series: RunSeries, at: int, ratio: float) -> RunSeries:
    """Return the series with each number multiplied from a place on."""

    def changed(run: SeriesRun) -> SeriesRun:
        values = tuple(each.model_copy(update={"estimate": each.estimate.over(1 / ratio)}) for each in run.values)
        return run.model_copy(update={"values": values})

    runs = (changed(run) if place >= at else run for place, run in enumerate(series.runs))
    return series.model_copy(update={"runs": tuple(runs)})


def replay(series: RunSeries) -> list[tuple[int, str, str]]:
    """Return what is told, run after run: with how many runs, of which series, and what."""
    told: list[tuple[int, str, str]] = []
    for runs in range(2, len(series.runs) + 1):
        found = find_regressions(series.model_copy(update={"runs": series.runs[:runs]}), DetectorSettings())
        told += [(runs, each.series.name, each.verdict) for each in found.findings if each.told]
    return told


def main() -> None:
    """Print what was told of the runs as they are, and of those with a change."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--first", type=int, default=100, help="take no more runs than these")
    parser.add_argument("--at", type=int, default=60)
    parser.add_argument("--ratio", type=float, default=1.1)
    asked = parser.parse_args()
    summary = RunSummary.model_validate_json((asked.run / "summary.json").read_bytes())
    series = series_of_runs([run_numbers(each) for each in split_repeats(summary)[: asked.first]]).series
    for value in series.runs[0].values:
        numbers = [each.estimate.value for run in series.runs for each in run.values if each.series == value.series]
        logs = np.array([math.log(each) for each in numbers if each])
        noise = Noise(logs - location(logs))
        apart = f"{100 * noise.scale:.1f} % apart, correlation {noise.correlation:.2f}"
        print(f"{value.series.name}: {len(logs)} runs, {apart}")
    told = replay(series)
    print(f"unchanged: told with {len({runs for runs, _, _ in told})} of {len(series.runs)} runs: {told}")
    planted = [each for each in replay(plant(series, asked.at, asked.ratio)) if each[0] > asked.at]
    print(f"{asked.ratio:g} times from run {asked.at} on: {[(runs - asked.at, *rest) for runs, *rest in planted]}")


if __name__ == "__main__":
    main()
