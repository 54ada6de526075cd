"""
Signed requests to one AWS service (or what speaks its protocol), and what its answers to writes mean.

Credentials stay fresh on the side.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from stepbench.errors import TargetUnavailableError, TargetUnreachableError
from stepbench.model.errors import NO_ANSWER, WITHDRAWN, is_lasting
from stepbench.model.request import Outcome, Result
from stepbench.wire.http1.connection import ABANDONED, HttpRequest
from stepbench.wire.http1.sigv4 import Credentials

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.clock import Clock
    from stepbench.wire.http1 import HttpAnswer
    from stepbench.wire.http1.connection import HttpExchange
    from stepbench.wire.http1.pool import HttpPool
    from stepbench.wire.http1.sigv4 import Form, Signer


AnswerT = TypeVar("AnswerT")
Judge: TypeAlias = "Callable[[HttpRequest, int, HttpAnswer | None, str], AnswerT]"
"""Makes a result of a request, and of what `HttpRequest.finish` is given."""
REFRESH_EVERY_S = 60.0
"""botocore renews credentials from 15 minutes before their end on; asking it each minute is soon enough."""
SIGNED_FOR_NS = 60_000_000_000
"""AWS takes a signature for five minutes; one that has waited longer than this to be sent is made anew."""
_log = logging.getLogger(__name__)


class CredentialSource:
    """
    The credentials to sign with: `load` may read files or the network, so it runs in a thread, off the hot path.

    A failed refresh keeps the old ones: they may still be good, and if not the store's refusals are on record.
    """

    def __init__(self, load: Callable[[], Credentials | None], every_s: float = REFRESH_EVERY_S) -> None:
        self._load = load
        self._every_s = every_s
        self._task: asyncio.Task[None] | None = None
        self.current = Credentials("", "")

    async def start(self) -> None:
        """Load once, then keep refreshing. Raises TargetUnavailableError if there are none."""
        if self._task is None:
            await self.refresh()
            self._task = asyncio.create_task(self._keep_fresh())

    async def refresh(self) -> None:
        """Load now. Raises TargetUnavailableError if there are none."""
        try:
            loaded = await asyncio.to_thread(self._load)
        except Exception as error:
            # botocore's providers raise whatever their back ends do (files, processes, STS).
            message = f"reading AWS credentials failed: {error}"
            raise TargetUnavailableError(message) from error
        if loaded is None:
            message = "no AWS credentials were found; set them in the environment or in ~/.aws/credentials"
            raise TargetUnavailableError(message)
        self.current = loaded

    async def stop(self) -> None:
        """End the refreshing; safe to call twice."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _keep_fresh(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            try:
                await self.refresh()
            except TargetUnavailableError as error:
                _log.warning("the old AWS credentials stay in use: %s", error)


class SignedClient:
    """Signs requests to one service, and hands them to the pool."""

    def __init__(self, pool: HttpPool, signer: Signer, credentials: CredentialSource, clock: Clock) -> None:
        self._signer = signer
        self._credentials = credentials
        self.pool = pool
        self.now_ns = clock.now_ns

    async def open(self, connections: int) -> None:
        """Read credentials and connect. Raises TargetUnavailableError."""
        await self._credentials.start()
        await self.warm(connections)

    async def warm(self, connections: int) -> None:
        """Have so many connections. Raises TargetUnavailableError."""
        try:
            await self.pool.warm(connections)
        except OSError as error:
            message = f"{self.pool.address.authority} cannot be reached: {error or type(error).__name__}"
            raise (TargetUnreachableError if is_lasting(error) else TargetUnavailableError)(message) from error

    def signed(self, form: Form, path: str, body: bytes, now_ns: int) -> bytes:
        """Return a request as it is sent, with the credentials of this moment."""
        return self._signer.signed(form, path, body, self._credentials.current, now_ns)

    async def exchange(self, form: Form, path: str, body: bytes) -> HttpExchange:
        """Sign and send a request now, and wait for its answer."""
        return await self.pool.exchange(self.signed(form, path, body, self.now_ns()))

    async def close(self) -> None:
        """Release connections; safe to call twice."""
        await self._credentials.stop()
        await self.pool.close()


class SignedRequest(HttpRequest, Generic[AnswerT]):
    """
    `PendingRequest` that was signed ahead of its time, without a task or a future.

    Args:
        client: by which it goes.
        form: of the request, as path and body are.
        path: see `Signer.signed`.
        body: as it is sent.
        judge: see `Judge`.
    """

    __slots__ = ("_body", "_client", "_done", "_form", "_judge", "_path", "_signed_ns")

    def __init__(self, client: SignedClient, form: Form, path: str, body: bytes, judge: Judge[AnswerT]) -> None:
        self._signed_ns = now_ns = client.now_ns()
        self.t1_ns, self.connection = 0, None  # as `HttpRequest` does, without the call
        self.data = client.signed(form, path, body, now_ns)
        self._client = client
        self._form = form
        self._path = path
        self._body = body
        self._judge = judge
        self._done: Callable[[AnswerT], None] | None = None

    def send(self, done: Callable[[AnswerT], None]) -> None:
        """See `PendingRequest`."""
        now_ns = self._client.now_ns()
        if now_ns - self._signed_ns > SIGNED_FOR_NS:
            self.data = self._client.signed(self._form, self._path, self._body, now_ns)
        self._done = done
        self._client.pool.send(self, now_ns)

    def abandon(self) -> None:
        """See `PendingRequest`."""
        self._client.pool.abandon(self)

    def finish(self, t2_ns: int, answer: HttpAnswer | None, error: str) -> None:
        """See `HttpRequest`."""
        done, self._done = self._done, None
        if done is not None:
            done(self._judge(self, t2_ns, answer, error))


_UNDECIDED = frozenset({500, 502, 504})
"""The server, or one between, broke off in the middle: AWS says of these that the write may have happened."""
_XML_CODE = re.compile(rb"<Code>([A-Za-z0-9.]{1,64})</Code>")
_JSON_TYPE = re.compile(rb'"__type"\s*:\s*"(?:[A-Za-z0-9_.]*#)?([A-Za-z0-9.]{1,64})"')


def write_result(exchange: HttpExchange, error_code: Callable[[bytes], str], token_header: bytes = b"") -> Result:
    """
    Return the result of a write.

    Args:
        exchange: what came of its request.
        error_code: finds the service's own code in the body of a refusal; "" if there is none.
        token_header: header (in lower case) with the store's name for the change, if there is one.
    """
    t1_ns, t2_ns, answer, error, sent = exchange
    if answer is None:
        if error == ABANDONED:
            error = NO_ANSWER if sent else WITHDRAWN
        return Result(t1_ns, t2_ns, Outcome.UNKNOWN if sent else Outcome.FAILED, error=error)
    if 200 <= answer.status < 300:  # noqa: PLR2004 -- the class of successes
        token = answer.headers.get(token_header, b"").decode("latin-1") if token_header else ""
        return Result(t1_ns, t2_ns, Outcome.OK, token)
    outcome = Outcome.UNKNOWN if answer.status in _UNDECIDED else Outcome.FAILED
    return Result(t1_ns, t2_ns, outcome, error=error_code(answer.body) or f"HTTP {answer.status}")


def xml_error_code(body: bytes) -> str:
    """Return S3's code, such as "SlowDown"."""
    found = _XML_CODE.search(body)
    return found[1].decode() if found else ""


def json_error_code(body: bytes) -> str:
    """Return DynamoDB's code without its namespace, such as "ThrottlingException"."""
    found = _JSON_TYPE.search(body)
    return found[1].decode() if found else ""
