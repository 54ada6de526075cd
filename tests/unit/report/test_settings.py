from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from stepbench.report.page import render_page
from stepbench.report.settings import setting_parts
from stepbench.report.summary import summarise
from stepbench.testing.sample_operations import operation_results, over_trials
from stepbench.testing.sample_results import sample_manifest

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


def test_rows_of_one_comparison_stand_under_one_heading(summary: RunSummary) -> None:
    """So that sixteen of them can be read."""
    assert [(part.words, len(part.rows)) for part in setting_parts(summary)] == [
        ("store: dynamodb against redis", 1),
        ("store: postgresql against redis", 1),
        ("store: etcd against redis", 1),
        ("store: etcd against postgresql", 6),
        ("tls: true against false", 1),
        ("reuse: false against true", 1),
    ]


def test_a_region_that_is_not_named_is_the_stacks_own(summary: RunSummary) -> None:
    """`null` would say nothing."""
    region = {"setting": "target.region", "a": json.dumps(None), "b": json.dumps("us-west-2")}
    changed = summary.model_copy(update={"settings": (summary.settings[0].model_copy(update=region),)})
    assert [part.words for part in setting_parts(changed)] == ["region: us-west-2 against the stack's own"]


def test_a_window_is_named_where_a_trial_has_several(summary: RunSummary) -> None:
    """Two rows of the same two trials would be told apart by nothing."""
    dynamodb = summary.trials[1]
    two = (dynamodb.windows[0], dynamodb.windows[0].model_copy(update={"name": "late"}))
    trials = (summary.trials[0], dynamodb.model_copy(update={"windows": two}), *summary.trials[2:])
    changed = summary.model_copy(update={"trials": trials})
    assert [part.rows[0].window for part in setting_parts(changed)][:2] == ["steady", ""]


def test_an_emulated_store_is_marked_in_comparisons(results: tuple[TrialResult, ...], facts: RunFacts) -> None:
    """Wherever its latency is shown: beside its name, and beside no other."""
    emulated = results[1].model_copy(update={"summary": results[1].summary.model_copy(update={"emulated": True})})
    both = (results[0], emulated)
    page = render_page(over_trials(summarise(facts, both)), both, sample_manifest())
    table = page[page.index('id="settings"') :]
    row = table[table.index('data-setting="target.store"') :]
    row = row[: row.index("</tr>")]
    assert row.count("badge emulated") == 1
    assert row.index("dynamodb") < row.index("badge emulated") < row.index("against redis")


def test_curves_without_a_fit_are_in_no_table_of_fits(
    summary: RunSummary, results: tuple[TrialResult, ...], facts: RunFacts
) -> None:
    """Five times the same reason in each of twelve rows; the sentence has it once."""
    page = render_page(summary, results, sample_manifest())
    fits = page[page.index('id="scaling-table"') :]
    fits = fits[: fits.index("</table>")]
    assert 'data-curve="postgresql"' in fits
    assert 'data-curve="etcd"' not in fits
    few = tuple(result for result in results if result.summary.name in {"etcd-1", "etcd-2"})
    alone = render_page(over_trials(summarise(facts, few)), few, sample_manifest())
    assert 'id="scaling-table"' not in alone
    assert "No knee is told: 2 different numbers of clients &lt; 4." in alone
    assert 'data-metric="kept_runs" data-value="1">1 of 1</td>' in alone
