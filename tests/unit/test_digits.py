from __future__ import annotations

import pytest

from stepbench import digits
from stepbench.contracts.measures import Estimate


@pytest.mark.parametrize(
    ("value_ms", "text"),
    [
        (8.5312, "8.53 ms"),
        (1157.4, "1,157 ms"),
        (0.91, "0.910 ms"),
        (0.0304, "30.4 µs"),
        (9_999.4, "9,999 ms"),
        (10_000.0, "10.0 s"),
        (61_234.0, "61.2 s"),
        (0.0, "0 ms"),
        (9.996, "10.0 ms"),
        (99.96, "100 ms"),
        (-0.5, "−0.500 ms"),  # noqa: RUF001 -- a real minus sign
        (None, "–"),  # noqa: RUF001 -- an en dash for "none"
    ],
)
def test_a_time_has_three_significant_digits_and_the_unit_that_keeps_it_short(
    value_ms: float | None, text: str
) -> None:
    """More digits would claim a precision that no sample has; seconds as milliseconds cannot be read."""
    assert digits.latency(value_ms) == text


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [
        (8.5312, 8.41, 8.702, "8.53 ms [8.41, 8.70]"),
        (0.91, 0.89, 0.94, "0.910 ms [0.890, 0.940]"),
        (1157.3, 1130.2, 1189.9, "1,157 ms [1,130, 1,190]"),
        (24.4, 20.1, 47.9, "24 ms [20, 48]"),
        (0.0304, 0.03035, 0.03045, "30.40 µs [30.35, 30.45]"),
        (-0.12, -0.31, 0.07, "−0.12 ms [−0.31, 0.07]"),  # noqa: RUF001 -- minus signs
        (0.5, 0.1, 1.0, "0.50 ms [0.10, 1.00]"),
        (66, 0.0004, 24_634, "~66.0 ms"),
        (5.0, 5.0, 5.0, "5.00 ms [5.00, 5.00]"),
        (1157.3, 1157.2, 1157.4, "1,157 ms [1,157, 1,157]"),
    ],
)
def test_the_interval_decides_how_many_digits_the_value_has(value: float, low: float, high: float, text: str) -> None:
    """Digits below the interval's second are noise."""
    assert str(digits.shown(Estimate(value=value, low=low, high=high))) == text


@pytest.mark.parametrize(
    ("estimate", "value", "unit", "note"),
    [
        (Estimate(value=None, reason="n=200 < 368"), "", "", "n=200 < 368"),
        (Estimate(value=None), "", "", "no value"),
        (Estimate(value=8.5, reason="fewer than 20 blocks"), "8.50", "ms", "fewer than 20 blocks"),
        (Estimate(value=8.5), "8.50", "ms", ""),
    ],
)
def test_what_is_missing_of_an_estimate_says_why(estimate: Estimate, value: str, unit: str, note: str) -> None:
    """A blank would be read as zero, or as forgotten."""
    shown = digits.shown(estimate)
    assert (shown.value, shown.unit, shown.interval, shown.note) == (value, unit, "", note)
    assert str(shown) == (f"{'~' if note else ''}{value} {unit}" if value else note)


def test_a_sentence_says_why_there_is_no_interval() -> None:
    """A bare number would be taken for a sure one."""
    short, sure = Estimate(value=8.5, reason="n=90 < 368"), Estimate(value=8.5, low=8.0, high=9.0)
    assert digits.shown(short).in_sentence() == "8.50 ms (no interval: needs a run about 4 × longer)"  # noqa: RUF001 -- times
    assert digits.shown(sure).in_sentence() == "8.50 ms (8.00 to 9.00)"
    assert digits.shown(Estimate(value=8.5)).in_sentence() == "8.50 ms"


