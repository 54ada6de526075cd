"""Forms as browsers send them: fields as in addresses, or parts of which some are files."""

from __future__ import annotations

from email.message import Message
from email.parser import BytesHeaderParser
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qs

from stepbench.api.resolver import ApiError, ErrorKind, read_body, read_bytes

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.data_classes.common import BaseProxyEvent

_MOST_FIELDS = 50


class FormFile(NamedTuple):
    """A file that came with a form, by its name on the user's machine."""

    name: str
    body: bytes


class Form(NamedTuple):
    """A form's fields and files, by their names; a file that was not chosen is none."""

    fields: dict[str, str]
    files: dict[str, FormFile]


def read_form(event: BaseProxyEvent) -> Form:
    """Return a form, in either of the ways in which browsers send them; raises ApiError where the body is none."""
    try:
        if boundary := _boundary(event):
            return _read_parts(read_bytes(event), boundary)
        found = parse_qs(read_body(event), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict")
    except (ValueError, LookupError) as error:
        message = "the body is no form (application/x-www-form-urlencoded or multipart/form-data)"
        raise ApiError(ErrorKind.BAD_REQUEST, message) from error
    return Form({name: values[-1] for name, values in found.items()}, {})


def _boundary(event: BaseProxyEvent) -> str:
    """Return the line that separates a body's parts; empty where it has none."""
    message = Message()
    message["Content-Type"] = event.headers.get("content-type", "")
    return str(message.get_boundary("")) if message.get_content_type() == "multipart/form-data" else ""


def _read_parts(body: bytes, boundary: str) -> Form:
    """
    Return the form of a multipart body, files as they are, byte by byte.

    Raises:
        ValueError, LookupError: it is none.

    Source:
        RFC 7578, and RFC 2046, section 5.1.1.
    """
    form = Form({}, {})
    _, *parts, end = (b"\r\n" + body).split(b"\r\n--" + boundary.encode())
    if not end.startswith(b"--") or len(parts) > _MOST_FIELDS:
        raise ValueError(boundary)
    for part in parts:
        head, blank, content = part.partition(b"\r\n\r\n")
        headers = BytesHeaderParser().parsebytes(head.removeprefix(b"\r\n"))
        name, file = headers.get_param("name", header="content-disposition"), headers.get_filename()
        if not blank or not isinstance(name, str):
            raise ValueError(boundary)
        if file is None:
            form.fields[name] = content.decode()
        elif file:
            form.files[name] = FormFile(file, content)
    return form
