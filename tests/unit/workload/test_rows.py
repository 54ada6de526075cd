"""Files of rows: what each format reads, and that no message repeats what is in them."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from stepbench.contracts.values import MOST_FILE_BYTES, MOST_ROWS, MOST_TEXT_BYTES
from stepbench.workload.rows import RowsError, read_rows

if TYPE_CHECKING:
    from collections.abc import Callable

PRIVATE = "private"


def archive(files: dict[str, bytes]) -> bytes:
    """Return a ZIP archive."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as opened:
        for name, body in files.items():
            opened.writestr(name, body)
    return packed.getvalue()


@pytest.mark.parametrize(
    ("form", "body"),
    [
        ("json", b'[{"id": 1, "tags": ["a", null]}, {"id": 2.5, "sub": {"ok": true}}]'),
        ("jsonl", b'{"id": 1, "tags": ["a", null]}\n\n{"id": 2.5, "sub": {"ok": true}}\r\n'),
    ],
)
def test_json_and_json_lines_read_alike(form: str, body: bytes) -> None:
    """Which of the two a tool exports is chance."""
    assert read_rows(body, form) == [{"id": 1, "tags": ["a", None]}, {"id": 2.5, "sub": {"ok": True}}]


def test_csv_cells_are_what_json_would_have_them() -> None:
    """A number with a leading zero is a code; an empty cell is nothing; a quoted comma is text."""
    text = '\ufeffzip,n,x,ok,note\n00123,7,-1.5e3,true,"a,\nb"\n1,,,false,\n'
    assert read_rows(text.encode(), "csv") == [
        {"zip": "00123", "n": 7, "x": -1500.0, "ok": True, "note": "a,\nb"},
        {"zip": 1, "ok": False},
    ]


def test_an_archive_s_files_are_bodies_with_their_suffixes_in_the_order_of_their_names() -> None:
    """What an operating system adds is no body."""
    packed = archive(
        {"b.jpg": b"\xff\xd8", "a/x.tar.gz": b"", "__MACOSX/b.jpg": b"no", ".DS_Store": b"no", "plain": b"1"}
    )
    rows = read_rows(packed, "zip")
    assert [(base64.b64decode(row["base64"]), row["suffix"]) for row in rows] == [
        (b"", ".gz"),
        (b"\xff\xd8", ".jpg"),
        (b"1", ""),
    ]


@pytest.mark.parametrize(
    ("form", "body", "message"),
    [
        ("json", b"", "is not JSON at line 1, column 1: Expecting value"),
        ("json", b"[]", "has no rows"),
        ("json", b'{"a": "private"}', "is no JSON array"),
        ("json", b'[{"a": 1}, "private"]', "row 2: is no object"),
        ("json", b'[{"private": 1, "private": 2}]', "gives a name twice in one object"),
        ("json", b'[{"a": NaN}]', "has a number that is not finite"),
        ("json", b'[{"a": 1e400}]', "has a number that is not finite"),
        ("json", b'[{"a": -Infinity}]', "has a number that is not finite"),
        ("jsonl", b'{"a": 1}\n{"a": -1e400}\n', "row 2: has a number that is not finite"),
        ("csv", b"a,b\n1,2\n1,1e400\n", 'row 2, column "b": has a number that is not finite'),
        ("json", b'[{"a": ' + b"9" * 39 + b"}]", "has a whole number of more than 38 digits"),
        ("json", b'[{"a": ' + b"[" * 100_000, "is nested too deep"),
        ("json", b'[{"a": "\xff private"}]', "is not UTF-8 text: byte 8 is none"),
        ("jsonl", b'{"a": 1}\n{"a": private}\n', "row 2: is not JSON at column 7: Expecting value"),
        ("csv", b"a,a\n1,2\n", "has a header in which a name is missing or comes twice"),
        ("csv", b"a,b\n1,2\nprivate\n", "row 2: has 1 cells, and the header 2"),
        ("csv", b'a\n"private', "is no CSV: unexpected end of data"),
        ("csv", b"a\n", "has no rows"),
        ("zip", b"private", "is no ZIP archive that can be read"),
        ("zip", archive({}), "has no rows"),
    ],
)
def test_what_is_no_file_of_rows_is_refused_by_place_and_without_its_content(
    form: str, body: bytes, message: str
) -> None:
    """Messages are logged and stay in an execution's history."""
    with pytest.raises(RowsError) as refused:
        read_rows(body, form)
    (fault,) = refused.value.faults
    assert fault.described == message
    assert fault.remedy.endswith(".")
    assert PRIVATE not in f"{refused.value}{fault}"
    assert refused.value.__suppress_context__


def test_a_cell_may_be_as_large_as_its_file() -> None:
    """Python's own limit is of 128 KiB, and of a whole process."""
    text = "x" * 200_000
    assert read_rows(f"a,b\n1,{text}\n".encode(), "csv") == [{"a": 1, "b": text}]


def bomb() -> bytes:
    """Return a small archive of a file that is too large."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("large", b"0" * (MOST_FILE_BYTES + 1))
    return packed.getvalue()


@pytest.mark.parametrize(
    ("form", "body", "message"),
    [
        ("jsonl", lambda: b"{}\n" * (MOST_ROWS + 1), f"has {MOST_ROWS + 1:,} rows"),
        ("json", lambda: b" " * (MOST_TEXT_BYTES + 1), "unpacked"),
        ("zip", bomb, "unpacked"),
    ],
)
def test_more_than_a_writer_holds_is_refused(form: str, body: Callable[[], bytes], message: str) -> None:
    """An archive is asked for its size before it is unpacked."""
    with pytest.raises(RowsError, match=message):
        read_rows(body(), form)


def test_texts_that_look_like_other_things_stay_texts() -> None:
    """JSON says what is a number; nothing has to be guessed."""
    row: dict[str, Any] = {"a": "007", "b": "", "c": "true", "d": "é\u2028", "e": -0.5}
    assert read_rows(json.dumps([row]).encode(), "json") == [row]
