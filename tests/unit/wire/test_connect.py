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
