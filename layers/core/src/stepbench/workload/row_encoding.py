"""
Rows as each store writes them: encoded before the clock starts, and held against the store's limits. Pure.

Source of the limits: Amazon DynamoDB Developer Guide, "Quotas in Amazon DynamoDB" (item size, attribute names included;
nesting; numbers); AWS Lambda quotas (asynchronous payload); etcd, "System limits" (--max-request-bytes).
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from stepbench.contracts.function import MOST_INVOKE_BYTES, MOST_SYNCHRONOUS_BYTES, PAYLOAD_FRAME_BYTES
from stepbench.contracts.identity import EVENT_ID_CHARS
from stepbench.contracts.rules.values import RESERVED, SYSTEM_COLUMNS
from stepbench.workload.rows import BASE64, BODY, MOST_DIGITS, SUFFIX, RowFault, RowsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from stepbench.contracts.trial import Record
    from stepbench.contracts.values import Row

MOST_ITEM_BYTES = 400 * 1024
MOST_ETCD_BYTES = 1_536 * 1024 - 1_024
"""etcd's limit is of a request: the key and the message around it are in it, too."""
MOST_S3_BYTES = 16 * 1024 * 1024
"""S3 itself takes 5 GB at once; a writer holds a body once for each request that is prepared."""
MOST_COLUMNS, MOST_NAME_BYTES = 1_000, 63
MOST_LEVELS = 32
_LARGEST, _SMALLEST = 1e126, 1e-130
_FEWEST_SHOWN = 5
_SUFFIX_BYTES = 24


class Encoded(NamedTuple):
    """
    One row, ready to be written.

    body: the part of the request that it is: attributes as JSON with a comma before each, or the bytes themselves.
    columns: PostgreSQL's, in the order of `Encoder.columns`; None is NULL. suffix: of the key. size_bytes: as the store
    keeps it, without the key and the identity.
    """

    body: bytes = b""
    columns: tuple[bytes | None, ...] = ()
    suffix: str = ""
    size_bytes: int = 0


class EncodedRows(NamedTuple):
    """All rows; `columns` are PostgreSQL's, with their types."""

    rows: Sequence[Encoded]
    columns: dict[str, str]


def encode_rows(rows: Sequence[Row], store: str, record: Record, *, event_invocation: bool = True) -> EncodedRows:
    """
    Return rows as a store writes them.

    Args:
        rows: without the column of their weights.
        store: one whose model has `rows_are`.
        record: its key, identity and types.
        event_invocation: whether PostgreSQL's trigger invokes asynchronously, which limits its payload.

    Raises:
        RowsError: with the first faults of the rows, each with row and column.
    """
    columns: dict[str, str] = {}
    if store == "postgresql":
        columns = _column_types(rows, record)
    encode = _encoder(store, columns)
    most = _most_bytes(store, record, event_invocation=event_invocation)
    encoded, faults = [], []
    for number, row in enumerate(rows):
        try:
            _check_names(row, store, record)
            encoded.append(_check_size(encode(row), store, most))
        except _RefusalError as refusal:
            faults.append(RowFault(number, refusal.column, refusal.message, refusal.remedy))
            if len(faults) == _FEWEST_SHOWN:
                break
    if faults:
        raise RowsError(faults)
    if store == "s3" and record.operation != "put" and len({one.suffix for one in encoded}) > 1:
        message = f"have different suffixes, and a key of {record.operation} has to be known before its row is"
        raise RowsError([RowFault(None, SUFFIX, message, 'Give all rows one suffix, or use "put".')])
    return EncodedRows(encoded, columns)


class _RefusalError(Exception):
    def __init__(self, column: str, message: str, remedy: str) -> None:
        super().__init__(message)
        self.column, self.message, self.remedy = column, message, remedy


def _refuse(column: str, message: str, remedy: str) -> NoReturn:
    raise _RefusalError(column, message, remedy) from None


_LIMITED = {
    "dynamodb": "an item, with its key,",
    "postgresql": "an invocation of Lambda by the trigger",
    "etcd": "a value of etcd",
    "s3": "a body here",
}


