"""Commands and answers over real sockets, on both event loops, against a real Valkey; irregular peers by hand."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import pytest
from tests.samples.ports import UNSERVED_PORT

from stepbench.wire.resp import ErrorReply, MapReply
from stepbench.wire.resp.connection import Login, LoginRefusedError
from stepbench.wire.resp.requests import ReplyLimits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from tests.integration.wire.conftest import Connect

    from stepbench.wire.resp.connection import RespAnswer, RespConnection
    from stepbench_tools.local.stores import LocalStore

pytestmark = pytest.mark.stores
LIMIT_S = 20


async def _all(futures: Sequence[asyncio.Future[RespAnswer]]) -> list[RespAnswer]:
    async with asyncio.timeout(LIMIT_S):
        return await asyncio.gather(*futures)


async def _end_of(connection: RespConnection) -> None:
    async with asyncio.timeout(LIMIT_S):
        while connection.is_open:  # noqa: ASYNC110 -- it tells nobody
            await asyncio.sleep(0)


async def test_a_pipeline_of_10_000_is_answered_in_order(valkey_server: LocalStore, connect_to: Connect) -> None:
    """One answer too many or too few, and every one after it would be another command's."""
    connection = (await connect_to(valkey_server.endpoint)).connection
    await connection.call(b"DEL", b"counter")
    answers = await _all(connection.pipeline([(b"INCR", b"counter")] * 10_000))
    assert [each.reply for each in answers] == list(range(1, 10_001))
    assert len({each.t1_ns for each in answers}) == 1
    assert all(before.t2_ns <= after.t2_ns for before, after in pairwise(answers))
    assert connection.in_flight == 0


async def test_calls_of_many_tasks_get_their_own_answers(valkey_server: LocalStore, connect_to: Connect) -> None:
    """Writers share connections."""
    connection = (await connect_to(valkey_server.endpoint)).connection

    async def echo(task: int) -> list[RespAnswer]:
        return [await connection.call(b"ECHO", b"%d/%d" % (task, turn)) for turn in range(50)]

    async with asyncio.timeout(LIMIT_S):
        answers = await asyncio.gather(*map(echo, range(100)))
    assert [[each.reply for each in task] for task in answers] == [
        [b"%d/%d" % (task, turn) for turn in range(50)] for task in range(100)
    ]
    assert all(each.t1_ns < each.t2_ns for task in answers for each in task)


async def test_big_values_go_and_come_whole(valkey_server: LocalStore, connect_to: Connect) -> None:
    """More than the kernel takes at once, and smaller commands behind it, in order."""
    connection = (await connect_to(valkey_server.endpoint)).connection
    big = os.urandom(20_000_000)
    stored, got, length = await _all(
        [connection.call(b"SET", b"big", big), connection.call(b"GET", b"big"), connection.call(b"STRLEN", b"big")]
    )
    assert (stored.reply, got.reply == big, length.reply) == ("OK", True, len(big))
    assert stored.t1_ns < got.t1_ns <= length.t1_ns < length.t2_ns


async def test_an_answer_beyond_the_limit_ends_the_connection(valkey_server: LocalStore, connect_to: Connect) -> None:
    """The writer's memory is worth more than one answer."""
    connection = (await connect_to(valkey_server.endpoint, limits=ReplyLimits(size_bytes=1000))).connection
    await connection.call(b"SET", b"long", bytes(1000))
    short, long = await _all([connection.call(b"STRLEN", b"long"), connection.call(b"GET", b"long")])
    assert (short.reply, long.reply, long.error) == (1000, None, "garbage-answer")
    assert not connection.is_open


async def test_errors_are_answers(valkey_server: LocalStore, connect_to: Connect) -> None:
    """Also those within an array; the connection goes on."""
    connection = (await connect_to(valkey_server.endpoint)).connection
    await connection.call(b"SET", b"text", b"x")
    wrong, unknown, _, _, _, executed, after = await _all(
        connection.pipeline(
            [(b"INCR", b"text"), (b"NONSENSE",), (b"MULTI",), (b"PING",), (b"INCR", b"text"), (b"EXEC",), (b"PING",)]
        )
    )
    assert wrong.reply == ErrorReply("ERR", "value is not an integer or out of range")
    assert isinstance(unknown.reply, ErrorReply)
    assert unknown.reply.message.startswith("unknown command")
    assert executed.reply == ["PONG", wrong.reply]
    assert (after.reply, after.error) == ("PONG", "")


