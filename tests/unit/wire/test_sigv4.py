"""Our signatures are AWS's: a published example, and botocore for everything else."""

from __future__ import annotations

import datetime as dt
import string
from hashlib import sha256
from typing import Any
from unittest.mock import patch
from urllib.parse import quote

from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotocoreCredentials
from hypothesis import given
from hypothesis import strategies as st

from stepbench.wire.http1 import Request
from stepbench.wire.sigv4 import Credentials, Signer, amz_date, s3_path

NOW_NS = 1_369_353_600_000_000_000
"""2013-05-24T00:00:00Z, the date of the published example."""
EXAMPLE = Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")

ascii_words = st.text(string.ascii_letters + string.digits + "/+=", min_size=1, max_size=60)
credentials = st.builds(Credentials, ascii_words, ascii_words, st.one_of(st.just(""), ascii_words))
moments_ns = st.integers(0, 4_000_000_000_000_000_000)
keys = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=80)
regions = st.sampled_from(["us-east-1", "eu-central-1", "cn-north-1", "us-gov-west-1"])


def test_the_published_put_object_example() -> None:
    """
    The one signature that nobody's code but AWS's own has made.

    Source: AWS, "Authenticating Requests: Using the Authorization Header", example PUT Object.
    """
    body = b"Welcome to Amazon S3."
    headers = (
        ("host", "examplebucket.s3.amazonaws.com"),
        ("date", "Fri, 24 May 2013 00:00:00 GMT"),
        ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
    )
    request = Request("PUT", s3_path("test$file.text"), headers, body)
    signed = Signer("s3", "us-east-1").signed(request, EXAMPLE, NOW_NS)
    assert dict(signed.headers)["authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
        "SignedHeaders=date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class, "
        "Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"
    )


def botocore_headers(
    auth: type[SigV4Auth], scope: tuple[str, str], request: Request, whose: Credentials, now_ns: int
) -> dict[str, str]:
    """What botocore adds to the same request at the same moment."""
    headers = dict(request.headers)
    theirs = AWSRequest(
        method=request.method, url=f"https://{headers.pop('host')}{request.path}", data=request.body, headers=headers
    )
    moment = dt.datetime.fromtimestamp(now_ns // 10**9, dt.UTC).replace(tzinfo=None)
    with patch("botocore.auth.get_current_datetime", lambda *_, **__: moment):
        same = BotocoreCredentials(whose.access_key, whose.secret_key, whose.session_token or None)
        signer: Any = auth(same, *scope)
        signer.add_auth(theirs)
    return {name.lower(): str(value) for name, value in theirs.headers.items()}


@given(credentials, moments_ns, regions, keys, st.binary(max_size=200))
def test_an_s3_put_is_signed_as_botocore_signs_it(
    whose: Credentials, now_ns: int, region: str, key: str, body: bytes
) -> None:
    """One byte of difference, for one odd key or token, and S3 answers 403 to that key only."""
    request = Request("PUT", s3_path(key), (("host", "bucket.s3.amazonaws.com"),), body)
    ours = Signer("s3", region).signed(request, whose, now_ns)
    theirs = botocore_headers(S3SigV4Auth, ("s3", region), request, whose, now_ns)
    assert dict(ours.headers) == theirs | {"host": "bucket.s3.amazonaws.com"}


@given(credentials, moments_ns, regions, st.binary(max_size=200))
def test_a_put_item_is_signed_as_botocore_signs_it(whose: Credentials, now_ns: int, region: str, body: bytes) -> None:
    """DynamoDB signs other headers than S3, and no payload hash among them."""
    host = ("host", "127.0.0.1:8000")
    headers = (("content-type", "application/x-amz-json-1.0"), ("x-amz-target", "DynamoDB_20120810.PutItem"), host)
    request = Request("POST", "/", headers, body)
    ours = Signer("dynamodb", region).signed(request, whose, now_ns)
    theirs = botocore_headers(SigV4Auth, ("dynamodb", region), request, whose, now_ns)
    assert dict(ours.headers) == theirs | dict([host])


@given(st.lists(st.tuples(credentials, moments_ns), min_size=2, max_size=5))
def test_the_derived_key_follows_credentials_and_day(turns: list[tuple[Credentials, int]]) -> None:
    """A key that is kept too long fails every request after midnight, or after a refresh."""
    request = Request("PUT", "/k", (("host", "h"),), b"")
    lasting = Signer("s3", "us-east-1")
    for whose, now_ns in turns:
        assert lasting.signed(request, whose, now_ns) == Signer("s3", "us-east-1").signed(request, whose, now_ns)


@given(keys)
def test_paths_are_encoded_as_botocore_encodes_keys(key: str) -> None:
    """The path that is signed is the one that is sent; S3 decodes it to the key."""
    assert s3_path(key) == "/" + quote(key.encode(), safe="/~")
    assert s3_path(key).isascii()


def test_header_values_are_folded_before_they_are_signed() -> None:
    """AWS signs values with runs of spaces folded into one; a padded value would not verify."""
    signer = Signer("s3", "us-east-1")
    padded, plain = (Request("PUT", "/", (("host", "h"), ("x-amz-meta", value)), b"") for value in (" a   b ", "a b"))
    digest, date = sha256(b"").hexdigest(), amz_date(NOW_NS)
    assert signer.authorization(padded, EXAMPLE, digest, date) == signer.authorization(plain, EXAMPLE, digest, date)


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
