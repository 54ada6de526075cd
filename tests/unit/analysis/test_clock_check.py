from __future__ import annotations

import numpy as np
import pytest
from tests.samples.estimates import even_sample, numbers, present
from tests.samples.finished_trials import AnalysedTrial
from tests.samples.records import column_header, t4_item
from tests.samples.results import checked_pair, clock_result, clock_spec

from stepbench import digits
from stepbench.analysis.clock_check import clock_checks, median_shift
from stepbench.contracts.measures import Estimate
from stepbench.model.request import Outcome
from stepbench.records.formats.columns import Rows, encode
from stepbench.records.formats.second_sources import ReportLine, ReportPage
from stepbench.records.formats.t4 import Entry
from stepbench.records.storage import layout
from stepbench.stats import comparison

MS = 10**6


def test_trials_that_do_not_differ_are_not_called_equal() -> None:
    """Not rejected is not proved: the sentence says what could still hide."""
    (check,) = clock_checks(*checked_pair())
    assert (check.a, check.b, check.store, check.window) == ("one-sandbox", "two-sandboxes", "dynamodb", "compared")
    assert (check.events, check.same_sandbox) == (200, 200)
    latency, after_ack = check.comparisons
    assert (latency.measure, after_ack.measure) == ("latency_ms", "after_ack_ms")
    assert latency.ks is not None
    assert latency.ks.d <= latency.ks.critical_d == pytest.approx(0.1358, abs=1e-4)
    assert "200 against 200 events do not tell the two apart" in latency.text
    assert "that is not proof that they are equal: a difference of medians up to" in latency.text
    assert after_ack.ks == latency.ks.model_copy(update={"at_ms": pytest.approx((latency.ks.at_ms or 0) - 3)})


def test_the_published_distance_stands_beside_ours() -> None:
    """TriggerPerf's 0.14 of 200 against 200; both readings of the start, with p and n, since no interval is made."""
    (check,) = clock_checks(*checked_pair())
    (found,) = check.replication
    latency, after_ack = (present(comparison.ks) for comparison in check.comparisons)
    assert (found.metric, found.unit, found.published, found.window) == ("ks", "d", 0.14, "compared")
    assert (found.ours.value, present(found.ours_after_ack).value) == (latency.d, after_ack.d)
    assert found.ratio.value == pytest.approx(latency.d / 0.14)
    assert found.ours.reason == f"a single statistic; {digits.p_value(latency.p_value)}, n = 200, m = 200"


def test_without_a_distance_of_ours_there_is_a_reason() -> None:
    """Every event lost."""
    specs, (_, b) = checked_pair()
    (check,) = clock_checks(specs, [clock_result(specs[0], [None] * 200), b])
    (found,) = check.replication
    assert (found.ours.value, found.ratio.value) == (None, None)
    assert found.ours.reason == "one of the two measured nothing"


def test_a_shift_beyond_the_clocks_bound_is_told_apart_and_not_put_down_to_clocks() -> None:
    """Paths differ too where the shift is 2 ms and the bound 0.05."""
    (check,) = clock_checks(*checked_pair(shift_ms=2))
    latency = check.comparisons[0]
    low, _, high = numbers(latency.median_shift_ms)
    assert 1 < low < 2 < high
    assert "do tell the two apart (D 0." in latency.text
    assert "does not explain: the paths differ too" in latency.text


@pytest.mark.parametrize(
    ("bound_ms", "words"),
    [
        (None, "the clocks' offset was not measured"),
        (5.0, "could explain: nothing here speaks against"),
        (0.001, "could explain a part of that interval"),
    ],
)
def test_the_medians_are_held_against_what_clocks_may_add(bound_ms: float | None, words: str) -> None:
    """The offset that counts is the measured one of the trial with two clocks."""
    specs, (a, b) = checked_pair()
    wider = clock_result(specs[1], [value or 0.0 for value in b.samples[0].latency_ms], bound_ms=bound_ms)
    (check,) = clock_checks(specs, [a, wider])
    assert check.bound_ms == bound_ms
    assert words in check.comparisons[0].text


def test_events_of_another_sandbox_are_counted_and_missing_ones_are_not() -> None:
    """`same_sandbox` is of those that arrived."""
    specs, (a, b) = checked_pair()
    values: list[float | None] = [*a.samples[0].latency_ms]
    values[0] = values[-1] = None
    (check,) = clock_checks(specs, [clock_result(specs[0], values, elsewhere=3), b])
    assert (check.events, check.same_sandbox) == (198, 196)
    spoilt = "2 of the 198 events of one-sandbox were not received by the sandbox that wrote them"
    assert all(comparison.text.startswith(spoilt) for comparison in check.comparisons)


def test_a_trial_that_measured_nothing_leaves_nothing_to_compare() -> None:
    """Every event lost: no test, and a sentence instead of a number."""
    specs, (_, b) = checked_pair()
    (check,) = clock_checks(specs, [clock_result(specs[0], [None] * 200), b])
    assert check.comparisons[0].ks is None
    assert check.comparisons[0].text.startswith("One of the two trials measured nothing")


