"""What is written: the event's identity at the head, filler behind it."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.identity import EVENT_ID_CHARS, EventId, delete_key, put_key, update_key
from stepbench.drivers.protocol import Write
from stepbench.load.keys import draw_keys
from stepbench.load.matching import all_matching

if TYPE_CHECKING:
    from stepbench.contracts.plan import Record

FILLER = np.frombuffer((string.ascii_letters + string.digits + "-_").encode(), dtype=np.uint8)


class Payloads:
    """
    Keys and values of one slice of one writer.

    The filler is random once per seed: text that no store can compress away, of characters that need no escape in
    JSON or SQL. The keys of updates are drawn before the clock starts, and are the same for every attempt.
    """

    def __init__(self, record: Record, first: EventId, events: int, seed: int) -> None:
        """`first`: the slice's first event; `events`: how many the slice holds."""
        self._record = record
        self._first = first
        fill = np.random.default_rng([seed]).choice(FILLER, record.value_bytes - EVENT_ID_CHARS)
        self._fill = fill.tobytes()
        rng = np.random.default_rng([seed, first.phase, first.writer, first.slice])
        self._indices = draw_keys(record, events, rng).tolist()
        self._matching = all_matching(record.matching_share, events).tolist()

    def write(self, sequence: int) -> Write:
        """The write of the slice's event with this sequence number."""
        event = self._first._replace(sequence=sequence, matching=self._matching[sequence])
        if self._record.operation == "delete":
            return Write(delete_key(event, self._record.key_bytes), b"", delete=True)
        value = event.text().encode() + self._fill
        if self._record.operation == "update":
            return Write(update_key(event.tag, self._indices[sequence], self._record.key_bytes), value)
        return Write(put_key(event, self._record.key_bytes), value)
