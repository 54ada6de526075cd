"""Signed requests to one AWS service (or what speaks its protocol), with credentials that stay fresh on the side."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from stepbench.errors import TargetUnavailableError
from stepbench.wire.http1 import Request, request_bytes
from stepbench.wire.sigv4 import Credentials, Signer

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from stepbench.clock import Clock
    from stepbench.wire.connection import Exchange
    from stepbench.wire.pool import Dialled, Pool
    from stepbench.wire.tcp import Found

REFRESH_EVERY_S = 60.0
"""botocore renews credentials from 15 minutes before their end on; asking it each minute is soon enough."""
_log = logging.getLogger(__name__)


class CredentialSource:
    """
    The credentials to sign with: `load` may read files or the network, so it runs in a thread, off the hot path.

    A failed refresh keeps the old ones: they may still be good, and if not the store's refusals are on record.
    """

    def __init__(self, load: Callable[[], Credentials | None], every_s: float = REFRESH_EVERY_S) -> None:
        self._load = load
        self._every_s = every_s
        self._task: asyncio.Task[None] | None = None
        self.current = Credentials("", "")

    async def start(self) -> None:
        """Load once, then keep refreshing. Raises TargetUnavailableError if there are none."""
        if self._task is None:
            await self.refresh()
            self._task = asyncio.create_task(self._keep_fresh())

    async def refresh(self) -> None:
        """Load now. Raises TargetUnavailableError if there are none."""
        try:
            loaded = await asyncio.to_thread(self._load)
        except Exception as error:
            # botocore's providers raise whatever their back ends do (files, processes, STS).
            message = f"reading AWS credentials failed: {error}"
            raise TargetUnavailableError(message) from error
        if loaded is None:
            message = "no AWS credentials were found; set them in the environment or in ~/.aws/credentials"
            raise TargetUnavailableError(message)
        self.current = loaded

    async def stop(self) -> None:
        """End the refreshing; safe to call twice."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _keep_fresh(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            try:
                await self.refresh()
            except TargetUnavailableError as error:
                _log.warning("the old AWS credentials stay in use: %s", error)


class SignedClient:
    """Signs each request just before it is sent, and hands it to the pool."""

    def __init__(self, pool: Pool, signer: Signer, credentials: CredentialSource, clock: Clock) -> None:
        self._pool = pool
        self._signer = signer
        self._credentials = credentials
        self._clock = clock

    async def open(self, connections: int) -> None:
        """Read credentials and connect. Raises TargetUnavailableError."""
        await self._credentials.start()
        await self.warm(connections)

    async def warm(self, connections: int) -> None:
        """Have so many connections. Raises TargetUnavailableError."""
        try:
            await self._pool.warm(connections)
        except OSError as error:
            message = f"{self._pool.address.authority} cannot be reached: {error or type(error).__name__}"
            raise TargetUnavailableError(message) from error

    def signed(self, method: str, path: str, headers: tuple[tuple[str, str], ...], body: bytes) -> bytes:
        """A request as it is sent; all `headers` (names in lower case) are signed."""
        request = Request(method, path, (("host", self._pool.address.authority), *headers), body)
        return request_bytes(self._signer.signed(request, self._credentials.current, self._clock.now_ns()))

    async def find(self) -> Found:
        """The service's addresses; as `Pool.find`."""
        return await self._pool.find()

    def alone(self, found: Found) -> AbstractAsyncContextManager[Dialled]:
        """A connection for the block's requests only; as `Pool.alone`."""
        return self._pool.alone(found)

    async def exchange(self, signed: bytes) -> Exchange:
        """Send what `signed` has made."""
        return await self._pool.exchange(signed)

    async def send(self, method: str, path: str, headers: tuple[tuple[str, str], ...], body: bytes) -> Exchange:
        """One request, signed now."""
        return await self._pool.exchange(self.signed(method, path, headers, body))

    async def close(self) -> None:
        """Release connections; safe to call twice."""
        await self._credentials.stop()
        await self._pool.close()