@pytest.mark.parametrize(
    ("kind", "in_resp3", "in_resp2"),
    [
        (b"string", b"Hello World", b"Hello World"),
        (b"integer", 12345, 12345),
        (b"double", 3.141, b"3.141"),
        (b"null", None, None),
        (b"array", [0, 1, 2], [0, 1, 2]),
        (b"set", [0, 1, 2], [0, 1, 2]),
        (b"map", MapReply([(0, False), (1, True), (2, False)]), [0, 0, 1, 1, 2, 0]),
        (b"attrib", b"Some real reply following the attribute", b"Some real reply following the attribute"),
        (b"verbatim", b"This is a verbatim\nstring", b"This is a verbatim\nstring"),
        (b"true", True, 1),
        (b"bignum", 1234567999999999999999999999999999999, b"1234567999999999999999999999999999999"),
    ],
)
async def test_every_type_as_the_server_sends_it(
    kind: bytes, in_resp3: object, in_resp2: object, valkey_server: LocalStore, connect_to: Connect
) -> None:
    """DEBUG PROTOCOL is the server's own sample of them."""
    third = (await connect_to(valkey_server.endpoint)).connection
    second = (await connect_to(valkey_server.endpoint, login=Login(protocol=2))).connection
    assert (await third.call(b"DEBUG", b"PROTOCOL", kind)).reply == in_resp3
    assert (await second.call(b"DEBUG", b"PROTOCOL", kind)).reply == in_resp2


async def test_pushes_do_not_answer_commands(valkey_server: LocalStore, connect_to: Connect) -> None:
    """The server's sample of an out-of-band message comes between a command and its answer."""
    connection = (await connect_to(valkey_server.endpoint)).connection
    answer = await connection.call(b"DEBUG", b"PROTOCOL", b"push")
    assert answer.reply == b"Some real reply following the push reply"
    assert (await connection.call(b"PING")).reply == "PONG"


@pytest.mark.parametrize("name", [b"SUBSCRIBE", b"psubscribe", b"SUnsubscribe", b"MONITOR"])
async def test_what_is_not_answered_once_is_not_called(
    name: bytes, valkey_server: LocalStore, connect_to: Connect
) -> None:
    """The next command would get its answer."""
    connection = (await connect_to(valkey_server.endpoint)).connection
    with pytest.raises(ValueError, match="misread"):
        connection.call(name)
    with pytest.raises(ValueError, match="misread"):
        connection.pipeline([(b"PING",), (name,)])
    assert (await connection.call(b"PING")).reply == "PONG"


async def test_an_abandoned_answer_goes_to_nobody(valkey_server: LocalStore, connect_to: Connect) -> None:
    """A cancelled task must not shift the answers of the others."""
    connection = (await connect_to(valkey_server.endpoint)).connection
    first, second, third = (connection.call(b"ECHO", each) for each in (b"1", b"2", b"3"))
    second.cancel()
    assert [(await each).reply for each in (first, third)] == [b"1", b"3"]


# --- login ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [2, 3])
async def test_the_right_password_opens(
    protocol: Literal[2, 3], start_valkey_with: Callable[..., LocalStore], connect_to: Connect
) -> None:
    """As the default user and as one of ElastiCache's kind, with a database of its own; the times say what it cost."""
    server = start_valkey_with(requirepass="secret")
    default = await connect_to(server.endpoint, login=Login(password="secret", protocol=protocol))  # noqa: S106
    await default.connection.call(b"ACL", b"SETUSER", b"writer", b"on", b">other", b"+@all", b"~*")
    writer = await connect_to(server.endpoint, login=Login("writer", "other", database=3, protocol=protocol))
    assert (await default.connection.call(b"ACL", b"WHOAMI")).reply == b"default"
    assert (await writer.connection.call(b"ACL", b"WHOAMI")).reply == b"writer"
    await writer.connection.call(b"SET", b"k", b"v")
    assert (await default.connection.call(b"EXISTS", b"k")).reply == 0
    assert (writer.times.connect_ns > 0, writer.times.tls_ns, writer.times.authenticate_ns > 0) == (True, 0, True)
    assert writer.greeting.get("version", "") == ("9.1.2" if protocol == 3 else "")


