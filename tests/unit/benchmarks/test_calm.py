from __future__ import annotations

import os
from itertools import count
from typing import TYPE_CHECKING

import pytest
from benchmarks import calm

if TYPE_CHECKING:
    from collections.abc import Callable


class Host:
    """Takes shares of all cores, one a round; a round lasts one second."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *shares: float) -> None:
        self.shares = shares
        self.stolen_s = self.now_s = 0.0
        monkeypatch.setattr(calm, "_kept", [])
        monkeypatch.setattr(calm, "_measured", [])
        monkeypatch.setattr("time.monotonic", lambda: self.now_s)

    def round_(self, number: int) -> int:
        """One that the host disturbs; its result is its number."""
        self.now_s += 1
        self.stolen_s += self.shares[number % len(self.shares)] * (os.cpu_count() or 1)
        return number


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Host]:
    """Makes one."""
    return lambda *shares: Host(monkeypatch, *shares)


def calmest(host: Host, wanted: int) -> list[int]:
    """The numbers of the rounds that are kept."""
    return calm.calmest(wanted, host.round_, lambda: host.stolen_s)


def test_calm_rounds_are_kept_as_they_come(host: Callable[..., Host]) -> None:
    """Nothing is measured again, and there is nothing to say."""
    assert calmest(host(0), 3) == [0, 1, 2]
    assert calm.notes() == ()


def test_disturbed_rounds_are_measured_again(host: Callable[..., Host]) -> None:
    """Those kept stay in the order in which they were measured."""
    assert calmest(host(0.4, 0.01, 0, 0.1, 0.015), 3) == [1, 2, 4]
    (note,) = calm.notes()
    assert "1.0% of the cores in the median round, 1.5% in the worst; 2 of 5 rounds" in note


def test_it_ends_where_the_host_never_rests(host: Callable[..., Host]) -> None:
    """Then the calmest stand, and the note says how calm they were."""
    restless = host(0.5, 0.3, 0.4, 0.2)
    assert calmest(restless, 2) == [1, 3]
    assert restless.now_s == 2 * calm.MOST_TIMES
    assert "30.0% in the worst; 2 of 4 rounds" in calm.notes()[0]


def test_a_single_round_is_measured_once(host: Callable[..., Host]) -> None:
    """So that a quick look is quick."""
    assert calmest(host(0.5), 1) == [0]


def test_without_steal_time_no_round_is_preferred() -> None:
    """As on a machine of one's own; by the real clock and the kernel's own figure, whatever that is."""
    numbers = count()
    assert len(calm.calmest(2, lambda _turn: next(numbers))) == 2
