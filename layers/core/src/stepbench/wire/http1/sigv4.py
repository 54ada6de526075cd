"""
AWS Signature Version 4 for requests without a query, by filling in forms.

A load sends one kind of request over and over. Of it all is printed once a second that is the same all second long:
the head, and what is signed of it. A request's own are its path, the hash of its body, and the signature. The signing
key lasts for a day; a MAC with it goes on from where its two pads have been hashed, in half the time of a new one.

Source: AWS, "Create a signed AWS API request" (Signature Version 4); tests hold it equal to botocore.
"""

from __future__ import annotations

import hmac
import time
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

if TYPE_CHECKING:
    from _hashlib import HASH

Headers = tuple[tuple[str, str], ...]

_ALGORITHM = "AWS4-HMAC-SHA256"
_SECOND_NS = 1_000_000_000
_CONTENT_SHA256 = "x-amz-content-sha256"
_LEFT_OUT = "%.0s"
"""It stands where a template takes a text and does not show it."""
_BLOCK_BYTES = 64
_NOTHING = sha256()
"""It is copied: a new one takes longer to create than to hash a kilobyte."""
_INNER_PAD, _OUTER_PAD = (bytes(byte ^ pad for byte in range(256)) for pad in (0x36, 0x5C))


class Credentials(NamedTuple):
    """Frozen AWS credentials; `session_token` is empty for those of a user."""

    access_key: str
    secret_key: str
    session_token: str = ""

    def __repr__(self) -> str:
        """Show the key's id, never the secret: this may end in a log or a test report."""
        return f"Credentials(access_key={self.access_key!r})"


class Form:
    """
    The parts that requests of one kind have in common; made once, since it is known by its identity.

    No dataclass: to import `dataclasses` takes a receiver's cold start a tenth longer.
    """

    __slots__ = ("headers", "method")

    def __init__(self, method: str, headers: Headers = ()) -> None:
        """
        Take the headers, of which all are signed.

        Names are in lower case, without host, content-length and what signing adds; values are one line each.
        """
        self.method = method
        self.headers = headers


def s3_path(key: str) -> str:
    """Return an object key as path and canonical URI: S3 wants it encoded once and not normalised."""
    return "/" + quote(key, safe="/~")


