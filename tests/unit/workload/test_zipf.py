from __future__ import annotations

import numpy as np
import pytest

from stepbench.workload.zipf import SCRAMBLED_ITEMS, fnv_hash, scrambled_zipf, zeta, zipf_ranks

DRAWS = 400_000


def draws(items: int, constant: float) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Draw ranks among so many items; seeded."""
    return zipf_ranks(np.random.default_rng(7).random(DRAWS), np.array(items), constant)


def test_zeta_is_ycsb_s_published_constant() -> None:
    """`ZETAN` in YCSB's ScrambledZipfianGenerator: ten billion terms, which nobody wants to add here."""
    assert float(zeta(np.array(1e10), 0.99)) == pytest.approx(26.46902820178302, rel=1e-9)


@pytest.mark.parametrize("constant", [0.1, 0.5, 0.99])
def test_zeta_is_the_sum(constant: float) -> None:
    """Before, at and after the terms that are added one by one."""
    items = np.array([1, 2, 511, 512, 513, 1_000, 100_000])
    expected = [np.sum(np.arange(1, n + 1) ** -constant) for n in items.tolist()]
    assert zeta(items.astype(np.float64), constant).tolist() == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize(("items", "constant"), [(1_000, 0.99), (100_000, 0.99), (1_000, 0.5), (SCRAMBLED_ITEMS, 0.99)])
def test_the_two_first_ranks_have_exactly_their_probability(items: int, constant: float) -> None:
    """1 / zeta and 2^-constant / zeta; 4 sigma of 400,000 draws."""
    ranks = draws(items, constant)
    total = float(zeta(np.array(float(items)), constant))
    for rank in (0, 1):
        expected = (rank + 1) ** -constant / total
        assert abs(np.mean(ranks == rank) - expected) < 4 * np.sqrt(expected / DRAWS)


@pytest.mark.parametrize(("items", "constant"), [(1_000, 0.99), (100_000, 0.99), (1_000, 0.5)])
def test_gray_s_approximation_stays_close_to_the_law(items: int, constant: float) -> None:
    """The share of draws up to each rank differs from the exact one by less than 2.5 %; an off-by-one by more."""
    ranks = draws(items, constant)
    exact = np.cumsum(np.arange(1, items + 1) ** -constant)
    exact /= exact[-1]
    for upto in (1, 2, 10, 100, items // 2, items):
        assert np.mean(ranks < upto) == pytest.approx(exact[upto - 1], abs=0.025)
    assert ranks.min() == 0
    assert ranks.max() < items


@pytest.mark.parametrize("items", [1, 2, 3])
def test_few_items_are_all_drawn_and_nothing_else(items: int) -> None:
    """The closed form divides by nothing at two."""
    ranks = draws(items, 0.99)
    exact = np.arange(1, items + 1) ** -0.99
    shares = np.bincount(ranks, minlength=items) / DRAWS
    assert shares.tolist() == pytest.approx((exact / exact.sum()).tolist(), abs=0.005)


def test_each_draw_may_be_among_its_own_number_of_items() -> None:
    """`latest` draws from ever more."""
    items = np.repeat([1, 10, 1_000], 1_000)
    uniform = np.tile(np.random.default_rng(7).random(1_000), 3)
    together = zipf_ranks(uniform, items, 0.99)
    apart = [zipf_ranks(uniform[:1_000], np.array(n), 0.99) for n in (1, 10, 1_000)]
    assert together.tolist() == np.concatenate(apart).tolist()


def by_hand(number: int) -> int:
    """Hash by FNV-1a as YCSB's `fnvhash64` does, in Python's integers."""
    found = 0xCBF29CE484222325
    for _ in range(8):
        found = (found ^ (number & 0xFF)) * 1_099_511_628_211 % 2**64
        number >>= 8
    return abs(found - 2**64 if found >= 2**63 else found)


def test_the_hash_is_ycsb_s() -> None:
    """So that the same ranks are hot there and here."""
    numbers = [0, 1, 255, 256, 123_456_789, SCRAMBLED_ITEMS - 1]
    assert fnv_hash(np.array(numbers)).tolist() == [by_hand(number) for number in numbers]


def test_the_hottest_record_is_as_hot_among_many_as_among_few() -> None:
    """1 / 26.47 = 3.78 % belong to rank 0, to which a small table adds some of the others; and not to record 0."""
    uniform = np.random.default_rng(7).random(DRAWS)
    for records, extra in ((100_000, 0.001), (1_000, 0.004)):
        counts = np.bincount(scrambled_zipf(uniform, records, 0.99), minlength=records)
        assert counts.size == records
        hottest = by_hand(0) % records
        assert counts.argmax() == hottest != 0
        assert 0.0378 - 0.0015 < counts[hottest] / DRAWS < 0.0378 + 0.0015 + extra


def test_the_hot_records_are_scattered() -> None:
    """Neighbours on one page or partition would be another experiment: of the 10 hottest, no half holds less than 2."""
    counts = np.bincount(scrambled_zipf(np.random.default_rng(7).random(DRAWS), 10_000, 0.99), minlength=10_000)
    hottest = np.argsort(counts)[-10:]
    assert 2 <= np.count_nonzero(hottest < 5_000) <= 8
