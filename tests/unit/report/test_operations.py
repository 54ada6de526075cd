from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from stepbench.report.headline import headline_lines, headline_rows
from stepbench.report.labels import window_rows
from stepbench.report.operations import (
    kind_per_minute,
    operation_sentence,
    parts,
    percent,
    percentile_figures,
    scaling_figures,
    scaling_sentence,
)
from stepbench.report.page import render_page
from stepbench.report.summary import summarise
from stepbench.testing.sample_operations import operation_results, over_trials
from stepbench.testing.sample_results import sample_manifest, sample_results

if TYPE_CHECKING:
    from stepbench.contracts.result import RunSummary, TrialResult
    from stepbench.report.summary import RunFacts


@pytest.fixture(scope="module")
def results() -> tuple[TrialResult, ...]:
    """Stores, reuse, TLS, two ladders of clients."""
    return operation_results()


@pytest.fixture(scope="module")
def summary(results: tuple[TrialResult, ...], facts: RunFacts) -> RunSummary:
    """Their summary."""
    return over_trials(summarise(facts, results))


def test_the_answer_is_one_sentence(summary: RunSummary) -> None:
    """How long, how many a minute, how many came to nothing."""
    redis, dynamodb, *_ = (operation_sentence(row) for row in window_rows(summary.trials))
    pattern = r"Half of the operations took up to 0\.7\d+ ms, 99 in a hundred up to [\d.]+ ms; "
    assert re.fullmatch(pattern + "87,000 a minute with 10 clients; none failed.", redis)
    assert dynamodb.endswith("25,800 a minute with 10 clients; 3 failed.")


def test_the_terminal_has_operations_a_minute_and_nothing_lost(summary: RunSummary) -> None:
    """Nothing was to arrive, so a zero would say too much."""
    assert re.fullmatch(r"redis: n 4,000, p50 0\.7\d+ ms \[[\d., ]+\], 87,000/min", headline_lines(summary)[0])
    assert headline_rows(summary)[0].lost == "–"  # noqa: RUF001 -- a dash


def test_curves_end_with_the_slowest_operation(results: tuple[TrialResult, ...]) -> None:
    """At the number of operations, as HdrHistogram has it; 90 % lies at 10."""
    figure, *_ = percentile_figures(results)
    rows = list(zip(*(figure.percentiles[name] for name in ("curve", "position", "latency_ms")), strict=True))
    positions = [row[1] for row in rows if row[0] == "redis"]
    slowest = results[0].summary.windows[0].latency_ms.max
    assert positions == sorted(positions, key=float)
    last = next(row for row in reversed(rows) if row[0] == "redis")
    assert last[1] == 4_000
    assert last[2] == pytest.approx(slowest, rel=1e-3)


def test_percentiles_keep_all_their_nines() -> None:
    """A rounded 99.90234375 would be another one."""
    assert [percent(value) for value in (50.0, 99.90234375, 100.0)] == ["50 %", "99.90234375 %", "max"]


def test_only_the_slowest_operation_is_called_the_largest(results: tuple[TrialResult, ...]) -> None:
    """Of a million operations the third slowest is at 99.9998 %, which five digits would make 100."""
    n = 1_000_000
    drawn = {"latency_ms": (1.0, 2.0, 3.0, 4.0, 5.0), "probability": (0.5, 0.9921875, 0.999996, 1 - 2 / n, 1.0)}
    curve = results[0].ecdf[0].model_copy(update=drawn)
    window = results[0].summary.windows[0].model_copy(update={"n": n})
    whole = results[0].model_copy(
        update={"ecdf": (curve,), "summary": results[0].summary.model_copy(update={"windows": (window,)})}
    )
    (figure,) = percentile_figures([whole])
    assert figure.percentiles["percent"] == ["50 %", "99.219 %", "99.9996 %", "99.9998 %", "max"]


def test_kinds_share_what_was_achieved(summary: RunSummary) -> None:
    """Four kinds, equally often: a quarter of 87,000 a minute each."""
    window = summary.trials[0].windows[0]
    assert window.operations is not None
    assert [kind_per_minute(window, kind) for kind in window.operations.kinds] == pytest.approx([21_750] * 4)


def test_parts_of_a_connection_and_what_is_left(summary: RunSummary) -> None:
    """12, 46, 30 and 11 % are 99."""
    found = summary.trials[3].windows[0].operations
    assert found is not None
    assert found.connecting is not None
    assert [part.name for part in parts(found.connecting)] == [
        "connect (TCP)",
        "TLS handshake",
        "authenticate",
        "operate",
    ]
    assert [part.share for part in parts(found.connecting)] == pytest.approx([0.12, 0.46, 0.3, 0.11])


def test_scaling_says_where_more_clients_stop_helping(summary: RunSummary) -> None:
    """Or why that is not known; and where the generator ended it."""
    bent, ended = scaling_figures(summary)
    assert re.search(
        r"More clients stop helping at 4\d\.\d clients \(\d+\.\d to \d+\.\d\), with", scaling_sentence(bent)
    )
    assert scaling_sentence(ended).endswith(
        "No knee is told: 4 points < 6, without the 3 left out. 3 of its 7 runs are left out of the fit, because the "
        "generator held its clients back. With the most clients it came to its own limit, of about "
        "14,850/s."
    )
    assert "generator" not in scaling_sentence(bent)
    assert bent.data["law"]["clients"][0] == 1
    assert ended.data["law"] == {"clients": [], "per_s": [], "kind": []}


def test_a_page_of_both_experiments_keeps_their_latencies_apart(
    results: tuple[TrialResult, ...], facts: RunFacts
) -> None:
    """Two tables, two questions, and no figure with curves of both."""
    both = tuple(
        result.model_copy(update={"summary": result.summary.model_copy(update={"index": index})})
        for index, result in enumerate((*sample_results(), *results[:2]))
    )
    page = render_page(summarise(facts, both), both, sample_manifest())
    assert 'id="headline"' in page
    assert 'id="operations-headline"' in page
    assert 'id="operation-books"' in page
    assert "How long after a write does the function run? How fast is the store?" in page
    found = re.search(r'<script type="application/json" id="page-data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data = json.loads(found[1])
    assert data["figures"]["ecdf-0"]["params"]["labels"] == ["s3", "dynamodb (trial 2)", "postgresql", "etcd"]
    assert data["figures"]["ecdf-1"]["params"]["labels"] == ["redis", "dynamodb (trial 6)"]
    titles = {name: json.dumps(chart, ensure_ascii=False) for name, chart in data["charts"].items()}
    assert "trigger latency, t4 − t1" in titles["ecdf"]  # noqa: RUF001 -- a minus sign
    assert "operation latency (service time), t2 − t1" in titles["ecdf-operations"]  # noqa: RUF001
    assert not any("{latency}" in text or "{formula}" in text for text in titles.values())


def test_a_failed_trial_of_operations_has_a_row(facts: RunFacts, results: tuple[TrialResult, ...]) -> None:
    """What went wrong stands where its numbers would be."""
    gone = {"windows": (), "accounting": None, "incomplete": True}
    failed = results[0].model_copy(update={"summary": results[0].summary.model_copy(update=gone), "ecdf": ()})
    page = render_page(summarise(facts, [failed]), [failed], sample_manifest())
    assert "no measured window" in page
    assert "No operations were measured." in page
