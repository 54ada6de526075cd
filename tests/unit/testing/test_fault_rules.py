"""Which requests a fault happens to, and where requests and answers begin and end: no sockets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stepbench.testing.fault_proxy import Chooser, Cut, Drop, Framing, Rule, Throttle, http1, http2, plain, postgresql

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.testing.fault_proxy import Piece

DROP, CUT = Drop("request"), Cut("before-answer")


def hits(*rules: Rule, requests: list[bytes]) -> list[int]:
    """The numbers, from 1, of the requests that something happens to."""
    chooser = Chooser(rules)
    return [number for number, request in enumerate(requests, start=1) if chooser.choose(request)]


def test_a_rule_starts_at_its_nth_request_and_ends_after_its_times() -> None:
    """Tests compare counts exactly, so one more or less is a failure of the proxy."""
    assert hits(Rule(DROP, from_nth=3, times=2), requests=[b"x"] * 9) == [3, 4]


def test_a_rule_counts_the_requests_that_it_matches() -> None:
    """One proxy often stands in front of two services, and only one of them is to fail."""
    requests = [b"GET /a", b"PUT /a", b"PUT /b", b"PUT /a"]
    assert hits(Rule(DROP, match=b"PUT /a", from_nth=2), requests=requests) == [4]


def test_a_share_is_the_same_for_the_same_seed() -> None:
    """A storm that found a defect has to be met again."""
    one, same, other = (hits(Rule(DROP, share=0.3, seed=seed), requests=[b"x"] * 1_000) for seed in (7, 7, 8))
    assert one == same
    assert one != other
    assert 250 < len(one) < 350


def test_the_first_rule_that_fits_wins() -> None:
    """Otherwise two faults would happen to one request, and neither could be told from the other."""
    chooser = Chooser([Rule(DROP, times=1), Rule(CUT, from_nth=2)])
    assert [chooser.choose(b"x") for _ in range(3)] == [DROP, CUT, CUT]


@pytest.mark.parametrize("fields", [{"from_nth": 0}, {"share": 1.1}, {"times": -1}])
def test_an_impossible_rule_is_refused(fields: dict[str, float]) -> None:
    """A rule that never acts makes a test that cannot fail."""
    with pytest.raises(ValueError, match="from_nth begins at 1"):
        Rule(Throttle(), **fields)  # type: ignore[arg-type]


HEAD = b"PUT /key HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;x=y\r\nbody\r\n0\r\n\r\n"
TRAILED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nb\r\n0\r\nCrc: 1\r\n\r\n"


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """An HTTP/2 frame."""
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def message(kind: bytes, payload: bytes = b"") -> bytes:
    """A PostgreSQL message; the start-up message has no kind."""
    return kind + (len(payload) + 4).to_bytes(4, "big") + payload


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
PUT = frame(1, 4, 1, b"head") + frame(0, 1, 1, b"body")
REQUESTS = {
    "http1": (http1, HEAD + b"abc" + b"GET / HTTP/1.1\r\n\r\n", ["begins", "ends", "begins ends"]),
    "http2": (http2, PREFACE + frame(4, 0, 0) + PUT + frame(1, 5, 3), ["", "", "begins", "ends", "begins ends"]),
    "postgresql": (
        postgresql,
        message(b"", b"\0\3\0\0")
        + message(b"p", b"secret")
        + message(b"B")
        + message(b"E")
        + message(b"S")
        + message(b"X"),
        ["begins ends", "", "begins", "", "ends", ""],
    ),
}
ANSWERS = {
    "interim": (http1, b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", ["", "begins ends"]),
    "chunked": (http1, CHUNKED, ["begins", "", "ends"]),
    "trailers": (http1, TRAILED, ["begins", "", "ends"]),
    "http2": (http2, frame(1, 4, 1) + frame(0, 0, 1, b"x") + frame(1, 5, 1), ["begins", "", "ends"]),
    "postgresql": (postgresql, message(b"2") + message(b"C") + message(b"Z", b"I"), ["begins", "", "ends"]),
}


def roles(pieces: list[Piece]) -> list[str]:
    """What each piece is."""
    return [" ".join(name for name in ("begins", "ends") if getattr(piece, name)) for piece in pieces]


@pytest.mark.parametrize(("make", "data", "wanted"), REQUESTS.values(), ids=REQUESTS)
def test_requests_begin_and_end_where_the_protocol_says(
    make: Callable[[], Framing], data: bytes, wanted: list[str]
) -> None:
    """A fault in the wrong place is another fault."""
    assert roles(make().requests(data)) == wanted


@pytest.mark.parametrize(("make", "data", "wanted"), ANSWERS.values(), ids=ANSWERS)
def test_answers_begin_and_end_where_the_protocol_says(
    make: Callable[[], Framing], data: bytes, wanted: list[str]
) -> None:
    """As for requests."""
    assert roles(make().answers(data)) == wanted


@pytest.mark.parametrize(("make", "data", "_wanted"), REQUESTS.values(), ids=REQUESTS)
def test_no_byte_is_lost_however_the_network_cuts_them(
    make: Callable[[], Framing], data: bytes, _wanted: object
) -> None:
    """TCP has no messages: a proxy that changed a byte would test itself."""
    framing = make()
    one_by_one = [piece for at in range(len(data)) for piece in framing.requests(data[at : at + 1])]
    assert b"".join(piece.data for piece in one_by_one) == data


@pytest.mark.parametrize("data", [CHUNKED, TRAILED, b"HTTP/1.1 200 OK\r\n\r\nto the end"])
def test_no_byte_of_an_answer_is_lost_either(data: bytes) -> None:
    """Chunks, trailers, and bodies that end with the connection."""
    framing = http1()
    one_by_one = [piece for at in range(len(data)) for piece in framing.answers(data[at : at + 1])]
    assert b"".join(piece.data for piece in one_by_one) == data


def test_the_answer_to_a_head_has_no_body() -> None:
    """Its Content-Length is that of a body which does not come; the next answer would be taken for it."""
    framing = http1()
    (asked,) = framing.requests(b"HEAD / HTTP/1.1\r\n\r\n")
    framing.forwarded(asked)
    assert roles(framing.answers(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")) == ["begins ends"]


def test_of_an_unknown_protocol_each_reading_is_one() -> None:
    """Good enough for small messages on loopback, one at a time."""
    framing = plain()
    assert roles(framing.requests(b"PING\r\n")) == roles(framing.answers(b"+PONG\r\n")) == ["begins ends"]
    framing.forwarded(framing.requests(b"PING\r\n")[0])
