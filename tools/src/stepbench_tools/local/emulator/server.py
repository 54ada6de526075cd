"""
The AWS emulator of an environment: MiniStack, or what STEPBENCH_EMULATOR names, LocalStack or the URL of another.

A kind of emulator is an entry in `KINDS`, which says how it is started, and a folder with `shim.py`, which `start.py`
loads in the emulator's own process, and which makes it run Lambdas as processes under AWS's runtime client.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stepbench.errors import LocalEnvironmentError
from stepbench_tools.local.processes import LOOPBACK, fetch_direct, free_port, start_server

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepbench_tools.local.paths import Paths

CHOICE = "STEPBENCH_EMULATOR"
DECISIONS = "STEPBENCH_DECISIONS"
"""Variable with a file: functions may then do what their roles allow, and nothing else; the file has each decision."""
TASKS_AT_ONCE = "STEPBENCH_TASKS_AT_ONCE"
"""Variable with a number: further ECS tasks then find no capacity."""
ASYNC_RETRY = "STEPBENCH_ASYNC_RETRY_S"
"""Variable with whole seconds: so long after its failure an asynchronous invocation is tried again, then twice that."""
ASYNC_RETRY_S = 60
"""Lambda waits a minute, then two (Lambda's guide, "How Lambda handles errors and retries")."""
STREAM_POLL_S = 0.25
"""Lambda reads each shard of a stream four times a second (Lambda's guide, "Using Lambda with DynamoDB")."""
_HEALTH = "/_localstack/health"  # MiniStack answers it, too


def ministack_environment(_paths: Paths, port: int, scratch: Path) -> dict[str, str]:
    """Return MiniStack's own variables."""
    return {
        "S3_DATA_DIR": str(scratch / "s3"),
        "STATE_DIR": str(scratch / "state"),
        "GATEWAY_PORT": str(port),
        "LOG_LEVEL": "WARNING",
        "LAMBDA_ASYNC_RETRY_BASE_SECONDS": _async_retry_s(),
        "LAMBDA_ASYNC_RETRY_MAX_SECONDS": "3600",
        "ECS_TASKS_AT_ONCE": os.environ.get(TASKS_AT_ONCE, ""),
        **({"AUTH": "true", "DECISIONS": os.environ[DECISIONS]} if os.environ.get(DECISIONS) else {}),
    }


def localstack_environment(paths: Paths, port: int, scratch: Path) -> dict[str, str]:
    """
    Return LocalStack's own variables: it runs without Docker, with all of its files in the environment's folder.

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
        "LAMBDA_EVENT_SOURCE_MAPPING_POLL_INTERVAL_SEC": f"{STREAM_POLL_S:g}",
        "LAMBDA_EVENT_SOURCE_MAPPING_MAX_BACKOFF_ON_EMPTY_POLL_SEC": f"{STREAM_POLL_S:g}",
        "LAMBDA_RETRY_BASE_DELAY": _async_retry_s(),
        "LAMBDA_RUNTIME_ENVIRONMENT_TIMEOUT": "120",  # longer than our own limit
    }


def _async_retry_s() -> str:
    return os.environ.get(ASYNC_RETRY) or str(ASYNC_RETRY_S)


class Kind(NamedTuple):
    """
    How one kind of emulator is started.

    tool: the environment that has it. concurrency: the variable with the account's limit of invocations at once.
    environment: what its process gets beside what all get. runs_tasks: whether those of ECS run (`tasks.py`).
    """

    name: str
    tool: str
    concurrency: str
    start_s: float
    environment: Callable[[Paths, int, Path], dict[str, str]]
    runs_tasks: bool = False


_LIMIT = "LAMBDA_LIMITS_CONCURRENT_EXECUTIONS"
KINDS: Mapping[str, Kind] = {
    "ministack": Kind(
        *("MiniStack 1.5.33", "emulator", "LAMBDA_ACCOUNT_CONCURRENCY", 60, ministack_environment), runs_tasks=True
    ),
    "localstack": Kind("LocalStack 4.14.0", "localstack", _LIMIT, 120, localstack_environment),
}


@dataclass(frozen=True)
class Emulator:
    """A running emulator: `endpoint` is its URL; nobody else's process is in `pids`."""

    name: str
    endpoint: str
    pids: tuple[int, ...]

    @property
    def pid(self) -> int:
        """Return the process that we have started."""
        return self.pids[0]


def emulator_name() -> str:
    """
    Return the name of the emulator that is chosen, with its version if we start it.

    Raises:
        LocalEnvironmentError: there is no such emulator.
    """
    chosen = _chosen()
    return f"the emulator at {chosen}" if _is_url(chosen) else KINDS[chosen].name


def runs_tasks() -> bool:
    """Return whether the emulator that is chosen runs tasks of ECS; of one that is not ours nobody knows."""
    chosen = _chosen()
    return not _is_url(chosen) and KINDS[chosen].runs_tasks


def _chosen() -> str:
    chosen = os.environ.get(CHOICE) or "ministack"
    if chosen not in KINDS and not _is_url(chosen):
        message = f"{CHOICE} is {chosen!r}; name {' or '.join(KINDS)}, or the URL of an emulator that runs (http://…)"
        raise LocalEnvironmentError(message)
    return chosen.rstrip("/")


def _is_url(chosen: str) -> bool:
    return re.match(r"https?://[^/]", chosen) is not None


def start_emulator(paths: Paths, *, wait_scale: float = 1, concurrency: int | None = None) -> Emulator:
    """
    Start the emulator that is chosen, and wait until it answers; one that runs is taken as it is.

    Args:
        paths: where its environment and Lambda's are, and where files go.
        wait_scale: factor on every Wait state; tests shorten them.
        concurrency: the account's limit; None leaves the emulator's own: 1,000, of MiniStack fewer on a small machine.

    Raises:
        LocalEnvironmentError: its environment is missing, or it does not start; with the end of its log.
    """
    chosen = _chosen()
    if _is_url(chosen):
        if not answers(chosen):
            message = f"{CHOICE} is {chosen}, where no emulator answers; start it first"
            raise LocalEnvironmentError(message)
        return Emulator(emulator_name(), chosen, ())
    kind, port = KINDS[chosen], free_port()
    scratch, log = paths.data / "emulator", paths.logs / "emulator.log"
    scratch.mkdir(parents=True, exist_ok=True)
    environment = {**_environment(paths, scratch), **kind.environment(paths, port, scratch)}
    environment["SFN_WAIT_SCALE"] = f"{wait_scale:g}"
    command: list[str | Path] = [paths.tool(kind.tool, "python"), "-P", Path(__file__).with_name("start.py"), chosen]
    if concurrency is not None:
        environment[kind.concurrency] = str(concurrency)
    endpoint = f"http://{LOOPBACK}:{port}"
    pid = start_server(
        f"the emulator answers at {endpoint}",
        command,
        lambda: _is_healthy(endpoint),
        timeout_s=kind.start_s,
        log=log,
        env=environment,
        cwd=scratch,
    )
    return Emulator(kind.name, endpoint, (pid,))


def answers(endpoint: str) -> bool:
    """Return whether an emulator is healthy there."""
    try:
        return _is_healthy(endpoint)
    except OSError:
        return False


def _is_healthy(endpoint: str) -> bool:
    return fetch_direct(endpoint + _HEALTH, timeout_s=2)[0] == HTTPStatus.OK


def _environment(paths: Paths, scratch: Path) -> dict[str, str]:
    """Return a fresh environment: nobody's AWS profile or proxy may leak into the emulator."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "LAMBDA_PYTHON": str(paths.tool("lambda", "python")),
        "LAMBDA_LAYERS": str(paths.layers),
    }
