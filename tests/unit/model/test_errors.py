"""Errors of connections: which of them waiting may mend."""

from __future__ import annotations

import socket
import ssl
from collections import Counter

import pytest

from stepbench.errors import TargetUnavailableError
from stepbench.model.errors import (
    CONNECTION_CLOSED,
    GARBAGE,
    MOST_KEPT,
    OTHER_ERRORS,
    PROTOCOL_BROKEN,
    UNASKED,
    GarbageAnswerError,
    is_lasting,
    lost_connection,
    most_frequent,
)
from stepbench.wire.cql.answers import CqlError
from stepbench.wire.cql.connection import CqlRefusedError
from stepbench.wire.resp import ErrorReply
from stepbench.wire.resp.connection import LoginRefusedError

PASSING = [
    ConnectionRefusedError(111, "Connection refused"),
    ConnectionResetError(CONNECTION_CLOSED),
    TimeoutError(),
    OSError(113, "No route to host"),
    socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"),
    ssl.SSLEOFError(ssl.SSL_ERROR_EOF, "EOF occurred in violation of protocol"),
    LoginRefusedError(ErrorReply("LOADING", "Redis is loading the dataset in memory")),
    LoginRefusedError(ErrorReply("ERR", "max number of clients reached")),
    CqlRefusedError(CqlError("IsBootstrapping", "")),
]
LASTING = [
    GarbageAnswerError(GARBAGE),
    ssl.SSLCertVerificationError(ssl.SSL_ERROR_SSL, "certificate verify failed"),
    socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
    LoginRefusedError(ErrorReply("WRONGPASS", "invalid username-password pair")),
    LoginRefusedError(ErrorReply("NOAUTH", "Authentication required")),
    CqlRefusedError(CqlError("BadCredentials", "")),
]


@pytest.mark.parametrize("error", PASSING, ids=repr)
def test_what_may_pass_is_asked_again(error: OSError) -> None:
    """A server that is only just starting, or has no room now."""
    assert not is_lasting(error)


@pytest.mark.parametrize("error", LASTING, ids=repr)
def test_what_cannot_pass_is_asked_once(error: OSError) -> None:
    """Also behind what a driver has made of it."""
    wrapped = TargetUnavailableError("wrapped")
    wrapped.__cause__ = error
    assert is_lasting(wrapped)


@pytest.mark.parametrize(
    ("reason", "garbage"),
    [(GARBAGE, True), (UNASKED, True), (f"{PROTOCOL_BROKEN}: a frame", True), (CONNECTION_CLOSED, False)],
)
def test_a_connection_that_was_lost_to_another_protocol_is_told_apart(reason: str, garbage: bool) -> None:  # noqa: FBT001
    """Before it could be used; under load it is an outcome."""
    assert isinstance(lost_connection(reason), GarbageAnswerError) is garbage


def test_the_most_frequent_errors_are_named_and_none_is_left_uncounted() -> None:
    """300 codes a second that a store makes up were a summary of 179 MB; without "other errors" sums would not hold."""
    counts = Counter({f"code {number}": 1 for number in range(18_000)}) + Counter({"ERR": 7, OTHER_ERRORS: 5})
    found = most_frequent(counts)
    assert next(iter(found.items())) == ("ERR", 7)
    assert len(found) == MOST_KEPT + 1
    assert found[OTHER_ERRORS] == 18_000 - (MOST_KEPT - 1) + 5
    assert sum(found.values()) == counts.total()
    assert most_frequent(Counter(a=1, b=2)) == {"b": 2, "a": 1}
    assert most_frequent(Counter()) == {}
