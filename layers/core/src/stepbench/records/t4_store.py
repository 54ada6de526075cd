"""Where t4 items go: the results table, or the bucket while the table is down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from stepbench.errors import RecordsUnavailableError
from stepbench.records import layout
from stepbench.records.t4 import encode_fallback

if TYPE_CHECKING:
    from stepbench.records.clock_sample import ClockSample


class T4Table(Protocol):
    """The results table: `TrialTable`, or `ReceiverTable`. All raise RecordsUnavailableError."""

    def put_t4(self, tag: str, request_id: str, t4_ns: int, attributes: dict[str, Any], /) -> None:
        """One packed item per invocation."""
        ...

    def put_malformed(self, store: str, t4_ns: int, request_id: str, index: int, body: str, /) -> None:
        """Keep an event that names nothing."""
        ...

    def add_clock(self, tag: str, sample: ClockSample, /) -> None:
        """Keep one measured offset."""
        ...


class T4Bucket(Protocol):
    """The results bucket: `RunStore`, or `ReceiverBucket`."""

    def put_bytes(self, key: str, body: bytes, content_type: str, /) -> None:
        """Store a file. Raises RecordsUnavailableError."""
        ...


class T4Store:
    """Keeps t4 items and malformed events in one of two places."""

    def __init__(self, table: T4Table, bucket: T4Bucket) -> None:
        self._table = table
        self._bucket = bucket

    def put(self, tag: str, request_id: str, t4_ns: int, item: dict[str, Any]) -> bool:
        """
        Keep one item.

        Returns:
            Whether it was the table that took it.

        Raises:
            RecordsUnavailableError: neither table nor bucket took it.
        """
        try:
            self._table.put_t4(tag, request_id, t4_ns, item)
        except RecordsUnavailableError:
            body = encode_fallback(layout.t4_sk(request_id, t4_ns), item)
            self._bucket.put_bytes(layout.t4_fallback_key(tag, request_id, t4_ns), body, "application/json")
            return False
        return True

    def put_malformed(self, store: str, t4_ns: int, request_id: str, place: int, body: str) -> bool:
        """
        Keep an event that names nothing.

        Returns:
            Whether it was the table that took it.

        Raises:
            RecordsUnavailableError: neither table nor bucket took it.
        """
        try:
            self._table.put_malformed(store, t4_ns, request_id, place, body)
        except RecordsUnavailableError:
            key = layout.malformed_fallback_key(store, t4_ns, request_id, place)
            self._bucket.put_bytes(key, body.encode(), "text/plain")
            return False
        return True

    def add_clock(self, tag: str, sample: ClockSample) -> None:
        """
        Keep one measured offset; there is no second place for it.

        Raises:
            RecordsUnavailableError: the table did not take it.
        """
        self._table.add_clock(tag, sample)