def amz_date(now_ns: int) -> str:
    """Format a moment as `20260131T235959Z`."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now_ns // _SECOND_NS))


class Signer:
    """
    Signs for one service in one region.

    Args:
        service: as AWS signs its name, such as "dynamodb".
        region: such as "eu-west-1".
        authority: the Host header.
    """

    def __init__(self, service: str, region: str, authority: str) -> None:
        self._service = service
        self._region = region
        self._authority = authority
        self._printed: dict[Form, _Printed] = {}

    def signed(self, form: Form, path: str, body: bytes, credentials: Credentials, now_ns: int) -> bytes:
        """Return a request as it is sent. `path` is percent-encoded and has no query."""
        hashed = _NOTHING.copy()
        hashed.update(body)
        return self._print(form, credentials, now_ns).head(path, hashed.hexdigest(), len(body)) + body

    def signed_head(  # noqa: PLR0913, PLR0917 -- as `signed`, with what stands for the body
        self, form: Form, path: str, body_sha256: str, body_bytes: int, credentials: Credentials, now_ns: int
    ) -> bytes:
        """
        Return the part before a body that is sent apart; the form is for this request alone, and is not kept.

        `body_sha256` is in hexadecimal, or what S3 takes in its place.
        """
        place = self._service, self._region, self._authority
        return _Printed(form, place, credentials, now_ns // _SECOND_NS).head(path, body_sha256, body_bytes)

    def _print(self, form: Form, credentials: Credentials, now_ns: int) -> _Printed:
        second = now_ns // _SECOND_NS
        printed = self._printed.get(form)
        if printed is None or printed.second != second or printed.credentials is not credentials:
            place = self._service, self._region, self._authority
            printed = self._printed[form] = _Printed(form, place, credentials, second)
        return printed


class _Printed:
    """
    A form for one place (service, region, authority), with somebody's credentials and a second's date in it.

    What is to be filled in has the same places for every service, so that of S3 alone the body's hash is a header; the
    others' templates have a place there that leaves it out.
    """

    __slots__ = (
        "_begun", "_canonical", "_head", "_is_s3", "_outer", "_path", "_template", "_to_sign", "credentials", "second"
    )  # fmt: skip

    def __init__(self, form: Form, place: tuple[str, str, str], credentials: Credentials, second: int) -> None:
        service, region, authority = place
        self.credentials = credentials
        self.second = second
        self._is_s3 = service == "s3"
        self._path = self._head = ""
        date = amz_date(second * _SECOND_NS)
        headers = [("host", authority), *form.headers, ("x-amz-date", date)]
        if credentials.session_token:
            headers.append(("x-amz-security-token", credentials.session_token))
        headers = [(name, _literal(value)) for name, value in headers]
        if self._is_s3:
            headers.append((_CONTENT_SHA256, "%s"))
        names = ";".join(sorted(name for name, _ in headers))
        lines = "".join(f"{name}:{' '.join(value.split())}\n" for name, value in sorted(headers))
        nowhere = "" if self._is_s3 else _LEFT_OUT
        self._canonical = f"{form.method}\n%s\n\n{lines}{nowhere}\n{names}\n"
        scope = f"{date[:8]}/{region}/{service}/aws4_request"
        inner, self._outer = _pads(credentials.secret_key, scope)
        self._to_sign = inner.copy()
        self._to_sign.update(f"{_ALGORITHM}\n{date}\n{scope}\n".encode())
        self._begun = _NOTHING
        sent = "".join(f"{name}: {value}\r\n" for name, value in headers)
        who = f"{_literal(credentials.access_key)}/{scope}"
        authorization = f"{_ALGORITHM} Credential={who}, SignedHeaders={names}, Signature="
        self._template = f"{form.method} %s HTTP/1.1\r\n{sent}{nowhere}authorization: {authorization}"

    def head(self, path: str, body_sha256: str, body_bytes: int) -> bytes:
        """Return the request, signed, up to its body."""
        if self._is_s3 or path != self._path:
            self._begin(path, body_sha256)
        canonical = self._begun.copy()
        canonical.update(body_sha256.encode())
        mac = self._to_sign.copy()
        mac.update(canonical.hexdigest().encode())
        outer = self._outer.copy()
        outer.update(mac.digest())
        return f"{self._head}{outer.hexdigest()}\r\ncontent-length: {body_bytes}\r\n\r\n".encode()

    def _begin(self, path: str, body_sha256: str) -> None:
        """
        Return what is equal for equal paths, unless it names the body's hash as S3's does.

        That is the head up to the signature, and the canonical request's hash up to its last word, the body's.
        """
        self._path = path
        self._head = self._template % (path, body_sha256)
        uri = path if self._is_s3 else canonical_uri(path)
        self._begun = sha256((self._canonical % (uri, body_sha256)).encode())


def canonical_uri(path: str) -> str:
    """Return a path as all but S3 sign it: without dots and empty segments, and encoded once more."""
    segments: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            del segments[-1:]
        elif segment not in ("", "."):
            segments.append(segment)
    inside = "/".join(segments)
    normal = f"/{inside}/" if inside and path.endswith("/") else f"/{inside}"
    return quote(normal, safe="/~")


def _literal(text: str) -> str:
    """Escape what a template would interpret."""
    return text.replace("%", "%%")


@lru_cache(maxsize=16)
def _pads(secret_key: str, scope: str) -> tuple[HASH, HASH]:
    """
    Return the inner and the outer hash of a MAC with a scope's key, before anything else is hashed.

    Source:
        RFC 2104, section 4.
    """
    key = ("AWS4" + secret_key).encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    padded = key.ljust(_BLOCK_BYTES, b"\0")
    return sha256(padded.translate(_INNER_PAD)), sha256(padded.translate(_OUTER_PAD))
