"""Forms, as Chromium and curl send them."""

from __future__ import annotations

import base64
from types import SimpleNamespace
from typing import Any

import pytest

from stepbench.api.forms import FormFile, read_form
from stepbench.api.resolver import ApiError

BOUNDARY = "----WebKitFormBoundary7MA4YWxkTrZu0gW"
MULTIPART = f"multipart/form-data; boundary={BOUNDARY}"


def _event(body: bytes, content_type: str) -> Any:  # noqa: ANN401 -- as far as it is read
    return SimpleNamespace(
        body=base64.b64encode(body).decode(), is_base64_encoded=True, headers={"content-type": content_type}
    )


def part(name: str, content: bytes, more: str = "") -> bytes:
    """Return a part of a form."""
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'
    return head.encode() + content + b"\r\n"


END = f"--{BOUNDARY}--\r\n".encode()


def test_a_file_is_read_byte_by_byte_beside_the_fields() -> None:
    """An archive has any bytes, line breaks and half a boundary among them."""
    body = b"\r\n" + bytes(range(256)) * 400 + f"\r\n--{BOUNDARY[:-1]}".encode() + b"\r\n\r\n\n\r"
    file = part("rows", body, '; filename="my rows.zip"\r\nContent-Type: application/zip')
    found = read_form(_event(part("document", "{}é\r\n".encode()) + file + part("key", b"k") + END, MULTIPART))
    assert found.fields == {"document": "{}é\r\n", "key": "k"}
    assert found.files == {"rows": FormFile("my rows.zip", body)}


def test_a_file_that_nobody_has_chosen_is_none() -> None:
    """A browser sends its part all the same."""
    empty = part("rows", b"", '; filename=""\r\nContent-Type: application/octet-stream')
    assert read_form(_event(empty + END, MULTIPART)) == ({}, {})


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"", MULTIPART),
        (part("a", b"b"), MULTIPART),
        (f"--{BOUNDARY}\r\nContent-Disposition: form-data\r\n\r\nb\r\n".encode() + END, MULTIPART),
        (f"--{BOUNDARY}\r\nno head".encode() + b"\r\n" + END, MULTIPART),
        (part("a", b"\xff") + END, MULTIPART),
        (part("a", b"b") * 51 + END, MULTIPART),
        ("&".join(["a=b"] * 51).encode(), "application/x-www-form-urlencoded"),
    ],
)
def test_what_is_no_form_is_refused(body: bytes, content_type: str) -> None:
    """It is the sender's mistake, whatever it is."""
    with pytest.raises(ApiError, match="the body is no form"):
        read_form(_event(body, content_type))