@pytest.mark.parametrize(
    ("offset_ms", "bound_ms", "text"),
    [
        (None, None, "unmeasured"),
        (-0.0021, 0.0104, "−2 ± 10 µs"),  # noqa: RUF001 -- a minus sign
        (0.8, 1.04, "0.8 ± 1.0 ms"),
        (0.8, None, "0.800 ms"),
        (0.0, 0.2, "0.00 ± 0.20 ms"),
        (-0.00001, 0.2, "0.00 ± 0.20 ms"),
    ],
)
def test_a_clock_offset_is_given_to_its_bounds_second_digit(
    offset_ms: float | None, bound_ms: float | None, text: str
) -> None:
    """An offset with more digits than its bound hides how little is known of it."""
    assert digits.offset(offset_ms, bound_ms) == text


def test_counts_and_rates_and_dollars() -> None:
    """Whole numbers stay whole, large ones are grouped, small amounts of money keep two digits."""
    assert [digits.count(n) for n in (0, 1234567, None)] == ["0", "1,234,567", "–"]  # noqa: RUF001 -- an en dash
    assert [digits.rate(r) for r in (20.0, 2000.0, 19.987, 0.5)] == ["20", "2,000", "20.0", "0.500"]
    assert [digits.dollars(d) for d in (0.0, 0.00312, 1.5, 1234.5, None)] == [
        "$0.00",
        "$0.0031",
        "$1.50",
        "$1,234.50",
        "–",  # noqa: RUF001 -- an en dash
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (1.42, "1.4 s"),
        (45, "45 s"),
        (134, "2 min 14 s"),
        (120, "2 min"),
        (7_800, "2 h 10 min"),
        (7_200, "2 h"),
    ],
)
def test_a_duration_names_its_two_largest_units(seconds: float, text: str) -> None:
    """Nobody reads 7,800 s as two hours and ten minutes."""
    assert digits.duration(seconds) == text


def test_a_moment_is_shown_in_utc() -> None:
    """Two reports from two time zones have to be comparable; without a zone, the contract says UTC."""
    assert digits.moment("2025-06-01T14:00:05+02:00") == "2025-06-01 12:00:05 UTC"
    assert digits.moment("2025-06-01T12:00:05") == "2025-06-01 12:00:05 UTC"
    assert digits.moment("yesterday") == "yesterday"


def test_elapsed_time_needs_two_comparable_moments() -> None:
    """A summary of another origin may hold any text there; the page still has to render."""
    assert digits.elapsed_s("2025-06-01T12:00:00+00:00", "2025-06-01T12:02:14+00:00") == 134.0
    assert digits.elapsed_s("2025-06-01T12:00:00", "2025-06-01T12:02:14+00:00") is None
    assert digits.elapsed_s("then", "now") is None


@pytest.mark.parametrize(
    ("p", "text"), [(0.4, "p = 0.4"), (0.0123, "p = 0.012"), (0.0004, "p < 0.001"), (1.0, "p = 1")]
)
def test_a_probability_has_two_digits_and_no_more_than_three_places(p: float, text: str) -> None:
    """A resampling of 2,000 knows no finer one."""
    assert digits.p_value(p) == text


@pytest.mark.parametrize(
    ("ratio", "said"),
    [
        (Estimate(value=0.55, low=0.52, high=0.58), "45 % lower [42 to 48 %]"),
        (Estimate(value=1.12, low=1.07, high=1.17), "12 % higher [7 to 17 %]"),
        (Estimate(value=0.88, low=0.70, high=1.08), "12 % lower [30 % lower to 8 % higher]"),
        (Estimate(value=1.023, low=1.019, high=1.027), "2.3 % higher [1.9 to 2.7 %]"),
        (Estimate(value=1.0, low=0.94, high=1.06), "the same [6 % lower to 6 % higher]"),
        (Estimate(value=1.02, low=0.94, high=1.06), "2 % higher [6 % lower to 6 % higher]"),
        (Estimate(value=2.3, low=2.1, high=2.6), "2.3 × as long [2.1 to 2.6]"),  # noqa: RUF001 -- times
        (Estimate(value=0.0902, low=0.0833, high=0.1), "91.0 % lower [90.0 to 91.7 %]"),
        (Estimate(value=2.3, low=0.7, high=6.0), "130 % higher [30 % lower to 500 % higher]"),
        (Estimate(value=2.3, low=0.5, high=6.0), "not known within a factor of ten"),
        (Estimate(value=12, low=3.0, high=45.0), "at least 3.0 × as long"),  # noqa: RUF001 -- times
        (Estimate(value=0.1, low=0.02, high=0.6), "at least 40 % lower"),
        (Estimate(value=0.3, low=0.0, high=0.6), "at least 40 % lower"),
        (Estimate(value=0.55, reason="n=92 < 368"), "about 45 % lower (no interval: needs a run about 4 × longer)"),  # noqa: RUF001 -- times
        (Estimate(value=11.2), "about 11 × as long (no interval)"),  # noqa: RUF001 -- times
        (Estimate(value=None, reason="> drain limit"), "> drain limit"),
        (Estimate(value=None, low=5_898.0, reason="> drain limit"), "at least 5,898 × as long"),  # noqa: RUF001 -- times
        (Estimate(value=None, low=1.2, reason="> drain limit"), "at least 20 % higher"),
    ],
)
def test_a_ratio_is_said_as_a_team_would_say_it(ratio: Estimate, said: str) -> None:
    """Nobody tells colleagues that the median was 0.547 times as high; both ends of an interval say their direction."""
    assert digits.effect(ratio) == said


