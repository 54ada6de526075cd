from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.samples.estimates import present
from tests.samples.results import changed, headline_rows, numbered, sample_page, sample_results
from tests.unit.report.test_figures import data_of

from stepbench.experiments.operations.report import connecting_parts, describe_window, kind_per_s
from stepbench.experiments.operations.scaling_figures import describe_scaling, scaling_figures
from stepbench.experiments.report.headline import headline_lines
from stepbench.report.run import window_rows

if TYPE_CHECKING:
    from stepbench.contracts.result import RunSummary, TrialResult


def test_the_answer_is_one_sentence(run: RunSummary) -> None:
    """How long, how many a second, how many came to nothing."""
    redis, dynamodb, *_ = (describe_window(row) for row in window_rows(run.trials))
    pattern = r"Median 0\.7\d+ ms \([\d.]+ to [\d.]+\), p99 [\d.]+ ms \([\d.]+ to [\d.]+\); "
    assert re.fullmatch(pattern + "1,450 ops/s with 10 clients; none failed.", redis)
    assert dynamodb.endswith("430 ops/s with 10 clients; 3 failed.")


def test_a_number_of_operations_is_told_with_its_wall_time(run: RunSummary) -> None:
    """Over the planned time, functions with one operation each would have no rate."""
    row = window_rows(run.trials)[0]
    found = present(row.window.operations).model_copy(update={"wall_s": 4.02, "per_wall_s": 49.8, "clients": None})
    timed = replace(row, window=row.window.model_copy(update={"operations": found}))
    assert describe_window(timed).endswith("; 4,000 answered in 4.02 s of wall time, 49.8 ops/s; none failed.")


def test_the_terminal_has_operations_a_minute_and_nothing_lost(run: RunSummary) -> None:
    """Nothing was to arrive, so a zero would say too much."""
    assert re.fullmatch(r"redis: n 4,000, p50 0\.7\d+ ms \[[\d., ]+\], 1,450 ops/s", headline_lines(run)[0])
    assert "lost" not in headline_rows(run)[0]


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
        "No knee is shown: 4 points, and the fit needs 6, without the 3 left out. 3 of its 7 runs are left out of the "
        "fit, because the generator held its clients back. With the most clients it came to its own limit, of about "
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
