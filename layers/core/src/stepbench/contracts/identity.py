"""
Event identity: (run, trial, phase, writer, slice, attempt, sequence) as text of fixed width.

The text is the start of every value, and of every key that a `put` makes, so each store hands it to the
receiver in its own way and the receiver needs no look-up. It is 40 ASCII characters:

    rrrrrrrrrr-tttt/pp-wwww-ssss-aa-nnnnnnnn
    run tag    trial phase writer slice attempt sequence      (all but the run tag in hexadecimal)

Where an event is not to pass the trigger's filter, a full stop stands in place of the slash. So `<tag>/` is the head of
whatever a filter has to let through, in every store: canaries too, and keys that updates overwrite.
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import NamedTuple

RUN_TAG_CHARS = 10
TAG_CHARS = RUN_TAG_CHARS + 5
EVENT_ID_CHARS = 40
MIN_KEY_BYTES = 48
MIN_VALUE_BYTES = EVENT_ID_CHARS
_TAG = r"([a-z2-7]{10}-[0-9a-f]{4})"
_EVENT_ID = re.compile(_TAG + r"([/.])([0-9a-f]{2})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{2})-([0-9a-f]{8})")
_UPDATE_KEY = re.compile(_TAG + r"/key-([0-9a-f]{8})/")
_MATCHING, _HELD_BACK, _IN_NAMES = "/", ".", "_"
VALUE_ATTRIBUTE = "value"
"""The attribute or column that begins with an event's identity, unless the plan gives another name."""
MAX_WRITERS = 1_000
MAX_SLICES = 2_000
ANY_ATTEMPT = 0xFF
"""Attempt number in a key that exists before its event is offered: a deletion's."""
CANARY_PHASE = 0xFF
"""Phase number of the canaries, which stand outside the accounting."""
UNRESOLVED_PHASE = 0xFE
"""Phase number in a t4 entry whose event is known only by the store's token (S3 updates: key and version id)."""


class EventId(NamedTuple):
    """
    One event of one attempt. `sequence` counts through the writer's slice of the schedule, from 0.

    matching: whether the trigger's filter is to let it pass; so it does where there is none.
    """

    tag: str
    phase: int
    writer: int
    slice: int
    attempt: int
    sequence: int
    matching: bool = True

    def text(self) -> str:
        """Return the 40 characters that travel."""
        tag, phase, writer, slice_, attempt, sequence, matching = self
        kind = _MATCHING if matching else _HELD_BACK
        return f"{tag}{kind}{phase:02x}-{writer:04x}-{slice_:04x}-{attempt:02x}-{sequence:08x}"


def matching_head(tag: str) -> str:
    """Return the head of a trial's keys and values that pass its filter."""
    return f"{tag}{_MATCHING}"


def run_tag(run_id: str) -> str:
    """Return ten characters [a-z2-7] that stand for the run in keys; 50 bits of SHA-256."""
    return base64.b32encode(hashlib.sha256(run_id.encode()).digest())[:RUN_TAG_CHARS].decode().lower()


def trial_tag(run_id: str, trial: int) -> str:
    """Return the trial's namespace, `<run tag>-<trial, 4 hex>`."""
    return f"{run_tag(run_id)}-{trial:04x}"


def parse_event_id(text: str) -> EventId | None:
    """
    Read an identity off the head of a key or value.

    Returns:
        The identity, or None where the text does not begin with one (a malformed event).
    """
    found = _EVENT_ID.match(text)
    if not found:
        return None
    tag, kind, *numbers = found.groups()
    phase, writer, slice_, attempt, sequence = (int(number, 16) for number in numbers)
    return EventId(tag, phase, writer, slice_, attempt, sequence, kind == _MATCHING)


def delete_key(event: EventId, key_bytes: int) -> str:
    """
    Return the key that a delete removes: as `put_key`, of no attempt.

    It is written before any attempt is made, and it is all that a store reports of a deletion.
    """
    return put_key(event._replace(attempt=ANY_ATTEMPT), key_bytes)


def put_key(event: EventId, key_bytes: int) -> str:
    """Return the key that a `put` makes: the identity, padded to `key_bytes`."""
    return f"{event.text()}/".ljust(key_bytes, "x")


def execution_name(event: str) -> str:
    """Return the name of a DAG's execution that stands for an event, whose text has a slash, as no name may."""
    return event.replace(_MATCHING, _IN_NAMES, 1)


def executions_prefix(tag: str) -> str:
    """Return what the names of a trial's executions of DAGs begin with."""
    return f"{tag}{_IN_NAMES}"


def update_key(tag: str, index: int, key_bytes: int) -> str:
    """Return the `index`-th of the keys that updates overwrite, padded to `key_bytes`."""
    return f"{matching_head(tag)}key-{index:08x}/".ljust(key_bytes, "x")


def parse_update_key(key: str) -> tuple[str, int] | None:
    """Return tag and index of an update's key, or None for any other key."""
    found = _UPDATE_KEY.match(key)
    return (found[1], int(found[2], 16)) if found else None
