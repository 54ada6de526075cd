from __future__ import annotations

import gc
import socket

import pytest

from stepbench.load.process import gc_paused
from stepbench.wire.connect import connect_tcp

REFUSED = 20


async def test_a_connection_that_is_refused_leaves_nothing_to_the_garbage_collector() -> None:
    """It is off under load: a store that refuses 3,000 times a second would fill a writer's memory in minutes."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        with pytest.raises(ConnectionRefusedError):
            await connect_tcp("127.0.0.1", port)
        with gc_paused():
            for _ in range(REFUSED):
                with pytest.raises(ConnectionRefusedError):
                    await connect_tcp("127.0.0.1", port)
            assert gc.collect() < REFUSED


async def test_a_host_with_a_forbidden_address_is_not_connected_to() -> None:
    """Its other addresses are what it would be taken for."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in (host, "169.254.169.254")]
        with pytest.raises(ConnectionRefusedError, match="hands out credentials"):
            await connect_tcp("store.test", port, found)
        (await connect_tcp("store.test", port, found[:1])).close()
