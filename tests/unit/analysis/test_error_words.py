"""What errors of stores mean, and what to do about them."""

from __future__ import annotations

import re

import psycopg
import pytest

from stepbench.analysis.error_words import UNKNOWN, explain, find_remedies, known_errors, name_error, remedies
from stepbench.model import errors as ours
from stepbench.model.errors import how_to_log_in
from stepbench.wire.cql.answers import ERRORS

KNOWN = known_errors()
SQLSTATE = re.compile(r"[0-9][0-9A-Z]{4}")


@pytest.mark.parametrize("code", [name for name in KNOWN if SQLSTATE.fullmatch(name)])
def test_conditions_of_postgresql_are_there(code: str) -> None:
    """Psycopg has them from PostgreSQL's own table."""
    assert psycopg.errors.lookup(code).sqlstate == code


@pytest.mark.parametrize("name", sorted({*ERRORS.values()} & KNOWN.keys()))
def test_names_of_cassandra_are_those_of_its_protocol(name: str) -> None:
    """A misspelt one would explain nothing."""
    assert explain(name) is not None


OURS = "TIMEOUT CONNECTION_CLOSED CONNECTION_RESET GARBAGE UNASKED PROTOCOL_BROKEN WRONG_VALUE NOT_FOUND NO_ANSWER"


@pytest.mark.parametrize("name", [getattr(ours, constant) for constant in OURS.split()])
def test_our_own_errors_are_there(name: str) -> None:
    """The table has them by what they are called, and not by their constants."""
    assert explain(name) is not None


@pytest.mark.parametrize(
    ("errors", "remedy"),
    [
        (["NOAUTH"], how_to_log_in("NOAUTH")),
        (["READONLY"], remedies()["writable"]),
        (["25006"], remedies()["writable"]),
        (["OOM", "RESOURCE_EXHAUSTED"], remedies()["room"]),
        (["ThrottlingException", "timeout"], remedies()["load"]),
        (["connect: refused", "57P01"], remedies()["network"]),
        (["HTTP 503 SlowDown", "HTTP 500"], f"{remedies()['load']} {UNKNOWN}"),
        (["wrong-digest", "wrong-length: 3 bytes in place of 4"], remedies()["remade"]),
        (["XYZ"], UNKNOWN),
        (["53300", "XYZ"], f"{remedies()['connections']} {UNKNOWN}"),
    ],
)
def test_what_to_do_depends_on_the_error(errors: list[str], remedy: str) -> None:
    """A refused login and a full disk are mended by no lower rate."""
    assert find_remedies(errors) == remedy


def test_wrong_values_come_first() -> None:
    """Whatever else failed, no number may be used before it is known why."""
    assert find_remedies(["57P01", "wrong_value"]).startswith("The store, or what stands before it, returned values")


@pytest.mark.parametrize(
    ("error", "named"),
    [("25006", "25006 (read-only transaction)"), ("timeout", "timeout"), ("tls: X", "tls: X"), ("XYZ", "XYZ")],
)
def test_a_code_that_says_nothing_is_named(error: str, named: str) -> None:
    """`25006 622` tells most readers nothing."""
    assert name_error(error) == named


@pytest.mark.parametrize(
    ("error", "how"),
    [
        *((code, "RedisSecretArn") for code in ("NOAUTH", "WRONGPASS", "NOPERM")),
        *((code, "PostgresqlSecretArn") for code in ("28000", "28P01")),
        *((code, "CassandraSecretArn") for code in ("BadCredentials", "Unauthorized")),
        *((code, "etcdctl auth disable") for code in ("UNAUTHENTICATED", "PERMISSION_DENIED")),
    ],
)
def test_a_refused_login_says_where_that_stores_login_goes(error: str, how: str) -> None:
    """Of `…SecretArn` etcd has none: whoever was sent to it would look in vain."""
    assert how in find_remedies([error])
