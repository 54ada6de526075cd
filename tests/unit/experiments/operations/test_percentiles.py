"""Service times by percentile, with counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.samples.operations import planned_results
from tests.samples.results import changed, numbered, sample_page
from tests.unit.report.test_figures import data_of

from stepbench.contracts.findings import Replication
from stepbench.contracts.measures import Estimate
from stepbench.experiments.operations.percentiles import format_percentile, percentile_figures
from stepbench.planning import find_plan, parse_plan
from stepbench.planning.expansion import expand

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


def test_products_have_a_figure_for_each_operation_and_number_of_clients() -> None:
    """Sixteen, as they were published; each has both stores, with and without TLS."""
    results = planned_results(expand(parse_plan(find_plan("paper-products")), "run"))
    figures = percentile_figures(numbered(results))
    works = [figure.work for figure in figures]
    kinds = ("read", "insert", "overwrite", "update")
    assert works == [
        *(f"{kind}, {clients}" for kind in kinds for clients in ("1 client", "10 clients", "100 clients")),
        *(f"{kind}, 10 clients that pause for 370 ms" for kind in kinds),
    ]
    assert {figure.legend.labels for figure in figures} == {("dynamodb", "dynamodb-tls", "redis", "redis-tls")}


def test_what_one_store_did_alone_shares_a_figure(operated: tuple[TrialResult, ...]) -> None:
    """A figure with one curve would compare nothing."""
    results = numbered(
        [operated[0], changed(operated[0], name="other", group="other", setup={"target.store": "redis", "writers": 9})]
    )
    (figure,) = percentile_figures(results)
    assert figure.work == ""
    assert len(figure.legend.labels) == 2


def test_published_percentiles_stand_below_ours(operated: tuple[TrialResult, ...]) -> None:
    """With their counts, and a ratio; not a second time among single numbers."""
    (window,) = operated[0].summary.windows
    each = Replication(
        metric="p9375",
        window=window.name,
        phase=window.phase,
        published=0.702975,
        unit="ms",
        published_count=78_690,
        count=3_750,
        source="Bianchi (2020), insert",
        ours=Estimate(value=1.4, low=1.3, high=1.5),
        ours_after_ack=None,
        ratio=Estimate(value=1.99, low=1.85, high=2.13),
        ratio_after_ack=None,
    )
    page = sample_page(numbered([changed(operated[0], replication=(each,))]))
    table = page[page.index('id="percentile-table"') :]
    table = table[: table.index("</section>")]
    assert 'data-metric="published" data-percentile="93.75" data-value="0.702975" data-count="78690"' in table
    assert 'data-metric="ratio" data-value="1.99"' in table
    assert "Published percentiles and counts: Bianchi (2020), insert." in table
    assert 'id="published"' not in page
