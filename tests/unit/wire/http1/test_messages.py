"""Answers in any shape and in any pieces: each ends as an answer, as "more", or as malformed."""

from __future__ import annotations

from email.message import Message
from http.client import HTTPException, HTTPResponse
from io import BytesIO
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stepbench.wire.http1 import (
    _ORDINARY_HEAD,
    MAX_ANSWER_BYTES,
    HttpAnswer,
    MalformedHttpError,
    _final_answer,
    parse_answer,
    parse_head,
)

if TYPE_CHECKING:
    import socket

COUNTED = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX-Amz-Version-Id: v1\r\n\r\nabc"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\nTrailer: t\r\n\r\n"
CHUNKED_HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"
WHOLE = {"counted": COUNTED, "chunked": CHUNKED, "empty": EMPTY}

bodies = st.binary(max_size=300)
names = st.sampled_from([b"x-amz-version-id", b"Server", b"Date", b"x-a"])
values = st.binary(max_size=20).map(lambda raw: raw.replace(b"\r", b"").replace(b"\n", b"").strip(b" \t\x00\x85\xa0"))


@pytest.mark.parametrize(("data", "body"), [(COUNTED, b"abc"), (CHUNKED, b"abc"), (EMPTY, b"")], ids=WHOLE)
def test_a_whole_answer_is_read(data: bytes, body: bytes) -> None:
    """The three shapes in which stores answer."""
    answer = parse_answer(data)
    assert answer is not None
    assert (answer.body, answer.reusable) == (body, True)


def test_header_names_are_found_in_lower_case() -> None:
    """S3 and its imitations spell the version header in different cases."""
    answer = parse_answer(COUNTED)
    assert answer is not None
    assert answer.headers[b"x-amz-version-id"] == b"v1"


@pytest.mark.parametrize("whole", WHOLE.values(), ids=WHOLE)
def test_no_beginning_of_an_answer_is_taken_for_all_of_it(whole: bytes) -> None:
    """TCP cuts anywhere: an answer that is believed too early gives t2 too early, and garbage to the next request."""
    assert [cut for cut in range(len(whole)) if parse_answer(whole[:cut]) is not None] == []


@pytest.mark.parametrize("whole", WHOLE.values(), ids=WHOLE)
def test_a_close_before_the_end_is_no_answer(whole: bytes) -> None:
    """The write may have happened or not: UNKNOWN, and never OK by half an answer."""
    for cut in range(len(whole)):
        with pytest.raises(MalformedHttpError, match="connection-closed"):
            parse_answer(whole[:cut], closed=True)


def test_without_a_length_the_close_is_the_end() -> None:
    """HTTP/1.0 servers and some proxies answer so; the connection is spent."""
    data = b"HTTP/1.0 503 Slow Down\r\n\r\nabc"
    assert parse_answer(data) is None
    answer = parse_answer(data, closed=True)
    assert answer is not None
    assert (answer.status, answer.body, answer.reusable) == (503, b"abc", False)


def test_interim_answers_are_skipped() -> None:
    """A 100 Continue that is paired with the request leaves the real answer to the next one."""
    answer = parse_answer(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + COUNTED)
    assert answer is not None
    assert (answer.status, answer.body) == (200, b"abc")


@pytest.mark.parametrize(
    "data",
    [
        COUNTED + b"x",
        CHUNKED + COUNTED,
        COUNTED.replace(b"HTTP/1.1", b"HTTP/1.0"),
        COUNTED.replace(b"X-Amz-Version-Id: v1", b"Connection: Keep-Alive, Close"),
    ],
    ids=["a byte more", "an answer more", "HTTP/1.0", "asked to close"],
)
def test_a_spent_connection_is_not_reused(data: bytes) -> None:
    """What follows would be paired with a request that it does not answer."""
    answer = parse_answer(data)
    assert answer is not None
    assert (answer.status, answer.body, answer.reusable) == (200, b"abc", False)


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x16\x03\x01",
        b"HTTP/2.0 200 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1  200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbad name: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1_0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * 300,
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
    ],
)
def test_garbage_is_refused_at_once(data: bytes) -> None:
    """Waiting for more of it would hold the connection until the time-out; guessing would invent an outcome."""
    with pytest.raises(MalformedHttpError) as caught:
        parse_answer(data)
    assert caught.value.code == "garbage-answer"


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 65537\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10001\r\n",
        CHUNKED_HEAD + b"ffff\r\n" + b"x" * 65535 + b"\r\n8\r\n12345678\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: " + b"x" * 65_536,
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 65_536,
    ],
    ids=["length", "endless length", "chunk", "sum of chunks", "head", "until close"],
)
def test_an_oversized_answer_is_refused(data: bytes) -> None:
    """No store has so much to say to a write, and a writer has no memory to spare."""
    with pytest.raises(MalformedHttpError) as caught:
        parse_answer(data)
    assert caught.value.code == "oversized-answer"