def test_repeats_are_paired_by_their_number_and_others_stay_alone() -> None:
    """A trial of another store, or of no counterpart, is none of the check's business."""
    rounds = [
        clock_spec(f"{name}-{repeat}", 2 * repeat + place, same_sandbox=place == 0, repeat=repeat)
        for repeat in range(2)
        for place, name in enumerate(("one", "two"))
    ]
    alone = clock_spec("third", 4, same_sandbox=True, repeat=2)
    specs = [*rounds, alone]
    checks = clock_checks(specs, [clock_result(spec, [float(number) for number in range(30)]) for spec in specs])
    assert [(check.a, check.b) for check in checks] == [("one-0", "two-0"), ("one-1", "two-1")]


def test_the_counterpart_is_the_trial_that_differs_in_nothing_else() -> None:
    """Batching would be taken for clocks."""
    one, other = clock_spec("one", 0, same_sandbox=True), clock_spec("other", 1, same_sandbox=False)
    batched = other.plan.target.model_copy(update={"batch_size": 7})
    specs = [one, other.model_copy(update={"plan": other.plan.model_copy(update={"target": batched})})]
    specs.append(clock_spec("like", 2, same_sandbox=False))
    results = [clock_result(spec, [float(number) for number in range(30)]) for spec in specs]
    assert [check.b for check in clock_checks(specs, results)] == ["like"]
    assert [check.b for check in clock_checks(specs[:2], results[:2])] == ["other"]


def test_the_shift_and_its_interval_are_close_to_those_of_draws() -> None:
    """Two intervals alone (the report has no NumPy) give nearly what resampling both samples gives."""
    rng = np.random.default_rng(4)
    samples = [even_sample(rng.exponential(5, 200) + shift, 10, 30) for shift in (0.0, 1.0)]
    drawn = comparison.median_shift(samples[0], samples[1], np.random.default_rng(2))
    found = median_shift(samples[0].estimate(0.5), samples[1].estimate(0.5))
    assert found.value == pytest.approx(drawn.value)
    assert found.low == pytest.approx(drawn.low, abs=0.25)
    assert found.high == pytest.approx(drawn.high, abs=0.25)


def test_a_median_without_a_value_or_an_interval_leaves_none() -> None:
    """The reason names the side."""
    known, open_end = Estimate(value=5, low=4, high=6), Estimate(value=5, low=4, reason="upper limit > drain limit")
    assert median_shift(Estimate(value=None, reason="n=3 < 6"), known).reason == "a: n=3 < 6"
    assert median_shift(known, open_end) == Estimate(value=0, reason="upper limit > drain limit")


def one_sandbox_trial(*, other: int = 0) -> AnalysedTrial:
    """Build a trial written and received by `s-1`, but for the first `other` measured events."""
    phases = [{"name": "c", "load": [{"rate_per_s": 10, "count": 20}]}]
    trial = AnalysedTrial(store="dynamodb", target={"same_sandbox": True}, phases=phases)
    start_ns = trial.records.start_of(0)
    trial.records.plan_phase(0)
    t0_ns = start_ns + np.arange(20) * 100 * MS
    outcome = np.full(20, Outcome.OK, dtype=np.uint8)
    rows = Rows(np.arange(20), t0_ns, t0_ns + MS, t0_ns + 3 * MS, outcome, np.zeros(20, np.uint16), ("s-1",) * 20)
    key = layout.column_file_key(trial.ref, layout.attempt_id(0, 0, 0, 0), 0)
    trial.memory.services.runs.put_bytes(key, encode(column_header(trial.ref, last=True, drift_ns=0), rows))
    for number in range(20):
        t4_ns = int(t0_ns[number]) + 10 * MS
        item = t4_item([Entry(0, 0, 0, 0, 0, number, t4_ns)], sandbox="s-2" if number < other else "s-1")
        trial.memory.services.table.put_t4(trial.ref.tag, f"r-{number}", t4_ns, item)
    return trial


def test_a_trials_result_carries_its_values_and_whose_they_are() -> None:
    """The column file's tokens and the items' sandboxes decide."""
    (sample,) = one_sandbox_trial(other=2).result().samples
    assert sample.latency_ms == (9.0,) * 20
    assert sample.after_ack_ms == (7.0,) * 20
    assert sample.at_s[:2] == (0.0, 0.1)
    assert sample.same_sandbox == (False,) * 2 + (True,) * 18


def test_another_sandbox_is_a_caveat_and_the_invocation_no_saturation() -> None:
    """t1 is late by the invocation that the clock check needs, not by a slow generator."""
    caveats = {caveat.kind: caveat.text for caveat in one_sandbox_trial(other=2).result().summary.caveats}
    assert caveats["other_sandbox"].startswith("2 of 20 events were not received by the sandbox that wrote them")
    assert "saturated_generator" not in caveats
    assert caveats["clock_unmeasured"].startswith("Response times and lateness compare two clocks")
    assert "other_sandbox" not in one_sandbox_trial().kinds()


def test_the_checkers_invocations_are_all_the_trials_own() -> None:
    """Writes and deliveries; by the lease it serves one trial at a time, and a write has no item to be known by."""
    trial = one_sandbox_trial()
    lines = [ReportLine(request_id=name, duration_ms=2, billed_ms=3, memory_mb=1, max_memory_mb=1) for name in "ab"]
    trial.collected(ReportPage(function="CheckClock", lines=tuple(lines)), expected=20, seen=20)
    (found,) = (each for each in trial.result().summary.invocations if each.function == "CheckClock")
    assert (found.function, found.invocations, found.billed_ms) == ("CheckClock", 2, 6)


def test_other_stores_keep_no_values() -> None:
    """An S3 trial has nobody to check clocks with."""
    assert AnalysedTrial().finish().result().samples == ()
