"""
Lines put into the results table, once the handler has ended, instead of the function's log.

No SDK: the function may bring one of any version, or none. One connection is kept. What the table does not take within
the limit, or refuses, is written to the log as without a table.

Source:
    AWS Identity and Access Management User Guide, "Create a signed AWS API request"; Amazon DynamoDB API Reference,
    PutItem.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import ssl
from http.client import HTTPConnection, HTTPException
from socket import IPPROTO_TCP, TCP_NODELAY, create_connection
from time import gmtime, monotonic, strftime
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping
    from socket import socket

LIMIT_S, LEAST_S = 2.0, 0.1
"""How long a handler's answer waits for the table at most; with less left than the least, it is not tried."""
SPARED_S = 0.5
"""Of the function's own time-out, which must not pass while the table is waited for."""
PAUSE_S = 60.0
"""So long the log takes the lines after a failure: else each invocation would wait for a table that hangs."""
IDLE_S = 20.0
"""A connection that was unused for longer may be dead without a sign, as in a sandbox that was frozen."""
SHARDS = 16
ITEM_BYTES = 350_000
"""DynamoDB takes 400 kB an item."""
KEPT_S = 86_400
"""As the log, in which nobody looks once the trial is over."""
_OK = 200
_TYPE, _TARGET = "application/x-amz-json-1.0", "DynamoDB_20120810.PutItem"


class Credentials(NamedTuple):
    """The keys of the function's role. The token is empty where they are permanent."""

    key: str
    secret: str
    token: str


def signed_headers(host: str, region: str, credentials: Credentials, body: bytes, at_s: int) -> dict[str, str]:
    """Return the headers of a PutItem of this body."""
    at = strftime("%Y%m%dT%H%M%SZ", gmtime(at_s))
    headers = {"content-type": _TYPE, "host": host, "x-amz-date": at}
    if credentials.token:
        headers["x-amz-security-token"] = credentials.token
    headers["x-amz-target"] = _TARGET
    listed = "".join([f"{name}:{value}\n" for name, value in headers.items()])
    names, scope = ";".join(headers), f"{at[:8]}/{region}/dynamodb/aws4_request"
    request = f"POST\n/\n\n{listed}\n{names}\n{hashlib.sha256(body).hexdigest()}"
    text = f"AWS4-HMAC-SHA256\n{at}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{credentials.secret}".encode()
    for part in (*scope.split("/"), text):
        key = hmac.new(key, part.encode(), "sha256").digest()
    signature = f"Credential={credentials.key}/{scope}, SignedHeaders={names}, Signature={key.hex()}"
    return {**headers, "authorization": f"AWS4-HMAC-SHA256 {signature}"}


def parts(lines: list[bytes]) -> list[bytes]:
    """Return lines in as few texts as an item's limit allows."""
    found = [b""]
    for line in lines:
        if found[-1] and len(found[-1]) + len(line) > ITEM_BYTES:
            found.append(b"")
        found[-1] += line
    return found


class ResultsTable:
    """
    The way to the table of one sandbox.

    Args:
        place: `https://host[:port]/name-of-the-table`.
        trial: the trial's tag.
        environ: of the function, with its region and its role's credentials.
    """

    def __init__(self, place: str, trial: str, environ: Mapping[str, str]) -> None:
        url = urlsplit(place)
        self._trial, self._table, self._host = trial, url.path.lstrip("/"), url.netloc
        self._region = environ["AWS_REGION"]
        names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
        self._credentials = Credentials(*(environ.get(name, "") for name in names))
        self._tls = ssl.create_default_context() if url.scheme == "https" else None
        self._connection = HTTPConnection(url.hostname or "", url.port or (443 if self._tls else 80))
        self._used_at = self._resume_at = 0.0

    @staticmethod
    def limit_s(remaining_ms: float) -> float:
        """Return how long the table may take, of an invocation that has so long until its time-out."""
        return min(LIMIT_S, remaining_ms / 1_000 - SPARED_S)

    def put(self, t5_ns: int, request: str, lines: list[bytes], limit_s: float) -> bool:
        """Put an invocation's lines; return whether the table has taken all of them."""
        now = monotonic()
        if now < self._resume_at or limit_s < LEAST_S:
            return False
        try:
            for part, text in enumerate(parts(lines)):
                self._send(self._item(t5_ns, request, part, text.decode()), t5_ns // 10**9, now + limit_s)
        except Exception:  # noqa: BLE001 -- also what a library of the function's, which has patched http.client, raises
            self._connection.close()
            self._resume_at = monotonic() + PAUSE_S
            return False
        return True

    def _item(self, t5_ns: int, request: str, part: int, lines: str) -> bytes:
        """Return PutItem's body; its keys are those of `lines_pk` and `lines_sk` in the stack's `layout`."""
        item = {
            "pk": {"S": f"lines#{self._trial}#{t5_ns // 1_000 % SHARDS:02d}"},
            "sk": {"S": f"{t5_ns:020d}#{request}#{part:02d}"},
            "lines": {"S": lines},
            "expires_at": {"N": str(t5_ns // 10**9 + KEPT_S)},
        }
        return json.dumps({"TableName": self._table, "Item": item}).encode()

    def _send(self, body: bytes, at_s: int, until: float) -> None:
        """Send once more where the connection was an old one, which the other side may have closed meanwhile."""
        headers = signed_headers(self._host, self._region, self._credentials, body, at_s)
        if self._connection.sock is not None and monotonic() - self._used_at > IDLE_S:
            self._connection.close()
        if self._connection.sock is not None:
            try:
                self._exchange(body, headers, until)
            except (ConnectionError, HTTPException):
                self._connection.close()
            else:
                return
        self._exchange(body, headers, until)

    def _exchange(self, body: bytes, headers: dict[str, str], until: float) -> None:
        connection = self._connection
        if connection.sock is None:
            connection.sock = self._connected(until)
        connection.sock.settimeout(_left_s(until))
        connection.request("POST", "/", body, headers)
        connection.sock.settimeout(_left_s(until))
        answer = connection.getresponse()
        if connection.sock is not None:  # else the server closes it, and this step has what the one before had
            connection.sock.settimeout(_left_s(until))
        text = answer.read()
        self._used_at = monotonic()
        if answer.status != _OK:
            message = f"the results table answers {answer.status}: {text[:200]!r}"
            raise OSError(message)

    def _connected(self, until: float) -> socket:
        """Return a new connection. `http.client` would give its handshake the time of the whole once more."""
        found = create_connection((self._connection.host, self._connection.port), _left_s(until))
        try:
            found.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
            found.settimeout(_left_s(until))
            return found if self._tls is None else self._tls.wrap_socket(found, server_hostname=self._connection.host)
        except BaseException:
            found.close()
            raise


def _left_s(until: float) -> float:
    """Return how long the next step may take. Raises TimeoutError if that is nothing."""
    left_s = until - monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s