def test_the_largest_body_is_read() -> None:
    """The bound is exact."""
    answer = parse_answer(b"HTTP/1.1 200 OK\r\nContent-Length: 65536\r\n\r\n" + b"x" * MAX_ANSWER_BYTES)
    assert answer is not None
    assert len(answer.body) == MAX_ANSWER_BYTES


@pytest.mark.parametrize("framing", ["Content-Length: 70000", "Transfer-Encoding: chunked"])
def test_a_read_may_ask_for_more(framing: str) -> None:
    """What is read can be as large as what was written; the bound is exact there, too."""
    body = b"x" * 70_000
    data = f"HTTP/1.1 200 OK\r\n{framing}\r\n\r\n".encode()
    data += body if "Length" in framing else b"11170\r\n" + body + b"\r\n0\r\n\r\n"
    answer = parse_answer(data, most_bytes=70_000)
    assert answer is not None
    assert answer.body == body
    with pytest.raises(MalformedHttpError):
        parse_answer(data, most_bytes=69_999)


@given(st.binary(max_size=400), st.booleans())
def test_any_bytes_end_in_one_of_three_ways(data: bytes, closed: bool) -> None:  # noqa: FBT001 -- hypothesis
    """Another exception in the event loop's callback would leave the request waiting for its time-out."""
    try:
        parse_answer(data, closed=closed)
    except MalformedHttpError as error:
        assert error.code in {"garbage-answer", "oversized-answer", "connection-closed"}  # noqa: PT017 -- both ends are right


@given(st.sampled_from([COUNTED, CHUNKED, EMPTY]), st.data())
def test_a_damaged_answer_ends_in_one_of_three_ways(whole: bytes, data: st.DataObject) -> None:
    """Damage in the middle reaches the parts of the parser that random bytes never do."""
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = whole[:at] + data.draw(st.binary(max_size=4)) + whole[at + data.draw(st.integers(0, 4)) :]
    test_any_bytes_end_in_one_of_three_ways.hypothesis.inner_test(damaged, closed=True)  # type: ignore[attr-defined]


class _Canned:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> BytesIO:
        """Return what http.client reads from."""
        assert mode == "rb"
        return BytesIO(self._data)


def _standard_library(data: bytes) -> tuple[int, Message, bytes]:
    response = HTTPResponse(cast("socket.socket", _Canned(data)))
    try:
        response.begin()
        return response.status, response.msg, response.read()
    except HTTPException as error:  # pragma: no cover -- the strategy makes well-formed answers only
        raise AssertionError(data) from error
    finally:
        response.close()


@given(st.integers(200, 599), st.lists(st.tuples(names, values), max_size=5), bodies, st.booleans(), st.data())
def test_well_formed_answers_read_as_the_standard_library_reads_them(
    status: int,
    headers: list[tuple[bytes, bytes]],
    body: bytes,
    chunked: bool,  # noqa: FBT001 -- hypothesis
    data: st.DataObject,
) -> None:
    """An independent reader of the same bytes."""
    lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
    if chunked and status not in (204, 304):  # of which the standard library would read a chunk all the same
        cut = data.draw(st.integers(0, len(body)))
        pieces = [piece for piece in (body[:cut], body[cut:]) if piece]
        payload = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
        framing = b"transfer-encoding: chunked\r\n"
    else:
        payload, framing = body, b"content-length: %d\r\n" % len(body)
    if status in (204, 304):
        payload = body = b""
    whole = b"HTTP/1.1 %d Reason\r\n%b%b\r\n%b" % (status, lines, framing, payload)
    answer = parse_answer(whole)
    assert answer is not None
    assert (answer.status, answer.body) == _standard_library(whole)[::2] == (status, body)
    assert answer.reusable


def _carefully(data: bytes, most_bytes: int) -> HttpAnswer | str | None:
    try:
        return _final_answer(data, most_bytes, closed=False)
    except MalformedHttpError as error:
        return error.code


def _ordinarily(data: bytes, most_bytes: int) -> HttpAnswer | str | None:
    try:
        return parse_answer(data, most_bytes=most_bytes)
    except MalformedHttpError as error:
        return error.code


