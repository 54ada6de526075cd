"""Our signatures are AWS's: a published example, and botocore for everything else."""

from __future__ import annotations

import datetime as dt
import string
from typing import Any, NamedTuple
from unittest.mock import patch
from urllib.parse import quote

from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotocoreCredentials
from hypothesis import example, given
from hypothesis import strategies as st

from stepbench.wire.http1.sigv4 import Credentials, Form, Signer, amz_date, s3_path
from stepbench.wire.http1.stream import UNSIGNED

Headers = dict[str, str]


class Place(NamedTuple):
    """The service that a signer is for."""

    service: str
    region: str
    authority: str


NOW_NS = 1_369_353_600_000_000_000
"""2013-05-24T00:00:00Z, the date of the published example."""
EXAMPLE = Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")

ascii_words = st.text(string.ascii_letters + string.digits + "/+=", min_size=1, max_size=60)
credentials = st.builds(Credentials, ascii_words, ascii_words, st.one_of(st.just(""), ascii_words))
moments_ns = st.integers(0, 4_000_000_000_000_000_000)
characters = st.characters(exclude_categories=["Cs"])
odd_pieces = st.sampled_from(["/", "//", ".", "..", "/../", " ", "%", "%20", "+", "~", "?", "#", "&", "=", "\x00", "é"])
keys = st.lists(st.one_of(odd_pieces, st.text(characters, max_size=8)), min_size=1, max_size=12).map("".join)
paths = keys.map(s3_path)
regions = st.sampled_from(["us-east-1", "eu-central-1", "cn-north-1", "us-gov-west-1"])
authorities = st.sampled_from(["b.s3.eu-west-1.amazonaws.com", "127.0.0.1:8000", "[::1]:9000", "store.example"])
methods = st.sampled_from(["GET", "PUT", "POST", "DELETE", "HEAD"])
bodies = st.binary(max_size=200)
header_names = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=12).map("x-amz-meta-{}".format)
header_values = st.text(string.printable[:95], max_size=30).map(str.strip)
header_sets = st.dictionaries(header_names, header_values, max_size=4).map(lambda named: tuple(named.items()))
S3_PLACE = Place("s3", "us-east-1", "bucket.s3.amazonaws.com")
LAMBDA_PLACE = Place("lambda", "us-east-1", "lambda.us-east-1.amazonaws.com")


class Asked(NamedTuple):
    """A request to be signed."""

    form: Form
    path: str
    body: bytes = b""


requests = st.builds(Asked, st.builds(Form, methods, header_sets), paths, bodies)


def places(*services: str) -> st.SearchStrategy[Place]:
    """Draw one of these services."""
    return st.builds(Place, st.sampled_from(services), regions, authorities)


def sent(request: bytes) -> tuple[str, dict[str, str], bytes]:
    """A request's first line, headers and body."""
    head, _, body = request.partition(b"\r\n\r\n")
    first, *lines = head.decode("ascii").split("\r\n")
    return first, dict(line.split(": ", 1) for line in lines), body


def test_the_published_put_object_example() -> None:
    """
    The one signature that nobody's code but AWS's own has made.

    Source: AWS, "Authenticating Requests: Using the Authorization Header", example PUT Object.
    """
    headers = (("date", "Fri, 24 May 2013 00:00:00 GMT"), ("x-amz-storage-class", "REDUCED_REDUNDANCY"))
    signer = Signer("s3", "us-east-1", "examplebucket.s3.amazonaws.com")
    path, body = s3_path("test$file.text"), b"Welcome to Amazon S3."
    _, signed, _ = sent(signer.signed(Form("PUT", headers), path, body, EXAMPLE, NOW_NS))
    assert signed["authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
        "SignedHeaders=date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class, "
        "Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"
    )


