"""
Writes of events: key and value begin with the event's identity, and filler stands behind it. Pure.

Which key each update overwrites, and which events the trigger's filter is to let pass, follows from the seed.

Keys are drawn before the clock starts, from the slice's own random stream, so every attempt at it writes the same ones.
The key with the smallest number is the one that is drawn most.

Whether an event passes the filter follows from its place in its slice alone. Nothing has to be recorded of it: writers,
`AwaitArrivals` and the analysis each work it out, with the same result for every attempt. Planning asks here, too,
whether random arrivals, and what passes the filter, leave a window empty (`planning.schedule`).

Source:
    Zipf's law over a finite number of keys as in YCSB: Cooper et al. (2010), Benchmarking cloud serving systems with
    YCSB, SoCC '10, section 4.1; here by inversion of the exact distribution, without YCSB's approximation.
"""

from __future__ import annotations

import string
from array import array
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.identity import ANY_ATTEMPT, EVENT_ID_CHARS, EventId, put_key, update_key
from stepbench.contracts.workload import Kind
from stepbench.model.request import Request
from stepbench.workload.arrivals import phase_offsets_ns, slice_cuts, think_times_ns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepbench.contracts.phase import Window
    from stepbench.contracts.plan import TrialPlan
    from stepbench.contracts.trial import Record
    from stepbench.contracts.workload import ClosedLoad
    from stepbench.workload.values import PreparedValues

_SECOND_NS = 1_000_000_000
_FINEST = 10**9
"""Times a sequence number, which has 32 bits, this is still below 2 ** 63."""


def key_probabilities(record: Record) -> NDArray[np.float64]:
    """Return how probable each key is; shape (distinct_keys,), the sum is 1."""
    keys = record.distinct_keys or 1
    weights = np.ones(keys)
    if record.key_distribution == "zipf":
        weights = np.arange(1, keys + 1, dtype=np.float64) ** -record.zipf_exponent
    elif record.key_distribution == "hot":
        # The others together weigh one.
        weights /= keys - 1
        weights[0] = record.hot_share / (1 - record.hot_share)
    probabilities: NDArray[np.float64] = weights / weights.sum()
    return probabilities


