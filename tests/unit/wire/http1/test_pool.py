"""Addresses, as a plan writes them and as the Host header wants them."""

from __future__ import annotations

import pytest

from stepbench.wire.http1.pool import HttpAddress, parse_address


@pytest.mark.parametrize(
    ("url", "address", "authority"),
    [
        ("https://s3.eu-west-1.amazonaws.com", HttpAddress("s3.eu-west-1.amazonaws.com", 443, tls=True), None),
        ("http://127.0.0.1:4566/", HttpAddress("127.0.0.1", 4566, tls=False), "127.0.0.1:4566"),
        ("https://h:80", HttpAddress("h", 80, tls=True), "h:80"),
        ("http://h:80", HttpAddress("h", 80, tls=False), "h"),
        ("http://[::1]:9000", HttpAddress("::1", 9000, tls=False), "[::1]:9000"),
    ],
)
def test_an_url_is_an_address(url: str, address: HttpAddress, authority: str | None) -> None:
    """The Host header is signed: a default port in it, and AWS answers 403."""
    assert parse_address(url) == address
    assert parse_address(url).authority == (authority or address.host)


@pytest.mark.parametrize("url", ["ftp://h", "h:80", "http://", ""])
def test_what_is_no_url_is_refused(url: str) -> None:
    """Better than to connect to port 80 of something."""
    with pytest.raises(ValueError, match="no http:// or https:// URL"):
        parse_address(url)
