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

import hashlib
from array import array
from typing import TYPE_CHECKING, NamedTuple, assert_never

import numpy as np

from stepbench.contracts.workload import HotKeys, Kind, LatestKeys, UniformKeys, ZipfianKeys
from stepbench.workload.zipf import scrambled_zipf, zipf_ranks

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
_MASK = (1 << 64) - 1
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


class RecordKeys:
    """
    The keys of a trial's records, of the length that the workload asks for: head, digits, tail.

    With hashed order, the digits are a bijection of the number: no two records share a key.
    """

    def __init__(self, workload: Workload, tag: str) -> None:
        """`tag` is the trial's namespace."""
        if workload.record.shape == "row":  # the digits of a UUID; the tag is in its second half
            self.head, self.tail = "", hashlib.blake2b(tag.encode(), digest_size=DIGITS // 2).hexdigest()
        else:
            self.head = f"{tag}/rec-"
            self.tail = "/".ljust(workload.record.key_bytes - len(self.head) - DIGITS, "x")
        self._hashed = workload.key_order == "hashed"

    def of(self, number: int) -> str:
        """Return the key of the record with this number."""
        return self.with_digits(f"{mix_bits(number) if self._hashed else number:016x}")

    def with_digits(self, digits: str) -> str:
        """Return the key with these digits."""
        return f"{self.head}{digits}{self.tail}"

    def digits_of(self, key: str) -> str:
        """Return the digits in a key, which are its record's alone."""
        return key[len(self.head) : len(self.head) + DIGITS]

    def codes(self, numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return what the digits of these records' keys say as numbers; same shape."""
        unsigned = numbers.astype(np.uint64)
        return mix_all_bits(unsigned) if self._hashed else unsigned


def hexadecimal(numbers: NDArray[np.uint64]) -> str:
    """Return the digits of all, one after the other: for a thousand it takes as long as for three by themselves."""
    return numbers.astype(">u8").tobytes().hex()


def mix_bits(number: int) -> int:
    """
    Return 64 bits that look random, a different number for each.

    Source:
        Steele, Lea & Flood (2014), Fast splittable pseudorandom number generators, OOPSLA '14 (mix64variant13, by
        Stafford).
    """
    number = ((number ^ number >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    number = ((number ^ number >> 27) * 0x94D049BB133111EB) & _MASK
    return number ^ number >> 31


def mix_all_bits(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return `mix_bits` of each number; the products wrap around."""
    numbers = (numbers ^ numbers >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ numbers >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return numbers ^ numbers >> np.uint64(31)
