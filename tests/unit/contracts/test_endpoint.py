from __future__ import annotations

import pytest

from stepbench.contracts.endpoint import endpoint_problem, file_problem, forbidden_address, forbidden_name


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
        "[64:ff9b::169.254.169.254]",
        "[::ffff:0:a9fe:a9fe]",
        "[::ffff:0:169.254.169.254]",
        "[0:0:0:0:ffff:0:a9fe:a9fe]",
        "[64:ff9b:1::a9fe:a9fe]",
        "[64:ff9b:1:a9fe:a9:fe00::]",  # RFC 6052, section 2.2: the prefix has 48 bits
        "[64:ff9b:1:ca9:fe:a9fe::]",  # 56
        "[64:ff9b:1:abcd:a9:fea9:fe00::]",  # 64
        "[2001:0:a9fe:a9fe::1]",
        "[2001:0:1::5601:5601]",  # Teredo: the client's, inverted
        "[2001:db8::5efe:a9fe:a9fe]",
        "[2001:db8::200:5efe:169.254.170.2]",
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


@pytest.mark.parametrize(
    "address", ["64:ff9b::c000:201", "64:ff9b:1::c000:201", "64:ff9b:1:c000:2:100::", "::ffff:0:c000:201"]
)
def test_an_ipv6_address_that_leads_to_an_ordinary_one_is_accepted(address: str) -> None:
    """Networks without IPv4 reach 192.0.2.1 by no other way."""
    assert forbidden_address(address) is None


def test_a_name_is_judged_by_all_its_addresses() -> None:
    """Which of them is connected to is up to whoever connects."""
    assert forbidden_name("h", ["192.0.2.1", "2001:db8::1"]) is None
    problem = forbidden_name("h", ["192.0.2.1", "::ffff:0:a9fe:a9fe"])
    assert problem == "h is the link-local or metadata address 169.254.169.254, which hands out credentials"


@pytest.mark.parametrize(
    "url",
    ["s3://bucket/key", "s3://a.bucket/a/key", "https://h.example/f?X-Amz-Signature=a%2Fb#x", "https://[::1]:8443/f"],
)
def test_an_ordinary_file_is_accepted(url: str) -> None:
    """A signed address is how a file is given that is not public."""
    assert file_problem(url) is None


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://user:secret@h/f", "login"),
        ("https://token@h/f", "login"),
        ("s3://key:secret@bucket/f", "login"),
        ("s3://bucket", "no bucket and key"),
        ("s3://Bucket/key", "no bucket and key"),
        ("http://h/f", "neither"),
        ("file:///etc/passwd", "neither"),
        ("https://h:0/f", "neither"),
        ("https:///f", "no host"),
        ("https://h:99999/f", "is not an address"),
        ("https://h/a b", "character"),
        ("https://h\\@example.com/f", "character"),
        ("https://\uff11\uff16\uff19.254.169.254/", "character"),
        ("https://169.254.169.254/latest", "hands out credentials"),
        ("https://0xA9FEA9FE/latest", "hands out credentials"),
        ("https://[::ffff:0:a9fe:a9fe]/latest", "hands out credentials"),
        ("https://metadata.google.internal/f", "hands out credentials"),
    ],
)
def test_what_is_no_file_s_address_is_refused_with_the_reason(url: str, reason: str) -> None:
    """It is fetched by a function with a role, and kept with the plan."""
    assert reason in (file_problem(url) or "accepted")
