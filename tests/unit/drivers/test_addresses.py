"""Addresses of stores."""

from __future__ import annotations

import pytest

from stepbench.drivers.addresses import Endpoint, parse_endpoint, resolve
from stepbench.errors import PlanError


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("db.example.org:6000/bench", Endpoint("", "db.example.org", 6000, "bench")),
        ("db.example.org", Endpoint("", "db.example.org", 5432, "")),
        ("https://10.0.0.7:2379", Endpoint("https", "10.0.0.7", 2379, "")),
        ("[::1]:2379", Endpoint("", "::1", 2379, "")),
    ],
)
def test_an_endpoint_is_taken_apart(text: str, endpoint: Endpoint) -> None:
    """These are the forms that the stack's parameters and plans use."""
    assert parse_endpoint(text, 5432) == endpoint


@pytest.mark.parametrize("text", ["", ":5432", "host:port", "host:99999", "[::1:5"])
def test_what_is_no_address_is_refused(text: str) -> None:
    """Refused before anything is created, and not as a time-out minutes later."""
    with pytest.raises(PlanError, match="Write host:port"):
        parse_endpoint(text, 5432)


async def test_a_numeric_address_stays() -> None:
    """Nothing is looked up for it."""
    assert await resolve(Endpoint("", "127.0.0.1", 1, "")) == "127.0.0.1"


async def test_an_address_of_a_metadata_service_is_never_connected_to() -> None:
    """It hands out the function's credentials; here it comes in a spelling that resolvers understand."""
    with pytest.raises(PlanError, match="link-local"):
        await resolve(Endpoint("", "0xa9fea9fe", 80, ""))
