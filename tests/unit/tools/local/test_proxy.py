"""The server on loopback, asked over HTTP; what it would ask the API is recorded."""

from __future__ import annotations

import http.client
import socket
import threading
from contextlib import ExitStack
from email.message import Message
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

import pytest
from botocore.exceptions import EndpointConnectionError

from stepbench_tools.local import proxy
from stepbench_tools.local.proxy import MAX_BODY_BYTES, MOST_UNREAD, Admitted, Gate, Refused, Server
from stepbench_tools.local.stack import Answer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


PORT = 4711
OWN = "127.0.0.1:4711"


def _headers(**given: str) -> Message:
    headers = Message()
    for name, value in {"Host": OWN, **{name.replace("_", "-"): value for name, value in given.items()}}.items():
        headers[name] = value
    return headers


@pytest.fixture
def gate() -> Gate:
    """Return a gate that nobody has passed yet."""
    return Gate(PORT)


def _cookie(gate: Gate) -> str:
    admitted = gate.judge("GET", gate.address.partition(str(PORT))[2], _headers())
    assert isinstance(admitted, Admitted)
    return admitted.cookie.partition(";")[0]


def test_the_cookie_is_bound_to_a_path_that_is_in_no_other_secret(gate: Gate) -> None:
    """Browsers send a cookie to every port of this host, where anybody may serve pages: it is not enough by itself."""
    admitted = gate.judge("GET", gate.address.partition(str(PORT))[2], _headers())
    assert isinstance(admitted, Admitted)
    cookie, *attributes = admitted.cookie.split("; ")
    assert f"Path={gate.root}/" in attributes
    assert admitted.location == f"{gate.root}/"
    assert len(gate.root) > 40
    assert gate.root[1:] not in cookie
    assert gate.root[1:] not in gate.address
    for target in ("/", "/dashboard", "/runs/a", gate.root[:-1] + "/dashboard", gate.root, f"/x{gate.root}/dashboard"):
        assert _status(gate.judge("GET", target, _headers(Cookie=cookie))) == HTTPStatus.FORBIDDEN
    assert _status(gate.judge("GET", f"{gate.root}/dashboard", _headers())) == HTTPStatus.FORBIDDEN
    assert gate.target_of(f"{gate.root}/dashboard?a=1") == "/dashboard?a=1"


def test_an_address_of_endlessly_many_fields_is_answered(gate: Gate) -> None:
    """It was closed without a word."""
    assert _status(gate.judge("GET", f"/?{'a=1&' * 51}", _headers())) == HTTPStatus.BAD_REQUEST


def _status(verdict: object) -> HTTPStatus:
    assert isinstance(verdict, Refused)
    return verdict.status


def test_the_token_is_in_an_address_once(gate: Gate) -> None:
    """The cookie that it is exchanged for says nothing of it, and no page's script can read it."""
    admitted = gate.judge("GET", gate.address.partition(str(PORT))[2], _headers())
    assert isinstance(admitted, Admitted)
    assert "HttpOnly; SameSite=Strict" in admitted.cookie
    assert gate.address.partition("token=")[2] not in admitted.cookie


def test_with_the_cookie_a_request_passes(gate: Gate) -> None:
    """Beside cookies of other servers on this host, which browsers send to every port."""
    assert gate.judge("GET", f"{gate.root}/dashboard?plan=a", _headers(Cookie=f"theirs=1; {_cookie(gate)}")) is None


@pytest.mark.parametrize("cookie", ["", "stepbench-4711=", "stepbench-4711=guessed", "stepbench-4712=x", "=;=", "ä=ö"])
def test_without_it_nothing_is_shown(gate: Gate, cookie: str) -> None:
    """Other users of this machine reach the port, too."""
    _cookie(gate)
    assert _status(gate.judge("GET", f"{gate.root}/dashboard", _headers(Cookie=cookie))) == HTTPStatus.FORBIDDEN


def test_a_wrong_token_is_refused_even_with_the_cookie(gate: Gate) -> None:
    """It is of an earlier start, whose user should know."""
    assert _status(gate.judge("GET", "/?token=old", _headers(Cookie=_cookie(gate)))) == HTTPStatus.FORBIDDEN


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:4711",
        "evil.example",
        "127.0.0.1",
        "127.0.0.1:80",
        "localhost",
        "[::1]:4711",
        "",
        "127.0.0.1:4711.x",
    ],
)
def test_a_name_that_was_made_to_lead_here_is_refused(gate: Gate, host: str) -> None:
    """DNS rebinding makes a page of another site one of ours, as the browser sees it."""
    headers = _headers(Cookie=_cookie(gate))
    headers.replace_header("Host", host)
    assert _status(gate.judge("GET", f"{gate.root}/dashboard", headers)) == HTTPStatus.MISDIRECTED_REQUEST


