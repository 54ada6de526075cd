"""boto3 clients: for the emulator with credentials that open nothing, for a deployed stack with the user's own."""

from __future__ import annotations

from typing import Any

import boto3
from botocore.config import Config

REGION = "us-east-1"
_CONFIG = Config(
    retries={"mode": "standard", "max_attempts": 4}, connect_timeout=5, read_timeout=70, max_pool_connections=8
)

_PATIENT = Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=920, tcp_keepalive=True)
"""For functions that may take their 15 minutes: asking again would start them again."""


def local_session() -> boto3.session.Session:
    """A session that never reads the user's profile or credentials."""
    return boto3.session.Session(
        aws_access_key_id="test",
        aws_secret_access_key="test",  # noqa: S106 -- the emulator takes anything
        region_name=REGION,
    )


def local_client(service: str, endpoint: str) -> Any:  # noqa: ANN401 -- boto3 clients have no common type
    """A client of the emulator."""
    return client(local_session(), service, endpoint)


def client(session: boto3.session.Session, service: str, endpoint: str | None) -> Any:  # noqa: ANN401 -- as above
    """A client with time limits; without an endpoint, boto3 finds it as it always does (AWS_ENDPOINT_URL included)."""
    config = _direct(_PATIENT if service == "lambda" else _CONFIG, endpoint)
    return session.client(service, endpoint_url=endpoint, config=config)  # type: ignore[call-overload]


def table(session: boto3.session.Session, name: str, endpoint: str | None) -> Any:  # noqa: ANN401 -- as above
    """A DynamoDB table with the same time limits."""
    return session.resource("dynamodb", endpoint_url=endpoint, config=_direct(_CONFIG, endpoint)).Table(name)


def _direct(config: Config, endpoint: str | None) -> Config:
    """The user's proxy is for the world outside; the emulator is on loopback."""
    return config if endpoint is None else config.merge(Config(proxies={}))
