"""Service times by percentile, with counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.samples.results import changed, numbered, sample_page
from tests.unit.report.test_figures import data_of

from stepbench.report.percentiles import format_percentile, percentile_figures

if TYPE_CHECKING:
    from stepbench.contracts.result import TrialResult


def test_curves_end_with_the_slowest_operation(operated: tuple[TrialResult, ...]) -> None:
    """It stands at the number of operations, as HdrHistogram has it; 90 % lies at 10."""
    figure, *_ = percentile_figures(operated)
    rows = list(zip(*(figure.percentiles[name] for name in ("curve", "position", "latency_ms")), strict=True))
    positions = [row[1] for row in rows if row[0] == "redis"]
    slowest = operated[0].summary.windows[0].latency_ms.max
    assert positions == sorted(positions, key=float)
    last = next(row for row in reversed(rows) if row[0] == "redis")
    assert last[1] == 4_000
    assert last[2] == pytest.approx(slowest, rel=1e-3)


def test_percentiles_keep_all_their_nines() -> None:
    """A rounded 99.90234375 would be another one."""
    assert [format_percentile(value) for value in (50.0, 99.90234375, 100.0)] == ["50 %", "99.90234375 %", "max"]


def test_only_the_slowest_operation_is_called_the_largest(operated: tuple[TrialResult, ...]) -> None:
    """The third slowest of a million is at 99.9998 %, which five digits would round to 100."""
    n = 1_000_000
    drawn = {"latency_ms": (1.0, 2.0, 3.0, 4.0, 5.0), "probability": (0.5, 0.9921875, 0.999996, 1 - 2 / n, 1.0)}
    curve = operated[0].ecdf[0].model_copy(update=drawn)
    window = operated[0].summary.windows[0].model_copy(update={"n": n})
    (figure,) = percentile_figures([changed(operated[0], windows=(window,)).model_copy(update={"ecdf": (curve,)})])
    assert figure.percentiles["percent"] == ["50 %", "99.219 %", "99.9996 %", "99.9998 %", "max"]


def test_percentiles_of_repeats_have_a_dash_for_each_run(operated: tuple[TrialResult, ...]) -> None:
    """The legend then has colours only: its dash would be that of one of the runs."""
    (two, *_) = percentile_figures(numbered(operated[:2]))
    assert not two.legend.repeated
    repeats = [changed(operated[0], group="redis", repeat=repeat, name=f"redis.r{repeat + 1}") for repeat in (0, 1)]
    page = data_of(sample_page(numbered(repeats)))
    assert page["figures"]["percentiles-0"]["chart"] == "percentiles-runs-operations"
    assert page["figures"]["percentiles-0"]["params"]["labels"] == ["redis"]
