"""What errors of stores mean in a word or two, and what to do: one remedy for all sends most readers the wrong way."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepbench.model import errors
from stepbench.model.errors import how_to_log_in

if TYPE_CHECKING:
    from collections.abc import Iterable


class ErrorWords(NamedTuple):
    """What an error means, and what to do about it."""

    meaning: str
    remedy: str


LOAD = "The store refused for load: lower the rate, or give it more capacity."
CREDENTIALS = "The writers' AWS credentials were not taken: those of their role, or of the user who runs them."
RIGHTS = "The login, or the function's role, may not do this: grant it, or take another login."
WRITABLE = "Name the endpoint that takes writes (of a cluster its primary), or end what made it read-only."
CONNECTIONS = "Raise the server's limit of connections, or have fewer writers or clients."
CONTENDED = "Rows are contended: take more records, or fewer clients."
ROOM = "The store is full: give it memory or disk, or remove what other applications have left; then run again."
GONE = "What the trial had made was removed while it ran: find out by whom, and run it again."
NETWORK = "Look whether the server was up and reachable at that time: its log, and what lies between."
PROTOCOL = "Something else than this store answers at the endpoint, or stands between: look at the address."
TLS = "Look at the server's certificate and at target.tls."
INTERNAL = "The store's own failure: its log of that time, or its provider's status page, has more."
REMADE = (
    "The file is damaged, or was changed on its way: run again, for which it is made anew; if it goes on, look for "
    "what changes it."
)
REFUSED = "Run again, for which the file is made anew; if it goes on, look for what changes who may read it."
MOUNT = "Look whether the file system is mounted, and answers."
SOMETHING = "Look at the store's log of that time."
UNKNOWN = "Look at the store's log of that time; the errors are its own words, of which no more is known here."


def _rights(code: str) -> str:
    return f"{RIGHTS} {how_to_log_in(code)}"


KNOWN: dict[str, ErrorWords] = {
    # Redis and Valkey: the first word of a refusal.
    "NOAUTH": ErrorWords("no login", how_to_log_in("NOAUTH")),
    "WRONGPASS": ErrorWords("wrong login", how_to_log_in("WRONGPASS")),
    "NOPERM": ErrorWords("no permission", _rights("NOPERM")),
    "READONLY": ErrorWords("read-only", WRITABLE),
    "OOM": ErrorWords("out of memory", ROOM),
    "MISCONF": ErrorWords("cannot save to disk", ROOM),
    "LOADING": ErrorWords("still loading", "Wait until the server has loaded its data, then run again."),
    "CLUSTERDOWN": ErrorWords("cluster down", INTERNAL),
    "MASTERDOWN": ErrorWords("no primary", INTERNAL),
    "MOVED": ErrorWords("another node's", "It is a cluster: set target.cluster."),
    # PostgreSQL and DSQL: conditions of SQLSTATE, by their names in PostgreSQL's appendix A.
    "25006": ErrorWords("read-only transaction", WRITABLE),
    "28000": ErrorWords("invalid authorization", how_to_log_in("28000")),
    "28P01": ErrorWords("invalid password", how_to_log_in("28P01")),
    "3D000": ErrorWords("no such database", GONE),
    "40001": ErrorWords("serialization failure", CONTENDED),
    "40P01": ErrorWords("deadlock", CONTENDED),
    "42501": ErrorWords("insufficient privilege", RIGHTS),
    "42P01": ErrorWords("no such table", GONE),
    "3F000": ErrorWords("no such schema", GONE),
    "53100": ErrorWords("disk full", ROOM),
    "53200": ErrorWords("out of memory", ROOM),
    "53300": ErrorWords("too many connections", CONNECTIONS),
    "55P03": ErrorWords("lock not available", CONTENDED),
    "57014": ErrorWords("cancelled, or over its time limit", LOAD),
    "57P01": ErrorWords("server shut down", NETWORK),
    "57P02": ErrorWords("server crashed", INTERNAL),
    "57P03": ErrorWords("server is starting", NETWORK),
    # etcd: status codes of gRPC.
    "RESOURCE_EXHAUSTED": ErrorWords("over etcd's quota, or too many requests", ROOM),
    "INVALID_ARGUMENT": ErrorWords("no login, or not understood", how_to_log_in("user name is empty")),
    "UNAUTHENTICATED": ErrorWords("no login", how_to_log_in("UNAUTHENTICATED")),
    "PERMISSION_DENIED": ErrorWords("no permission", _rights("PERMISSION_DENIED")),
    "UNAVAILABLE": ErrorWords("no leader, or not reachable", NETWORK),
    "DEADLINE_EXCEEDED": ErrorWords("over its time limit", LOAD),
    # Cassandra: names of its native protocol's errors (`wire.cql.answers`).
    "Unavailable": ErrorWords("too few replicas", NETWORK),
    "Overloaded": ErrorWords("", LOAD),
    "IsBootstrapping": ErrorWords("a node is starting", NETWORK),
    "WriteTimeout": ErrorWords("replicas did not answer in time", LOAD),
    "ReadTimeout": ErrorWords("replicas did not answer in time", LOAD),
    "WriteFailure": ErrorWords("a replica failed", INTERNAL),
    "ReadFailure": ErrorWords("a replica failed", INTERNAL),
    "ServerError": ErrorWords("the store's own failure", INTERNAL),
    "BadCredentials": ErrorWords("wrong login", how_to_log_in("BadCredentials")),
    "Unauthorized": ErrorWords("no permission", _rights("Unauthorized")),
    # AWS's services.
    "ProvisionedThroughputExceededException": ErrorWords("over the table's capacity", LOAD),
    "ThrottlingException": ErrorWords("throttled", LOAD),
    "RequestLimitExceeded": ErrorWords("over the account's quota", LOAD),
    "SlowDown": ErrorWords("throttled", LOAD),
    "TooManyRequestsException": ErrorWords("throttled", LOAD),
    "AccessDeniedException": ErrorWords("no permission", RIGHTS),
    "AccessDenied": ErrorWords("no permission", RIGHTS),
    "ExpiredToken": ErrorWords("credentials have ended", CREDENTIALS),
    "ExpiredTokenException": ErrorWords("credentials have ended", CREDENTIALS),
    "UnrecognizedClientException": ErrorWords("unknown credentials", CREDENTIALS),
    "InvalidAccessKeyId": ErrorWords("unknown credentials", CREDENTIALS),
    "SignatureDoesNotMatch": ErrorWords("wrong credentials", CREDENTIALS),
    "ServiceUnavailable": ErrorWords("throttled, or the store's own failure", LOAD),
    "ResourceNotFoundException": ErrorWords("no such table", GONE),
    "NoSuchBucket": ErrorWords("no such bucket", GONE),
    "InternalServerError": ErrorWords("the store's own failure", INTERNAL),
    "InternalError": ErrorWords("the store's own failure", INTERNAL),
    # Our own, whatever the store.
    errors.TIMEOUT: ErrorWords("", LOAD),
    errors.CONNECTION_CLOSED: ErrorWords("", NETWORK),
    errors.CONNECTION_RESET: ErrorWords("", NETWORK),
    errors.GARBAGE: ErrorWords("", PROTOCOL),
    errors.UNASKED: ErrorWords("", PROTOCOL),
    errors.PROTOCOL_BROKEN: ErrorWords("", PROTOCOL),
    errors.WRONG_VALUE: ErrorWords(
        "",
        "The store, or what stands before it, returned values that are not those of the records asked for: find out "
        "why before any number of this trial is used.",
    ),
    errors.NOT_FOUND: ErrorWords("", "Records were not there: evicted, expired, or removed by somebody else."),
    errors.NO_ANSWER: ErrorWords("", LOAD),
    "connect": ErrorWords("", NETWORK),
    # Transfers' own (`experiments.transfer.program.progress`): of files, and the system's names.
    "wrong-digest": ErrorWords("not the bytes that were stored", REMADE),
    "wrong-length": ErrorWords("", REMADE),
    "EIO": ErrorWords("the disk's, or the file server's, own failure", REMADE),
    "EACCES": ErrorWords("no permission", REFUSED),
    "EPERM": ErrorWords("no permission", REFUSED),
    "EISDIR": ErrorWords("a directory in the file's place", "Look at what stands there, and take it away."),
    "mount-gone": ErrorWords("", MOUNT),
    "no-mount": ErrorWords("", MOUNT),
    "tls": ErrorWords("", TLS),
}
_NAMELESS = frozenset({errors.OTHER_ERRORS, "failed", "unknown"})
"""Counts of what has no name, or whose names are too many."""
_FIRST = (errors.WRONG_VALUE,)
"""Of these the remedy comes before all others, however few there are."""


def explain(error: str) -> ErrorWords | None:
    """
    Return what is known of an error; None of an unknown one.

    It goes by its name, by what stands before its colon, or, of `HTTP 503 SlowDown`, by the service's own code.
    """
    return KNOWN.get(error) or KNOWN.get(error.partition(":")[0]) or KNOWN.get(error.rpartition(" ")[2])


def name_error(error: str) -> str:
    """Return an error with its meaning: `25006 (read-only transaction)`."""
    found = explain(error)
    return f"{error} ({found.meaning})" if found and found.meaning else error


def find_remedies(names: Iterable[str]) -> str:
    """Return what to do about errors, the most frequent first, each remedy once."""
    ordered = sorted((name for name in names if name not in _NAMELESS), key=lambda name: name not in _FIRST)
    remedies = [found.remedy if (found := explain(name)) else UNKNOWN for name in ordered]
    return " ".join(dict.fromkeys(remedies)) or SOMETHING
