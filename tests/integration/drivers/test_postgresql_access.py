"""Who the driver logs in as, and whom it tells its password."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import boto3
import pytest

from stepbench.drivers.postgresql.access import Access
from stepbench.errors import TargetUnavailableError
from stepbench.settings import Settings
from stepbench.testing.driver_subject import contract_spec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from stepbench.local.processes import LocalStore
    from stepbench.stages.services import Services

pytestmark = [pytest.mark.stores, pytest.mark.emulator]


def _access(endpoint: str, secret: str, own: str | None = None) -> Access:
    settings = Settings(
        results_table="t", results_bucket="b", postgresql_endpoint=endpoint, postgresql_secret_arn=secret
    )
    return Access.of(contract_spec({"store": "postgresql", "endpoint": own}), settings)


def _secret(text: str) -> str:
    secrets = boto3.client("secretsmanager")
    return secrets.create_secret(Name=f"postgresql-{abs(hash(text))}", SecretString=text)["ARN"]


@pytest.fixture
async def role(postgresql_server: LocalStore) -> AsyncIterator[str]:
    """A role beside `postgres`."""
    connection = await _access(postgresql_server.endpoint, "").connect()
    await connection.execute("CREATE ROLE bench LOGIN PASSWORD 'swordfish'")
    yield "bench"
    await connection.execute("DROP ROLE bench")
    await connection.close()


async def _user(access: Access) -> str:
    connection = await access.connect()
    try:
        row = await (await connection.execute("SELECT session_user")).fetchone()
    finally:
        await connection.close()
    assert row is not None
    return str(row[0])


@pytest.mark.usefixtures("services")
async def test_the_stacks_secret_logs_in(postgresql_server: LocalStore, role: str) -> None:
    """RDS keeps its password in Secrets Manager, as JSON with more fields than these."""
    secret = _secret(json.dumps({"engine": "postgres", "username": role, "password": "swordfish"}))
    assert await _user(_access(postgresql_server.endpoint, secret)) == role


@pytest.mark.usefixtures("services")
async def test_a_plans_own_server_does_not_get_the_stacks_password(postgresql_server: LocalStore, role: str) -> None:
    """Whoever may write a plan could otherwise name a server of their own and read the password there."""
    secret = _secret(json.dumps({"username": role, "password": "swordfish", "case": "own"}))
    assert await _user(_access("127.0.0.1:1", secret, own=postgresql_server.endpoint)) == "postgres"


async def test_a_secret_that_is_missing_or_malformed_is_named(
    services: Services, postgresql_server: LocalStore
) -> None:
    """Said as what it is; a refused login would send the user to the wrong place."""
    assert services.settings.aws_endpoint_url
    malformed = _secret('{"user": "x"}')
    for secret, message in ((malformed, "no username and password"), (f"{malformed}-gone", "cannot be read")):
        with pytest.raises(TargetUnavailableError, match=message):
            await _access(postgresql_server.endpoint, secret).connect()
