"""Made-up runs of one plan: noise with a fixed seed, and what is planted in it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
from tests.samples.comparisons import estimate, etcd, run

from stepbench.contracts.regressions import RunSeries, Series, SeriesRun, SeriesValue

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepbench.contracts.result import RunSummary

P50 = Series(group="etcd", phase="steady", window="steady", quantile="p50")
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def noise(runs: int, sd: float = 0.03, seed: int = 7) -> list[float]:
    """Return so many medians in ms about 10 ms."""
    rng = np.random.default_rng(seed)
    return [float(value) for value in 10 * np.exp(rng.normal(0, sd, runs))]


def run_id(number: int) -> str:
    """Return the id of the run at a place."""
    return f"r{number:03d}"


def run_series(
    values: Sequence[float],
    *,
    series: Series = P50,
    confirms: Mapping[int, int] | None = None,
    acknowledged: Mapping[int, str] | None = None,
    red: Sequence[int] = (),
) -> RunSeries:
    """Build the runs of a plan with one series; places are those in `values`."""
    runs = [
        SeriesRun(
            run_id=run_id(place),
            started_at=(BEGAN + timedelta(days=place)).isoformat(),
            confirms=run_id(confirms[place]) if confirms and place in confirms else None,
            green=place not in red,
            acknowledged=(acknowledged or {}).get(place, ""),
            values=(SeriesValue(series=series, estimate=estimate(value)),),
        )
        for place, value in enumerate(values)
    ]
    return RunSeries(plan="nightly", runs=tuple(runs))


def summaries(values: Sequence[float], plan: str = "nightly") -> list[RunSummary]:
    """Build summaries of runs of one trial with these medians, a day apart."""
    return [
        run(etcd(value), run_id=run_id(place)).model_copy(
            update={"plan": plan, "started_at": (BEGAN + timedelta(days=place)).isoformat()}
        )
        for place, value in enumerate(values)
    ]