def _most_bytes(store: str, record: Record, *, event_invocation: bool) -> int:
    match store:
        case "dynamodb":
            return MOST_ITEM_BYTES - len("pk") - record.key_bytes - identity_bytes(record)
        case "postgresql":
            invoke_bytes = MOST_INVOKE_BYTES if event_invocation else MOST_SYNCHRONOUS_BYTES
            return invoke_bytes - PAYLOAD_FRAME_BYTES - record.key_bytes
        case "etcd":
            return MOST_ETCD_BYTES - record.key_bytes
    return MOST_S3_BYTES


def _check_size(row: Encoded, store: str, most: int) -> Encoded:
    if row.size_bytes > most:
        message = f"has {row.size_bytes:,} bytes, and {_LIMITED[store]} takes {most:,}"
        _refuse("", message, "Shorten it.")
    return row


def identity_bytes(record: Record) -> int:
    """Return how large an event's identity beside the key is, with its name."""
    name = record.identity_attribute
    return len(name.encode()) + EVENT_ID_CHARS if name else 0


def _check_names(row: Row, store: str, record: Record) -> None:
    taken = {RESERVED.get(store, ""): "the key", record.identity_attribute: "the event's identity"}
    for name in row if store in RESERVED else ():
        if not name:
            _refuse("", "has a name that is empty", "Give it a name.")
        if name in taken:
            remedy = "Rename it" + (", or set record.identity." if name == record.identity_attribute else ".")
            _refuse(name, f"is the name of {taken[name]}", remedy)


def _encoder(store: str, columns: Mapping[str, str]) -> Callable[[Row], Encoded]:
    match store:
        case "dynamodb":
            return _encode_item
        case "postgresql":
            return lambda row: _encode_columns(row, columns)
    return lambda row: _encode_body(row, suffixes=store == "s3")


def _encode_item(row: Row) -> Encoded:
    found = [(name, *_attribute(value, name, 1)) for name, value in row.items()]
    text = "".join(f",{json.dumps(name, ensure_ascii=False)}:{value}" for name, value, _ in found)
    return Encoded(_utf8(text, ""), size_bytes=sum(len(_utf8(name, "")) + size for name, _, size in found))


def _attribute(value: Any, column: str, level: int) -> tuple[str, int]:  # noqa: ANN401 -- any JSON
    """Return an AttributeValue as JSON, and how large DynamoDB takes it to be."""
    if level > MOST_LEVELS:
        _refuse(column, f"is nested deeper than {MOST_LEVELS} levels", "Remove the inner levels.")
    match value:
        case None:
            return '{"NULL":true}', 1
        case bool():
            return f'{{"BOOL":{"true" if value else "false"}}}', 1
        case int() | float():
            return f'{{"N":"{_number(value, column)}"}}', 1 + len(str(value)) // 2 + 1
        case str():
            return f'{{"S":{json.dumps(value, ensure_ascii=False)}}}', len(_utf8(value, column))
        case list():
            parts = [_attribute(each, column, level + 1) for each in value]
            return f'{{"L":[{",".join(text for text, _ in parts)}]}}', 3 + sum(1 + size for _, size in parts)
    named = [(str(name), *_attribute(each, column, level + 1)) for name, each in value.items()]
    text = ",".join(f"{json.dumps(name, ensure_ascii=False)}:{each}" for name, each, _ in named)
    return f'{{"M":{{{text}}}}}', 3 + sum(1 + len(_utf8(name, column)) + size for name, _, size in named)


def _number(value: float, column: str) -> str:
    digits = len(str(abs(value))) if isinstance(value, int) else 0
    size = abs(value) if not digits else 0
    if digits > MOST_DIGITS or size >= _LARGEST or 0 < size < _SMALLEST or not math.isfinite(size):
        message = f"is a number out of DynamoDB's range or of more than {MOST_DIGITS} digits"
        _refuse(column, message, "Write it as a text.")
    return str(value)


def _column_types(rows: Sequence[Row], record: Record) -> dict[str, str]:
    """Return the columns of all rows, in the order in which they are first seen, with their types."""
    given = record.values.types if record.values else {}
    kinds: dict[str, set[str]] = {}
    for row in rows:
        for name, value in row.items():
            kinds.setdefault(name, set()).add(_kind(value))
    faults = [*_name_faults(kinds), *_given_faults(kinds, given)]
    columns = {}
    for name, found in kinds.items():
        kind = given.get(name) or _common_kind(found - {""})
        if kind is None:
            message = f"has values of several kinds: {', '.join(sorted(found - {''}))}"
            faults.append(RowFault(None, name, message, f'Give its type: record.values.types.{name}, such as "text".'))
        else:
            columns[name] = kind
    if faults:
        raise RowsError(faults[:_FEWEST_SHOWN])
    return columns


