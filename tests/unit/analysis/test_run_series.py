"""Which runs and numbers make a series."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.comparisons import etcd, run, trial, window
from tests.samples.run_series import noise, run_id, summaries

from stepbench.analysis.regressions import find_regressions
from stepbench.analysis.run_series import Found, run_numbers, series_of_runs
from stepbench.contracts.measures import Estimate
from stepbench.contracts.regressions import DetectorSettings
from stepbench.contracts.threshold_grammar import parse_judge

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepbench.contracts.result import RunSummary

BEYOND = Estimate(value=None, low=8.0, reason="> drain limit (60 s)")


def found_in(runs: Sequence[RunSummary], *notes: Mapping[str, str]) -> Found:
    """Return the runs as series."""
    return series_of_runs(map(run_numbers, runs), *notes)


def of_trials(summary: RunSummary, **changes: Any) -> RunSummary:  # noqa: ANN401 -- a trial's fields
    """Return a run with its trials changed."""
    return summary.model_copy(update={"trials": tuple(each.model_copy(update=changes) for each in summary.trials)})


def test_a_series_for_each_quantile_in_order_of_start() -> None:
    """Runs may be handed in in any order."""
    found = found_in(list(reversed(summaries([1, 2, 3]))), {run_id(1): "why"}, {run_id(2): run_id(1)})
    runs = found.series.runs
    assert [each.run_id for each in runs] == [run_id(0), run_id(1), run_id(2)]
    assert [value.series.quantile for value in runs[0].values] == ["p50", "p90", "p99"]
    assert [runs[place].values[0].estimate.value for place in range(3)] == [1, 2, 3]
    assert (runs[1].acknowledged, runs[2].confirms) == ("why", run_id(1))


def test_runs_under_other_settings_are_left_out_and_named() -> None:
    """A plan that was changed measures something else."""
    old, *others = summaries(noise(3))
    changed = [each.model_copy(update={"setup": {**each.setup, "writers": 4}}) for each in old.trials]
    found = found_in([old.model_copy(update={"trials": changed}), *others])
    assert (len(found.series.runs), found.not_comparable) == (2, (run_id(0),))


@pytest.mark.parametrize("changes", [{"emulated": True}, {"load_hosts": ("c7g.large",)}, {"provider": "Valkey 9.1.2"}])
def test_runs_from_elsewhere_are_left_out(changes: dict[str, Any]) -> None:
    """An emulator, a load host of another type and another store are no later level of the same."""
    old, *others = summaries(noise(3))
    assert found_in([of_trials(old, **changes), *others]).not_comparable == (run_id(0),)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("PostgreSQL 17.9 (Debian 17.9-1)", "PostgreSQL 18.1 (Debian 18.1-2)"),
        ("etcd 3.5.1 (3 members)", "etcd 3.6.0 (3 members)"),
        (
            "Aurora DSQL, in eu-west-1 (PostgreSQL 16), active 9.1 s",
            "Aurora DSQL, in eu-west-1 (PostgreSQL 16), active 7 s",
        ),
    ],
)
def test_an_upgrade_of_the_server_is_followed_and_marked(old: str, new: str) -> None:
    """What it costs is what one looks for; left out, the new version would begin without a baseline."""
    first, *others = summaries(noise(3))
    found = found_in([of_trials(first, provider=old), *(of_trials(each, provider=new) for each in others)])
    assert (len(found.series.runs), found.not_comparable) == (3, ())
    assert [each.changed for each in found.series.runs] == ["", f"{old} → {new}", ""]


def test_another_address_or_another_number_of_members_is_elsewhere() -> None:
    """Digits in them are no version."""
    runs = summaries(noise(2))
    for one, other in (
        ("S3 API at 10.0.0.1:9000", "S3 API at 10.0.0.2:9000"),
        ("etcd 3 (3 members)", "etcd 3 (5 members)"),
    ):
        assert found_in([of_trials(runs[0], provider=one), of_trials(runs[1], provider=other)]).not_comparable


def test_what_failed_in_the_last_run_is_followed_as_it_was() -> None:
    """A trial that breaks off is no end of what its earlier runs have shown."""
    runs = [*summaries(noise(3)), of_trials(summaries(noise(4))[-1], incomplete=True, provider="not reached")]
    assert [len(each.values) for each in found_in(runs).series.runs] == [3, 3, 3, 0]


def test_trials_that_broke_off_have_no_numbers() -> None:
    """What is left of them is no measurement of the whole."""
    first, last = summaries(noise(2))
    broken = [each.model_copy(update={"incomplete": True}) for each in first.trials]
    found = found_in([first.model_copy(update={"trials": broken}), last])
    assert [len(each.values) for each in found.series.runs] == [0, 3]


def test_repeats_within_a_run_are_one_number() -> None:
    """Their geometric mean."""
    medians = enumerate((1.0, 2.0, 4.0))
    repeats = [etcd(ms).model_copy(update={"index": place, "repeat": place}) for place, ms in medians]
    found = found_in([run(*repeats)])
    value = found.series.runs[0].values[0].estimate.value
    assert value is not None
    assert abs(value - 2) < 1e-9


def test_one_repeat_beyond_the_drain_limit_counts_as_what_it_is_at_least() -> None:
    """Without it the run would have no number, and a store that has come to a stop would pass."""
    medians = (Estimate(value=1.0), BEYOND, Estimate(value=8.0))
    repeats = [trial("etcd", window(p50), index=place, repeat=place) for place, p50 in enumerate(medians)]
    estimate = found_in([run(*repeats)]).series.runs[0].values[0].estimate
    assert (estimate.value, estimate.reason) == (None, BEYOND.reason)
    assert estimate.low == pytest.approx(4)


@pytest.mark.parametrize(("value", "beyond"), [(500, ""), (None, "> drain limit (30 s); ")], ids=["known", "beyond"])
def test_a_run_that_fell_behind_has_no_number(value: float | None, beyond: str) -> None:
    """Its quantiles are those of its length; a group that had kept up before does not pass."""
    *before, last = summaries(noise(20))
    grown = Estimate(value=value, low=value and 300, reason=f"{beyond}fell behind: kept up with 96 of 200/s")
    (window,) = last.trials[0].windows
    times = window.latency_ms.model_copy(update=dict.fromkeys(("p50", "p90", "p99"), grown))
    behind = of_trials(last, windows=(window.model_copy(update={"latency_ms": times}),))
    series = found_in([*before, behind]).series
    assert {each.estimate.at_least for each in series.runs[-1].values} == {None}
    found = find_regressions(series, DetectorSettings())
    assert (found.behind, found.missing, found.passed) == (("etcd",), (), False)
    assert {each.verdict for each in found.findings} == {"undecidable"}
    assert found.findings[0].text.startswith("the last run fell behind: kept up with 96 of 200/s; before it: ")
    assert find_regressions(found_in([behind]).series, DetectorSettings()).behind == ()


@pytest.mark.parametrize(
    ("judge", "names"),
    [
        ("p99", ["p99", "p50", "p90"]),
        ("p95", ["p95", "p50", "p90", "p99"]),
        ("response p95", ["response p95", "p50", "p90", "p99"]),
        ("throughput", ["throughput", "p50", "p90", "p99"]),
        ("errors", ["p50", "p90", "p99"]),  # mostly none, of which there is no ratio
    ],
)
def test_what_a_run_is_judged_by_is_its_first_series(judge: str, names: list[str]) -> None:
    """A build server follows what its users have asked about; the other numbers go on as they were."""
    runs = [each.model_copy(update={"judge": parse_judge(judge)}) for each in summaries([1, 2])]
    values = found_in(runs).series.runs[0].values
    assert [each.series.name.rpartition(", ")[2] for each in values] == names
    assert all(each.estimate.value is not None for each in values[:1])
    plain = found_in(summaries([1, 2])).series.runs[0].values
    assert {each.series.name for each in plain} <= {each.series.name for each in values}
