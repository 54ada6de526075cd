"""How a store is given a login, for whoever reads that it has refused one."""

from __future__ import annotations

import re

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
    (
        r"\b(?:UNAUTHENTICATED|PERMISSION_DENIED)\b|user name is empty",
        _ETCD,
    ),
)
_PATTERNS = tuple((re.compile(pattern), how) for pattern, how in _HOW)


def how_to_log_in(said: str) -> str:
    """Return how the store that says this is given a login; "" where it refuses none."""
    return next((how for pattern, how in _PATTERNS if pattern.search(said)), "")


def with_login_remedy(message: str, said: str) -> str:
    """Return an error's message, and how the store that says this is given a login, where it refused one."""
    how = how_to_log_in(said)
    return f"{message.rstrip().removesuffix('.')}. {how}" if how else message