ODDITIES = [
    b"Content-Length: 2",
    b"content-length:2",
    b"Content-Length : 2",
    b"CONTENT-LENGTH: 2",
    b"Content-Length: 2, 2",
    b"Content-Length:  2 ",
    b"Connection: close",
    b"connection: keep-alive",
    b"Connection: Keep-Alive, close",
    b"Transfer-Encoding: chunked",
    b"transfer-encoding: identity",
    b"Content-Type: text/plain",
    b"Trailer: x",
    b"Date: a:b",
    b" folded",
    b"no colon",
    b": nameless",
    b"a\rb: c",
    b"a: b\rc",
    b"a: b\nc: d",
    b"Content-Length: 2\nX: y",
    b"a:",
    b"",
]
STATUS_LINES = [
    b"HTTP/1.1 200 OK",
    b"HTTP/1.1 200",
    b"HTTP/1.1 200 ",
    b"HTTP/1.0 200 OK",
    b"HTTP/1.1 204 No Content",
    b"HTTP/1.1 304 Not Modified",
    b"HTTP/1.1 100 Continue",
    b"HTTP/1.1 503 \xff",
    b"HTTP/1.1 999 x\ny",
    b"HTTP/1.1 099 x",
]


@given(
    st.sampled_from(STATUS_LINES),
    st.lists(st.sampled_from(ODDITIES), max_size=5),
    st.sampled_from([b"ok", b"", b"o", b"ok\r\n", b"2\r\nok\r\n0\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"]),
    st.sampled_from([1, 2, MAX_ANSWER_BYTES]),
)
@example(b"HTTP/1.1 200 OK", [b"Content-Length: 2"], b"ok", MAX_ANSWER_BYTES)
def test_the_ordinary_answer_is_read_as_any_other(
    status_line: bytes, fields: list[bytes], body: bytes, most_bytes: int
) -> None:
    """One expression takes nearly all answers: what it took wrongly would be a wrong outcome, or a wrong pairing."""
    data = b"\r\n".join([status_line, *fields]) + b"\r\n\r\n" + body
    careful = _carefully(data, most_bytes)
    if careful is None and len(data) > most_bytes:
        careful = "oversized-answer"
    assert _ordinarily(data, most_bytes) == careful


@given(st.sampled_from([COUNTED, CHUNKED, EMPTY]), st.data())
def test_a_damaged_answer_is_read_alike_by_both(whole: bytes, data: st.DataObject) -> None:
    """Damage where nobody thought of it."""
    at = data.draw(st.integers(0, len(whole) - 1))
    damage = data.draw(st.one_of(st.binary(max_size=3), st.sampled_from([b"\r\n", b"\r", b"\n", b": ", b"close"])))
    damaged = whole[:at] + damage + whole[at + data.draw(st.integers(0, 3)) :]
    assert _ordinarily(damaged, MAX_ANSWER_BYTES) == _carefully(damaged, MAX_ANSWER_BYTES)


def test_the_usual_answers_of_the_stores_are_ordinary() -> None:
    """The test that both readers agree would pass if the quick one took nothing."""
    dynamodb = (
        b"HTTP/1.1 200 OK\r\nServer: Server\r\nDate: Sun, 22 Nov 2026 07:57:19 GMT\r\n"
        b"Content-Type: application/x-amz-json-1.0\r\nContent-Length: 2\r\nConnection: keep-alive\r\n"
        b"x-amzn-RequestId: 0123456789ABCDEFGHIJ\r\nx-amz-crc32: 2745614147\r\n\r\n{}"
    )
    s3 = (
        b"HTTP/1.1 200 OK\r\nx-amz-id-2: a+b/c=\r\nx-amz-request-id: 0A1B\r\nDate: Sun, 22 Nov 2026 07:57:19 GMT\r\n"
        b'x-amz-version-id: v.1_\r\nETag: "d41d8c"\r\nServer: AmazonS3\r\nContent-Length: 0\r\n\r\n'
    )
    assert [_ORDINARY_HEAD.match(each) is not None for each in (dynamodb, s3, CHUNKED)] == [True, True, False]


@pytest.mark.parametrize(("data", "length"), [(COUNTED, 3), (CHUNKED, None), (EMPTY, None)], ids=WHOLE)
@pytest.mark.parametrize("before", [b"", b"HTTP/1.1 100 Continue\r\n\r\n"], ids=["at once", "after an interim answer"])
def test_a_head_is_read_before_its_body_is_there(before: bytes, data: bytes, length: int | None) -> None:
    """A download of gigabytes is never held as a whole."""
    end = len(before) + data.index(b"\r\n\r\n") + 4
    assert all(parse_head((before + data)[:cut]) is None for cut in range(end))
    for cut in (end, len(before) + len(data)):
        found = parse_head((before + data)[:cut])
        assert found is not None
        assert (found.length, found.body_at) == (length, end)


def test_a_head_that_ends_early_or_never_is_refused() -> None:
    """It would be awaited for ever, or fill the memory."""
    with pytest.raises(MalformedHttpError, match="connection-closed"):
        parse_head(COUNTED[:20], closed=True)
    with pytest.raises(MalformedHttpError, match="oversized-answer"):
        parse_head(b"HTTP/1.1 200 OK\r\nx: " + bytes(MAX_ANSWER_BYTES))
    with pytest.raises(MalformedHttpError, match="garbage-answer"):
        parse_head(b"SSH-2.0")