@pytest.mark.parametrize(
    ("login", "code"),
    [
        (Login(password="wrong"), "WRONGPASS"),  # noqa: S106
        (Login("nobody", "secret"), "WRONGPASS"),
        (Login(password="wrong", protocol=2), "WRONGPASS"),  # noqa: S106
        (Login(), "NOAUTH"),
        (Login(database=1, protocol=2), "NOAUTH"),
        (Login(password="secret", database=99), "ERR"),  # noqa: S106
    ],
)
async def test_another_login_is_refused(
    login: Login, code: str, start_valkey_with: Callable[..., LocalStore], connect_to: Connect
) -> None:
    """By name, so that the trial ends instead of recording 10,000 refusals."""
    server = start_valkey_with(requirepass="secret")
    with pytest.raises(LoginRefusedError) as refusal:
        await connect_to(server.endpoint, login=login)
    assert refusal.value.reply.code == code
    assert "secret" not in repr(login)


async def test_a_server_that_is_full_says_so(start_valkey_with: Callable[..., LocalStore], connect_to: Connect) -> None:
    """It answers before it is asked, and hangs up."""
    server = start_valkey_with(maxclients="1")
    await connect_to(server.endpoint)
    with pytest.raises(ConnectionError, match=r"max number of clients|unasked-answer|connection-"):
        await connect_to(server.endpoint)


async def test_nobody_there_is_an_oserror(connect_to: Connect) -> None:
    """A driver makes it a `TargetUnavailableError`."""
    with pytest.raises(OSError, match=r"refused|Connect call failed"):
        await connect_to(f"127.0.0.1:{UNSERVED_PORT}")


@pytest.mark.parametrize("host", ["169.254.169.254", "0.0.0.0"])
async def test_metadata_services_are_no_store(host: str, connect_to: Connect) -> None:
    """They hand out credentials."""
    with pytest.raises(ConnectionRefusedError, match=r"credentials|no single host"):
        await connect_to(f"{host}:80")


async def test_a_host_name_is_resolved(valkey_server: LocalStore, connect_to: Connect) -> None:
    """ElastiCache has names only; `localhost` may be ::1 first, where nobody listens."""
    connected = await connect_to(f"localhost:{valkey_server.endpoint.rpartition(':')[2]}")
    assert (await connected.connection.call(b"PING")).reply == "PONG"


# --- irregular ends ------------------------------------------------------------------------------------------------


async def test_a_server_killed_in_mid_flight_leaves_every_command_unknown(
    start_valkey_with: Callable[..., LocalStore], connect_to: Connect
) -> None:
    """None is dropped, none is repeated, and none is called failed: the server may have done them."""
    server = start_valkey_with()
    connection = (await connect_to(server.endpoint)).connection
    calls = [connection.call(b"DEBUG", b"SLEEP", b"30")]
    calls += [connection.call(b"SET", b"k", b"%d" % number) for number in range(500)]
    os.kill(server.pids[0], signal.SIGKILL)
    answers = await _all(calls)
    assert {each.reply for each in answers} == {None}
    assert {each.error for each in answers} <= {"connection-closed", "connection-reset"}
    assert all(each.sent and each.t1_ns < each.t2_ns for each in answers)
    assert not connection.is_open
    late = await connection.call(b"PING")
    assert (late.sent, late.error != "", late.t1_ns == late.t2_ns) == (False, True, True)


async def test_a_time_out_ends_the_connection(
    start_valkey_with: Callable[..., LocalStore], connect_to: Connect
) -> None:
    """The late answer would otherwise be the next command's."""
    server = start_valkey_with()
    connection = (await connect_to(server.endpoint, answer_s=0.2)).connection
    await connection.call(b"PING")
    slow, behind = await _all([connection.call(b"DEBUG", b"SLEEP", b"5"), connection.call(b"PING")])
    assert (slow.error, behind.error, slow.sent, connection.is_open) == ("timeout", "timeout", True, False)
    assert slow.t2_ns - slow.t1_ns >= 0.15e9