def botocore_headers(  # noqa: PLR0913, PLR0917 -- one per thing that a test varies
    auth: type[SigV4Auth], place: Place, asked: Asked, whose: Credentials, now_ns: int, checksum: object = None
) -> Headers:
    """Return what botocore sends with the same request at the same moment."""
    theirs = AWSRequest(
        method=asked.form.method,
        url=f"https://{place.authority}{asked.path}",
        data=asked.body,
        headers=dict(asked.form.headers),
    )
    theirs.context["checksum"] = checksum or {}
    moment = dt.datetime.fromtimestamp(now_ns // 10**9, dt.UTC).replace(tzinfo=None)
    with patch("botocore.auth.get_current_datetime", lambda *_, **__: moment):
        same = BotocoreCredentials(whose.access_key, whose.secret_key, whose.session_token or None)
        signer: Any = auth(same, place.service, place.region)
        signer.add_auth(theirs)
    added = {name.lower(): str(value) for name, value in theirs.headers.items()}
    return added | {"host": place.authority, "content-length": str(len(asked.body))}


def signed_as_botocore_does(auth: type[SigV4Auth], place: Place, asked: Asked, whose: Credentials, now_ns: int) -> None:
    """Assert that every byte of ours is what botocore signs and sends."""
    request = Signer(*place).signed(asked.form, asked.path, asked.body, whose, now_ns)
    first, headers, body = sent(request)
    assert (first, body) == (f"{asked.form.method} {asked.path} HTTP/1.1", asked.body)
    assert headers == botocore_headers(auth, place, asked, whose, now_ns)


@given(places("s3"), requests, credentials, moments_ns)
@example(S3_PLACE, Asked(Form("PUT"), s3_path("a//b/./../c")), EXAMPLE, NOW_NS)
@example(S3_PLACE, Asked(Form("PUT"), s3_path("100% +&=;,@:$?#[]~ é\N{PILE OF POO}")), EXAMPLE, NOW_NS)
@example(S3_PLACE, Asked(Form("PUT", (("x-amz-meta-a", "50 %s  %% off"),)), s3_path("%2F%25%%s")), EXAMPLE, NOW_NS)
def test_an_s3_request_is_signed_as_botocore_signs_it(
    place: Place, asked: Asked, whose: Credentials, now_ns: int
) -> None:
    """One byte of difference, for one odd key or token, and S3 answers 403 to that key only."""
    signed_as_botocore_does(S3SigV4Auth, place, asked, whose, now_ns)


def test_a_body_that_tls_protects_may_go_unsigned() -> None:
    """Of 256 MiB the hash alone would take a quarter of a second; S3 takes the request without, if it says so."""
    asked = Asked(Form("PUT", (("x-amz-trailer", "x-amz-checksum-crc32"),)), s3_path("large"), b"body")
    head = Signer(*S3_PLACE).signed_head(*asked[:2], UNSIGNED, len(asked.body), EXAMPLE, NOW_NS)
    trailer = {"request_algorithm": {"in": "trailer", "algorithm": "crc32", "name": "x-amz-checksum-crc32"}}
    assert sent(head)[1] == botocore_headers(S3SigV4Auth, S3_PLACE, asked, EXAMPLE, NOW_NS, trailer)


@given(places("dynamodb", "lambda", "sqs", "kinesis"), requests, credentials, moments_ns)
@example(LAMBDA_PLACE, Asked(Form("POST"), "//a/./b/../c//%20%2F/"), EXAMPLE, NOW_NS)
@example(LAMBDA_PLACE, Asked(Form("POST"), "/../.."), EXAMPLE, NOW_NS)
def test_any_other_request_is_signed_as_botocore_signs_it(
    place: Place, asked: Asked, whose: Credentials, now_ns: int
) -> None:
    """Others than S3 sign no payload hash among the headers, and paths that are normalised and encoded once more."""
    signed_as_botocore_does(SigV4Auth, place, asked, whose, now_ns)


@given(st.lists(st.tuples(credentials, moments_ns, st.sampled_from(["/", "/k", "/a/b"])), min_size=2, max_size=6))
def test_what_is_kept_follows_credentials_time_and_path(turns: list[tuple[Credentials, int, str]]) -> None:
    """What is printed once a second, and a key that lasts a day: kept too long, every request after it is refused."""
    form = Form("PUT", (("x-a", "b"),))
    for place in (S3_PLACE, LAMBDA_PLACE):
        lasting = Signer(*place)
        for whose, now_ns, path in turns:
            again = Signer(*place).signed(form, path, b"body", whose, now_ns)
            assert lasting.signed(form, path, b"body", whose, now_ns) == again


def test_the_kinds_of_request_of_one_signer_are_kept_apart() -> None:
    """A PutItem with DeleteItem's head would delete."""
    signer = Signer(*LAMBDA_PLACE)
    forms = [Form("POST", (("x-amz-target", target),)) for target in ("Put", "Delete", "Put")]
    for form in (*forms, *reversed(forms)):
        _, headers, _ = sent(signer.signed(form, "/", b"", EXAMPLE, NOW_NS))
        assert headers["x-amz-target"] == dict(form.headers)["x-amz-target"]


@given(keys)
def test_paths_are_encoded_as_botocore_encodes_keys(key: str) -> None:
    """The path that is signed is the one that is sent; S3 decodes it to the key."""
    assert s3_path(key) == "/" + quote(key.encode(), safe="/~")
    assert s3_path(key).isascii()


def test_a_request_is_one_block_of_bytes() -> None:
    """Sent at once: a head apart from its body waits for the peer's delayed acknowledgement."""
    request = Signer("s3", "us-east-1", "h:1").signed(
        Form("PUT", (("x-a", "b"),)), "/k%20ey", b"\x00body", EXAMPLE, NOW_NS
    )
    head, _, body = request.partition(b"\r\n\r\n")
    assert head.startswith(b"PUT /k%20ey HTTP/1.1\r\nhost: h:1\r\nx-a: b\r\nx-amz-date: 20130524T000000Z\r\n")
    assert head.endswith(b"\r\ncontent-length: 5")
    assert body == b"\x00body"


def test_dates_are_spelled_as_aws_wants_them() -> None:
    """Derived by hand: the Unix epoch, and one nanosecond before the next second."""
    assert amz_date(999_999_999) == "19700101T000000Z"
    assert amz_date(NOW_NS + 3_723_000_000_000) == "20130524T010203Z"


def test_credentials_do_not_print_their_secret() -> None:
    """Reprs end in logs and in test reports."""
    shown = repr(Credentials("AKIA", "secret", "token"))
    assert "AKIA" in shown
    assert "secret'" not in shown
    assert "token" not in shown
