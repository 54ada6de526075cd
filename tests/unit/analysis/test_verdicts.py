"""Which comparisons a plan makes, what they find, and in which words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.comparisons import estimate, matrix, trial, window
from tests.samples.estimates import numbers, present
from tests.samples.operations import operation_results

from stepbench.analysis.effects import NO_LIMIT, Runs, compare_runs, compare_shares
from stepbench.analysis.pairs import MOST_SIDES, TRIAL
from stepbench.analysis.verdict_text import loads
from stepbench.analysis.verdicts import WINDOW, describe_emulated, plan_verdicts
from stepbench.contracts.invocations import Deliveries
from stepbench.contracts.measures import Estimate
from stepbench.contracts.result import Caveat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.across_trials import Verdict


def only(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the one verdict."""
    (found,) = verdicts
    return found


def test_a_batch_size_is_set_against_the_first_one() -> None:
    """Half the latency, in one sentence that a team would say."""
    found = only(plan_verdicts(matrix("target.batch_size", {1: [1.0] * 3, 100: [0.55] * 3})))
    assert (found.aspect, found.subject) == ("target.batch_size", "batch_size: 100 against 1")
    assert found.over_runs
    said = "batch size 100 is faster at p50: 0.550 against 1.00 ms, 1.82 times [1.78, 1.86]; also at p90."
    assert found.text == said


def test_two_sides_that_overlap_show_no_difference_and_say_what_would() -> None:
    """That is not the same as none: runs differ by a fifth."""
    found = only(plan_verdicts(matrix("writers", {1: [1.0, 1.2, 0.9], 2: [0.95, 1.15, 0.85]})))
    assert found.text.startswith("writers 2 is undecided at p50: 0.976 against 1.03 ms, 0.95 times [0.64, 1.40]")
    effect = present(found.effect("p50"))
    assert effect.finding == "undecided"
    assert effect.to_decide.startswith("runs differ too much: 30 of each would not show 10 %")
    assert found.text.endswith("; runs differ too much.")


def test_what_it_takes_is_told_where_somebody_can_follow_it() -> None:
    """441 runs of each, or one 990 times longer, are no remedy."""
    (near,) = plan_verdicts(matrix("writers", {1: [1.0, 1.05, 0.95], 2: [1.0, 1.04, 0.96]}))
    assert near.text.endswith("; 5 runs of each would show 10 %.")
    for half_width, takes in ((0.1, "runs 4 × longer would show 10 %"), (0.5, "events vary too much")):  # noqa: RUF001 -- times
        b, a = (Runs([window(estimate(1, half_width))]) for _ in range(2))
        assert compare_runs(b, a)[0].to_decide.startswith(takes)


def test_sides_that_are_surely_close_are_called_the_same() -> None:
    """A narrow interval around 1 is an answer, too."""
    found = only(plan_verdicts(matrix("writers", {1: [1.0, 1.001, 1.002], 2: [1.0, 1.003, 1.001]})))
    assert found.text == (
        "writers 2 is the same within 10 % at p50 and p90: 1.00 against 1.00 ms, 1.00 times [0.97, 1.03]."
    )


def test_one_run_each_is_judged_by_its_own_interval() -> None:
    """It speaks of these runs alone, and says so."""
    found = only(plan_verdicts(matrix("writers", {1: [1.0], 2: [3.0]})))
    assert not found.over_runs
    low, value, high = numbers(present(present(found.effect("p50")).ratio))
    assert (low, value, high) == pytest.approx((3 * math.exp(-0.0282843), 3, 3 * math.exp(0.0282843)))
    assert "3.00 against 1.00 ms, 3.00 times [2.92, 3.09]" in found.text


def test_single_runs_that_lie_a_few_per_cent_apart_decide_nothing() -> None:
    """Runs of one setting do so, too: three of each would tell."""
    found = only(plan_verdicts(matrix("writers", {1: [1.0], 2: [1.08]})))
    assert present(found.effect("p50")).finding == "undecided"
    assert found.text.endswith("1.08 times [1.05, 1.11]; 3 runs of each would tell.")
    surely = only(plan_verdicts(matrix("writers", {1: [1.0] * 3, 2: [1.08] * 3})))
    assert present(surely.effect("p50")).finding == "higher"


def test_constant_and_poisson_arrivals_are_compared_though_written_out() -> None:
    """Two trials that differ in nothing else."""
    constant = trial("constant", window(estimate(1)))
    poisson = trial("bursty", window(estimate(2)), index=1, setup={**constant.setup, "arrivals": "poisson"})
    found = only(plan_verdicts([constant, poisson]))
    assert (found.aspect, found.subject) == ("arrivals", "arrivals: poisson against constant (etcd)")


def test_stores_are_called_by_their_names_and_an_emulated_one_is_set_against_no_other() -> None:
    """Nobody is to take an emulator's latency for AWS's: what there is of it stands in the table."""
    s3, etcd = trial("a", window(estimate(2)), store="s3"), trial("b", window(estimate(1)), index=1)
    found = only(plan_verdicts([s3, etcd]))
    assert (found.aspect, found.subject, describe_emulated([s3, etcd])) == ("target.store", "etcd against s3", "")
    emulated = s3.model_copy(update={"emulated": True})
    assert plan_verdicts([emulated, etcd]) == ()
    said = "s3 is emulated: no comparison with another store; on AWS the same plan decides."
    assert describe_emulated([emulated, etcd]) == said


