from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from stepbench.contracts.identity import EventId, parse_update_key
from stepbench.contracts.plan import Record
from stepbench.load.keys import draw_keys, key_probabilities
from stepbench.load.payloads import Payloads


def record(keys: int, **fields: Any) -> Record:  # noqa: ANN401 -- a record's fields
    """Updates of so many keys."""
    return Record(operation="update", distinct_keys=keys, **fields)


def test_zipf_s_probabilities_fall_as_the_rank_s_power() -> None:
    """By hand, exponent 1 over four keys: 1, 1/2, 1/3, 1/4 of 25/12."""
    found = key_probabilities(record(4, key_distribution="zipf", zipf_exponent=1))
    assert found == pytest.approx([12 / 25, 6 / 25, 4 / 25, 3 / 25])


def test_a_hot_key_has_its_share_and_the_others_the_rest_alike() -> None:
    """By hand: 0.7, and a third of 0.3."""
    found = key_probabilities(record(4, key_distribution="hot", hot_share=0.7))
    assert found == pytest.approx([0.7, 0.1, 0.1, 0.1])


def test_uniform_is_the_default_and_alike_for_all() -> None:
    """A hot key that nobody asked for would measure the store's locking."""
    assert key_probabilities(record(5)) == pytest.approx([0.2] * 5)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"key_distribution": "zipf"},
        {"key_distribution": "zipf", "zipf_exponent": 2.5},
        {"key_distribution": "hot", "hot_share": 0.9},
        {"key_distribution": "hot", "hot_share": 0.01},
    ],
)
def test_draws_follow_the_exact_probabilities(fields: dict[str, Any]) -> None:
    """Pearson's chi-squared over 20 keys and 100,000 draws; seeded, one seed in a thousand has p < 0.001."""
    described = record(20, **fields)
    drawn = draw_keys(described, 100_000, np.random.default_rng(7))
    counts = np.bincount(drawn, minlength=20)
    assert counts.size == 20
    assert stats.chisquare(counts, key_probabilities(described) * 100_000).pvalue > 0.001


def test_the_largest_number_of_keys_is_drawn_from_without_a_miss() -> None:
    """Rounding must not leave a gap at the end of a million probabilities' sum."""

    class Last(np.random.Generator):
        """Draws the largest number below one."""

        def random(self, size: Any = None, dtype: Any = None, out: Any = None) -> Any:  # noqa: ANN401, ARG002
            """All the same."""
            return np.full(size, np.nextafter(1.0, 0.0))

    described = record(1_000_000, key_distribution="zipf")
    assert draw_keys(described, 2, Last(np.random.PCG64(7))).tolist() == [999_999] * 2


def test_a_slice_s_updates_go_to_the_keys_drawn() -> None:
    """Half of them to key 0; 2,000 draws, 4 sigma (89)."""
    described = record(100, key_distribution="hot", hot_share=0.5)
    payloads = Payloads(described, EventId("aaaaaaaaaa-0001", 0, 0, 0, 0, 0), 2_000, seed=7)
    keys = [parse_update_key(payloads.write(number).key) for number in range(2_000)]
    assert abs(sum(key == ("aaaaaaaaaa-0001", 0) for key in keys) - 1_000) < 90


def test_the_default_draws_what_it_always_drew() -> None:
    """The same seed offers the same load, also after an upgrade."""
    expected = np.random.default_rng(7).integers(0, 50, 20)
    assert draw_keys(record(50), 20, np.random.default_rng(7)).tolist() == expected.tolist()