def test_two_hosts_are_none(gate: Gate) -> None:
    """Whoever reads the first and whoever reads the last would differ."""
    headers = _headers(Cookie=_cookie(gate))
    headers["Host"] = "evil.example"
    assert _status(gate.judge("GET", f"{gate.root}/dashboard", headers)) == HTTPStatus.MISDIRECTED_REQUEST


@pytest.mark.parametrize("method", ["POST", "DELETE"])
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:4712"},
        {"Origin": "http://127.0.0.1:4711", "Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
    ],
)
def test_another_site_changes_nothing(gate: Gate, method: str, given: dict[str, str]) -> None:
    """A form on any page of the web can be sent here, and another port of this host is of the same site."""
    headers = _headers(Cookie=_cookie(gate), **given)
    assert _status(gate.judge(method, f"{gate.root}/dashboard/runs", headers)) == HTTPStatus.FORBIDDEN


@pytest.mark.parametrize("host", ["127.0.0.1:4711", "localhost:4711"])
def test_our_own_forms_pass(gate: Gate, host: str) -> None:
    """By either name of this host, the page's own."""
    headers = _headers(Cookie=_cookie(gate), Origin=f"http://{host}", Sec_Fetch_Site="same-origin")
    headers.replace_header("Host", host)
    assert gate.judge("POST", f"{gate.root}/dashboard/runs", headers) is None


@pytest.mark.parametrize(
    "target", ["http://evil.example/", "//evil.example/", "*", "/a b", "/a\r\nHost: x", "/\x7f", ""]
)
def test_only_paths_are_forwarded(gate: Gate, target: str) -> None:
    """What is no path could lead the signature elsewhere."""
    for each in (target, gate.root + target) if target.startswith("/") else (target,):
        assert _status(gate.judge("GET", each, _headers(Cookie=_cookie(gate)))) == HTTPStatus.BAD_REQUEST


def test_each_start_has_its_own_secrets() -> None:
    """An address of yesterday opens nothing today."""
    gates = Gate(PORT), Gate(PORT)
    assert gates[0].address != gates[1].address
    assert (
        _status(gates[1].judge("GET", f"{gates[1].root}/", _headers(Cookie=_cookie(gates[0])))) == HTTPStatus.FORBIDDEN
    )


LIMIT_S = 20


class Asked(NamedTuple):
    """What reached the API."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


class Api:
    """It answers each request with `answer`, or raises it."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.answer: Answer | Exception = Answer(200, {"Content-Type": "text/html", "Set-Cookie": "no=1"}, b"a page")

    def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Record and answer."""
        self.asked.append(Asked(method, target, dict(headers), body))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def api() -> Api:
    """Return what stands for the stack."""
    return Api()


@pytest.fixture
def server(api: Api) -> Iterator[Server]:
    """Serve on a port of loopback until the test is over."""
    over = threading.Event()
    with Server(0, api.send) as server:
        server.timeout = 0.01  # so long it takes to see that the test is over
        thread = threading.Thread(target=server.serve_while, args=(lambda: not over.is_set(),))
        thread.start()
        yield server
        over.set()
        thread.join(LIMIT_S)
        assert not thread.is_alive()


def _ask(
    server: Server, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=LIMIT_S)
    try:
        connection.request(method, target, body, dict(headers or {}))
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


def _own(server: Server) -> dict[str, str]:
    """Return what the browser of the user sends with a form."""
    answer, _ = _ask(server, "GET", server.gate.address.partition(str(server.server_port))[2])
    assert (answer.status, answer.getheader("Location")) == (303, f"{server.gate.root}/")
    cookie = str(answer.getheader("Set-Cookie")).partition(";")[0]
    return {"Cookie": cookie, "Origin": f"http://127.0.0.1:{server.server_port}", "Sec-Fetch-Site": "same-origin"}


def test_who_comes_from_a_file_is_led_on_by_a_page(server: Server) -> None:
    """After a redirect the browser would still come from elsewhere, and keep back a cookie that is strict."""
    target = server.gate.address.partition(str(server.server_port))[2]
    answer, page = _ask(server, "GET", target, {"Sec-Fetch-Site": "cross-site"})
    assert (answer.status, answer.getheader("Location")) == (200, None)
    assert "SameSite=Strict" in str(answer.getheader("Set-Cookie"))
    assert f'http-equiv="refresh" content="0;url={server.gate.root}/"'.encode() in page


def test_it_listens_on_loopback_only(server: Server) -> None:
    """Others on the network are not to run benchmarks with the user's credentials."""
    assert server.server_address[0] == "127.0.0.1"


