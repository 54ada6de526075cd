from __future__ import annotations

import numpy as np
import pytest

from stepbench.errors import InsufficientSampleError
from stepbench.stats import modality
from stepbench.stats.modality import ModeTest, find_modes

Values = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def mixture(*parts: tuple[float, float, int], seed: int = 1) -> Values:
    """Mix log-normal parts of (median, deviation of the logarithm, how many)."""
    rng = np.random.default_rng(seed)
    return np.concatenate([median * np.exp(spread * rng.standard_normal(n)) for median, spread, n in parts])


def rng() -> np.random.Generator:
    """Return a seeded generator."""
    return np.random.default_rng(1)


def test_two_modes_are_seen_and_found() -> None:
    """5 ms, and one in five 20 ms: both medians to a tenth."""
    found = find_modes(mixture((5, 0.1, 400), (20, 0.1, 100)), rng())
    assert found.p_value < 0.01
    assert found.at == pytest.approx((5, 20), rel=0.1)
    assert found.n == 500


def test_three_modes_are_three_and_five_are_five_unless_that_is_more_than_is_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One step at a time, until what is left is chance; the cost is bounded."""
    found = find_modes(mixture((1, 0.1, 200), (5, 0.1, 200), (25, 0.1, 200)), rng())
    assert found.at == pytest.approx((1, 5, 25), rel=0.1)
    comb = mixture(*((3.0**place, 0.05, 100) for place in (0, 1, 2.5, 3.5, 6)))
    assert len(find_modes(comb, rng()).at) == 5
    monkeypatch.setattr(modality, "MAX_MODES", 4)
    assert len(find_modes(comb, rng()).at) == 4


def test_shares_are_of_what_lies_between_the_valleys() -> None:
    """Of 500 values 100 are about 20 ms; the two parts do not overlap."""
    assert find_modes(mixture((5, 0.1, 400), (20, 0.1, 100)), rng()).shares == (0.8, 0.2)


def test_small_p_values_are_told_apart_where_many_tests_share_an_error() -> None:
    """Two modes far apart: below a two-thousandth, which 200 resamples cannot show."""
    values = mixture((5, 0.1, 60), (20, 0.1, 30))
    with pytest.raises(InsufficientSampleError, match="n=90 < 100"):
        ModeTest(values, rng())
    assert ModeTest(values, rng(), least=50, fine=True).p_value == 0.0004


def test_modes_that_are_not_significant_enough_are_one() -> None:
    """The level is the caller's, who knows how many tests share an error."""
    test = ModeTest(mixture((5, 0.1, 400), (20, 0.1, 100)), rng())
    assert len(test.modes(0.05).at) == 2
    assert len(test.modes(0.0).at) == 1


def test_one_mode_stays_one_however_long_its_tail() -> None:
    """A single event far out is no mode."""
    found = find_modes(np.append(mixture((5, 0.5, 400)), 5e6), rng())
    assert found.p_value > 0.05
    assert len(found.at) == 1


def test_a_density_that_only_falls_has_its_mode_at_the_start() -> None:
    """The logarithm of Pareto's is exponential."""
    found = find_modes(1 + np.random.default_rng(3).pareto(2, 400), rng())
    assert found.p_value > 0.05
    assert found.at[0] < 1.5


def test_equal_values_have_one_mode() -> None:
    """A delay may be constant to the nanosecond."""
    assert find_modes(np.full(150, 5.0), rng()) == (1.0, (5.0,), 150, (1.0,))


def test_what_has_no_logarithm_is_left_out_and_too_few_tell_nothing() -> None:
    """Lost events have none, and neither have those of clocks apart."""
    values = mixture((5, 0.1, 99))
    with pytest.raises(InsufficientSampleError, match="n=99 < 100"):
        find_modes(np.concatenate([values, np.full(50, np.inf), [-1.0, 0.0]]), rng())


def test_a_large_sample_is_drawn_from() -> None:
    """The cost is bounded, and the answer is the same for the same seed."""
    values = mixture((5, 0.1, 30_000), (20, 0.1, 6_000))
    first, again = find_modes(values, rng()), find_modes(values, rng())
    assert first == again
    assert (first.n, len(first.at)) == (2_000, 2)


def test_calibration_is_hall_and_yorks() -> None:
    """Their lambda is 1.13 at 5 % (section 4): 95 % of ratios below it reject at 5 %, more below it at less."""
    ratios = np.append(np.full(95, 1.129), np.full(5, 2.0))
    assert modality._calibrated(ratios) == pytest.approx(0.05, abs=0.002)
    assert modality._calibrated(np.full(100, 0.5)) == 0.001
    assert modality._calibrated(np.full(100, 2.0)) == 1


@pytest.mark.parametrize("kind", ["lognormal", "exponential"])
def test_it_fires_on_one_in_twenty_unimodal_samples(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """150 samples of 200 values: 5 % ± 1.8 by chance; uncalibrated it would be one in a hundred."""
    monkeypatch.setattr(modality, "DRAWS", 50)
    source = np.random.default_rng(8)
    draw = (
        (lambda: np.exp(source.standard_normal(200))) if kind == "lognormal" else lambda: source.exponential(size=200)
    )
    fired = np.mean([find_modes(draw(), source).p_value < 0.05 for _ in range(150)])
    assert 0.013 <= fired <= 0.1
