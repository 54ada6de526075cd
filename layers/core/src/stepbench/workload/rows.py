"""
Rows of the user's own, read from what a plan or a file holds. Pure.

What is wrong is said by row and column, never with a row's content: that is the user's, and messages are logged.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import math
import re
import zipfile
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from stepbench.contracts.values import MOST_FILE_BYTES, MOST_ROWS, MOST_TEXT_BYTES, most_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stepbench.contracts.values import Row

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WORDS = {"true": True, "false": False}
MOST_DIGITS = 38
"""Of a whole number: DynamoDB's precision; and Python converts digits in a time by the square of their number."""
BODY, BASE64, SUFFIX = "body", "base64", "suffix"


class RowFault(NamedTuple):
    """What is wrong with rows, at which row (from 0; None: with all) and column, and the way out."""

    row: int | None
    column: str
    message: str
    remedy: str

    @property
    def described(self) -> str:
        """Return `row 4, column "amount": ...`, rows from 1."""
        places = [f"row {self.row + 1:,}"] if self.row is not None else []
        places += [f'column "{self.column[:60]}"'] if self.column else []
        return f"{', '.join(places)}: {self.message}" if places else self.message


class RowsError(Exception):
    """Rows cannot be read, or not be written to a store; `faults` says why."""

    def __init__(self, faults: Sequence[RowFault]) -> None:
        super().__init__("; ".join(fault.described for fault in faults))
        self.faults = tuple(faults)


def refuse_rows(message: str, remedy: str, row: int | None = None, column: str = "") -> NoReturn:
    """Raise RowsError with one fault, and without what Python says of it: that may have a row's content in it."""
    raise RowsError([RowFault(row, column, message, remedy)]) from None


def read_rows(body: bytes, form: str) -> list[Row]:
    """
    Return the rows of a file; those of an archive have their bodies in `base64`, and the files' suffixes.

    Args:
        body: the file's content.
        form: its extension, one of `contracts.values.FORMATS`.

    Raises:
        RowsError: it is no such file, or has no rows or too many.
    """
    if len(body) > (most := most_bytes(form)):
        _refuse_large(len(body), most)
    rows = _READERS[form](body)
    if not rows:
        refuse_rows("has no rows", "Give a file with one row at least.")
    if len(rows) > MOST_ROWS:
        refuse_rows(f"has {len(rows):,} rows, more than {MOST_ROWS:,}", "Give fewer: events write them again.")
    return rows


def _read_json(body: bytes) -> list[Row]:
    rows = _parse(_text(body), None)
    if not isinstance(rows, list):
        refuse_rows("is no JSON array", "Put the rows between [ and ], or one a line into a .jsonl file.")
    return list(_objects(rows))


def _read_lines(body: bytes) -> list[Row]:
    lines = [line for line in _text(body).split("\n") if line.strip()]
    if len(lines) > MOST_ROWS:
        return [{}] * len(lines)  # which are refused for their number, before they are parsed
    return list(_objects(_parse(line, number) for number, line in enumerate(lines)))


def _objects(rows: Any) -> Iterator[Row]:  # noqa: ANN401 -- what JSON holds
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            refuse_rows("is no object", 'Write each row as {"name": value, ...}.', number)
        yield row


def _read_csv(body: bytes) -> list[Row]:
    csv.field_size_limit(MOST_TEXT_BYTES)  # of this process; a cell may be as large as the file
    try:
        lines = list(csv.reader(io.StringIO(_text(body), newline=""), strict=True))
    except csv.Error as error:
        refuse_rows(f"is no CSV: {error}", "Quote cells with commas, quotes or line breaks.")
    header, cells = (lines[0], [line for line in lines[1:] if line]) if lines else ([], [])
    if "" in header or len(set(header)) < len(header):
        message = "has a header in which a name is missing or comes twice"
        refuse_rows(message, "Give each column a name of its own in the first line.")
    for number, line in enumerate(cells):
        if len(line) != len(header):
            message = f"has {len(line)} cells, and the header {len(header)}"
            refuse_rows(message, "Give each row as many cells as there are columns.", number)
    return [
        {name: _cell(text, number, name) for name, text in zip(header, line, strict=True) if text}
        for number, line in enumerate(cells)
    ]


def _cell(text: str, row: int, column: str) -> Any:  # noqa: ANN401 -- a text, a number, true or false
    """Return what a cell means: a number only where JSON writes it so, since "007" is none."""
    if _NUMBER.fullmatch(text) and sum(map(str.isdigit, text)) <= MOST_DIGITS:
        try:
            return json.loads(text, parse_float=_parse_float)
        except ValueError as error:
            refuse_rows(str(error), "Write a number that a double holds.", row, column)
    return _WORDS.get(text, text)


def _read_archive(body: bytes) -> list[Row]:
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            files = [each for each in archive.infolist() if _is_body(each)]
            if (size := sum(each.file_size for each in files)) > MOST_FILE_BYTES:
                _refuse_large(size, MOST_FILE_BYTES)
            return [_file_row(each.filename, archive.read(each)) for each in sorted(files, key=lambda f: f.filename)]
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError):
        refuse_rows("is no ZIP archive that can be read", "Pack it again, without a password.")


def _is_body(file: zipfile.ZipInfo) -> bool:
    parts = PurePosixPath(file.filename).parts
    return not file.is_dir() and not any(part.startswith((".", "__MACOSX")) for part in parts)


def _file_row(name: str, body: bytes) -> Row:
    return {BASE64: base64.b64encode(body).decode(), SUFFIX: PurePosixPath(name).suffix}


_READERS: dict[str, Callable[[bytes], list[Row]]] = {
    "json": _read_json,
    "jsonl": _read_lines,
    "csv": _read_csv,
    "zip": _read_archive,
}


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        refuse_rows(f"is not UTF-8 text: byte {error.start:,} is none", "Save the file as UTF-8.")


def _parse(text: str, row: int | None) -> Any:  # noqa: ANN401 -- any JSON
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        place = f"column {error.colno}" if row is not None else f"line {error.lineno}, column {error.colno}"
        refuse_rows(f"is not JSON at {place}: {error.msg}", "Mend the text there.", row)
    except RecursionError:
        refuse_rows("is nested too deep", "Remove the inner levels.", row)
    except ValueError as error:
        refuse_rows(str(error), "Mend the row.", row)


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        message = "gives a name twice in one object"
        raise ValueError(message)
    return found


def _parse_float(text: str) -> float:
    """Return a finite number; JSON's reader takes Infinity and NaN for some, and 1e400 for endless."""
    value = float(text)
    if not math.isfinite(value):
        message = "has a number that is not finite"
        raise ValueError(message)
    return value


def _parse_int(text: str) -> int:
    if len(text.lstrip("-")) > MOST_DIGITS:
        message = f"has a whole number of more than {MOST_DIGITS} digits"
        raise ValueError(message)
    return int(text)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unrepeated, parse_constant=_parse_float, parse_float=_parse_float, parse_int=_parse_int
)


def _refuse_large(size: int, most: int) -> NoReturn:
    message = f"has {size:,} bytes, unpacked, more than {most:,}"
    refuse_rows(message, "Give fewer rows: events write them again, and each writer holds all.")
