from __future__ import annotations

import csv
import io

from tests.samples.estimates import present
from tests.samples.results import sample_results, sample_summary

from stepbench.contracts.documents import Failure
from stepbench.contracts.experiment import QUANTILES
from stepbench.contracts.threshold_grammar import parse_judge
from stepbench.experiments.report.tables import (
    CSV_COLUMNS,
    MEASURES,
    POINTS,
    accounting_table,
    render_csv,
    window_table,
)
from stepbench.report.summary import TrialStore, missing_result

SUMMARY = sample_summary(sample_results())


def read(text: str) -> list[dict[str, str]]:
    """Read CSV as anyone would."""
    return list(csv.DictReader(io.StringIO(text)))


def test_each_number_of_the_summary_has_a_row_with_its_interval_or_the_reason_why_not() -> None:
    """What is left out of the file is what somebody's plot will lack."""
    rows = [row for row in read(render_csv(SUMMARY)) if row["measure"] != "cost_usd"]
    found = {(row["trial"], row["measure"], row["statistic"]): row for row in rows}
    assert len(found) == len(rows) == len(SUMMARY.trials) * len(MEASURES) * len((*QUANTILES, *POINTS))
    for trial in SUMMARY.trials:
        (window,) = trial.windows
        p99 = found[str(trial.index), "latency_ms", "p99"]
        value = window.latency_ms.p99.value  # none where it lies beyond the drain limit
        assert p99["value"] == ("" if value is None else str(value))
        assert (p99["low"], p99["reason"]) == ("", window.latency_ms.p99.reason)
        p50 = found[str(trial.index), "latency_ms", "p50"]
        assert (float(p50["low"]), p50["reason"]) == (window.latency_ms.p50.low, "")
        assert found[str(trial.index), "lateness_ms", "max"]["value"] == str(window.lateness_ms.max)


def test_a_windows_first_row_is_what_the_run_is_judged_by() -> None:
    """A pipeline that reads the file need not know which of its rows the plan meant."""
    rows = read(render_csv(SUMMARY.model_copy(update={"judge": parse_judge("response p90")})))
    for trial in SUMMARY.trials:
        first = next(row for row in rows if row["trial"] == str(trial.index))
        assert (first["measure"], first["statistic"]) == ("judged", "response p90")
        own = present(trial.windows[0].response_trigger_ms).p90.value
        assert first["value"] == ("" if own is None else str(own))
    assert "judged" not in {row["measure"] for row in read(render_csv(SUMMARY))}


def test_a_trial_without_a_window_has_a_row_that_says_why() -> None:
    """A trial that failed would otherwise look as if it had not been planned."""
    failure = Failure(error="TargetUnavailableError", cause="no etcd, or\n'another' one")
    failed = missing_result("etcd", 0, TrialStore("etcd", "etcd 3.5.1", emulated=False), failure, 0.0)
    (row,) = read(render_csv(sample_summary([failed])))
    assert (row["name"], row["state"], row["value"]) == ("etcd", "failed", "")
    assert row["reason"] == "TargetUnavailableError: no etcd, or\n'another' one"
    assert tuple(row) == CSV_COLUMNS


def test_a_window_is_one_row_of_all_its_measures() -> None:
    """A data frame of windows needs no pivot to plot one measure against a setting."""
    rows = list(window_table(SUMMARY))
    assert [row["name"] for row in rows] == [trial.name for trial in SUMMARY.trials]
    latency = SUMMARY.trials[1].windows[0].latency_ms
    assert (rows[1]["latency_ms_p50"], rows[1]["latency_ms_p50_high"]) == (latency.p50.value, latency.p50.high)
    assert (rows[1]["latency_ms_p99_reason"], rows[1]["latency_ms_missing"]) == (latency.p99.reason, latency.missing)
    assert rows[1]["lost"] == 3


def test_measured_phases_and_warm_up_are_accounted_for_apart() -> None:
    """Their sum would say that the warm-up's losses are the experiment's."""
    warm = SUMMARY.trials[0].model_copy(update={"warm_up": SUMMARY.trials[0].accounting})
    rows = list(accounting_table(SUMMARY.model_copy(update={"trials": (warm,)})))
    assert [(row["measured"], row["offered"]) for row in rows] == [(True, 200), (False, 200)]
