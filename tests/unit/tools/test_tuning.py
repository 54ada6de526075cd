"""The search: no more evaluations than allowed, and no configuration that was only lucky."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from tests.samples.tuning import BROADCAST, CACHED, LEVELED

from stepbench.contracts.tuning import CassandraConfiguration
from stepbench.errors import TargetUnavailableError
from stepbench.tuning.models import advised, needs_restart, ranges_for
from stepbench_tools.tuning import Evaluation, confirm, kept_share, pulls_of, search, successive_rejects

RANGES = ranges_for(cores=2, heap_mib=1024)


class Store:
    """Gains most with leveled compaction and many writers; each start has a mood of its own, 5 % either way."""

    def __init__(self) -> None:
        self.starts: list[CassandraConfiguration] = []
        self._rng = random.Random(1)  # noqa: S311 -- a test's

    def true_gain(self, configuration: CassandraConfiguration) -> float:
        """Return its gain without noise."""
        return 1 + 0.2 * (configuration.compaction == "LCS") + 0.001 * configuration.concurrent_writes

    def start(self, configuration: CassandraConfiguration) -> Evaluation:
        """Return what one start shows."""
        self.starts.append(configuration)
        gain = self.true_gain(configuration) * self._rng.gauss(1, 0.05)
        return Evaluation(configuration, (100.0, 100.0, 100.0), (100 * gain,) * 3)


def test_it_finds_what_gains_within_thirty_starts() -> None:
    """The best there is gains 1.33; random ones 1.1 on average. The advised one is tried first."""
    store, first = Store(), advised(2, 1024)
    found = search(RANGES, store.start, first=[first])
    assert len(store.starts) == len(found.explored) + len(found.finals) <= 30
    assert found.explored[0].configuration == first
    assert store.true_gain(found.best) > 1.25


def test_luck_is_rejected_on_new_starts() -> None:
    """What shone once and never again is the known trap: what it is chosen by has to be new."""
    starts: Counter[CassandraConfiguration] = Counter()
    lucky = advised(2, 1024)

    def start(configuration: CassandraConfiguration) -> Evaluation:
        starts[configuration] += 1
        gain = 3.0 if configuration == lucky and starts[lucky] == 1 else 0.9 if configuration == lucky else 1.1
        return Evaluation(configuration, (100.0,), (100 * gain,))

    found = search(RANGES, start, first=[lucky])
    assert found.explored[0].gain == pytest.approx(3.0)
    assert found.best != lucky
    assert found.found_gain == pytest.approx(1.1)


@pytest.mark.parametrize(("arms", "budget", "pulls"), [(4, 8, (1, 1, 2)), (2, 8, (3,)), (1, 8, (1,))])
def test_successive_rejects_spend_most_on_the_last_two(arms: int, budget: int, pulls: tuple[int, ...]) -> None:
    """By hand: log*(4) = 19/12, so ceil(4 / (19/12 x 4)) = 1, ceil(16/19) = 1, ceil(24/19) = 2."""
    assert pulls_of(arms, budget) == pulls


def test_the_best_arm_s_evaluations_come_last() -> None:
    """Its gain is worked out of them."""
    finals = successive_rejects([LEVELED, CACHED], Store().start, 8)
    assert [each.configuration for each in finals] == [CACHED] * 3 + [LEVELED] * 3


def test_turns_are_compared_within_themselves() -> None:
    """By hand: 110/100, 55/50 and 90/100: the machine was slower in the second, and the median says 1.1."""
    assert Evaluation(CACHED, (100, 50, 100), (110, 55, 90)).gain == pytest.approx(1.1)


@pytest.mark.parametrize("budget", [3, 12, 30])
def test_a_search_keeps_to_its_budget(budget: int) -> None:
    """Each evaluation is a minute: who allows twelve has twelve minutes."""
    store = Store()
    search(RANGES, store.start, budget=budget)
    assert budget - 2 <= len(store.starts) <= budget


def test_a_configuration_with_which_the_store_fails_is_passed_over() -> None:
    """A search takes hours: one node that does not come up must not be its end."""
    store = Store()

    def start(configuration: CassandraConfiguration) -> Evaluation:
        if configuration.compaction == "UCS":
            message = "it did not come up"
            raise TargetUnavailableError(message)
        return store.start(configuration)

    found = search(RANGES, start)
    assert found.best.compaction != "UCS"
    assert len(found.explored) < 22


def test_a_store_that_fails_with_all_of_them_is_told() -> None:
    """There is nothing to choose from then."""

    def start(_configuration: CassandraConfiguration) -> Evaluation:
        message = "it did not come up"
        raise TargetUnavailableError(message)

    with pytest.raises(TargetUnavailableError, match="did not come up"):
        search(RANGES, start, budget=3)


def test_a_budget_that_tells_nothing_is_refused() -> None:
    """One to look at, one to compare, and one start that nobody has chosen by."""
    with pytest.raises(ValueError, match="3 evaluations at least"):
        search(RANGES, Store().start, budget=2)


def test_the_advice_is_worked_out_for_the_machine() -> None:
    """By hand for 2 cores and a heap of 1 GiB on an SSD: 16 writes, 256 MiB, 0.33, two compactors."""
    assert advised(2, 1024) == CassandraConfiguration(
        compaction="STCS",
        concurrent_writes=16,
        file_cache_mib=256,
        memtable_cleanup_threshold=0.33,
        concurrent_compactors=2,
    )
    assert RANGES.concurrent_writes == (4, 128)
    assert RANGES.file_cache_mib == (64, 512)


@pytest.mark.parametrize(
    ("change", "restarts"),
    [
        ({"compaction": "LCS", "concurrent_writes": 64, "concurrent_compactors": 4}, False),
        ({"file_cache_mib": 64}, True),
        ({"memtable_cleanup_threshold": 0.11}, True),
    ],
)
def test_a_restart_is_what_cannot_be_changed_while_it_runs(change: dict[str, object], restarts: bool) -> None:  # noqa: FBT001 -- of a test
    """It is the outage that a decision has to pay for."""
    assert needs_restart(CACHED, CACHED.model_copy(update=change)) is restarts
    assert needs_restart(None, CACHED)


def starts(*gains: float) -> list[Evaluation]:
    """Return a start for each gain."""
    return [Evaluation(CACHED, (100.0,), (100 * gain,)) for gain in gains]


def test_six_starts_that_all_gain_are_sure() -> None:
    """By hand: of six the extremes enclose the median with 96.9 %, so that the interval is a little inside of them."""
    found = confirm(BROADCAST, starts(1.1, 1.2, 1.3, 1.1, 1.2, 1.3), found_gain=1.25, predicted_per_s=130)
    assert found.gain == pytest.approx(1.2)
    assert found.measured_per_s == pytest.approx(120)
    assert found.holds
    assert kept_share(found) == pytest.approx(0.8)  # 0.2 of 0.25


def test_a_gain_with_losses_among_it_is_not() -> None:
    """One start in three was slower than as released: nobody should pay a restart for that."""
    found = confirm(BROADCAST, starts(0.9, 1.2, 1.3, 0.95, 1.2, 1.3), found_gain=1.25, predicted_per_s=130)
    assert found.gain_low is not None
    assert not found.holds


def test_too_few_starts_have_no_interval() -> None:
    """And what has none is no candidate."""
    found = confirm(BROADCAST, starts(1.2, 1.2, 1.2, 1.2, 1.2), found_gain=1.2, predicted_per_s=130)
    assert (found.gain_low, found.holds) == (None, False)
