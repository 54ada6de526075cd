from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepbench.stats.coordinated_omission import omission_table, scheduled_response
from stepbench.stats.estimates import Sample

times = st.lists(st.floats(0, 1_000), max_size=50)


def sample(values: np.ndarray[tuple[int], np.dtype[np.float64]], seed: int = 7) -> Sample:
    """In an order without dependence, one every 10 ms."""
    mixed = np.random.default_rng(seed).permutation(values)
    return Sample(mixed, np.arange(values.size) / 100, values.size / 100, 30, np.random.default_rng(seed))


def test_a_stall_delays_everything_that_was_due_behind_it() -> None:
    """The open loop's own example by hand: 300, 1, 1, 1 ms with one due every 100 ms."""
    response = scheduled_response(np.array([300.0, 1, 1, 1]), 100)
    assert response.tolist() == pytest.approx([300, 201, 102, 3])


def test_who_keeps_up_waits_for_nobody() -> None:
    """Without a stall both loops say the same."""
    service = np.array([3.0, 9, 2, 9.5])
    assert scheduled_response(service, 10).tolist() == pytest.approx(service.tolist())


def test_an_overloaded_client_falls_behind_for_good() -> None:
    """12 ms of work every 10 ms: 2 ms more each time."""
    assert scheduled_response(np.full(5, 12.0), 10).tolist() == pytest.approx([12, 14, 16, 18, 20])


@given(times, st.floats(0, 1_000))
def test_the_closed_form_is_lindley_s_recursion(service: list[float], interval: float) -> None:
    """Written out step by step: an independent implementation."""
    expected, wait = [], 0.0
    for each in service:
        expected.append(wait + each)
        wait = max(0.0, wait + each - interval)
    assert scheduled_response(np.array(service), interval).tolist() == pytest.approx(expected, rel=1e-9, abs=1e-6)


def test_the_table_shows_what_the_closed_loop_hides() -> None:
    """
    One operation of 1,000 stalls for 300 ms, the others take 1 ms, and one is due every 10 ms.

    In closed loop 30 ms before the p99 is still 1 ms; on a schedule 33 of 1,000 wait: 300, 291, 282... ms.
    """
    service = np.ones(4_000)
    service[500::1_000] = 300
    response = scheduled_response(service, 10)
    assert np.count_nonzero(response > 1.5) == 4 * 34
    rows = {row.q: row for row in omission_table(sample(service), sample(response))}
    assert (rows[0.5].closed.value, rows[0.5].open.value) == (1, 1)
    assert rows[0.9921875].closed.value == 1
    assert 200 < rows[0.9921875].open.value < 260  # type: ignore[operator]
    assert rows[0.9921875].ratio == rows[0.9921875].open.value
    assert rows[1].hidden == 0


def test_the_two_need_not_be_of_one_size() -> None:
    """An open-loop trial of the same store has its own number of operations."""
    rows = omission_table(sample(np.arange(1.0, 1_002)), sample(np.arange(2.0, 4_003, 2)), levels=(0.5, 1))
    assert [row.ratio for row in rows] == [pytest.approx(2_002 / 501), pytest.approx(4_002 / 1_001)]
    assert rows[0].hidden == 2_002 - 501


def test_where_one_has_no_value_nothing_is_compared() -> None:
    """Too few, or not answered by the drain limit; the reason stands with the estimate."""
    (row,) = omission_table(sample(np.ones(100)), sample(np.ones(4_000)), levels=(0.99,))
    assert (row.closed.reason, row.ratio, row.hidden) == ("n=100 < 368", None, None)
    lost = np.ones(4_000)
    lost[:100] = math.inf
    (row,) = omission_table(sample(np.ones(4_000)), sample(lost), levels=(1,))
    assert (row.open.value, row.ratio) == (None, None)
