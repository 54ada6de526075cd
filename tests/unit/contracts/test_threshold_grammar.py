"""The grammar of thresholds: one sentence, read strictly, with every mistake told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepbench.contracts.base import BrokenRule
from stepbench.contracts.threshold_grammar import ThresholdError, parse_judge, parse_threshold
from stepbench.contracts.thresholds import COUNTED, KINDS, OF_KINDS, THRESHOLD_QUANTILES, TIMES, UNITS

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,20}", fullmatch=True)
SPACES = st.sampled_from(["", " ", "   "])
PER_MS = {"us": 1_000, "µs": 1_000, "ms": 1, "s": 0.001}


def mistakes_of(text: str) -> tuple[BrokenRule, ...]:
    """Return what the author of a text is told; nothing if it is a threshold."""
    try:
        parse_threshold(text)
    except ThresholdError as error:
        return error.broken
    return ()


@st.composite
def times(draw: st.DrawFn) -> tuple[list[str], dict[str, object]]:
    """Draw the words of a limited time, and what they mean."""
    time, statistic = draw(st.sampled_from(["", *TIMES])), draw(st.sampled_from(THRESHOLD_QUANTILES))
    window, kind = draw(st.none() | NAMES), draw(st.none() | st.sampled_from(KINDS))
    kind = kind if (time or "latency") in OF_KINDS else None
    comparison, number = draw(st.sampled_from(["<", "<=", ">", ">="])), draw(st.integers(1, 10**6))
    unit = draw(st.sampled_from(sorted(PER_MS)))
    clauses = draw(st.permutations([*([f"of {kind}"] if kind else []), *([f"in {window}"] if window else [])]))
    before = draw(st.integers(0, len(clauses)))
    measure = [time, statistic] if time else [statistic]
    words = [*measure, *clauses[:before], f"{comparison}{draw(SPACES)}{number}{draw(SPACES)}{unit}", *clauses[before:]]
    meaning = {"time": time or "latency", "statistic": statistic, "kind": kind, "window": window}
    return words, {**meaning, "comparison": comparison, "limit": pytest.approx(number / PER_MS[unit])}


@given(times())
def test_every_sentence_of_the_grammar_is_read_as_it_is_written(drawn: tuple[list[str], dict[str, object]]) -> None:
    """Kind and window stand in either order, and before or after the limit; a window may have any name."""
    words, meaning = drawn
    text = " ".join(words)
    found = parse_threshold(text)
    assert found.text == text
    assert {name: getattr(found, name) for name in meaning} == meaning


WORDS = st.sampled_from(["p99", "of", "in", "read", "<", "==", "20", "ms", "%", "w"])


@given(st.text() | st.lists(WORDS).map(" ".join))
def test_any_other_text_is_refused_with_remedies(text: str) -> None:
    """A text is a threshold, or its author is told what to do; nothing else happens, however odd it is."""
    remedies = [rule.remedy for rule in mistakes_of(text)]
    assert remedies or parse_threshold(text).text == text
    assert all(remedy.endswith(".") for remedy in remedies)


@pytest.mark.parametrize(
    ("text", "statistic", "limit", "quantity"),
    [
        ("errors < 1 %", "errors", 0.01, "share"),
        ("  errors<0.7%  ", "errors", 0.007, "share"),
        ("errors < 100 %", "errors", 1.0, "share"),
        ("errors < 5", "errors", 5, "events"),
        ("lost == 0", "lost", 0, "events"),
        ("lost < 0.1 %", "lost", 0.001, "share"),
        ("duplicates == 0 %", "duplicates", 0, "share"),
        ("throughput > 500 /s", "throughput", 500, "per_s"),
        ("throughput >= 30000 ops/min", "throughput", 500, "per_s"),
        ("p99.9 < 2 s", "p999", 2_000, "ms"),
        ("max < 250 μs", "max", 0.25, "ms"),
        ("after_ack p50 > 0 ms", "p50", 0, "ms"),
    ],
)
def test_a_limit_is_in_the_unit_of_what_it_limits(text: str, statistic: str, limit: float, quantity: str) -> None:
    """0.7 % is 0.007 exactly: 7 of 1,000 events are not below it."""
    found = parse_threshold(text)
    assert (found.statistic, found.limit, found.quantity) == (statistic, limit, quantity)


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        ("", "has no measure", 'as "p99 < 20 ms" does'),
        ("< 20 ms", "has no measure", '"p50", "p90"'),
        ("p98 < 20 ms", 'has "p98", which is no measure', 'Did you mean "p99"?'),
        ("Errors < 1 %", 'has "Errors", which is no measure', 'Did you mean "errors"?'),
        ("errors\t< 1 %", "which is no measure", 'Did you mean "errors"?'),
        ("respons p99 < 1 s", 'has "respons", which is no time of an event', 'Did you mean "response"?'),
        ("response errors < 1 %", 'has "errors", which is no measure', 'one of "p50"'),
        ("p99 steady < 1 s", 'has "steady" after the measure', 'write "in steady"'),
        ("p99 of reads < 1 s", 'has "reads", which is no kind of operation', 'Did you mean "read"?'),
        ("p99 of < 1 s", 'has no kind of operation after "of"', 'remove "of"'),
        ("p99 < 1 s in", 'has no window after "in"', 'remove "in"'),
        ("p99 in a in b < 1 s", 'has "in" twice', "a threshold for each"),
        ("lost of read == 0", "limits lost of one kind", 'Remove "of read"'),
        ("lateness p50 of read < 1 s", "limits lateness of one kind", "latency, response, service, errors"),
        ("p99 20 ms", "has no comparison", 'one of "<", "<="'),
        ("p99 = 20 ms", 'has "=", which is no comparison', 'Did you mean "=="?'),
        ("p99 ≤ 20 ms", 'has "≤", which is no comparison', 'Did you mean "<="?'),
        ("p99 != 20 ms", 'has "!=", which is no comparison', 'Use one of "<", "<=", ">", ">=", "==".'),
        ("1 ms < p99 < 20 ms", "has several comparisons", "a threshold for each"),
        ("p99 == 20 ms", 'has "==", and p99 is measured', '"<", "<="'),
        ("throughput == 5 /s", 'has "==", and throughput is measured', '"<", "<="'),
        ("p99 <", "has no number", "a number and its unit"),
        ("p99 < ms", 'has "ms" where a number stands', "in digits"),
        ("p99 < -1 ms", 'has "-1" where a number stands', "in digits"),
        ("p99 < 1,5 ms", 'has "1,5" where a number stands', "in digits"),
        ("p99 < .5 ms", 'has ".5" where a number stands', "in digits"),
        ("p99 < 1e3 ms", 'has "1e3" where a number stands', "in digits"),
        ("errors < \u0661 %", 'has "\u0661" where a number stands', "in digits"),
        ("p99 < 20", "has no unit, and p99 has one", '"us", "µs", "ms", "s".'),
        ("p99 < 20 msec", 'has the unit "msec", which is none of p99', 'Did you mean "ms"?'),
        ("p99 < 20 %", 'has the unit "%", which is none of p99', '"us", "µs", "ms", "s".'),
        ("errors < 20 ms", 'has the unit "ms", which is none of errors', '"%", or none for a number of events.'),
        ("lost < 0.1", 'counts lost, and "0.1" is no whole number', 'a share: "0.1 %"'),
        ("p99 < 20 ms;", 'has the unit "ms;"', 'Did you mean "ms"?'),
        ("p99 < 20 ms 5", 'has "5" after its end', "or remove it"),
        ("errors < 0 %", "is what nothing keeps to", "at most 100 %"),
        ("errors <= 100 %", "is what everything keeps to", "at most 100 %"),
        ("errors == 101 %", "is what nothing keeps to", "at most 100 %"),
        ("p99 < 0 ms", "is what nothing keeps to", "above 0"),
        ("throughput >= 0 /s", "is what everything keeps to", "above 0"),
    ],
)
def test_a_mistake_is_told_with_the_word_and_what_may_stand_there(text: str, message: str, remedy: str) -> None:
    """A threshold that is misread would let a bad run pass."""
    rule = mistakes_of(text)[0]
    assert message in rule.message
    assert remedy in rule.remedy


def test_every_mistake_of_a_text_is_told_at_once() -> None:
    """One round of mending, not one per word."""
    broken = mistakes_of("respons p98 of reed in < x msec")
    wrong = ["respons", "p98", "reed", 'after "in"', '"x"']
    assert [word in rule.message for word, rule in zip(wrong, broken, strict=True)] == [True] * 5


def test_each_measure_has_units_of_its_own_only() -> None:
    """`p99 < 1 %` and `lost < 3 ms` are slips that would otherwise compare a time with a share."""
    for statistic in (*THRESHOLD_QUANTILES, *COUNTED, "throughput"):
        known = [unit for unit in UNITS if not mistakes_of(f"{statistic} > 1{unit}")]
        time, rate = ["us", "µs", "μs", "ms", "s"], ["/s", "ops/s", "/min", "ops/min"]
        assert known == (["%", ""] if statistic in COUNTED else rate if statistic == "throughput" else time)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("p99", "p99"),
        ("p99.9", "p999"),
        ("latency p50", "p50"),
        ("response p95", "response p95"),
        ("response", "response p50"),
        ("after_ack max", "after-ack max"),
        ("time to processed p99", "time to processed p99"),
        ("time to processed", "time to processed p50"),
        ("to_processed p90", "time to processed p90"),
        ("errors", "errors"),
        ("throughput", "throughput"),
        ("cost", "cost"),
    ],
)
def test_a_run_is_judged_by_the_beginning_of_a_threshold(text: str, name: str) -> None:
    """Whoever has written a limit knows the words; a time by itself is its median."""
    assert parse_judge(text).name == name


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        ("p98", 'has "p98", which is no measure', 'Did you mean "p99"?'),
        ("p99 < 20 ms", 'has "< 20 ms" after the measure', "a limit is one of the plan's thresholds"),
        ("p99 in steady", 'has "in steady" after the measure', "Give the measure alone"),
        ("unsent", 'has "unsent", which is no measure', 'Use one of "p50", "p90"'),
        ("respons p99", 'has "respons", which is no time', 'Did you mean "response"?'),
        ("", "has no measure", 'as "p99" does'),
    ],
)
def test_what_is_no_measure_is_refused(text: str, message: str, remedy: str) -> None:
    """A limit here would be taken for a threshold that nothing judges."""
    with pytest.raises(ThresholdError) as caught:
        parse_judge(text)
    assert message in str(caught.value)
    assert remedy in str(caught.value)
