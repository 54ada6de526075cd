"""
What boto3 lacks for servers that a plan may name: an end in total, a bound on answers, addresses that were judged.

boto3's read time-out is of each receipt, its answers have any length, and it resolves names itself, so that a name
server could give it another address than the one that was judged before.
"""

from __future__ import annotations

import io
import socket
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.awsrequest import (
    AWSHTTPConnection,
    AWSHTTPConnectionPool,
    AWSHTTPSConnection,
    AWSHTTPSConnectionPool,
    AWSResponse,
)
from botocore.exceptions import ConnectionClosedError, HTTPClientError, ReadTimeoutError
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NameResolutionError, NewConnectionError
from urllib3.exceptions import ReadTimeoutError as UrllibReadTimeoutError

from stepbench.contracts.endpoint import forbidden_name
from stepbench.wire.http1.whole_calls import LimitedConnection, within

if TYPE_CHECKING:
    from collections.abc import Iterator

    from botocore.awsrequest import AWSPreparedRequest
    from botocore.httpsession import URLLib3Session

    from stepbench.wire.http1.whole_calls import CallLimit

ClientT = TypeVar("ClientT")

MOST_ANSWER_BYTES = 32 * 2**20
"""The longest control-plane answer: AWS's largest, a page of an execution's history, has some 25 MB."""
_SLOWEST_BYTES_PER_S = 2**15
"""A payload that is sent has a second more for so many bytes: several may share a slow line."""
_LENGTHS = ("content-length", "x-amz-decoded-content-length")
"""Headers with the length of a payload; the second is for payloads in chunks, as all of S3's are over HTTPS."""
_PIECE_BYTES = 2**17
"""A stream is read whole in pieces, each with its own time limit: a slow line that goes on is not cut."""


def bounded_client(client: ClientT, most_bytes: int = MOST_ANSWER_BYTES) -> ClientT:
    """
    Return a boto3 client, each of whose attempts ends in total within the time-outs of its configuration, added up.

    Args:
        client: just made.
        most_bytes: of an answer that is no stream; a larger one is an error of the connection.
    """
    of_botocore: Any = client
    endpoint, config = of_botocore._endpoint, of_botocore.meta.config  # noqa: SLF001 -- by its interface it takes no session
    endpoint.http_session = WholeSession(
        endpoint.http_session, config.connect_timeout + config.read_timeout, most_bytes
    )
    return client


class WholeSession:
    """
    A session of botocore's whose answers are whole, or streams, within a time; it takes the given one's place.

    Args:
        session: what sends; its connections become judged ones.
        limit_s: for a request and its answer, a payload's own time apart.
        most_bytes: see `bounded_client`.
    """

    def __init__(self, session: URLLib3Session, limit_s: float, most_bytes: int = MOST_ANSWER_BYTES) -> None:
        inner: Any = session
        inner._pool_classes_by_scheme = inner._manager.pool_classes_by_scheme = _POOLS  # noqa: SLF001 -- as above
        self._session = session
        self._limit_s = limit_s
        self._most_bytes = most_bytes

    def send(self, request: AWSPreparedRequest) -> AWSResponse:
        """Send a request, and return its answer. Raises what `URLLib3Session.send` does."""
        is_stream, request.stream_output = request.stream_output, True  # else it would read all that comes
        sent = max(int(request.headers.get(name) or 0) for name in _LENGTHS)
        limit_s = self._limit_s + sent / _SLOWEST_BYTES_PER_S
        try:
            with within(limit_s) as limit:
                answer = self._session.send(request)
                refused = answer.status_code >= HTTPStatus.MULTIPLE_CHOICES  # of which botocore reads all itself
                whole = refused or not is_stream
                raw = _Body(_read(answer.raw, self._most_bytes)) if whole else self._stream(answer, limit)
        except (TimeoutError, UrllibReadTimeoutError) as error:
            raise ReadTimeoutError(endpoint_url=request.url, error=error) from error
        except HTTPError as error:
            raise ConnectionClosedError(endpoint_url=request.url, error=error) from error
        headers: Any = answer.headers  # of the stubs' two kinds it is the other one
        return AWSResponse(request.url, answer.status_code, headers, raw)

    def close(self) -> None:
        """End the connections that rest."""
        self._session.close()

    def _stream(self, answer: AWSResponse, limit: CallLimit) -> _Stream:
        return _Stream(answer.raw, limit.socket, self._limit_s + _PIECE_BYTES / _SLOWEST_BYTES_PER_S)


