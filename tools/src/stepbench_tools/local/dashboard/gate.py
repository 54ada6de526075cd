"""
Which requests are the user's own. Anything on this machine, and any page in the user's browser, can reach the port.

A page of another site may send requests here, though not read the answers, and a name of its own may lead here (DNS
rebinding): so the host has to be ours, what changes something has to come from our own pages, and everything needs the
secret that only the browser has which was once at the address that the command printed.

A browser sends a cookie to every port of a host, so whoever serves another port of this one could be sent ours. It is
bound to a path that nobody can guess, below which all our pages are, and opens nothing without that path.
"""

from __future__ import annotations

import hmac
import re
import secrets
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from email.message import Message

SAFE_METHODS = ("GET", "HEAD")
_SECRET_BYTES = 32
_TARGET = re.compile(r"/(?!/)[\x21-\x7e]*")
_MOST_FIELDS = 50
OPEN_AGAIN = "Open the address that the command has printed, with its token."


class Refused(NamedTuple):
    """The request is not answered by the stack."""

    status: HTTPStatus
    reason: str


class Admitted(NamedTuple):
    """The browser has shown the token: it gets a cookie, and is led on to where it holds, without the token."""

    cookie: str
    location: str


class Gate:
    """It knows the token, the path and the cookie of one start of the server; `root` is the path, such as `/x7f`."""

    def __init__(self, port: int) -> None:
        self._token, self._secret, path = (secrets.token_urlsafe(_SECRET_BYTES) for _ in range(3))
        self.root = f"/{path}"
        self._cookie = f"stepbench-{port}"  # cookies are of a host, whatever its port
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self.address = f"http://127.0.0.1:{port}/?token={self._token}"

    def judge(self, method: str, target: str, headers: Message) -> Refused | Admitted | None:
        """Return why a request is refused, that its browser is admitted, or None: the stack shall answer it."""
        hosts = headers.get_all("Host", [])
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return Refused(HTTPStatus.MISDIRECTED_REQUEST, "This server is at 127.0.0.1 and localhost only.")
        if not _TARGET.fullmatch(target):
            return Refused(HTTPStatus.BAD_REQUEST, "That is no path.")
        if method not in SAFE_METHODS and not self._is_of_our_pages(headers, hosts[0]):
            return Refused(HTTPStatus.FORBIDDEN, "The request comes from another site.")
        return self._admission(target, headers)

    def target_of(self, target: str) -> str:
        """Return what the stack is asked for by a request that has passed."""
        return target.removeprefix(self.root)

    def _admission(self, target: str, headers: Message) -> Refused | Admitted | None:
        try:
            token = self._token_in(target)
        except ValueError:
            return Refused(HTTPStatus.BAD_REQUEST, f"The address has more than {_MOST_FIELDS} fields.")
        if token is not None:
            if _same(token, self._token):
                cookie = f"{self._cookie}={self._secret}; HttpOnly; SameSite=Strict; Path={self.root}/"
                return Admitted(cookie, f"{self.root}/")
            return Refused(HTTPStatus.FORBIDDEN, f"The token is of an earlier start. {OPEN_AGAIN}")
        path, slash, below = target[1:].partition("/")
        if not (slash and _same(f"/{path}", self.root) and self._has_cookie(headers)):
            return Refused(HTTPStatus.FORBIDDEN, OPEN_AGAIN)
        return None if _TARGET.fullmatch(f"/{below}") else Refused(HTTPStatus.BAD_REQUEST, "That is no path.")

    def _is_of_our_pages(self, headers: Message, host: str) -> bool:
        """Return whether the browser says so; what says nothing is no browser of today, or hides it."""
        origins, sites = headers.get_all("Origin", []), headers.get_all("Sec-Fetch-Site", [])
        if not origins and not sites:
            return False
        return all(each == f"http://{host}" for each in origins) and all(each == "same-origin" for each in sites)

    def _token_in(self, target: str) -> str | None:
        """Return the token in an address, None where there is none; raises ValueError for an address of many fields."""
        parts = urlsplit(target)
        given = parse_qs(parts.query, keep_blank_values=True, max_num_fields=_MOST_FIELDS).get("token")
        return given[-1] if given and parts.path == "/" else None

    def _has_cookie(self, headers: Message) -> bool:
        jar: SimpleCookie = SimpleCookie()
        try:
            jar.load("; ".join(headers.get_all("Cookie", [])))
        except CookieError:
            return False
        found = jar.get(self._cookie)
        return found is not None and _same(found.value, self._secret)


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())