def draw_keys(record: Record, events: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw the number of the key that each event overwrites, from 0; shape (events,)."""
    if record.key_distribution == "uniform":
        return rng.integers(0, record.distinct_keys or 1, events)
    ends = np.cumsum(key_probabilities(record))
    ends[-1] = 1.0  # what rounding has left below it belongs to the last key
    return np.searchsorted(ends, rng.random(events), side="right").astype(np.int64)


def matching(share: float, sequence: NDArray[np.int64]) -> NDArray[np.bool_]:
    """
    Return which events pass: event k if floor((k + 1) * share) > floor(k * share), so floor(n * share) of n, evenly.

    In whole numbers: as floats, 100 * 0.29 would be below 29.

    Args:
        share: from 0 (excluded) to 1; taken as the simplest fraction that is this float, so that 0.1 is a tenth.
        sequence: places in a slice, from 0; any shape.
    """
    part = Fraction(share).limit_denominator(_FINEST)
    passes: NDArray[np.bool_] = sequence * part.numerator % part.denominator + part.numerator >= part.denominator
    return passes


def all_matching(share: float, events: int) -> NDArray[np.bool_]:
    """Return `matching` of a slice's first events; shape (events,)."""
    return matching(share, np.arange(events, dtype=np.int64))


FILLER = np.frombuffer((string.ascii_letters + string.digits + "-_").encode(), dtype=np.uint8)
_INSERT = Kind.INSERT
_NEW = tuple.__new__
"""Makes a named tuple in a third of the time that its own constructor takes."""


class Payloads:
    """
    Keys and values of one slice of one writer.

    The filler is random once per seed: text that no store can compress away, of characters that need no escape in
    JSON or SQL. The keys of updates are drawn before the clock starts, and are the same for every attempt.
    """

    def __init__(self, record: Record, first: EventId, events: int, seed: int) -> None:
        """`first` is the slice's first event; `events` is how many the slice holds."""
        self._operation = record.operation
        self._tag = first.tag
        self._key_bytes = record.key_bytes
        fill = np.random.default_rng([seed]).choice(FILLER, record.value_bytes - EVENT_ID_CHARS)
        self._fill = fill.tobytes()
        self._indices = array("I")
        if record.operation == "update":
            rng = np.random.default_rng([seed, first.phase, first.writer, first.slice])
            self._indices.frombytes(draw_keys(record, events, rng).astype(np.uint32).tobytes())
        self._matching = all_matching(record.matching_share, events).tobytes()
        # All of an identity but its sequence number, of which an event that is held back has another one.
        self._values = [_head(first._replace(matching=matching)) for matching in (False, True)]
        in_keys = first._replace(attempt=ANY_ATTEMPT) if record.operation == "delete" else first
        self._keys = [_head(in_keys._replace(matching=matching)) for matching in (False, True)]
        self._pad = put_key(first, record.key_bytes)[EVENT_ID_CHARS:]

    def write(self, sequence: int) -> Request:
        """Return the write of the slice's event with this sequence number."""
        matching, number = self._matching[sequence], f"{sequence:08x}"
        if self._operation == "update":
            key = update_key(self._tag, self._indices[sequence], self._key_bytes)
        else:
            key = f"{self._keys[matching]}{number}{self._pad}"
        if self._operation == "delete":
            return Request(Kind.DELETE, key)
        value = f"{self._values[matching]}{number}".encode() + self._fill
        return _NEW(Request, (_INSERT, key, value, None, 0, 0, ()))


class ValuePayloads(Payloads):
    """`Payloads` whose values are rows of the user's own; the choice among them is made before the clock starts."""

    def __init__(  # noqa: PLR0913, PLR0917 -- as of `Payloads`, with the rows
        self, record: Record, first: EventId, events: int, seed: int, values: PreparedValues, writers: int
    ) -> None:
        """See `Payloads`; `writers` share the rows between them."""
        super().__init__(record, first, events, seed)
        self._rows = values.rows
        self._chosen = values.choose(first, events, seed, writers)
        self._named = values.named
        self._suffix = "" if record.operation == "put" else values.key("")

    def write(self, sequence: int) -> Request:
        """Return the write of the slice's event with this sequence number."""
        matching, number = self._matching[sequence], f"{sequence:08x}"
        row = self._rows[self._chosen[sequence]]
        if self._operation == "put":
            key = f"{self._keys[matching]}{number}{self._pad}{row.suffix}"
        elif self._operation == "delete":
            return Request(Kind.DELETE, f"{self._keys[matching]}{number}{self._pad}{self._suffix}")
        else:
            key = update_key(self._tag, self._indices[sequence], self._key_bytes) + self._suffix
        value = f"{self._values[matching]}{number}".encode() + row.body if self._named else row.body
        return _NEW(Request, (_INSERT, key, value, None, 0, 0, row.columns))


def _head(event: EventId) -> str:
    return event.text().removesuffix(f"{event.sequence:08x}")


def windows_without(plan: TrialPlan, phase: int, windows: Sequence[Window]) -> list[Window]:
    """Return the windows in which no writer has an event due that passes the filter."""
    left = list(windows)
    for writer in range(plan.writers):
        if not left:
            break
        due_ns = _passing_ns(plan, phase, writer)
        left = [window for window in left if not _count(due_ns, window)]
    return left


def _passing_ns(plan: TrialPlan, phase: int, writer: int) -> NDArray[np.int64]:
    due_ns = phase_offsets_ns(plan, phase, writer)
    if plan.record.matching_share == 1:
        return due_ns
    cuts = slice_cuts(plan, phase, due_ns)
    sequence = np.arange(due_ns.size) - np.repeat(cuts[:-1], np.diff(cuts))
    return due_ns[matching(plan.record.matching_share, sequence)]


def _count(due_ns: NDArray[np.int64], window: Window) -> int:
    ends_ns = [round(end_s * _SECOND_NS) for end_s in (window.from_s, window.to_s)]
    first, last = np.searchsorted(due_ns, ends_ns)
    return int(last - first)


def first_client_ns(plan: TrialPlan, phase: int, load: ClosedLoad) -> int:
    """Return when the first client of a closed-loop phase begins, in ns from the phase's start."""
    seeds = ((plan.seed, phase, 0, 0, client) for client in range(load.clients))
    return min(next(think_times_ns(load.think_ms / 1e3, load.think, seed)) for seed in seeds)
