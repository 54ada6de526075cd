from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepbench.analysis.caveats.windows import scheduled_response

times = st.lists(st.floats(0, 1_000), max_size=50)


@pytest.mark.parametrize(
    ("service", "interval", "response"),
    [
        ([300.0, 1, 1, 1], 100, [300, 201, 102, 3]),
        ([3.0, 9, 2, 9.5], 10, [3, 9, 2, 9.5]),
        ([12.0] * 5, 10, [12, 14, 16, 18, 20]),
    ],
    ids=["a stall delays what is due behind it", "who keeps up waits for nobody", "overload adds up"],
)
def test_responses_on_a_schedule_by_hand(service: list[float], interval: float, response: list[float]) -> None:
    """The first is the open loop's own example; without a stall both loops say the same."""
    assert scheduled_response(np.array(service), interval).tolist() == pytest.approx(response)


@given(times, st.floats(0, 1_000))
def test_the_closed_form_is_lindley_s_recursion(service: list[float], interval: float) -> None:
    """Written out step by step: an independent implementation."""
    expected, wait = [], 0.0
    for each in service:
        expected.append(wait + each)
        wait = max(0.0, wait + each - interval)
    assert scheduled_response(np.array(service), interval).tolist() == pytest.approx(expected, rel=1e-9, abs=1e-6)


def test_one_stall_delays_many() -> None:
    """One operation of 1,000 takes 300 ms, the others 1 ms; with one due every 10 ms, 34 wait: 300, 291, 282... ms."""
    service = np.ones(4_000)
    service[500::1_000] = 300
    assert np.count_nonzero(scheduled_response(service, 10) > 1.5) == 4 * 34
