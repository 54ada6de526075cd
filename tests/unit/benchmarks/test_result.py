from __future__ import annotations

import pytest
from benchmarks.result import Figure, Goal, Measure, figures_of, median_interval


def figure(ours: tuple[float, ...], peer: tuple[float, ...] = (), goal: Goal | None = None) -> Figure:
    """In µs."""
    return Figure(name="p50", unit="µs", ours=ours, peer=peer, goal=goal)


def test_a_ratio_is_taken_within_a_round() -> None:
    """Else a busy minute, which slows both, would be held against one of them: the medians here are equal."""
    assert figure((2, 4, 60), (1, 4, 20)).ratios == (2, 1, 3)
    assert figure((2, 4, 60), (1, 4, 20)).ratio == 2


@pytest.mark.parametrize(
    ("rounds", "ranks"),
    [(6, (1, 6)), (8, (1, 8)), (9, (2, 8)), (10, (2, 9)), (15, (4, 12)), (20, (6, 15))],
)
def test_the_interval_of_a_median_is_that_of_the_tables(rounds: int, ranks: tuple[int, int]) -> None:
    """Ranks of the 95 % interval, as the sign test's tables have them (Conover 1999, table A3 at p = 0.5)."""
    descending = tuple(float(rank) for rank in range(rounds, 0, -1))
    assert median_interval(descending) == ranks


@pytest.mark.parametrize("rounds", [0, 1, 2, 5])
def test_there_is_no_interval_of_fewer_than_six_rounds(rounds: int) -> None:
    """All of five values on one side of the median has a probability of 2/32: more than 5 %."""
    assert median_interval(tuple(float(rank) for rank in range(rounds))) is None


@pytest.mark.parametrize(
    ("goal", "met"),
    [
        (Goal(at_most=2), True),
        (Goal(at_most=1.9), False),
        (Goal(at_least=2), True),
        (Goal(at_least=2.1), False),
        (Goal(of="value", at_most=4), True),
        (Goal(of="value", at_most=3), False),
        (None, None),
    ],
)
def test_a_goal_is_met_by_the_median(goal: Goal | None, met: bool | None) -> None:  # noqa: FBT001 -- what is expected
    """Of the ratio (2), or of our own value (4) where the goal says so; the bound itself is within."""
    assert figure((2, 4, 60), (1, 4, 20), goal).met is met


@pytest.mark.parametrize(
    ("goal", "sure"),
    [
        (Goal(at_most=0.9), True),
        (Goal(at_most=1.0), False),
        (Goal(at_most=1.1), True),
        (Goal(at_least=1.05), False),
        (Goal(of="value", at_most=1), True),
        (None, True),
    ],
)
def test_a_goal_within_the_interval_is_decided_by_noise(goal: Goal | None, sure: bool) -> None:  # noqa: FBT001 -- as above
    """Here from 0.95 to 1.1."""
    assert figure((0.95, 1, 1, 1, 1, 1.1), (1,) * 6, goal).sure is sure


def test_without_an_interval_the_median_decides() -> None:
    """There is nothing to be unsure by."""
    assert figure((0.9, 1.1), (1, 1), Goal(at_most=1)).sure


def test_a_goal_for_a_ratio_is_open_without_a_peer() -> None:
    """Nothing was compared, so nothing was met."""
    assert figure((1,), goal=Goal(at_most=1)).met is None


def test_rounds_become_figures_column_by_column() -> None:
    """A round gives all its numbers at once; a figure has one of them of every round."""
    columns = (Measure("p50", "µs"), Measure("throughput", "operations/s", Goal(at_least=0.9)))
    p50, throughput = figures_of(columns, [((1, 10), (2, 20)), ((3, 30), (4, 40))])
    assert (p50.name, p50.unit, p50.ours, p50.peer, p50.goal) == ("p50", "µs", (1, 3), (2, 4), None)
    assert (throughput.ours, throughput.peer, throughput.goal) == ((10, 30), (20, 40), Goal(at_least=0.9))
