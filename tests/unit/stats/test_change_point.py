from __future__ import annotations

import math

import numpy as np
import pytest
import scipy

from stepbench.errors import InsufficientSampleError
from stepbench.stats import change_point
from stepbench.stats.change_point import find_change

Values = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def rng() -> np.random.Generator:
    """Return a seeded generator."""
    return np.random.default_rng(1)


def fires(series: Values) -> bool:
    """Return whether it fires at 5 %; where it cannot tell, it does not."""
    try:
        return find_change(series, rng()).p_value < 0.05
    except InsufficientSampleError:
        return False


def autoregressive(phi: float, count: int, n: int, seed: int = 4) -> Values:
    """Return rows of AR(1) with deviation 1."""
    noise = np.random.default_rng(seed).standard_normal((count, n + 300))
    return np.asarray(scipy.signal.lfilter([math.sqrt(1 - phi**2)], [1, -phi], noise)[:, 300:], dtype=np.float64)


def test_a_clean_step_is_found_where_it_is() -> None:
    """20 events a bin, then 40: known to the bin, and a bin either way."""
    found = find_change(np.repeat([20.0, 40.0], 300), rng())
    assert (found.bins, found.low, found.high) == (300, 299, 301)
    assert found.p_value < 1e-6


def test_the_statistic_is_pettitts() -> None:
    """Worked by hand, 6 + 6 bins in order: sums of ranks 21 and 57, K = |2 * 21 - 6 * 13| = 36 = 2 * 18."""
    ranks = np.arange(1.0, 13.0)
    assert np.abs(change_point._cusum(ranks)).max() == 18


def test_the_nile_changed_in_1898() -> None:
    """
    Annual flow at Aswan 1871-1970, the best-known change point of all.

    Source: Cobb (1978), Biometrika 65(2), table 1; all analyses place the change after the 28th year (1898).
    """
    flow = """1120 1160 963 1210 1160 1160 813 1230 1370 1140 995 935 1110 994 1020 960 1180 799 958 1140 1100 1210
        1150 1250 1260 1220 1030 1100 774 840 874 694 940 833 701 916 692 1020 1050 969 831 726 456 824 702 1120 1100
        832 764 821 768 845 864 862 698 845 744 796 1040 759 781 865 845 944 984 897 822 1010 771 676 649 846 812 742
        801 1040 860 874 848 890 744 749 838 1050 918 986 797 923 975 815 1020 906 901 1170 912 746 919 718 714 740"""
    found = find_change(np.array(flow.split(), dtype=np.float64), rng())
    assert found.bins == 28
    assert found.p_value < 1e-3
    assert 20 <= found.low < 28 < found.high <= 36


@pytest.mark.parametrize("rate", [33.0, 33.3, 1_000.0])
def test_a_constant_rate_has_no_change(rate: float) -> None:
    """Counts of an even schedule in bins: constant, or two values taking turns."""
    counts = np.diff(np.floor(np.arange(601) * rate))
    assert find_change(counts, rng()).p_value > 0.9


@pytest.mark.parametrize(
    ("values", "reason"), [(np.arange(9.0), "9 bins < 10"), (np.arange(60.0), "of 60 bins independent < 6")]
)
def test_too_few_bins_tell_nothing(values: Values, reason: str) -> None:
    """A trend is one long dependence: no level before, none after."""
    with pytest.raises(InsufficientSampleError, match=reason):
        find_change(np.sin(values / 9), rng())


def test_missing_values_are_a_level_of_their_own() -> None:
    """A store that stops delivering: medians are infinite from then on."""
    series = np.append(np.random.default_rng(2).exponential(size=30), np.full(30, np.inf))
    assert find_change(series, rng()).bins == 30


def test_it_is_indifferent_to_scale_and_monotone_transformations() -> None:
    """Ranks have this property."""
    series = autoregressive(0.3, 1, 80)[0] + np.repeat([0, 2], 40)
    found = [find_change(each, rng()) for each in (series, 7 * series + 3, np.exp(series))]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(("n", "phi"), [(60, 0.0), (60, 0.5), (600, 0.0), (600, 0.5), (600, 0.7), (600, 0.9)])
def test_it_fires_on_one_in_twenty_series_without_a_change(n: int, phi: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """5 ± 1.5 % of 1,500 series (± 1.1 by chance); without regard to dependence phi = 0.5 would give 40 to 50 %."""
    monkeypatch.setattr(change_point, "DRAWS", 2)
    fired = [fires(series) for series in autoregressive(phi, 1_500, n)]
    assert 0.03 <= np.mean(fired) <= 0.07


def test_it_fires_on_one_in_twenty_poisson_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ties and skew are included: there are two events a bin on average."""
    monkeypatch.setattr(change_point, "DRAWS", 2)
    counts = np.random.default_rng(6).poisson(2, (1_500, 600)).astype(np.float64)
    assert 0.03 <= np.mean([fires(series) for series in counts]) <= 0.07


@pytest.mark.parametrize(
    ("n", "phi", "step", "at", "power"),
    [
        pytest.param(60, 0.0, 1.5, 30, 0.98, marks=pytest.mark.nightly("statistics")),
        (60, 0.5, 2, 30, 0.8),
        pytest.param(600, 0.5, 1, 200, 0.99, marks=pytest.mark.nightly("statistics")),
    ],
)
def test_it_sees_steps_and_says_where(n: int, phi: float, step: float, at: int, power: float) -> None:
    """Steps in deviations; of the intervals of those that are seen, 9 in 10 at least hold the place."""
    series = autoregressive(phi, 150, n)
    series[:, at:] += step
    seen = [found for found in (find_change(each, rng()) for each in series) if found.p_value < 0.05]
    assert len(seen) >= power * 150
    assert np.mean([found.low <= at <= found.high for found in seen]) >= 0.9
