"""What libpq says of a connection that cannot be had."""

from __future__ import annotations

import pytest

from stepbench.drivers.sql.connection import unavailable
from stepbench.errors import TargetUnreachableError


@pytest.mark.parametrize(
    ("text", "lasting"),
    [
        ("connection failed: Connection refused", False),
        ("FATAL:  the database system is starting up", False),
        ("FATAL:  sorry, too many clients already", False),
        ("server closed the connection unexpectedly", False),
        ("SSL error: unexpected eof while reading", False),
        ("SSL error: certificate verify failed", True),
        ('FATAL:  password authentication failed for user "postgres"', True),
        ('FATAL:  database "nowhere" does not exist', True),
        ('FATAL:  role "nobody" does not exist', True),
        ("server does not support SSL, but SSL was required", True),
        ("expected authentication request from server, but received H", True),
    ],
)
def test_libpq_tells_by_text_alone(text: str, lasting: bool) -> None:  # noqa: FBT001
    """It hands on no code of a connection that was refused."""
    assert isinstance(unavailable(text, text), TargetUnreachableError) is lasting
