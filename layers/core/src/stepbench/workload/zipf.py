"""
Zipf's law over many items, as YCSB draws it. Pure.

Ranks come from Gray's approximate inversion, which needs no table: the first two ranks have exactly their probability,
those behind them almost. The scrambled form draws a rank among ten billion and hashes it to a record, so that how hot
the hottest record is does not depend on how many there are, and the hot ones are scattered over all.

Source:
    Gray et al. (1994), Quickly generating billion-record synthetic databases, SIGMOD '94, section 3.1; Cooper et al.
    (2010), Benchmarking cloud serving systems with YCSB, SoCC '10, section 4.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCRAMBLED_ITEMS = 10_000_000_000
"""How many items YCSB draws from before it hashes."""
_EXACT_TERMS = 512
_FNV_OFFSET, _FNV_PRIME = 0xCBF29CE484222325, 1_099_511_628_211


def zeta(items: NDArray[np.float64], constant: float) -> NDArray[np.float64]:
    """
    Return sum of k ** -constant over k = 1...items, to some 1e-12 of it.

    Args:
        items: of any shape, whole numbers, at least 1.
        constant: not 1.

    Source:
        Euler-Maclaurin; Graham, Knuth & Patashnik, Concrete Mathematics, 2nd ed., section 9.5.
    """
    terms = np.arange(1, _EXACT_TERMS + 1, dtype=np.float64) ** -constant
    exact = np.cumsum(terms)[np.minimum(items, _EXACT_TERMS).astype(np.int64) - 1]
    n, m = np.maximum(items, _EXACT_TERMS), float(_EXACT_TERMS)
    power = 1 - constant
    rest = (n**power - m**power) / power + (n**-constant - m**-constant) / 2
    rest -= constant * (n ** (-constant - 1) - m ** (-constant - 1)) / 12
    total: NDArray[np.float64] = exact + rest
    return total


def zipf_ranks(uniform: NDArray[np.float64], items: NDArray[np.int64], constant: float) -> NDArray[np.int64]:
    """
    Return a rank for each uniform number, from 0 (drawn most) to items - 1.

    Args:
        uniform: shape (n,), in [0, 1).
        items: shape (n,) or (), at least 1: among how many each is drawn.
        constant: in (0, 1).

    Source:
        Gray et al. (1994), section 3.1, procedure `zipf`.
    """
    n = items.astype(np.float64)
    total = zeta(n, constant)
    second = 1 + 0.5**constant
    # Of one or two items the first two branches are all, and eta would divide by nothing.
    room = np.where(n > 2, 1 - second / total, 1.0)  # noqa: PLR2004 -- two items
    eta = (1 - (2 / n) ** (1 - constant)) / room
    tail = n * (eta * uniform - eta + 1) ** (1 / (1 - constant))
    first = uniform * total
    ranks = np.where(first < 1, 0, np.where(first < second, 1, tail)).astype(np.int64)
    drawn: NDArray[np.int64] = np.minimum(ranks, items - 1)
    return drawn


def scrambled_zipf(uniform: NDArray[np.float64], records: int, constant: float) -> NDArray[np.int64]:
    """Return the number of a record, from 0, for each uniform number."""
    ranks = zipf_ranks(uniform, np.array(SCRAMBLED_ITEMS), constant)
    return fnv_hash(ranks) % records


def fnv_hash(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """
    Hash the 8 bytes of each number by FNV-1a, the lowest first, without its sign: YCSB's `fnvhash64`.

    Source:
        Fowler, Noll & Vo, The FNV non-cryptographic hash algorithm, RFC 9923.
    """
    rest = numbers.astype(np.uint64)
    found = np.full(numbers.shape, _FNV_OFFSET, dtype=np.uint64)
    for _ in range(8):
        found = (found ^ (rest & np.uint64(0xFF))) * np.uint64(_FNV_PRIME)
        rest = rest >> np.uint64(8)
    positive: NDArray[np.int64] = np.abs(found.view(np.int64))
    return positive
