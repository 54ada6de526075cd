"""Credentials stay fresh on the side, and what goes wrong with them has a name."""

from __future__ import annotations

import asyncio
import logging

import pytest

from stepbench.errors import TargetUnavailableError
from stepbench.testing.fake_clock import FakeClock
from stepbench.wire.aws import CredentialSource, SignedClient
from stepbench.wire.pool import Address, Limits, Pool
from stepbench.wire.sigv4 import Credentials, Signer

OLD, NEW = Credentials("old", "s"), Credentials("new", "s", "t")
LIMIT_S = 10


class Chain:
    """Answers in turn; the last one for ever. An exception is raised."""

    def __init__(self, *answers: Credentials | Exception | None) -> None:
        self._answers = list(answers)
        self.asked = asyncio.Event()
        self._asked = 0
        self._loop = asyncio.get_running_loop()

    def __call__(self) -> Credentials | None:
        """What botocore's chain is to the source."""
        self._asked += 1
        if self._asked > len(self._answers):
            self._loop.call_soon_threadsafe(self.asked.set)
        answer = self._answers[min(self._asked, len(self._answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_credentials_are_renewed_while_requests_run() -> None:
    """A role's credentials end after an hour; a soak test runs for six."""
    chain = Chain(OLD, NEW)
    source = CredentialSource(chain, every_s=0)
    await source.start()
    assert source.current == OLD
    async with asyncio.timeout(LIMIT_S):
        await chain.asked.wait()
    assert source.current == NEW
    await source.stop()


async def test_a_failed_refresh_keeps_the_old_ones(caplog: pytest.LogCaptureFixture) -> None:
    """They are good for 15 minutes more; the next minute's refresh may succeed."""
    chain = Chain(OLD, ValueError("profile is gone"))
    source = CredentialSource(chain, every_s=0)
    with caplog.at_level(logging.WARNING):
        await source.start()
        async with asyncio.timeout(LIMIT_S):
            await chain.asked.wait()
        await source.stop()
    assert source.current == OLD
    assert "profile is gone" in caplog.text


@pytest.mark.parametrize(
    ("answer", "message"), [(None, "no AWS credentials"), (OSError("no such file"), "no such file")]
)
async def test_without_credentials_the_target_is_unavailable(answer: Exception | None, message: str) -> None:
    """A writer that starts without them would record 10,000 refusals as if the store had failed."""
    source = CredentialSource(Chain(answer))
    with pytest.raises(TargetUnavailableError, match=message):
        await source.start()


async def test_starting_twice_refreshes_once() -> None:
    """`open` is idempotent; a second task would outlive `stop`."""
    source = CredentialSource(Chain(OLD))
    await source.start()
    await source.start()
    await source.stop()
    await source.stop()
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


async def test_a_request_that_is_not_sent_says_so() -> None:
    """Nothing was written, so the outcome is FAILED for certain, not UNKNOWN."""
    clock = FakeClock()
    pool = Pool(Address("nowhere.invalid", 80, tls=False), clock, Limits())

    async def unresolvable() -> None:
        raise OSError

    pool._connect = unresolvable  # type: ignore[method-assign,assignment]
    source = CredentialSource(Chain(OLD))
    client = SignedClient(pool, Signer("s3", "us-east-1"), source, clock)
    result = await client.send("PUT", "/k", (), b"")
    assert (result.sent, result.error, result.t1_ns) == (False, "connect: OSError", result.t2_ns)
    with pytest.raises(TargetUnavailableError, match=r"nowhere\.invalid cannot be reached"):
        await client.open(1)
    await client.close()