def test_an_estimate_may_have_a_unit_of_its_own() -> None:
    """A ratio below 0.1 is no microsecond."""
    assert str(digits.shown(Estimate(value=0.05, low=0.04, high=0.06), digits.TIMES)) == "0.050 × [0.040, 0.060]"  # noqa: RUF001 -- times
    assert str(digits.shown(Estimate(value=180.0, low=179.9, high=180.1), digits.SECONDS_AS_SUCH)).endswith(
        "[179.9, 180.1]"
    )


@pytest.mark.parametrize(
    ("note", "cell"),
    [
        ("81 of 1853 independent < 368", "needs about 5 × longer"),  # noqa: RUF001 -- times
        ("n=2303 < 3688", "needs about 1.6 × longer"),  # noqa: RUF001 -- times
        ("71 of 200 independent < 72", "needs about 1.1 × longer"),  # noqa: RUF001 -- times
        ("0 of 20 independent < 6", "needs about 6 × longer"),  # noqa: RUF001 -- times
        ("n=9 < 3688", "only 9 events"),
        ("32 of 155807 independent < 368", "only 32 of 155807 independent"),
        ("2 of 3 runs", "2 of 3 runs"),
        ("no value", "no value"),
        ("", ""),
    ],
)
def test_a_cell_tells_a_shortfall_in_few_words(note: str, cell: str) -> None:
    """Three lines of it in every other cell made tables hard to read; the whole is in its tooltip and the summary."""
    assert digits.brief(note) == cell


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0512, "5.1 %"), (0.0002, "0.02 %"), (0.0, "0.0 %"), (0.296, "30 %"), (1.7, "170 %"), (None, "\N{EN DASH}")],
)
def test_a_share_has_two_digits_or_one_where_it_is_tiny(share: float | None, text: str) -> None:
    """More would claim a precision that no metric has; servers with several cores may show more than 100 %."""
    assert digits.percent(share) == text


@pytest.mark.parametrize(("names", "text"), [(["p50"], "p50"), (["p50", "p90", "p99"], "p50, p90 and p99")])
def test_names_are_joined_as_in_a_sentence(names: list[str], text: str) -> None:
    """Verdicts and notes below box plots list them alike."""
    assert digits.listed(names) == text


@pytest.mark.parametrize(
    ("value", "words", "text"),
    [
        (1, ("event",), "1 event"),
        (0, ("event",), "0 events"),
        (1_800, ("event",), "1,800 events"),
        (2, ("sandbox",), "2 sandboxes"),
        (1, ("event", "was", "were"), "1 event was"),
        (2, ("event", "was", "were"), "2 events were"),
    ],
)
def test_a_number_has_its_noun_and_verb(value: int, words: tuple[str, ...], text: str) -> None:
    """`1 events` and `1 runs in order` stood in reports."""
    assert digits.counted(value, *words) == text
