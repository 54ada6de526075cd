"""One vocabulary of errors that are not the store's own; and how a store that refuses a login is given one."""

from __future__ import annotations

import re
import socket
import ssl
from collections import Counter
from typing import Final

WITHDRAWN: Final = "withdrawn"
"""The request was given up before anything of it had left."""
NO_ANSWER: Final = "no answer before the drain limit"
"""The request was given up while its answer was awaited."""
NOT_FOUND: Final = "not_found"
"""A read found no record."""
WRONG_VALUE: Final = "wrong_value"
"""What a read returned is no value of the record that was asked for (`workload.checks`)."""
TIMEOUT: Final = "timeout"
"""There was no complete answer within the driver's limit."""
CONNECTION_CLOSED: Final = "connection-closed"
CONNECTION_RESET: Final = "connection-reset"
GARBAGE: Final = "garbage-answer"
"""The answer could not be read by the store's protocol."""
OTHER_ERRORS: Final = "other errors"
"""The many different ones that a slice, or a window, has beside those that are named."""
MOST_KEPT = 50
"""The most errors of a window by name: a store that makes up a code for each refusal fills no report with them."""
UNASKED: Final = "unasked-answer"
"""An answer came that nobody had asked for."""
PROTOCOL_BROKEN: Final = "the server broke the protocol"
"""A connection of HTTP/2 ended so; what was broken follows."""


def most_frequent(counts: Counter[str], most: int = MOST_KEPT) -> dict[str, int]:
    """Return the most frequent errors with their counts, and the rest of them as other errors."""
    named = Counter({name: count for name, count in counts.items() if name != OTHER_ERRORS}).most_common(most)
    other = counts.total() - sum(count for _, count in named)
    return dict(named) | ({OTHER_ERRORS: other} if other else {})


class ServerRefusalError(ConnectionError):
    """The server took the connection, and refused who we are or what we want."""

    @property
    def is_lasting(self) -> bool:
        """Return whether the same would be said however long we waited."""
        return True


class GarbageAnswerError(ConnectionResetError):
    """The answer came from a server that does not speak the store's protocol."""


def lost_connection(reason: str) -> ConnectionResetError:
    """Return the error of a connection that has ended, for such a reason, before it could be used."""
    is_garbage = reason in {GARBAGE, UNASKED} or reason.startswith(PROTOCOL_BROKEN)
    return GarbageAnswerError(reason) if is_garbage else ConnectionResetError(reason)


def is_lasting(error: BaseException | None) -> bool:
    """
    Return whether there would be no connection however long we waited.

    That is so of a host that has no address, of another protocol, of TLS that fails, and of a refused login; not of a
    server that may only just be starting.
    """
    if error is None:
        return False
    if isinstance(error, ServerRefusalError):
        return error.is_lasting
    if isinstance(error, ssl.SSLError):
        return not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)
    if isinstance(error, socket.gaierror):
        return error.errno == socket.EAI_NONAME
    return isinstance(error, GarbageAnswerError) or is_lasting(error.__cause__)


def connect_error(error: BaseException) -> str:
    """Return why there is no connection, in few words that are the same for every store: "connect: refused"."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return f"tls: {cause.reason}" if cause.reason else "tls: failed"
        for kinds, word in _CAUSES:
            if isinstance(cause, kinds):
                return f"connect: {word}"
        cause = cause.__cause__
    return f"connect: {type(error).__name__}"


class DriverError(str):
    """
    `error` of a request at which the driver itself broke, "KeyError in the driver".

    The exception is kept for `perform`, which raises it; to another process goes the text alone.
    """

    __slots__ = ("cause",)
    cause: BaseException

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """Pickle the text: an exception may be one that cannot be pickled."""
        return str, (str(self),)


def driver_error(error: BaseException) -> DriverError:
    """
    Return what to say of a request at which the driver itself broke.

    The exception keeps a note of where it was raised in place of its traceback, whose frames hold the request and all
    that it refers to: only the garbage collector would free those, and it is off under load.
    """
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is not None:
        error.add_note(f"raised at {traceback.tb_frame.f_code.co_filename}:{traceback.tb_lineno}")
    text = DriverError(f"{type(error).__name__} in the driver")
    text.cause = error.with_traceback(None)
    return text


_CAUSES: tuple[tuple[tuple[type[BaseException], ...], str], ...] = (
    ((ConnectionRefusedError,), "refused"),
    ((ConnectionResetError, BrokenPipeError, ConnectionAbortedError), "reset"),
    ((TimeoutError,), "timeout"),
)


_BY_STACK = (
    "Give the login of the stack's server ({0}Endpoint) as a secret with username and password, named by the stack's "
    "parameter {0}SecretArn; a server that a plan names as target.endpoint gets no login, so it has to take {1}."
)
_ETCD = (
    "etcd is asked without a login: switch its authentication off (`etcdctl auth disable`), and shut others out by its "
    "network."
)
_HOW = (
    (r"\b(?:NOAUTH|WRONGPASS|NOPERM)\b", _BY_STACK.format("Redis", "everybody as its default user, with all rights")),
    (
        r"\b28(?:000|P01)\b|FATAL: +(?:\w+ authentication failed|no pg_hba|role )|no password supplied",
        _BY_STACK.format("Postgresql", "the user postgres without a password")
        + " To Aurora DSQL the function's role signs in, which needs dsql:DbConnect.",
    ),
    (r"\b(?:BadCredentials|Unauthorized)\b", _BY_STACK.format("Cassandra", "its default user, cassandra/cassandra")),
    (r"\b(?:UNAUTHENTICATED|PERMISSION_DENIED)\b|user name is empty", _ETCD),
)


def how_to_log_in(said: str) -> str:
    """Return how the store that says this is given a login; "" where it refuses none."""
    return next((how for pattern, how in _HOW if re.search(pattern, said)), "")


def with_login_remedy(message: str, said: str) -> str:
    """Return an error's message, and how the store that says this is given a login, where it refused one."""
    how = how_to_log_in(said)
    return f"{message.rstrip().removesuffix('.')}. {how}" if how else message
