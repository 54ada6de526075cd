"""Which requests the dashboard's server on loopback takes for its user's."""

from __future__ import annotations

from email.message import Message
from http import HTTPStatus

import pytest

from stepbench_tools.local.dashboard.gate import Admitted, Gate, Refused

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
