from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stepbench.stats.curves import by_second, ecdf


def test_a_curve_steps_up_by_the_share_of_each_value() -> None:
    """By hand: of five values one is 1, two are 2, one is 4 and one is lost, so the curve ends at 0.8."""
    curve = ecdf(np.array([1.0, 2, 2, 4, math.inf]))
    assert curve.value.tolist() == [1, 2, 4]
    assert curve.probability.tolist() == [0.2, 0.6, 0.8]


def test_a_curve_without_an_arrival_is_empty() -> None:
    """All lost: nothing to draw, and no error."""
    assert ecdf(np.array([math.inf])).value.size == 0
    assert ecdf(np.empty(0)).value.size == 0


@given(st.integers(1, 20_000), st.integers(0, 100))
def test_thinning_keeps_the_ends_and_stays_on_the_curve(n: int, seed: int) -> None:
    """The page draws hundreds of points for millions of events, and none that is not there."""
    values = np.sort(np.random.default_rng(seed).exponential(size=n))
    curve = ecdf(values)
    assert curve.value.size <= 420
    assert (curve.value[0], curve.value[-1], curve.probability[-1]) == (values[0], values[-1], 1)
    assert np.all(np.diff(curve.value) > 0)
    assert np.all(curve.probability == np.searchsorted(values, curve.value, side="right") / n)
    assert np.max(np.diff(curve.probability), initial=1 / n) <= max(1 / n, 1.01 / 299 + 1 / n)


def test_each_second_has_its_own_quantiles() -> None:
    """By hand; second 1 has no event, and second 2 has lost one of two."""
    values = np.array([3.0, 1, 2, 5, math.inf])
    found = by_second(values, np.array([0, 0, 0, 2, 2]), 4)
    assert found.p50[[0, 2]].tolist() == [2, math.inf]
    assert found.p90[0] == 2.8
    assert found.largest[[0, 2]].tolist() == [3, math.inf]
    assert np.isnan(found.p50[[1, 3]]).all()


@given(st.lists(st.tuples(st.floats(0, 1e6), st.integers(0, 4)), min_size=1, max_size=80))
def test_by_second_agrees_with_numpy(pairs: list[tuple[float, int]]) -> None:
    """One pass for all seconds must give what a loop gives."""
    values, second = (np.array(column) for column in zip(*pairs, strict=True))
    found = by_second(values, second, 5)
    for at in set(second.tolist()):
        inside = values[second == at]
        np.testing.assert_allclose(found.p50[at], np.quantile(inside, 0.5), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found.p90[at], np.quantile(inside, 0.9), rtol=1e-9, atol=1e-9)
        assert found.largest[at] == inside.max()
