from __future__ import annotations

import pytest

from stepbench.contracts.endpoint import endpoint_problem, forbidden_address


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://127.0.0.1:9000",
        "https://minio.example.com",
        "http://s3.internal:9000/",
        "localhost:2379",
        "10.0.0.7:2379",
        "db.cluster-x.us-east-1.rds.amazonaws.com:5432/bench",
        "[::1]:2379",
        "http://[2001:db8::7]:8000",
        "169.253.255.255:1",
        "170.0.0.1:1",
    ],
)
def test_an_ordinary_endpoint_is_accepted(endpoint: str) -> None:
    """Loopback and private addresses are what custom endpoints are for."""
    assert endpoint_problem(endpoint) is None


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "169.254.170.2",
        "169.254.0.1.",
        "2852039166",  # 169 * 2**24 + 254 * 2**16 + 169 * 2**8 + 254
        "0xA9FEA9FE",
        "0xa9.0xfe.0xa9.0xfe",
        "0251.0376.0251.0376",
        "025177524776",
        "169.254.43518",  # 169 * 256 + 254
        "169.16689662",  # 254 * 2**16 + 43518
        "[fe80::1]",
        "[febf::1]",
        "[fd00:ec2::254]",
        "[::ffff:169.254.169.254]",
        "[::ffff:a9fe:a9fe]",
        "[::a9fe:a9fe]",
        "[2002:a9fe:a9fe::1]",
        "[64:ff9b::a9fe:a9fe]",
        "instance-data",
        "Metadata.Google.Internal.",
    ],
)
@pytest.mark.parametrize("form", ["http://{}/", "{}:80", "https://{}:443/x"])
def test_a_metadata_address_is_refused_in_every_spelling(host: str, form: str) -> None:
    """A function's role would be read by whoever may write a plan."""
    problem = endpoint_problem(form.format(host))
    assert problem is not None
    assert "hands out credentials" in problem


@pytest.mark.parametrize(
    ("endpoint", "reason"),
    [
        ("", "no port"),
        ("localhost", "no port"),
        ("http://", "no host"),
        (":80", "no host"),
        ("ftp://host:21", "scheme 'ftp'"),
        ("file:///etc/passwd", "scheme 'file'"),
        ("host:99999", "is not an address"),
        ("host:0", "no port"),
        ("fe80::1:2379", "is not an address"),
        ("[zz::1]:80", "is not an address"),
        ("[v1.x]:80", "no IPv6 address"),
        ("http://user:secret@host/", "character"),
        ("http://169.254.169.254%2f.example.com/", "character"),
        ("[fe80::1%25eth0]:80", "character"),
        ("http://\uff11\uff16\uff19.254.169.254/", "character"),
        ("host :80", "character"),
        ("http://host\\.example.com/", "character"),
        ("-host:80", "no host name"),
        ("0.0.0.0:80", "no single host"),
        ("[::]:80", "no single host"),
        ("224.0.0.1:80", "no single host"),
    ],
)  # fmt: skip
def test_what_is_no_endpoint_is_refused_with_the_reason(endpoint: str, reason: str) -> None:
    """Tricks with a URL's syntax make two readers see two hosts."""
    assert reason in (endpoint_problem(endpoint) or "accepted")


def test_a_resolved_address_is_judged_the_same_way() -> None:
    """Drivers ask again for the address that a name has led to."""
    assert forbidden_address("fe80::1%eth0") is not None
    assert forbidden_address("169.254.1.1") is not None
    assert forbidden_address("192.0.2.1") is None
    assert forbidden_address("::1") is None
    assert forbidden_address("example.com") is None
    # Too many parts, or a part too large: no resolver takes these for addresses.
    assert forbidden_address("169.254.169.254.1") is None
    assert forbidden_address("169.256.1.1") is None
