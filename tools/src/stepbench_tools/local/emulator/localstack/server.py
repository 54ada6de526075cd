"""How LocalStack is started without Docker: as a process, with all of its files in the environment's own folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.errors import LocalEnvironmentError
from stepbench_tools.local.processes import LOOPBACK

if TYPE_CHECKING:
    from pathlib import Path

    from stepbench_tools.local.paths import Paths

NAME = "LocalStack 4.14.0"
TOOL = "localstack"
START_S = 120.0
RUNS_TASKS = False
CONCURRENCY = "LAMBDA_LIMITS_CONCURRENT_EXECUTIONS"
"""Variable with the account's limit of invocations at once."""
POLL_S = 0.25
"""Lambda reads each shard of a stream four times a second (Lambda's guide, "Using Lambda with DynamoDB")."""


def environment(paths: Paths, port: int, scratch: Path, wait_scale: float) -> dict[str, str]:
    """
    Return its own variables.

    Raises:
        LocalEnvironmentError: DynamoDB Local, or what keeps it on loopback, is not installed.
    """
    jars, loopback = paths.installed / "dynamodb", paths.installed / "localstack" / "loopback.so"
    for needed in (jars, loopback):
        if not needed.exists():
            message = f"{needed} is missing; run `make setup-localstack` in {paths.root}"
            raise LocalEnvironmentError(message)
    installed = scratch / "var/lib/localstack/lib/dynamodb-local/2"  # where LocalStack's own installer puts it
    installed.parent.mkdir(parents=True, exist_ok=True)
    if not installed.is_symlink():
        installed.symlink_to(jars)
    return {
        "GATEWAY_LISTEN": f"{LOOPBACK}:{port}",
        "LD_PRELOAD": str(loopback),
        "FILESYSTEM_ROOT": str(scratch),
        "OVERRIDE_IN_DOCKER": "0",
        "DISABLE_EVENTS": "1",
        "SKIP_SSL_CERT_DOWNLOAD": "1",
        "DNS_ADDRESS": "0",
        "PYTHONUNBUFFERED": "1",
        "LS_LOG": "warning",
        "PROVIDER_OVERRIDE_DYNAMODB": "v2",  # streams are DynamoDB Local's own; v1's need a Kinesis that is not here
        "PROVIDER_OVERRIDE_DYNAMODBSTREAMS": "v2",
        "LAMBDA_EVENT_SOURCE_MAPPING_POLL_INTERVAL_SEC": f"{POLL_S:g}",
        "LAMBDA_EVENT_SOURCE_MAPPING_MAX_BACKOFF_ON_EMPTY_POLL_SEC": f"{POLL_S:g}",
        "LAMBDA_RUNTIME_ENVIRONMENT_TIMEOUT": "120",  # longer than our own limit
        "SFN_WAIT_SCALE": f"{wait_scale:g}",
    }