def _name_faults(names: Mapping[str, object]) -> Iterator[RowFault]:
    if len(names) > MOST_COLUMNS:
        yield RowFault(None, "", f"have {len(names):,} columns, more than {MOST_COLUMNS:,}", "Remove some.")
    for name in names:
        if name in SYSTEM_COLUMNS:
            yield RowFault(None, name, "is the name of a system column of PostgreSQL", "Rename it.")
        if len(name.encode(errors="replace")) > MOST_NAME_BYTES or "\0" in name:
            remedy = f"Give it a name of {MOST_NAME_BYTES} bytes at most."
            yield RowFault(None, name, "has a name that PostgreSQL does not take", remedy)


def _given_faults(names: Mapping[str, object], given: Mapping[str, str]) -> Iterator[RowFault]:
    for name in given:
        if name not in names:
            yield RowFault(None, name, "has a type and is in no row", "Remove it from record.values.types.")


def _kind(value: Any) -> str:  # noqa: ANN401 -- any JSON
    match value:
        case None:
            return ""
        case bool():
            return "boolean"
        case int():
            return "bigint" if -(2**63) <= value < 2**63 else "numeric"
        case float():
            return "numeric"
        case str():
            return "text"
    return "jsonb"


def _common_kind(found: set[str]) -> str | None:
    """Return the type that holds values of these kinds; None where none does. What is always null is a text."""
    if found == {"bigint", "numeric"}:
        return "numeric"
    return next(iter(found), "text") if len(found) <= 1 else None


def _encode_columns(row: Row, columns: Mapping[str, str]) -> Encoded:
    cells = tuple(_cell(row.get(name), name, kind) for name, kind in columns.items())
    # Of the trigger's payload: names, quotes and colons are in it.
    size = sum(len(_utf8(json.dumps(name), "")) + 4 for name in columns)
    size += sum(len(json.dumps(row.get(name), ensure_ascii=False).encode(errors="replace")) for name in columns)
    return Encoded(columns=cells, size_bytes=size)


def _cell(value: Any, column: str, kind: str) -> bytes | None:  # noqa: ANN401 -- any JSON
    if value is None:
        return None
    if kind in {"json", "jsonb"} or not isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
        if "\\u0000" in text and kind == "jsonb":
            _refuse(column, "has the character U+0000, which jsonb does not take", "Remove it.")
    else:
        text = value
    if "\0" in text:
        _refuse(column, "has the character U+0000, which PostgreSQL does not take", "Remove it.")
    return _utf8(text, column)


def _encode_body(row: Row, *, suffixes: bool) -> Encoded:
    for name in row:
        if name not in {BODY, BASE64, *([SUFFIX] if suffixes else [])}:
            known = f"{BODY}, {BASE64}" + (f", {SUFFIX}" if suffixes else "")
            _refuse(name, "is nothing that a body has", f"Known here: {known}.")
    if (BODY in row) == (BASE64 in row):
        message = "has both body and base64" if BODY in row else "has no body"
        _refuse("", message, f'Give "{BODY}", a text or other JSON, or "{BASE64}".')
    body = _utf8(_as_text(row[BODY]), BODY) if BODY in row else _decoded(row[BASE64])
    return Encoded(body, suffix=_suffix(row), size_bytes=len(body))


def _as_text(value: Any) -> str:  # noqa: ANN401 -- any JSON
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _decoded(text: Any) -> bytes:  # noqa: ANN401 -- whatever stands there
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError):
        _refuse(BASE64, "is no base64", "Encode the bytes as base64, without line breaks.")


def _suffix(row: Row) -> str:
    suffix = row.get(SUFFIX, "")
    if not isinstance(suffix, str) or len(suffix.encode(errors="replace")) > _SUFFIX_BYTES or not suffix.isprintable():
        message = f"is no text of up to {_SUFFIX_BYTES} bytes on one line"
        _refuse(SUFFIX, message, 'Give one such as ".jpg".')
    return suffix


def _utf8(text: str, column: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        message = "has half of a character (a lone surrogate), which UTF-8 does not have"
        _refuse(column, message, "Remove it.")
