"""
Which operation each client offers next, and on which record. Pure.

Everything follows from the workload's seed and from who the client is, never from answers or time, so a retried attempt
offers the same. Clients are numbered over all writers: how they are spread over writers changes nothing. A client's
choices come in blocks of `BLOCK`, each from a random stream of its own; `prepare` makes them before the clock starts,
and one that was not foreseen costs some hundred microseconds when it is reached.

Record numbers below `workload.records` are preloaded. The k-th insert of a client makes a number of its own above
`INSERTED`, whoever else inserts. In closed loop a later attempt's operations are others than an earlier one's, since
nobody knows how far that came: its inserts would be refused.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple, assert_never

import numpy as np

from stepbench.contracts.workload import HotKeys, Kind, LatestKeys, UniformKeys, ZipfianKeys

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepbench.contracts.workload import Workload

BLOCK = 1_024
INSERTED = 1 << 61
"""Numbers of inserted records: this, and phase, slice, client, attempt and the client's count below it."""
PROBES = 1 << 60
"""Numbers of records that tell whether the store is ready: this, and what the prober likes below it."""
_PHASE_AT, _SLICE_AT, _CLIENT_AT, _ATTEMPT_AT = 54, 43, 29, 25
MAX_CLIENTS = 1 << (_SLICE_AT - _CLIENT_AT)
MAX_ATTEMPTS = 1 << (_CLIENT_AT - _ATTEMPT_AT)
SCRAMBLED_ITEMS = 10_000_000_000
"""How many items YCSB draws from before it hashes."""
_EXACT_TERMS = 512
_FNV_OFFSET, _FNV_PRIME = 0xCBF29CE484222325, 1_099_511_628_211
DIGITS = 16
"""A record number has so many hexadecimal digits."""
KINDS = tuple(Kind)
"""Looked up in a tenth of the time that the enumeration takes."""


class Choice(NamedTuple):
    """One operation: what, on which record; `rows` is how many a scan asks for, 0 for all else."""

    kind: Kind
    record: int
    rows: int


class ClientStream(NamedTuple):
    """Whose choices these are: one client in one slice of one phase; in closed loop, in one attempt at it."""

    phase: int
    slice: int
    client: int
    attempt: int = 0

    @property
    def first_insert(self) -> int:
        """Return the number of the record that its first insert makes."""
        attempt = self.attempt % MAX_ATTEMPTS
        within = self.client << _CLIENT_AT | attempt << _ATTEMPT_AT
        return INSERTED | self.phase << _PHASE_AT | self.slice << _SLICE_AT | within


class Block(NamedTuple):
    """Columns of equal length n, a row an operation. kind: uint8. record: int64. rows: int64."""

    kind: NDArray[np.uint8]
    record: NDArray[np.int64]
    rows: NDArray[np.int64]


class BlockColumns(NamedTuple):
    """A block to read single rows from, which is slow in numpy. `kind`: as in `KINDS`."""

    kind: bytes
    record: array[int]
    rows: array[int]


