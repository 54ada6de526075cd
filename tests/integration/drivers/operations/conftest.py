"""Operations are tested on the event loop that writers use: asyncio's own leaves a cycle behind for each connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import uvloop

if TYPE_CHECKING:
    import pytest


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """One loop, and no name of it in the tests' own."""
    del item
    return {"uvloop": uvloop.new_event_loop}
