"""
Arrivals as receivers print them into their log: the second source, which depends on neither table nor bucket.

One JSON line an invocation (a watcher's: an item), or more where a line would not fit into a log event:

    stepbench.t4   the trial's tag
    request, t4    request id (a watcher's: the item's name) and the item's first t4, ns
    part, parts    which of how many lines
    entries        as in a t4 item, base64
    tokens         as in a t4 item; absent if there are none
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.errors import CorruptRecordsError
from stepbench.records.formats.t4 import ENTRY, pack_rows, unpack_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MARK = "stepbench.t4"
SAMPLE_EVERY = 20
"""`sample` logs one invocation in so many."""
MAX_LINE_BYTES = 200_000
"""No line is longer. CloudWatch Logs took events of 256 KiB until 2025, then 1 MiB; emulators take either."""
_HEAD_BYTES = 1_000
_ENTRY_BYTES = -(-ENTRY.size // 3) * 4
_TOKEN_FRAME_BYTES = len(', ""')


class T4Line(NamedTuple):
    """One line. `entries` are `ENTRY` structs; `tokens` is empty, or has one for each of them."""

    request_id: str
    t4_ns: int
    part: int
    parts: int
    entries: bytes
    tokens: tuple[str, ...]


def t4_filter(tag: str) -> str:
    """Return the `filterPattern` that finds the lines of one trial, since receivers serve every trial of the stack."""
    return f'"{MARK}" "{tag}"'


def is_logged(mode: str, request_id: str) -> bool:
    """
    Return whether an invocation is to be in the log.

    Args:
        mode: the plan's `log_t4`.
        request_id: decides in mode `sample`, so that a retry is logged if and only if the first try was.
    """
    return mode == "all" or (mode == "sample" and zlib.crc32(request_id.encode()) % SAMPLE_EVERY == 0)


def t4_lines(tag: str, request_id: str, t4_ns: int, item: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of one t4 item, without line ends; none for an item without entries."""
    if item["n"]:
        parts = list(_parts(item["entries"], list(item.get("tokens", ())), item["n"]))
        for part, (entries, tokens) in enumerate(parts):
            line: dict[str, Any] = {MARK: tag, "request": request_id, "t4": t4_ns, "part": part, "parts": len(parts)}
            line["entries"] = base64.b64encode(entries).decode()
            if tokens:
                line["tokens"] = tokens
            yield json.dumps(line)


def parse_t4_line(message: str, tag: str) -> T4Line | None:
    """
    Read a log event.

    Returns:
        The line, or None where the event is none of this trial's.

    Raises:
        CorruptRecordsError: it began as one, and is cut or garbled.
    """
    if not message.startswith(f'{{"{MARK}": "{tag}"'):
        return None
    try:
        line = json.loads(message)
        entries = unpack_rows(base64.b64decode(line["entries"], validate=True), str(line["request"]))
        tokens = tuple(str(token) for token in line.get("tokens", ()))
        if tokens and len(tokens) * ENTRY.size != len(entries):
            message = f"t4 line of {line['request']}: {len(entries)} bytes of entries and {len(tokens)} tokens"
            raise CorruptRecordsError(message)
        return T4Line(str(line["request"]), int(line["t4"]), int(line["part"]), int(line["parts"]), entries, tokens)
    except (KeyError, TypeError, ValueError) as error:
        message = f"t4 line {message[:200]}…: {type(error).__name__}"
        raise CorruptRecordsError(message) from error


def _parts(packed: bytes, tokens: list[str], count: int) -> Iterator[tuple[bytes, list[str]]]:
    """Yield entries and tokens of each line: all in one as they are packed, if they fit."""
    if _HEAD_BYTES + len(packed) * 4 // 3 + sum(map(_token_bytes, tokens)) <= MAX_LINE_BYTES:
        yield packed, tokens
        return
    rows = unpack_rows(packed, "to be printed")
    for chunk in _chunks(count, tokens):
        yield pack_rows(rows[chunk.start * ENTRY.size : chunk.stop * ENTRY.size]), tokens[chunk.start : chunk.stop]


def _chunks(count: int, tokens: Sequence[str]) -> Iterator[range]:
    """Yield which entries go into which line, whatever packing saves."""
    first, size = 0, _HEAD_BYTES
    for number in range(count):
        extra = _ENTRY_BYTES + (_token_bytes(tokens[number]) if tokens else 0)
        if size + extra > MAX_LINE_BYTES:
            yield range(first, number)
            first, size = number, _HEAD_BYTES
        size += extra
    yield range(first, count)


def _token_bytes(token: str) -> int:
    return len(json.dumps(token)) + _TOKEN_FRAME_BYTES
