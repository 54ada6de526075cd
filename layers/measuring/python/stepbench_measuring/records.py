"""
What the lines of a measured invocation hold, and their format (docs/your-function.md). Pure.

Only identities of events leave here, and what AWS itself adds to a record: never any other content of rows or objects.
"""

from __future__ import annotations

import json
from typing import Any

FEW_RECORDS = 16
"""So many are in the line that is written before the handler; more are written after it, since that takes longer."""
CHUNK_RECORDS = 500
CHUNK_CHARS = 200_000
"""CloudWatch Logs takes 256 kB a line."""
IDENTITY_CHARS = 40
EVENT_CHARS = 64
_POSTGRESQL = "stepbench:postgresql"
_UNREADABLE = (KeyError, IndexError, TypeError, ValueError, AttributeError)


def delivered(event: Any, identity: str) -> tuple[str, list[list[Any]]]:  # noqa: ANN401 -- whatever a store sends
    """
    Return what an event's source is called, and what names the event of each of its records; "" and none of another.

    It is read before the handler, which may change what it was given.

    Args:
        event: as the handler gets it.
        identity: the name of the DynamoDB attribute that has an event's identity; "" = only keys have it.
    """
    if isinstance(event, dict):
        if event.get("source") == _POSTGRESQL:
            return _POSTGRESQL, [_read(_postgresql, event, identity)]
        records = event.get("Records")
        if isinstance(records, list) and records:
            first = records[0]
            source = first.get("eventSource") if isinstance(first, dict) else None
            if source in _READ:
                read = _READ[source]
                return source, [_read(read, record, identity) for record in records]
    return "", []


def chunks(records: list[list[Any]]) -> list[tuple[int, str]]:
    """Return records as JSON arrays, one a line, and before each how many are in it; the last may be empty."""
    lines: list[tuple[int, str]] = []
    chunk: list[str] = []
    chars = 0
    for record in records:
        text = _dump(record)
        if chunk and (len(chunk) == CHUNK_RECORDS or chars + len(text) > CHUNK_CHARS):
            lines.append(_array(chunk))
            chunk, chars = [], 0
        chunk.append(text)
        chars += len(text) + 1
    return [*lines, _array(chunk)]


def _array(texts: list[str]) -> tuple[int, str]:
    return len(texts), f"[{','.join(texts)}]"


def failed_items(result: Any, records: list[list[Any]]) -> list[str] | None:  # noqa: ANN401 -- whatever a handler returns
    """
    Return the identifiers of a partial batch response; None if it is none, "" for one that is no text.

    Of very many, only those that decide: AWS delivers again from the first, and all if one is of no record.
    """
    if not isinstance(result, dict) or "batchItemFailures" not in result:
        return None
    items = result["batchItemFailures"]
    if items is None:
        return []
    if not isinstance(items, list):
        return [""]
    found = [item.get("itemIdentifier") if isinstance(item, dict) else "" for item in items]
    texts = [text if isinstance(text, str) else "" for text in found]
    if len(texts) > CHUNK_RECORDS:
        place = {str(record[-1]): index for index, record in enumerate(records) if record}
        texts.sort(key=lambda text: place.get(text, -1))
    return texts[:CHUNK_RECORDS]


def _dump(value: Any) -> str:  # noqa: ANN401 -- of JSON
    return json.dumps(value, separators=(",", ":"), default=str)


def line(name: str, fields: dict[str, Any], records: str | None = None) -> bytes:
    """Return one line; `records` is JSON already."""
    text = _dump(fields)
    if records is not None:
        text = f'{text[:-1]},"records":{records}}}'
    return f'{{"{name}":{text}}}\n'.encode()


def _read(read: Any, record: Any, identity: str) -> list[Any]:  # noqa: ANN401 -- see delivered
    try:
        found: list[Any] = read(record, identity)
    except _UNREADABLE:
        return []  # the place of a record that cannot be read stays
    return found


def _s3(record: Any, _identity: str) -> list[Any]:  # noqa: ANN401 -- see delivered
    stored = record["s3"]["object"]
    return [stored["key"], record["eventName"], record.get("eventTime", ""), stored.get("versionId", "")]


def _dynamodb(record: Any, identity: str) -> list[Any]:  # noqa: ANN401 -- see delivered
    change = record["dynamodb"]
    keys = [_text(value) for value in change["Keys"].values()]
    image = change.get("NewImage") or {}
    text = _text(image[identity])[:IDENTITY_CHARS] if identity and identity in image else ""
    created = change.get("ApproximateCreationDateTime", 0)
    return [record["eventName"], keys, text, created, change.get("SequenceNumber", "")]


def _text(value: dict[str, Any]) -> str:
    """Return an attribute's value if that is one text: of a string, a number or bytes in base64."""
    found = next(iter(value.values()), "")
    return found if isinstance(found, str) else ""


def _postgresql(record: Any, _identity: str) -> list[Any]:  # noqa: ANN401 -- see delivered
    return [str(record["event"])[:EVENT_CHARS], int(record.get("t3_us") or 0)]


_READ = {"aws:s3": _s3, "aws:dynamodb": _dynamodb, _POSTGRESQL: _postgresql}
