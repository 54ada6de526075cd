"""What is written into the results table; where t4 items go while it is down; and the log, if a trial asks for it."""

from __future__ import annotations

import contextlib
import sys
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

from stepbench.errors import RecordsUnavailableError
from stepbench.records.formats.t4 import encode_fallback
from stepbench.records.formats.t4_lines import is_logged, t4_lines
from stepbench.records.storage import layout

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepbench.records.storage.layout import ClockSample

REQUEST_AGAIN_NS = 60_000_000_000


class RecordTable(ABC):
    """What is written into the results table, whichever way it is reached."""

    @abstractmethod
    def put_row(self, pk: str, sk: str, attributes: Mapping[str, Any]) -> None:
        """Put one item. Raises RecordsUnavailableError."""

    def put_t4(self, tag: str, request_id: str, t4_ns: int, attributes: Mapping[str, Any]) -> None:
        """Put one packed item per invocation (see `records.formats.t4`)."""
        self.put_row(layout.t4_pk(tag, layout.t4_shard(request_id)), layout.t4_sk(request_id, t4_ns), attributes)

    def put_malformed(self, store: str, t4_ns: int, request_id: str, index: int, body: str) -> None:
        """Keep an event that names nothing, for the count and for the reader."""
        shown = {"body": body[: layout.MALFORMED_CHARS]}
        self.put_row(layout.malformed_pk(store), layout.malformed_sk(t4_ns, request_id, index), shown)

    def put_of_trial(self, tag: str, sk: str, **attributes: Any) -> None:  # noqa: ANN401 -- an item's attributes
        """Put a small item of a trial, or of what stands in its place."""
        self.put_row(layout.trial_pk(tag), sk, attributes)

    def add_clock(self, tag: str, sample: ClockSample) -> None:
        """Keep one measured offset."""
        self.put_of_trial(tag, layout.clock_sk(sample), **sample.attributes)

    def set_flag(self, tag: str, flag: str, reason: str) -> None:
        """Set a flag such as `layout.CANCELLED`."""
        self.put_of_trial(tag, flag, reason=reason, at_ns=time.time_ns())

    def beat(self, tag: str, who: str, progress: dict[str, int], **more: object) -> None:
        """
        Write a sign of life of `writer#<attempt id>` or `watcher#<watch>`, with counters and more.

        With `ended=True` it is the last one, since the sender ended in good order; `ended=False` is not written.
        """
        if more.get("ended") is False:
            del more["ended"]
        self.put_of_trial(tag, layout.HEARTBEAT + who, at_ns=time.time_ns(), progress=progress, **more)


class Bucket(Protocol):
    """A place for what the table does not take: the results bucket as a `RunStore`, or as a receiver reaches it."""

    def put_bytes(self, key: str, body: bytes, content_type: str) -> None:
        """Store a file. Raises RecordsUnavailableError."""


class T4Store:
    """Stores t4 items and malformed events in the table, or else in the bucket."""

    def __init__(self, table: RecordTable, bucket: Bucket) -> None:
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


def print_line(line: str) -> None:
    """Write a line at once, so that it is one log event. A log that is gone fails no invocation: the line is missed."""
    with contextlib.suppress(OSError):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


class T4Log:
    """
    Prints t4 lines where a trial asks for them.

    A receiver serves every trial of the stack, and learns what a trial wants from its `layout.LOG_T4` flag, once a
    sandbox and after the item is stored; from then on it sends no request. While there is no answer, lines are
    printed: that is when the second source is needed most.

    Args:
        find_mode: the trial's `log_t4` by its tag, None for `none`. Raises RecordsUnavailableError.
        write: takes one line.
    """

    def __init__(self, find_mode: Callable[[str], str | None], write: Callable[[str], None] = print_line) -> None:
        self._find_mode = find_mode
        self._write = write
        self._modes: dict[str, str] = {}
        self._requested_ns: dict[str, int] = {}

    def knows(self, tag: str) -> bool:
        """Return whether `add` would send no request."""
        return tag in self._modes

    def add(self, tag: str, request_id: str, t4_ns: int, item: Mapping[str, Any], *, may_request: bool = True) -> None:
        """Print the item's lines, if its trial wants that; also if that is not known and no request is to be sent."""
        mode = self._mode(tag, t4_ns) if may_request else self._modes.get(tag, "all")
        if is_logged(mode, request_id):
            for line in t4_lines(tag, request_id, t4_ns, item):
                self._write(line)

    def _mode(self, tag: str, now_ns: int) -> str:
        known = self._modes.get(tag)
        if known is not None:
            return known
        requested_ns = self._requested_ns.get(tag)
        if requested_ns is not None and now_ns - requested_ns < REQUEST_AGAIN_NS:
            return "all"
        self._requested_ns[tag] = now_ns
        try:
            self._modes[tag] = self._find_mode(tag) or "none"
        except RecordsUnavailableError:
            return "all"
        return self._modes[tag]
