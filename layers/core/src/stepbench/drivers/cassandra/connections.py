"""Requests to Cassandra that go out at once, on a client's connection that knows our statements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.drivers.cassandra.statements import UNPREPARED, judge
from stepbench.model.errors import GARBAGE, connect_error
from stepbench.model.request import Result
from stepbench.wire.cql.connection import CqlAnswer, CqlConnection, CqlRefusedError
from stepbench.wire.cql.frames import CqlFrame, CqlRequest
from stepbench.wire.link import LinkedRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.model.request import Request
    from stepbench.wire.link import Link
    from stepbench.workload.checks import RecordCheck

NEEDS_NEW_CONNECTION = frozenset({UNPREPARED, GARBAGE})
"""The node has forgotten its statements, or we misunderstand it: a new connection prepares them anew."""


def failure_name(error: BaseException) -> str:
    """Return why there is no connection: the server's code where it refused us, else as `connect_error`."""
    refused = next((each for each in (error, error.__cause__) if isinstance(each, CqlRefusedError)), None)
    return connect_error(error) if refused is None else refused.error.name


class StatementRequest(LinkedRequest[CqlRequest, CqlFrame]):
    """
    `PendingRequest` of one prepared statement, on the connection for whose node it was prepared.

    Where that has ended by the time it is sent, `encode` returns what to send over the client's next.
    """

    __slots__ = ("_check", "_connection", "_encode", "_request")

    def __init__(  # noqa: PLR0913, PLR0917 -- names take time
        self,
        link: Link[CqlConnection],
        connection: CqlConnection,
        execution: CqlRequest,
        request: Request,
        encode: Callable[[CqlConnection, Request], CqlRequest],
        check: RecordCheck | None,
    ) -> None:
        self.t1_ns = 0
        self._link = link
        self._connection = connection
        self._data = execution
        self._request = request
        self._encode = encode
        self._check = check
        self._carrier = None
        self._done = None

    def send(self, done: Callable[[Result], None]) -> None:
        """See `PendingRequest`. What has broken is made anew, outside the operation's time."""
        connection = self._connection
        if connection.is_open:
            self._done, self._carrier = done, connection
            connection.send(self._data, self, self._receive)
        else:
            self._send_once_connected(done)

    def _encode_for(self, connection: CqlConnection) -> CqlRequest:
        self._connection = connection
        return self._encode(connection, self._request)

    def _receive(self, t2_ns: int, answer: CqlFrame, error: str) -> None:
        done, self._done = self._done, None
        if done is None:
            return
        answered = CqlAnswer(self.t1_ns or t2_ns, t2_ns, answer, error, sent=self.t1_ns != 0)
        outcome, error = judge(answered, self._request, self._check)
        if error in NEEDS_NEW_CONNECTION:
            self._connection.close()
        done(Result(answered.t1_ns, t2_ns, outcome, "", error))