async def test_answers_in_time_keep_it_open_beyond_the_limit(valkey_server: LocalStore, connect_to: Connect) -> None:
    """The limit is each command's, not the connection's."""
    connection = (await connect_to(valkey_server.endpoint, answer_s=1.5)).connection
    answers = [await connection.call(b"BLPOP", b"nothing", b"0.3") for _ in range(6)]
    assert [each.error for each in answers] == [""] * 6


async def test_the_last_answer_before_a_close_counts(valkey_server: LocalStore, connect_to: Connect) -> None:
    """What is answered is known; only what comes after the close is not."""
    connection = (await connect_to(valkey_server.endpoint)).connection
    said, after = await _all([connection.call(b"QUIT"), connection.call(b"PING")])
    assert (said.reply, after.reply) == ("OK", None)
    assert after.error in ("connection-closed", "connection-reset")


class Peer:
    """Says what it is told to, and hears nothing."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self.address = f"127.0.0.1:{listener.getsockname()[1]}"
        self.socket = listener

    def accept(self) -> None:
        """Take the one connection."""
        self.socket, _ = self._listener.accept()


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    """A listener that ends with the test."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        peer = Peer(listener)
        yield peer
        peer.socket.close()


@pytest.mark.parametrize(
    ("said", "replies", "errors"),
    [
        (b"+1\r\n+2\r\n+3\r\n", ["1", "2"], ["", ""]),
        (b"+1\r\n?\r\n", ["1", None], ["", "garbage-answer"]),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", [None, None], ["garbage-answer"] * 2),
        (b"+1\r\n$5\r\nab", ["1", None], ["", "connection-closed"]),
    ],
)
async def test_an_irregular_peer_ends_the_connection(
    said: bytes, replies: list[object], errors: list[str], peer: Peer, connect_to: Connect
) -> None:
    """What was answered before stands; what was not is unknown."""
    connection = (await connect_to(peer.address, login=Login(protocol=2))).connection
    calls = [connection.call(b"A"), connection.call(b"B")]
    peer.accept()
    peer.socket.sendall(said)
    peer.socket.shutdown(socket.SHUT_WR)
    answers = await _all(calls)
    assert ([each.reply for each in answers], [each.error for each in answers]) == (replies, errors)
    await _end_of(connection)


async def test_an_answer_that_nobody_asked_for_ends_the_connection(peer: Peer, connect_to: Connect) -> None:
    """It would be taken for the answer to the next command."""
    connection = (await connect_to(peer.address, login=Login(protocol=2))).connection
    peer.accept()
    peer.socket.sendall(b"+OK\r\n")
    await _end_of(connection)
    assert (await connection.call(b"PING")).error == "unasked-answer"


async def test_an_answer_counts_though_the_next_send_is_refused(peer: Peer, connect_to: Connect) -> None:
    """The kernel may know of the end before the loop has read what came before it."""
    connection = (await connect_to(peer.address, login=Login(protocol=2))).connection
    first = connection.call(b"A")
    peer.accept()
    peer.socket.sendall(b"+1\r\n")
    peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    peer.socket.close()
    second = connection.call(b"B")  # the loop has had no turn since
    answered, refused = await _all([first, second])
    assert (answered.reply, refused.sent, refused.error) == ("1", False, "connection-reset")


async def test_what_the_kernel_never_took_was_not_sent(peer: Peer, connect_to: Connect) -> None:
    """Behind a full buffer a command has no t1 yet, and if the connection ends, certainly no effect."""
    connection = (await connect_to(peer.address, login=Login(protocol=2))).connection
    big, behind = connection.call(b"SET", b"k", bytes(50_000_000)), connection.call(b"PING")
    connection.close()
    partly, never = await _all([big, behind])
    assert (partly.sent, never.sent) == (True, False)
    assert partly.t1_ns < partly.t2_ns
    assert never.t1_ns == never.t2_ns


async def test_a_peer_that_says_nothing_is_not_waited_for(peer: Peer, connect_to: Connect) -> None:
    """HELLO without an answer."""
    with pytest.raises(TimeoutError):
        await connect_to(peer.address, connect_s=0.2)
