"""Credentials stay fresh on the side, and what goes wrong with them has a name."""

from __future__ import annotations

import asyncio
import logging
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.fake_clock import START_NS, FakeClock

from stepbench.errors import TargetUnavailableError
from stepbench.model.errors import NO_ANSWER, WITHDRAWN
from stepbench.model.request import Outcome, Result
from stepbench.wire.http1 import HttpAnswer
from stepbench.wire.http1.aws import (
    CredentialSource,
    SignedClient,
    SignedRequest,
    json_error_code,
    write_result,
    xml_error_code,
)
from stepbench.wire.http1.connection import ABANDONED, HttpConnection, HttpExchange, HttpRequest
from stepbench.wire.http1.pool import HttpAddress, HttpPool, PoolLimits
from stepbench.wire.http1.sigv4 import Credentials, Form, Signer

FORM = Form("POST", (("x-amz-target", "DynamoDB_20120810.PutItem"),))
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
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
        """Load credentials, as botocore's chain does for the source."""
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


async def test_credentials_are_not_asked_for_again_before_it_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider that is asked without a pause takes a core from what is measured."""
    chain = Chain(OLD, NEW)
    source = CredentialSource(chain, every_s=600)
    waits: list[float] = []
    waiting = asyncio.Event()

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        waiting.set()
        await asyncio.Future()

    with monkeypatch.context() as patch:
        patch.setattr(asyncio, "sleep", sleep)
        await source.start()
        async with asyncio.timeout(LIMIT_S):
            await waiting.wait()
    await source.stop()
    assert (waits, source.current) == ([600], OLD)


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
    pool = HttpPool(HttpAddress("nowhere.invalid", 80, tls=False), clock, PoolLimits())

    async def unresolvable() -> None:
        raise OSError

    pool._connect = unresolvable  # type: ignore[method-assign,assignment]
    source = CredentialSource(Chain(OLD))
    client = SignedClient(pool, Signer("s3", "us-east-1", "nowhere.invalid"), source, clock)
    result = await client.exchange(Form("PUT"), "/k", b"")
    assert (result.sent, result.error, result.t1_ns) == (False, "connect: OSError", result.t2_ns)
    with pytest.raises(TargetUnavailableError, match=r"nowhere\.invalid cannot be reached"):
        await client.open(1)
    await client.close()


class Wired:
    """A client whose one connection leads to a socket of the test's, and what was heard of its requests."""

    def __init__(self, clock: FakeClock, limits: PoolLimits = PoolLimits(idle_s=3_600)) -> None:  # noqa: B008 -- immutable
        ours, self.peer = socket.socketpair()
        ours.settimeout(0)
        self.peer.settimeout(0)
        pool = HttpPool(HttpAddress("store.example", 80, tls=False), clock, limits)
        pool._admit(HttpConnection(ours, clock, changed=pool._changed))
        source = CredentialSource(Chain(OLD))
        self.client = SignedClient(pool, Signer("dynamodb", "us-east-1", "store.example"), source, clock)
        self.heard: list[tuple[int, int, str]] = []

    def made(self, body: bytes) -> SignedRequest[tuple[int, int, str]]:
        """A request; of it are heard t1, the status and the error."""
        return SignedRequest(self.client, FORM, "/", body, _told)

    def received(self) -> bytes:
        """Return what the peer has got."""
        return self.peer.recv(100_000)


def _told(sending: HttpRequest, _t2_ns: int, answer: HttpAnswer | None, error: str) -> tuple[int, int, str]:
    return sending.t1_ns, answer.status if answer else 0, error


async def _turns() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("waited_s", "date"), [(0, b"20231114T221320Z"), (60, b"20231114T221320Z"), (61, b"20231114T221421Z")]
)
def test_a_request_that_has_waited_is_signed_anew(waited_s: int, date: bytes) -> None:
    """AWS refuses a signature of five minutes ago; made ahead, a rare event may have to wait as long for its time."""
    clock = FakeClock()

    async def send() -> bytes:
        wired = Wired(clock)
        made = wired.made(b"body")
        clock.advance(waited_s * 1_000_000_000)
        made.send(wired.heard.append)
        received = wired.received()
        await wired.client.close()
        wired.peer.close()
        return received

    assert b"x-amz-date: " + date + b"\r\n" in clock.run(send())


