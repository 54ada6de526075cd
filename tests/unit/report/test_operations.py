from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from tests.samples.estimates import present
from tests.samples.results import changed, numbered, sample_page, sample_results
from tests.unit.report.test_figures import data_of

from stepbench.report.headline import headline_lines, headline_rows
from stepbench.report.labels import window_rows
from stepbench.report.operations import (
    connecting_parts,
    describe_operations,
    describe_scaling,
    format_percentile,
    kind_per_s,
    percentile_figures,
    scaling_figures,
)

if TYPE_CHECKING:
    from stepbench.contracts.result import RunSummary, TrialResult


def test_the_answer_is_one_sentence(run: RunSummary) -> None:
    """How long, how many a second, how many came to nothing."""
    redis, dynamodb, *_ = (describe_operations(row) for row in window_rows(run.trials))
    pattern = r"Median 0\.7\d+ ms \([\d.]+ to [\d.]+\), p99 [\d.]+ ms \([\d.]+ to [\d.]+\); "
    assert re.fullmatch(pattern + "1,450 ops/s with 10 clients; none failed.", redis)
    assert dynamodb.endswith("430 ops/s with 10 clients; 3 failed.")


def test_the_terminal_has_operations_a_minute_and_nothing_lost(run: RunSummary) -> None:
    """Nothing was to arrive, so a zero would say too much."""
    assert re.fullmatch(r"redis: n 4,000, p50 0\.7\d+ ms \[[\d., ]+\], 1,450 ops/s", headline_lines(run)[0])
    assert headline_rows(run)[0].lost == "–"  # noqa: RUF001 -- a dash


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


def test_kinds_share_what_was_achieved(run: RunSummary) -> None:
    """Four kinds, equally often: a quarter of 1,450 a second each."""
    window = run.trials[0].windows[0]
    assert [kind_per_s(window, kind) for kind in present(window.operations).kinds] == pytest.approx([362.5] * 4)


def test_parts_of_a_connection_and_what_is_left(run: RunSummary) -> None:
    """12, 46, 30 and 11 % are 99."""
    found = present(run.trials[3].windows[0].operations)
    assert found.connecting is not None
    assert [part.name for part in connecting_parts(found.connecting)] == [
        "connect (TCP)",
        "TLS handshake",
        "authenticate",
        "operate",
    ]
    assert [part.share for part in connecting_parts(found.connecting)] == pytest.approx([0.12, 0.46, 0.3, 0.11])


def test_scaling_says_where_more_clients_stop_helping(run: RunSummary) -> None:
    """It says why where that is not known, and where the generator ended it."""
    bent, ended = scaling_figures(run)
    assert re.search(
        r"More clients stop helping at 4\d\.\d clients \(\d+\.\d to \d+\.\d\), with", describe_scaling(bent)
    )
    assert describe_scaling(ended).endswith(
        "No knee is told: 4 points < 6, without the 3 left out. 3 of its 7 runs are left out of the fit, because the "
        "generator held its clients back. With the most clients it came to its own limit, of about "
        "14,850/s."
    )
    assert "generator" not in describe_scaling(bent)
    assert bent.data["law"]["clients"][0] == 1
    assert ended.data["law"] == {"clients": [], "per_s": [], "kind": []}


def test_scaling_figures_are_headed_by_what_differs(run: RunSummary) -> None:
    """The sentences and the table above have the full names."""
    names = "dsql, single-insert", "dsql, multi-insert"
    curves = [each.model_copy(update={"name": name}) for each, name in zip(run.scaling, names, strict=True)]
    found = scaling_figures(run.model_copy(update={"scaling": tuple(curves)}))
    assert [(each.title, each.heading, each.common) for each in found] == [
        (names[0], "single", "dsql, …-insert"),
        (names[1], "multi", "dsql, …-insert"),
    ]


def test_percentiles_of_repeats_have_a_dash_for_each_run(operated: tuple[TrialResult, ...]) -> None:
    """The legend then has colours only: its dash would be that of one of the runs."""
    (two, *_) = percentile_figures(numbered(operated[:2]))
    assert not two.legend.repeated
    repeats = [changed(operated[0], group="redis", repeat=repeat, name=f"redis.r{repeat + 1}") for repeat in (0, 1)]
    page = data_of(sample_page(numbered(repeats)))
    assert page["figures"]["percentiles-0"]["chart"] == "percentiles-runs-operations"
    assert page["figures"]["percentiles-0"]["params"]["labels"] == ["redis"]


def test_a_page_of_both_experiments_keeps_their_latencies_apart(operated: tuple[TrialResult, ...]) -> None:
    """Two tables, two questions, and no figure with curves of both."""
    both = numbered((*sample_results(), *operated[:2]))
    page = sample_page(both)
    assert 'id="headline"' in page
    assert 'id="operations-headline"' in page
    assert 'id="operation-accounts"' in page
    assert "How long after a write does the function run? How fast is the store?" in page
    data = data_of(page)
    assert data["figures"]["ecdf-0"]["params"]["labels"] == ["s3", "dynamodb (trial 2)", "postgresql", "etcd"]
    assert data["figures"]["ecdf-1"]["params"]["labels"] == ["redis", "dynamodb"]
    titles = {name: json.dumps(chart, ensure_ascii=False) for name, chart in data["charts"].items()}
    assert "trigger latency, t4 − t1" in titles["ecdf"]  # noqa: RUF001 -- a minus sign
    assert "operation latency (service time), t2 − t1" in titles["ecdf-operations"]  # noqa: RUF001
    assert not any("{latency}" in text or "{formula}" in text for text in titles.values())


def test_a_failed_trial_of_operations_has_a_row(operated: tuple[TrialResult, ...]) -> None:
    """The error stands where its numbers would be."""
    failed = changed(operated[0], windows=(), accounting=None, incomplete=True).model_copy(update={"ecdf": ()})
    page = sample_page([failed])
    assert "no measured window" in page
    assert "No operations were measured." in page
