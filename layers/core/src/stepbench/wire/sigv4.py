"""
AWS Signature Version 4 for requests without a query: pure functions and a signer that keeps one derived key.

Source: AWS, "Create a signed AWS API request" (Signature Version 4); tests hold it equal to botocore.
"""

from __future__ import annotations

import hmac
import time
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

if TYPE_CHECKING:
    from stepbench.wire.http1 import Request

_ALGORITHM = "AWS4-HMAC-SHA256"


class Credentials(NamedTuple):
    """Frozen AWS credentials; `session_token` is empty for those of a user."""

    access_key: str
    secret_key: str
    session_token: str = ""

    def __repr__(self) -> str:
        """Says whose, never the secret: this may end in a log or a test report."""
        return f"Credentials(access_key={self.access_key!r})"


def s3_path(key: str) -> str:
    """An object key as path of a request, and as canonical URI: S3 wants it encoded once and not normalised."""
    return "/" + quote(key, safe="/~")


def amz_date(now_ns: int) -> str:
    """`20260131T235959Z`."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now_ns // 1_000_000_000))


class Signer:
    """Signs for one service in one region. Derives the key once per day and secret (four HMACs saved a request)."""

    def __init__(self, service: str, region: str) -> None:
        self._service = service
        self._region = region
        self._derived_for = ("", "")
        self._key = b""

    def signed(self, request: Request, credentials: Credentials, now_ns: int) -> Request:
        """The request with date, session token and Authorization; every header that it had is signed."""
        date = amz_date(now_ns)
        payload_sha256 = sha256(request.body).hexdigest()
        headers = [*request.headers, ("x-amz-date", date)]
        if self._service == "s3":
            headers.append(("x-amz-content-sha256", payload_sha256))
        if credentials.session_token:
            headers.append(("x-amz-security-token", credentials.session_token))
        authorization = self.authorization(request._replace(headers=tuple(headers)), credentials, payload_sha256, date)
        return request._replace(headers=(*headers, ("authorization", authorization)))

    def authorization(self, request: Request, credentials: Credentials, payload_sha256: str, date: str) -> str:
        """
        Value of the Authorization header.

        Args:
            request: with all headers that are to be signed; at least host and x-amz-date.
            credentials: whose signature. A session token has to be among the headers.
            payload_sha256: of the body, in hexadecimal.
            date: as `amz_date` spells it, the same as in x-amz-date.
        """
        ordered = sorted(request.headers)
        names = ";".join(name for name, _ in ordered)
        scope = f"{date[:8]}/{self._region}/{self._service}/aws4_request"
        lines = "".join(f"{name}:{' '.join(value.split())}\n" for name, value in ordered)
        canonical = f"{request.method}\n{request.path}\n\n{lines}\n{names}\n{payload_sha256}"
        to_sign = f"{_ALGORITHM}\n{date}\n{scope}\n{sha256(canonical.encode()).hexdigest()}"
        signature = hmac.digest(self._signing_key(credentials.secret_key, date[:8]), to_sign.encode(), "sha256").hex()
        return f"{_ALGORITHM} Credential={credentials.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"

    def _signing_key(self, secret_key: str, day: str) -> bytes:
        if self._derived_for != (secret_key, day):
            key = ("AWS4" + secret_key).encode()
            for part in (day, self._region, self._service, "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._key, self._derived_for = key, (secret_key, day)
        return self._key