def test_what_was_made_is_sent_at_its_time_and_heard_of_once() -> None:
    """t1 is when it was sent, not when it was made; the next request waits its turn on the connection."""
    clock = FakeClock()

    async def send() -> list[tuple[int, int, str]]:
        wired = Wired(clock, PoolLimits(connections=1))
        first, second = wired.made(b"1"), wired.made(b"2")
        clock.advance(5_000)
        first.send(wired.heard.append)
        second.send(wired.heard.append)
        assert wired.received().endswith(b"\r\n\r\n1")
        clock.advance(1_000)
        wired.peer.send(ANSWER)
        await _turns()
        assert wired.received().endswith(b"\r\n\r\n2")
        wired.peer.send(ANSWER)
        await _turns()
        for made in (first, second):
            made.abandon()
        await wired.client.close()
        wired.peer.close()
        return wired.heard

    assert clock.run(send()) == [(START_NS + 5_000, 200, ""), (START_NS + 6_000, 200, "")]


def test_what_is_abandoned_says_whether_it_had_left_us() -> None:
    """t1 is 0 of what never has: the one may have happened, the other certainly has not."""
    clock = FakeClock()

    async def abandon() -> list[tuple[int, int, str]]:
        wired = Wired(clock, PoolLimits(connections=1))
        sent, waits, never = wired.made(b"1"), wired.made(b"2"), wired.made(b"3")
        sent.send(wired.heard.append)
        waits.send(wired.heard.append)
        for made in (never, waits, sent):
            made.abandon()
        await wired.client.close()
        wired.peer.close()
        return wired.heard

    assert clock.run(abandon()) == [(0, 0, ABANDONED), (START_NS, 0, ABANDONED)]


SLOW_DOWN = b'<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>'
THROTTLED = b'{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException","message":"m"}'


def answered(status: int, body: bytes = b"", **headers: str) -> HttpExchange:
    """Return an exchange that got an answer."""
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return HttpExchange(10, 20, HttpAnswer(status, head.encode(), body, reusable=True))


def test_an_acknowledgement_carries_the_token() -> None:
    """The version id is all that the receiver knows of an update."""
    exchange = answered(200, x_amz_version_id="v1")
    assert write_result(exchange, xml_error_code, b"x-amz-version-id") == Result(10, 20, Outcome.OK, "v1")


def test_a_store_without_tokens_gives_none() -> None:
    """DynamoDB answers `{}`."""
    assert write_result(answered(200, b"{}"), json_error_code) == Result(10, 20, Outcome.OK)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (400, Outcome.FAILED),
        (403, Outcome.FAILED),
        (307, Outcome.FAILED),
        (503, Outcome.FAILED),
        (500, Outcome.UNKNOWN),
        (502, Outcome.UNKNOWN),
        (504, Outcome.UNKNOWN),
    ],
)
def test_a_refusal_is_failed_and_a_breakdown_unknown(status: int, outcome: Outcome) -> None:
    """FAILED promises that nothing was written; a server that broke down half way cannot promise that."""
    result = write_result(answered(status), json_error_code)
    assert (result.outcome, result.error) == (outcome, f"HTTP {status}")


def test_the_services_own_code_is_kept() -> None:
    """Throttling is the most interesting failure there is, and both services have their own word for it."""
    assert write_result(answered(503, SLOW_DOWN), xml_error_code).error == "SlowDown"
    assert write_result(answered(400, THROTTLED), json_error_code).error == "ProvisionedThroughputExceededException"
    assert json_error_code(b'{"__type": "ValidationException"}') == "ValidationException"


@pytest.mark.parametrize(
    ("reason", "sent", "outcome", "error"),
    [
        ("timeout", True, Outcome.UNKNOWN, "timeout"),
        ("timeout", False, Outcome.FAILED, "timeout"),
        (ABANDONED, True, Outcome.UNKNOWN, NO_ANSWER),
        (ABANDONED, False, Outcome.FAILED, WITHDRAWN),
    ],
)
def test_without_an_answer_it_matters_whether_it_was_sent(
    reason: str, outcome: Outcome, error: str, *, sent: bool
) -> None:
    """An UNKNOWN may arrive; a FAILED that arrives is a contradiction, and a WITHDRAWN was never offered."""
    exchange = HttpExchange(10, 20, None, reason, sent=sent)
    assert write_result(exchange, xml_error_code) == Result(10, 20, outcome, error=error)


@given(st.binary(max_size=200))
def test_codes_from_any_body_are_short_words(body: bytes) -> None:
    """Codes are counted and printed; a hostile body must not fill the report, nor break the writer."""
    wrapped = (b"<Code>" + body + b"</Code>", b'"__type":"' + body + b'"', body)
    for code in (*map(xml_error_code, wrapped), *map(json_error_code, wrapped)):
        assert len(code) <= 64
        assert not code or code.replace(".", "a").isalnum()
