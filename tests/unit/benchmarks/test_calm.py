from __future__ import annotations

from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import pytest
from benchmarks import calm

if TYPE_CHECKING:
    from collections.abc import Callable


class Host:
    """Takes a share of the second core under each part of each round, which lasts one second."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *shares: float) -> None:
        self.shares = iter(shares)
        self.stolen_s = self.now_s = 0.0
        self.parts = ""
        monkeypatch.setattr(calm, "_kept", [])
        monkeypatch.setattr(calm, "_left_out", [])
        monkeypatch.setattr("time.monotonic", lambda: self.now_s)

    def part(self, name: str) -> int:
        """One that the host disturbs; its result is its number among all."""
        self.now_s += 1
        self.stolen_s += next(self.shares, 0)
        self.parts += name
        return len(self.parts) - 1

    def calmest(self, wanted: int, parts: str = "a") -> list[tuple[int, ...]]:
        """The numbers of the parts that are kept."""
        measured = [partial(self.part, name) for name in parts]
        return calm.calmest(wanted, measured, lambda: (0, self.stolen_s))


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Host]:
    """Makes one."""
    return lambda *shares: Host(monkeypatch, *shares)


def test_calm_rounds_are_kept_as_they_come(host: Callable[..., Host]) -> None:
    """Nothing is measured again, there is nothing to say, and the parts take turns in who goes first."""
    resting = host()
    assert resting.calmest(3, "ab") == [(0, 1), (3, 2), (4, 5)]
    assert resting.parts == "abbaab"
    assert calm.notes() == ()


def test_rounds_are_measured_until_enough_are_calm(host: Callable[..., Host]) -> None:
    """Of both orders; those kept stay in the order in which they were measured."""
    assert host(0.4, 0.01, 0, 0.1, 0.015).calmest(3) == [(1,), (2,), (4,)]
    (note,) = calm.notes()
    assert "1.0% of a core in the median round, 1.5% in the worst; 2 of 5 rounds were left out" in note


def test_both_orders_are_kept_alike(host: Callable[..., Host]) -> None:
    """Two calm rounds of the first order are no substitute for one of the second."""
    assert host(0, 0.5, 0, 0.01).calmest(2) == [(0,), (3,)]


def test_one_disturbed_part_disturbs_its_round(host: Callable[..., Host]) -> None:
    """However calm the other was."""
    assert host(0, 0.03).calmest(2, "ab") == [(3, 2), (4, 5)]


def test_it_ends_where_the_host_never_rests(host: Callable[..., Host]) -> None:
    """Then the calmest stand, and the note says how calm they were."""
    restless = host(0.5, 0.3, 0.4, 0.2)
    assert restless.calmest(2) == [(2,), (3,)]
    assert restless.now_s == 2 * calm.MOST_TIMES
    assert "30.0% of a core in the median round, 40.0% in the worst; 2 of 4 rounds" in calm.notes()[0]


def test_a_single_round_is_measured_once(host: Callable[..., Host]) -> None:
    """So that a quick look is quick."""
    assert host(0.5).calmest(1) == [(0,)]


def test_the_kernel_tells_what_was_stolen() -> None:
    """By the real clock and the kernel's own figures, whatever these are: each round is kept or left out."""
    numbers = count()
    assert len(calm.calmest(2, [lambda: next(numbers)])) == 2
    assert next(numbers) >= 2