def _read(raw: Any, most_bytes: int) -> bytes:  # noqa: ANN401 -- urllib3's answer
    body = bytearray()
    for piece in raw.stream():
        body += piece
        if len(body) > most_bytes:
            raw.close()
            raise HTTPClientError(error=f"the answer has more than {most_bytes:,} bytes")
    return bytes(body)


class _Body(io.BytesIO):
    """A body that has been read, as `AWSResponse` wants it."""

    def stream(self) -> Iterator[bytes]:
        """Yield it."""
        yield self.getvalue()


class _Stream:
    """A body that its reader takes piece by piece; each piece of up to 128 KiB comes within a time."""

    def __init__(self, raw: Any, connected: socket.socket | None, limit_s: float) -> None:  # noqa: ANN401 -- urllib3's
        self._raw = raw
        self._connected = connected
        self._limit_s = limit_s

    def read(self, amt: int | None = None, **kwargs: Any) -> bytes:  # noqa: ANN401 -- urllib3's
        """Read as `urllib3.HTTPResponse` does. Raises ReadTimeoutError, and what that does."""
        body = bytearray()
        while (left := _PIECE_BYTES if amt is None else min(amt - len(body), _PIECE_BYTES)) > 0:
            piece = self._piece(left, **kwargs)
            body += piece
            if not piece:
                break
        return bytes(body)

    def _piece(self, amt: int, **kwargs: Any) -> bytes:  # noqa: ANN401 -- urllib3's
        try:
            with within(self._limit_s) as limit:
                limit.use(self._connected)
                found: bytes = self._raw.read(amt, **kwargs)
                return found
        except TimeoutError as error:
            raise ReadTimeoutError(endpoint_url="of the stream", error=error) from error

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- the rest is urllib3's
        return getattr(self._raw, name)


class ForbiddenAddressError(Exception):
    """The name leads to an address that is never connected to."""


class _Judged(LimitedConnection):
    """Resolves its host once, and connects to an address that was judged; TLS goes on to speak to the name."""

    _dns_host: str

    def _new_conn(self) -> socket.socket:
        host = self._dns_host
        try:
            found = socket.getaddrinfo(host, self.port, type=socket.SOCK_STREAM)
        except socket.gaierror as error:
            raise NameResolutionError(host, self, error) from error  # type: ignore[arg-type] # it is one, by its subclasses
        addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
        if reason := forbidden_name(host, addresses):
            raise ForbiddenAddressError(reason)
        try:
            for self._dns_host in addresses:
                try:
                    connected: socket.socket = super()._new_conn()  # type: ignore[misc]
                except (NewConnectionError, ConnectTimeoutError):
                    if self._dns_host == addresses[-1] or self.is_late:
                        raise
                else:
                    return connected
        finally:
            self._dns_host = host
        raise socket.gaierror(socket.EAI_NONAME, "the name has no address")


class _HttpConnection(_Judged, AWSHTTPConnection):  # type: ignore[misc] # as botocore's own bases
    """Plain."""


class _HttpsConnection(_Judged, AWSHTTPSConnection):  # type: ignore[misc] # as above
    """A connection with TLS."""


class _HttpPool(AWSHTTPConnectionPool):
    ConnectionCls = _HttpConnection


class _HttpsPool(AWSHTTPSConnectionPool):
    ConnectionCls = _HttpsConnection


_POOLS = {"http": _HttpPool, "https": _HttpsPool}
