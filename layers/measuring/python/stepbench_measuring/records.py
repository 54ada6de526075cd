"""
What the lines of a measured invocation hold, and their format (docs/your-function.md). Pure.

Only identities of events leave here, and what AWS itself adds to a record: never any other content of rows or objects.
What runs before the handler puts texts together: `json` takes twice the time for the same.
"""

from __future__ import annotations

import json
from json.encoder import encode_basestring_ascii as quote
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


def delivered(event: Any, identity: str) -> tuple[str, list[str]]:  # noqa: ANN401 -- whatever a store sends
    """
    Return what an event's source is called, and as JSON what names the event of each record; "" and none of another.

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
                try:
                    return source, [read(record, identity) for record in records]
                except _UNREADABLE:
                    return source, [_read(read, record, identity) for record in records]
    return "", []


def common_fields(trial: str, request: str, t4_ns: int) -> str:
    """Return what all lines of an invocation have, as JSON between braces."""
    return f'"trial":{quote(trial)},"request":{quote(request)},"t4":{t4_ns}'


def begin_line(common: str, of_sandbox: str, source: str, records: list[str]) -> bytes:
    """Return the first line, with its records if they are few; `of_sandbox` is JSON between braces."""
    shown = ",".join(records) if len(records) <= FEW_RECORDS else ""
    batch = f'"batch":{len(records)},"source":"{source}"'
    return f'{{"stepbench.t4":{{{common},{of_sandbox},{batch},"records":[{shown}]}}}}\n'.encode()


def end_lines(common: str, times: tuple[int, int], error: str, result: Any, records: list[str]) -> list[bytes]:  # noqa: ANN401 -- of a handler
    """
    Return the lines that are written after the handler; the last of many records are in the last line.

    times: when the handler was called, and t5.
    """
    *others, last = [[]] if len(records) <= FEW_RECORDS else chunks(records)
    lines, begin = [], 0
    for chunk in others:
        lines.append(f'{{"stepbench.records":{{{common},"from":{begin},"records":[{",".join(chunk)}]}}}}\n'.encode())
        begin += len(chunk)
    called, t5 = times
    ended = f'"called":{called},"t5":{t5},"error":{quote(error)},"failed":{json.dumps(failed_items(result, records))}'
    return [*lines, f'{{"stepbench.t5":{{{common},{ended},"records":[{",".join(last)}]}}}}\n'.encode()]


def chunks(records: list[str]) -> list[list[str]]:
    """Return them in parts, one a line; the last may be empty."""
    lines: list[list[str]] = []
    chunk: list[str] = []
    chars = 0
    for text in records:
        if chunk and (len(chunk) == CHUNK_RECORDS or chars + len(text) > CHUNK_CHARS):
            lines.append(chunk)
            chunk, chars = [], 0
        chunk.append(text)
        chars += len(text) + 1
    return [*lines, chunk]


def failed_items(result: Any, records: list[str]) -> list[str] | None:  # noqa: ANN401 -- whatever a handler returns
    """
    Return the identifiers of a partial batch response; None if it is none, "" for one that is no text.

    Of very many, only those that decide: AWS delivers again from the first, and all if one is of no record.
    """
    if not isinstance(result, dict) or "batchItemFailures" not in result:
        return None
    items = result["batchItemFailures"]
    if items is None:
        return []
    if not isinstance(items, (list, tuple)):
        return [""]
    found = [item.get("itemIdentifier") if isinstance(item, dict) else "" for item in items]
    texts = [text if isinstance(text, str) else "" for text in found]
    if len(texts) > CHUNK_RECORDS:
        named = [json.loads(record) for record in records]
        place = {str(record[-1]): index for index, record in enumerate(named) if record}
        texts.sort(key=lambda text: place.get(text, -1))
    return texts[:CHUNK_RECORDS]


def _read(read: Any, record: Any, identity: str) -> str:  # noqa: ANN401 -- see delivered
    try:
        found: str = read(record, identity)
    except _UNREADABLE:
        return "[]"  # the place of a record that cannot be read stays
    return found


def _s3(record: Any, _identity: str) -> str:  # noqa: ANN401 -- see delivered
    stored = record["s3"]["object"]
    time, version = quote(record.get("eventTime") or ""), quote(stored.get("versionId") or "")
    return f"[{quote(stored['key'])},{quote(record['eventName'])},{time},{version}]"


def _dynamodb(record: Any, identity: str) -> str:  # noqa: ANN401 -- see delivered
    change = record["dynamodb"]
    keys = ",".join([quote(_text(value)) for value in change["Keys"].values()])
    image = change.get("NewImage")
    text = _text(image[identity])[:IDENTITY_CHARS] if identity and image and identity in image else ""
    created, number = change.get("ApproximateCreationDateTime") or 0, change.get("SequenceNumber") or ""
    return f"[{quote(record['eventName'])},[{keys}],{quote(text)},{created:.17g},{quote(number)}]"


def _text(value: dict[str, Any]) -> str:
    """Return an attribute's value if that is one text: of a string, a number or bytes in base64."""
    found = next(iter(value.values()), "")
    return found if isinstance(found, str) else ""


def _postgresql(record: Any, _identity: str) -> str:  # noqa: ANN401 -- see delivered
    return f"[{quote(str(record['event'])[:EVENT_CHARS])},{int(record.get('t3_us') or 0)}]"


_READ = {"aws:s3": _s3, "aws:dynamodb": _dynamodb, _POSTGRESQL: _postgresql}