def test_trials_that_differ_in_the_stores_settings_are_compared_by_name() -> None:
    """Which of them counts nobody knows, but the two configurations are what the team asks about."""
    default = trial("default", window(estimate(1)))
    own = {"target.nodes": 3, "target.durability": "none"}
    tuned = trial("tuned", window(estimate(2)), index=1, setup={**default.setup, **own})
    found = only(plan_verdicts([default, tuned]))
    assert (found.aspect, found.subject, found.unlike) == (TRIAL, "tuned against default", "")
    assert present(found.effect("p50")).finding == "higher"


def test_trials_that_differ_in_load_and_settings_decide_nothing() -> None:
    """Nobody knows what of it counts."""
    default = trial("default", window(estimate(1)))
    tuned = trial("tuned", window(estimate(2)), index=1, setup={**default.setup, "writers": 2, "target.nodes": 3})
    found = only(plan_verdicts([default, tuned]))
    assert found.unlike == "not the same: writers 2 against none and nodes 3 against unset"
    assert present(found.effect("p50")).finding == "unknown"
    assert present(present(found.effect("p50")).ratio).value is None


def test_tls_is_not_judged_by_two_servers() -> None:
    """Valkey without it and Redis with it: which of the two is why?"""
    plain = trial("plain", window(estimate(1)), store="redis", provider="Valkey 9.1.2")
    plain = plain.model_copy(update={"setup": {**plain.setup, "target.tls": False}})
    secure = plain.model_copy(update={"name": "tls", "group": "tls", "index": 1, "provider": "Redis 7.0.15"})
    secure = secure.model_copy(update={"setup": {**plain.setup, "target.tls": True}})
    found = only(plan_verdicts([plain, secure]))
    assert found.text.startswith("Not the same: Redis 7.0.15 against Valkey 9.1.2; p50 1.00 against 1.00 ms")
    one_server = secure.model_copy(update={"provider": "Valkey 9.1.2, TLS"})
    assert only(plan_verdicts([plain, one_server])).unlike == ""


def test_any_two_of_a_few_values_are_compared_and_of_many_each_with_the_first() -> None:
    """Three make three pairs; seven would make 21, of which six are told."""
    three = plan_verdicts(matrix("writers", {1: [1.0], 2: [1.0], 3: [1.0]}))
    assert [(each.subject, each.primary) for each in three] == [
        ("writers: 2 against 1", True),
        ("writers: 3 against 1", True),
        ("writers: 3 against 2", False),
    ]
    many = plan_verdicts(matrix("writers", {value: [1.0] for value in range(1, MOST_SIDES + 2)}))
    assert [each.a.name for each in many] == ["1"] * MOST_SIDES


def test_windows_of_one_trial_are_compared_run_by_run() -> None:
    """Runs that differ tenfold, each twice as slow after the step: that is no doubt about the step."""
    runs = [
        trial("etcd", window(estimate(ms), "before"), window(estimate(2 * ms), "after"), index=index, repeat=index)
        for index, ms in enumerate((1, 3, 10))
    ]
    found = only(plan_verdicts(runs))
    assert (found.aspect, found.subject) == (WINDOW, "etcd: after against before")
    assert present(found.effect("p50")).finding == "higher"


@pytest.mark.parametrize(
    ("rates_per_s", "after_ms", "floor_ms", "doubt"),
    [
        ((2000, 4000), 1.0, None, "though the load rose"),
        ((4000, 2000), 4.0, None, "though the load fell"),
        ((2000, 4000), 3.0, 1.5, "by less than a bare trigger takes"),
        ((2000, 4000), 4.0, 1.5, ""),
        ((4000, 2000), 1.0, None, ""),
        ((2000, 2040), 1.0, None, ""),
        ((2000, 4000), 2.0, None, ""),
    ],
    ids=["faster", "slower", "below the floor", "expected", "expected, too", "the same load", "no difference"],
)
def test_a_window_is_not_called_faster_for_more_load_without_a_doubt(
    rates_per_s: tuple[int, int], after_ms: float, floor_ms: float | None, doubt: str
) -> None:
    """The first screen said "63 % lower" after the load had doubled, and nothing of warming up."""
    before = window(estimate(2.0), "before", offered_per_s=float(rates_per_s[0]))
    after = window(estimate(after_ms), "after", offered_per_s=float(rates_per_s[1]))
    floor = None if floor_ms is None else before.latency_ms.model_copy(update={"p50": estimate(floor_ms)})
    text = only(plan_verdicts([trial("etcd", before, after, floor_ms=floor)])).text
    assert f"er at p50 {doubt}: " in text if doubt else "load" not in text