def test_the_api_gets_neither_cookies_nor_the_token(server: Server, api: Api) -> None:
    """They are secrets of this machine; and what the browser says of itself is no business of the API's."""
    headers = {**_own(server), "Content-Type": "application/json", "Authorization": "Bearer x", "X-Forwarded-For": "x"}
    answer, body = _ask(server, "POST", server.gate.root + "/plans/validate?a=1", headers, b"{}")
    assert (answer.status, body) == (200, b"a page")
    assert answer.getheader("Set-Cookie") is None
    assert api.asked == [Asked("POST", "/plans/validate?a=1", {"Content-Type": "application/json"}, b"{}")]


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_without_its_cookie_nothing_reaches_the_api(server: Server, api: Api, method: str) -> None:
    """Whatever the method."""
    answer, _ = _ask(server, method, server.gate.root + "/runs/a", {"Origin": f"http://127.0.0.1:{server.server_port}"})
    assert answer.status == 403
    assert api.asked == []


def test_a_cross_site_form_does_not_reach_the_api(server: Server, api: Api) -> None:
    """Even if the browser sent the cookie along."""
    headers = {**_own(server), "Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    assert _ask(server, "POST", server.gate.root + "/dashboard/runs", headers, b"plan=a")[0].status == 403
    assert api.asked == []


def test_a_body_has_an_end(server: Server, api: Api) -> None:
    """One that is too long is refused before it is read."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=LIMIT_S)
    connection.putrequest("POST", server.gate.root + "/runs")
    for name, value in {**_own(server), "Content-Length": str(MAX_BODY_BYTES + 1)}.items():
        connection.putheader(name, value)
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()
    assert api.asked == []


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (["Transfer-Encoding: chunked"], 411),
        (["Transfer-Encoding:"], 411),
        (["Content-Length: -1"], 400),
        (["Content-Length: 1e3"], 400),
        ([f"Content-Length: {'9' * 5_000}"], 400),
        (["Content-Length: 0", "Content-Length: 0"], 400),
        (["Content-Length: 0", "Content-Length: 5"], 400),
    ],
)
def test_a_length_that_is_none_is_refused(server: Server, api: Api, given: list[str], status: int) -> None:
    """Two readers that count differently make two requests of one."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=LIMIT_S)
    connection.putrequest("POST", server.gate.root + "/runs")
    for name, value in (*_own(server).items(), *(each.split(":") for each in given)):
        connection.putheader(name, value)
    connection.endheaders()
    assert connection.getresponse().status == status
    connection.close()
    assert api.asked == []


def test_other_methods_are_refused(server: Server, api: Api) -> None:
    """The API has none of them."""
    assert _ask(server, "PUT", server.gate.root + "/runs", _own(server), b"")[0].status == 501
    assert api.asked == []


def test_an_api_that_does_not_answer_is_told(server: Server, api: Api) -> None:
    """As text: an error may quote what came from outside."""
    api.answer = EndpointConnectionError(endpoint_url="http://<script>")
    answer, body = _ask(server, "GET", server.gate.root + "/", _own(server))
    assert answer.status == 502
    assert b"&lt;script&gt;" in body


def test_addresses_of_the_apis_pages_are_below_our_path(server: Server, api: Api) -> None:
    """The API knows nothing of it; and what is text, or somebody else's address, stays as it is."""
    page = b'<a href="/dashboard?a=1"><form action="/x"><script src="/s"></script></a><a href="//e">href=&#34;/y&#34;'
    api.answer = Answer(303, {"Content-Type": "text/html; charset=utf-8", "Location": "/dashboard/runs/r"}, page)
    answer, body = _ask(server, "GET", server.gate.root + "/", _own(server))
    assert answer.getheader("Location") == f"{server.gate.root}/dashboard/runs/r"
    ours = server.gate.root.encode()
    assert body.count(ours) == 3
    assert body.replace(ours, b"") == page
    api.answer = Answer(303, {"Content-Type": "application/json", "Location": "https://b/k"}, page)
    answer, body = _ask(server, "GET", server.gate.root + "/", _own(server))
    assert (answer.getheader("Location"), body) == ("https://b/k", page)


def test_clients_that_say_nothing_do_not_stop_others(server: Server) -> None:
    """Sixteen of them kept everybody else out; now the oldest makes room for who comes."""
    place = ("127.0.0.1", server.server_port)
    with ExitStack() as opened:
        silent = [
            opened.enter_context(socket.create_connection(place, timeout=LIMIT_S)) for _ in range(2 * MOST_UNREAD)
        ]
        assert _ask(server, "GET", server.gate.root + "/", _own(server))[0].status == 200
        assert silent[0].recv(1) == b""  # closed to make room
        silent[-1].sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert silent[-1].recv(12) == b"HTTP/1.0 421"


def test_a_client_that_says_it_slowly_is_closed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte now and then kept a thread for ever, since each byte had its own time limit."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=LIMIT_S) as slow:
        slow.sendall(b"GET / HT")
        with monkeypatch.context() as hurried:
            hurried.setattr(proxy, "_READ_S", -1)
            assert slow.recv(1) == b""
        assert _ask(server, "GET", server.gate.root + "/", _own(server))[0].status == 200
