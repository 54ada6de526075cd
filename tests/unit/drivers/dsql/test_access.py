"""Which cluster a plan gets, and the tokens that it is logged in to with."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
from typing import Any
from urllib.parse import parse_qsl, quote

import boto3
import pytest
from botocore.exceptions import NoCredentialsError
from tests.support.contracts.operations_subject import operations_spec
from tests.support.fake_clock import FakeClock

from stepbench.drivers.dsql.access import (
    ADMIN,
    DATABASE_ROLE,
    TOKEN_LIFETIME_S,
    TOKEN_USE_S,
    WRITER_ROLE,
    DsqlCluster,
    Login,
    Tokens,
    region_of,
    signer,
)
from stepbench.errors import PlanError, TargetUnavailableError
from stepbench.settings import Settings

HOST = "abcdefghijklmnopqrstuvwxyz.dsql.ap-northeast-1.on.aws"
REMOTE = "bbcdefghijklmnopqrstuvwxyz.dsql.us-west-2.on.aws"
SETTINGS = Settings(
    results_table="t",
    results_bucket="b",
    aws_region="ap-northeast-1",
    dsql_endpoints=f",single={HOST},single={REMOTE},multi=c{HOST},",
)
SECOND_NS = 10**9
KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
SESSION = boto3.Session(aws_access_key_id=KEY, aws_secret_access_key=SECRET)


def _host(target: dict[str, Any]) -> str:
    return DsqlCluster.of(operations_spec({"store": "dsql", **target}), SETTINGS).endpoint.host


def _token(login: Login) -> str:
    return signer(DsqlCluster.at(HOST, ""), login, SESSION)()


def _signature(fields: dict[str, str]) -> str:
    """Signature Version 4 in the query, by its specification."""
    date, region = fields["X-Amz-Date"][:8], "ap-northeast-1"
    query = "&".join(f"{quote(k, '~')}={quote(v, '~')}" for k, v in sorted(fields.items()) if k != "X-Amz-Signature")
    request = f"GET\n/\n{query}\nhost:{HOST}\n\nhost\n{hashlib.sha256(b'').hexdigest()}"
    scope = f"{date}/{region}/dsql/aws4_request"
    hashed = hashlib.sha256(request.encode()).hexdigest()
    key = f"AWS4{SECRET}".encode()
    for part in (*scope.split("/"), f"AWS4-HMAC-SHA256\n{fields['X-Amz-Date']}\n{scope}\n{hashed}"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key.hex()


@pytest.mark.parametrize(
    ("login", "action"), [(DATABASE_ROLE, "DbConnect"), (WRITER_ROLE, "DbConnect"), (ADMIN, "DbConnectAdmin")]
)
def test_a_token_allows_one_action_on_one_host_for_ten_minutes(login: Login, action: str) -> None:
    """The writers' role may not do the other, and what leaks is of no use for long."""
    host, _, query = _token(login).partition("/?")
    fields = dict(parse_qsl(query, strict_parsing=True))
    assert (host, fields["Action"], fields["X-Amz-Expires"]) == (HOST, action, str(TOKEN_LIFETIME_S))
    assert fields["X-Amz-Credential"].startswith(f"{KEY}/")
    assert fields["X-Amz-Credential"].endswith("/ap-northeast-1/dsql/aws4_request")
    assert fields["X-Amz-Signature"] == _signature(fields)


def test_a_token_is_botocores_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made at the same second for as long, the two are the same text."""
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda **_: dt.datetime(2026, 1, 2, 3, 4, 5))  # noqa: DTZ001
    client = SESSION.client("dsql", region_name="ap-northeast-1")
    assert _token(DATABASE_ROLE) == client.generate_db_connect_auth_token(HOST, ExpiresIn=TOKEN_LIFETIME_S)
    assert _token(DATABASE_ROLE) != client.generate_db_connect_auth_token(HOST)


def test_every_token_that_is_handed_out_is_good_for_minutes() -> None:
    """One that expires between being taken and being sent would be a refusal of ours, not of the store's."""
    clock = FakeClock()
    made_ns: list[int] = []

    def sign() -> str:
        made_ns.append(clock.now_ns())
        return f"token-{len(made_ns)}"

    async def take() -> list[int]:
        tokens, left_s = Tokens(sign, clock), []
        for _ in range(30):
            number = int((await tokens.fresh()).removeprefix("token-"))
            left_s.append(TOKEN_LIFETIME_S - (clock.now_ns() - made_ns[number - 1]) // SECOND_NS)
            clock.advance(61 * SECOND_NS)
        return left_s

    left_s = clock.run(take())
    assert min(left_s) > TOKEN_LIFETIME_S - TOKEN_USE_S - 61
    assert min(left_s) >= 240
    assert len(made_ns) == 6


def test_without_credentials_the_store_is_unavailable() -> None:
    """The machine retries that; a stray exception would end the trial without a cause."""

    def sign() -> str:
        raise NoCredentialsError

    clock = FakeClock()
    with pytest.raises(TargetUnavailableError, match="Unable to locate credentials"):
        clock.run(Tokens(sign, clock).fresh())


@pytest.mark.parametrize(
    ("target", "host"),
    [
        ({}, HOST),
        ({"region": "us-west-2"}, REMOTE),
        ({"cluster": "multi"}, f"c{HOST}"),
        ({"cluster": "multi", "endpoint": "own.internal:5432"}, "own.internal"),
    ],
)
def test_a_plan_gets_the_cluster_of_its_kind_and_region(target: dict[str, Any], host: str) -> None:
    """Two regions apart, or with a peer, it is another experiment."""
    assert _host(target) == host


def test_a_cluster_may_come_with_the_time_that_it_took() -> None:
    """Behind its host, which is what is connected to."""
    settings = SETTINGS.model_copy(update={"dsql_endpoints": f"single={HOST}@,single={REMOTE}@8.2"})
    clusters = [
        DsqlCluster.of(operations_spec({"store": "dsql", "region": region}), settings)
        for region in ("ap-northeast-1", "us-west-2")
    ]
    assert [(each.endpoint.host, each.active_after_s) for each in clusters] == [(HOST, ""), (REMOTE, "8.2")]


@pytest.mark.parametrize("target", [{"region": "eu-west-1"}, {"cluster": "multi", "region": "us-west-2"}])
def test_a_cluster_that_the_stack_has_not_is_refused_with_what_it_has(target: dict[str, Any]) -> None:
    """Another one would never do in its place."""
    with pytest.raises(PlanError, match="single in ap-northeast-1, single in us-west-2, multi in ap-northeast-1"):
        _host(target)


@pytest.mark.parametrize(
    ("host", "region"), [(HOST, "ap-northeast-1"), (REMOTE, "us-west-2"), ("127.0.0.1", ""), (f"x.{HOST}", "")]
)
def test_a_public_name_tells_its_region(host: str, region: str) -> None:
    """A token is signed for the region of the endpoint, whatever the stack's is."""
    assert region_of(host) == region
