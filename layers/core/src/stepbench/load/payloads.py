"""What is written: the event's identity at the head, filler behind it."""

from __future__ import annotations

import string
from array import array
from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.identity import ANY_ATTEMPT, EVENT_ID_CHARS, EventId, put_key, update_key
from stepbench.drivers.protocol import Write
from stepbench.load.keys import draw_keys
from stepbench.load.matching import all_matching

if TYPE_CHECKING:
    from stepbench.contracts.plan import Record

FILLER = np.frombuffer((string.ascii_letters + string.digits + "-_").encode(), dtype=np.uint8)


_new = tuple.__new__  # as `wire.http1`'s


class Payloads:
    """
    Keys and values of one slice of one writer.

    The filler is random once per seed: text that no store can compress away, of characters that need no escape in
    JSON or SQL. The keys of updates are drawn before the clock starts, and are the same for every attempt.
    """

    def __init__(self, record: Record, first: EventId, events: int, seed: int) -> None:
        """`first`: the slice's first event; `events`: how many the slice holds."""
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

    def write(self, sequence: int) -> Write:
        """The write of the slice's event with this sequence number."""
        matching, number = self._matching[sequence], f"{sequence:08x}"
        if self._operation == "update":
            key = update_key(self._tag, self._indices[sequence], self._key_bytes)
        else:
            key = f"{self._keys[matching]}{number}{self._pad}"
        if self._operation == "delete":
            return Write(key, b"", delete=True)
        return _new(Write, (key, f"{self._values[matching]}{number}".encode() + self._fill, False))


def _head(event: EventId) -> str:
    return event.text().removesuffix(f"{event.sequence:08x}")