class Choices:
    """
    One client's choices by their sequence number, from 0.

    Ask in ascending order: a block is dropped as soon as one behind it is asked for.
    """

    def __init__(self, workload: Workload, stream: ClientStream, first: int = 0) -> None:
        """
        `first` is the lowest sequence number that will be asked for.

        Raises:
            ValueError: there is no such client.
        """
        if not 0 <= stream.client < MAX_CLIENTS:
            message = f"client {stream.client} is not one of {MAX_CLIENTS:,}"
            raise ValueError(message)
        self._workload = workload
        self._stream = stream
        self._inserts = 0
        self._next_block = 0
        self._kept_from = 0
        self._blocks: dict[int, BlockColumns] = {}
        self._keep_from(first // BLOCK)

    def prepare(self, operations: int) -> None:
        """Make the choices below this sequence number now."""
        while self._next_block * BLOCK < operations:
            self._make()

    def at(self, sequence: int) -> Choice:
        """
        Return the choice with this number.

        Raises:
            KeyError: its block has been dropped.
        """
        number, row = divmod(sequence, BLOCK)
        kind, record, rows = self.block(number)
        return Choice(KINDS[kind[row]], record[row], rows[row])

    def block(self, number: int) -> BlockColumns:
        """
        Return the choices from `number * BLOCK` on.

        Raises:
            KeyError: they have been dropped.
        """
        if number > self._kept_from:
            self._keep_from(number)
        return self._blocks[number]

    def _keep_from(self, number: int) -> None:
        for dropped in range(self._kept_from, number):
            self._blocks.pop(dropped, None)
        self._kept_from = number
        while self._next_block <= number:
            self._make()

    def _make(self) -> None:
        # What lies before the first has to be made all the same: its inserts decide what comes after.
        block = choose_block(self._workload, self._stream, self._next_block, self._inserts)
        self._inserts += int(np.count_nonzero(block.kind == Kind.INSERT))
        if self._next_block >= self._kept_from:
            record, rows = array("q", block.record.tobytes()), array("q", block.rows.tobytes())
            self._blocks[self._next_block] = BlockColumns(block.kind.tobytes(), record, rows)
        self._next_block += 1


def choose_block(workload: Workload, stream: ClientStream, block: int, inserts: int) -> Block:
    """
    Make the choices with numbers block * BLOCK...(block + 1) * BLOCK - 1; `inserts` are among those before.

    A read is aimed at what the same client has inserted earlier, and not at what others have: in closed loop that has
    been answered, and it is the same in each attempt.
    """
    rng = np.random.default_rng([workload.seed, *stream, block])
    ends = np.cumsum(workload.mix.weights) / workload.mix.total
    # The last kind of any weight ends at 1, and rounding must not leave a gap below it.
    ends[np.flatnonzero(workload.mix.weights)[-1] :] = 1.0
    kind = np.searchsorted(ends, rng.random(BLOCK), side="right").astype(np.uint8)
    is_insert = kind == Kind.INSERT
    inserted = inserts + np.cumsum(is_insert) - is_insert
    record = stream.first_insert + inserted
    if workload.touches_existing:
        existing = choose_records(workload, stream.first_insert, inserted, rng.random((2, BLOCK)))
        record = np.where(is_insert, record, existing)
    rows = rng.integers(1, workload.scan_rows, BLOCK, endpoint=True)
    return Block(kind, record, np.where(kind == Kind.SCAN, rows, 0))


def choose_records(
    workload: Workload, first_insert: int, inserted: NDArray[np.int64], uniform: NDArray[np.float64]
) -> NDArray[np.int64]:
    """
    Choose the existing record that each operation is aimed at; shape (n,).

    Args:
        workload: with records.
        first_insert: number of the client's first inserted record.
        inserted: shape (n,), how many the client has inserted before the operation.
        uniform: shape (2, n), in [0, 1).
    """
    keys, records = workload.keys, workload.records
    match keys:
        case UniformKeys():
            chosen = _below(records, uniform[0])
        case ZipfianKeys():
            chosen = scrambled_zipf(uniform[0], records, keys.constant)
        case LatestKeys():
            age = zipf_ranks(uniform[0], records + inserted, keys.constant)
            chosen = np.where(age < inserted, first_insert + inserted - 1 - age, records - 1 - (age - inserted))
        case HotKeys():
            hot = _below(keys.hot_keys, uniform[1])
            chosen = np.where(uniform[0] < keys.share, hot, keys.hot_keys + _below(records - keys.hot_keys, uniform[1]))
        case _:
            assert_never(keys)
    return chosen


def _below(end: int, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
    # The product of a large end and a number just below 1 may be rounded up to the end.
    whole: NDArray[np.int64] = np.minimum((uniform * end).astype(np.int64), end - 1)
    return whole


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

    By Gray's approximate inversion, which needs no table: the first two ranks have exactly their probability, those
    behind them almost.

    Args:
        uniform: shape (n,), in [0, 1).
        items: shape (n,) or (), at least 1: among how many each is drawn.
        constant: in (0, 1).

    Source:
        Gray et al. (1994), Quickly generating billion-record synthetic databases, SIGMOD '94, section 3.1, `zipf`.
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
    """
    Return the number of a record, from 0, for each uniform number, by Zipf's law as YCSB draws it.

    A rank is drawn among ten billion and hashed to a record, so that how hot the hottest record is does not depend on
    how many there are, and the hot ones are scattered over all.

    Source:
        Cooper et al. (2010), Benchmarking cloud serving systems with YCSB, SoCC '10, section 4.1.
    """
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