@pytest.mark.parametrize(("clients", "load"), [((None, None), (10, 20)), ((4, 8), (4, 8)), ((4, None), (0, 0))])
def test_in_closed_loop_the_load_is_its_clients(
    clients: tuple[int | None, int | None], load: tuple[float, float]
) -> None:
    """What they offer follows from how fast they are answered, so that it cannot be the reason."""
    operations = present(operation_results()[0].summary.windows[0].operations)
    a, b = (
        window(estimate(1), offered_per_s=float(per_s), operations=operations.model_copy(update={"clients": own}))
        for per_s, own in zip((10, 20), clients, strict=True)
    )
    assert loads(a, b) == load


def test_overlapping_windows_are_not_compared() -> None:
    """Events in both would be taken for agreement."""
    overlap = Estimate(value=None, reason="the windows overlap")
    comparison = sample_comparison(overlap)
    both = trial("etcd", window(estimate(1), "before"), window(estimate(2), "after"), comparisons=(comparison,))
    assert plan_verdicts([both]) == ()


def sample_comparison(estimate_of_all: Estimate) -> Any:  # noqa: ANN401 -- a contract
    """Build the comparison of before and after."""
    from stepbench.contracts.findings import Comparison

    return Comparison(
        phase_a="before", a="before", phase_b="after", b="after", median_shift_ms=estimate_of_all,
        median_ratio=estimate_of_all, iqr_ratio=estimate_of_all, tail_ratio=estimate_of_all,
    )  # fmt: skip


def test_an_incomplete_trial_is_in_no_comparison() -> None:
    """What it measured until it failed is no answer."""
    whole, cut = matrix("writers", {1: [1.0], 2: [3.0]})
    assert plan_verdicts([whole, cut.model_copy(update={"incomplete": True})]) == ()


def test_a_caveat_that_may_be_the_reason_stands_beside_the_verdict() -> None:
    """Of the windows that are compared, and of no others."""
    late = Caveat(kind="saturated_generator", text="", remedy="", windows=(0,))
    other = Caveat(kind="host_jitter", text="", remedy="", windows=(1,))
    one, two = matrix("writers", {1: [1.0], 2: [3.0]})
    found = only(plan_verdicts([one.model_copy(update={"caveats": (late, other)}), two]))
    assert found.doubts == ("saturated_generator",)


def test_reads_and_writes_have_verdicts_of_their_own() -> None:
    """A store may be faster at one and slower at the other. Of throughput only all together have one."""
    trials = [result.summary for result in operation_results()]
    found = [each for each in plan_verdicts(trials) if each.aspect == "target.store" and each.primary]
    whole, *kinds = [each for each in found if (each.a.group, each.b.group) == (found[0].a.group, found[0].b.group)]
    own = present(trials[0].windows[0].operations).kinds
    assert (whole.kind, [each.kind for each in kinds]) == (None, [kind.kind for kind in own] if len(own) > 1 else [])
    assert present(whole.effect("throughput")).ratio is not None
    assert all(each.effect("throughput") is None for each in kinds)


def test_a_maximum_is_shown_and_never_judged() -> None:
    """One event more may double it."""
    effects = compare_runs(Runs([window(estimate(1))]), Runs([window(estimate(1))]))
    (top,) = (each for each in effects if each.measure == "max")
    assert (top.finding, present(top.ratio).reason, top.b.value) == ("unknown", NO_LIMIT, 12.0)


def test_more_errors_are_shown_by_the_interval_of_the_difference() -> None:
    """5 % of 1,000 against none; and 1 of 1,000 against none shows nothing."""
    none, many, one = (window(estimate(1), sent=1_000, failed=failed, unknown=0) for failed in (0, 50, 1))
    assert compare_shares("errors", Runs([many]), Runs([none])).finding == "higher"
    assert compare_shares("errors", Runs([one]), Runs([none])).finding == "undecided"


def test_a_setting_that_took_no_effect_answers_nothing() -> None:
    """All batches held one record: that the two are equally fast says nothing about batches."""
    text = (
        "batch_size 100 was never reached: none of 9 invocations was handed more than 1 record. They came one by one."
    )
    caveat = Caveat(kind="setting_without_effect", text=text, remedy="Raise rate_per_s.", setting="target.batch_size")
    one, hundred = matrix("target.batch_size", {1: [1.0], 100: [1.0]})
    found = only(plan_verdicts([one, hundred.model_copy(update={"caveats": (caveat,)})]))
    assert found.text == f"Not answered: {text.partition('. ')[0]}."
    assert found.doubts == ()
    batches = Deliveries(invocations=9, min=1, p50=60, p90=60, max=60, mean=60, commonest=())
    held = tuple(each.model_copy(update={"deliveries": batches}) for each in hundred.windows)
    limited = hundred.model_copy(update={"caveats": (caveat,), "windows": held})
    found = only(plan_verdicts([one, limited]))  # the limit was not reached, yet batches were 60 times as large
    assert found.text.startswith("batch size 100 is the same within 10 %")
    elsewhere = caveat.model_copy(update={"setting": "target.filter"})
    found = only(plan_verdicts([one, hundred.model_copy(update={"caveats": (elsewhere,)})]))
    assert found.text.startswith("batch size 100 is the same within 10 %")
    assert found.doubts == ("setting_without_effect",)
