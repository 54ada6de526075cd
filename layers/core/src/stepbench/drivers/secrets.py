"""User names and passwords of stores, as RDS and ElastiCache's users keep them in Secrets Manager."""

from __future__ import annotations

import json

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from stepbench.errors import TargetUnavailableError

_BOUNDS = Config(connect_timeout=5, read_timeout=10, retries={"mode": "standard", "max_attempts": 3})


def read_login(secret_arn: str, region: str) -> tuple[str, str]:
    """
    User name and password; takes a request, so call it on a thread, once.

    Raises:
        TargetUnavailableError: the secret cannot be read, or is no JSON with `username` and `password`.
    """
    try:
        secrets = boto3.client("secretsmanager", region_name=region, config=_BOUNDS)
        secret = json.loads(secrets.get_secret_value(SecretId=secret_arn)["SecretString"])
        return str(secret["username"]), str(secret["password"])
    except (BotoCoreError, ClientError) as error:
        message = f"the secret {secret_arn} cannot be read: {error}"
        raise TargetUnavailableError(message) from error
    except (KeyError, TypeError, ValueError) as error:
        message = f"the secret {secret_arn} holds no username and password as JSON"
        raise TargetUnavailableError(message) from error
