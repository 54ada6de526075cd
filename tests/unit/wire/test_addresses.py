"""AddressBook of stores."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from stepbench.drivers.access import AddressBook, Endpoint, parse_endpoint, resolve
from stepbench.errors import PlanError, TargetUnavailableError


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


@pytest.mark.parametrize("first", ["10.0.0.1", "169.254.169.254"])
async def test_all_addresses_of_a_name_are_judged(first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that was judged would be a good one, and the next look-up's another."""
    found = [first, "::ffff:0:a9fe:a9fe", "10.0.0.2"]

    async def look_up(_loop: object, _host: str, port: int, **_options: object) -> list[tuple[Any, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", look_up)
    with pytest.raises(PlanError, match=r"store\.test is the link-local"):
        await resolve(Endpoint("", "store.test", 80, ""))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that are looked up, in order; of them `gone` has no address."""
    names: list[str] = []

    async def look_up(_loop: object, host: str, port: int, **_options: object) -> list[tuple[Any, ...]]:
        names.append(host)
        if host == "gone":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"10.0.0.{len(names)}", port))]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", look_up)
    return names


async def test_a_name_is_looked_up_once_until_it_is_forgotten(asked: list[str]) -> None:
    """Each operation on a connection of its own would ask the name server, too; after a fault one has to."""
    addresses = AddressBook()
    first = [await addresses.find("db", 1) for _ in range(2)]
    addresses.forget("db", 1)
    assert (first, await addresses.find("db", 1), asked) == (["10.0.0.1"] * 2, "10.0.0.2", ["db", "db"])


async def test_a_node_without_an_address_does_not_keep_the_others_from_theirs(asked: list[str]) -> None:
    """One node of a cluster may be down when a writer opens; its operations then say so."""
    addresses = AddressBook()
    await addresses.learn([("gone", 1), ("db", 1)])
    assert sorted(asked) == ["db", "gone"]
    assert await addresses.find("db", 1)
    assert len(asked) == 2
    with pytest.raises(TargetUnavailableError, match="gone has no address"):
        await addresses.find("gone", 1)
