"""Slots and redirections as a real cluster of two nodes has them."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest

from stepbench.wire.resp import ErrorReply, Node, Redirect, SlotMap, key_slot, parse_redirect
from stepbench_tools.local.processes import free_port

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.wire.conftest import Connect

    from stepbench.wire.resp.connection import RespConnection
    from stepbench_tools.local.stores import LocalStore

pytestmark = pytest.mark.stores
LIMIT_S = 30


def _node(store: LocalStore) -> Node:
    host, _, port = store.endpoint.rpartition(":")
    return Node(host, int(port))


async def _await_ok(connection: RespConnection) -> None:
    """Until the node has heard of all slots."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            info = (await connection.call(b"CLUSTER", b"INFO")).reply
            if isinstance(info, bytes) and b"cluster_state:ok" in info:
                return
            await asyncio.sleep(0.05)


async def test_a_cluster_of_two(start_valkey_with: Callable[..., LocalStore], connect_to: Connect) -> None:
    """The server's own CLUSTER KEYSLOT and MOVED against our arithmetic, for 200 keys with and without tags."""
    buses = [free_port() for _ in range(2)]  # without being told, the server takes an ephemeral one
    stores = [start_valkey_with(cluster_enabled="yes", cluster_port=str(bus)) for bus in buses]
    first, second = [(await connect_to(store.endpoint)).connection for store in stores]
    here, there = map(_node, stores)
    await first.call(b"CLUSTER", b"ADDSLOTSRANGE", b"0", b"8191")
    await second.call(b"CLUSTER", b"ADDSLOTSRANGE", b"8192", b"16383")
    met = await first.call(b"CLUSTER", b"MEET", there.host.encode(), b"%d" % there.port, b"%d" % buses[1])
    assert met.reply == "OK"
    await _await_ok(first)
    slots = SlotMap((await first.call(b"CLUSTER", b"SLOTS")).reply, here)
    rng = random.Random(1)  # noqa: S311 -- repeatable on purpose
    keys = [bytes(rng.choices(b"ab{}", k=rng.randrange(12))) + b"%d" % turn for turn in range(200)]
    seen = set()
    for key in keys:
        assert (await first.call(b"CLUSTER", b"KEYSLOT", key)).reply == key_slot(key)
        reply = (await first.call(b"GET", key)).reply
        redirect = parse_redirect(reply, here) if isinstance(reply, ErrorReply) else None
        assert redirect == (Redirect(key_slot(key), there, ask=False) if key_slot(key) >= 8192 else None)
        assert slots.find_node(key) == (redirect.node if redirect else here)
        seen.add(redirect is None)
    assert seen == {True, False}
