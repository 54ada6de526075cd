"""
SAM CLI, run with settings of its own, against one account or emulator; and which quota a deployment has met.

That is found in what CloudFormation says of the resource that failed.
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

from stepbench.errors import LocalEnvironmentError
from stepbench_tools.local.programs import run_logged
from stepbench_tools.local.stack import REGION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from stepbench_tools.local.paths import Paths
    from stepbench_tools.local.state import Server

NOWHERE = "http://127.0.0.1:9"
"""An endpoint for commands that have no business with AWS."""
_NOT_INHERITED = ("AWS_", "SAM_", "MAKE", "MFLAGS")
"""How variables begin that would reach SAM CLI, or the make that it runs below a `make` of the user's."""
_HOSTS = "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances"
_REMEDIES = {
    "VcpuLimitExceeded": f'EC2\'s "{_HOSTS}" counts vCPUs, 5 in a new account: LoadHost=on takes 8, EtcdNodes=on 6, '
    "CassandraNode=on 2 with the default types",
    "ReservedConcurrentExecutions": 'Lambda\'s "Concurrent executions" leaves less than 100 unreserved: deploy with '
    "ClockCheck=off",
    "4KB limit": "Lambda's environments hold 4 KB in all: shorten Teams, or the addresses of servers that are given",
    "'MemorySize' value failed": "a new account's functions have 3,008 MB at the most: lower TransferMemorySize, "
    "TaskMemorySize and MeasuredMemorySize",
    "VpcLimitExceeded": 'EC2\'s "VPCs per Region", 5 by default: delete one, or give VpcSubnetIds of one that is there',
}
"""Remedies by what is in the message."""


def deploy_arguments(
    paths: Paths, stack: str, parameters: Mapping[str, str], bucket: str, template: str = "template.yaml"
) -> list[str]:
    """Return what makes SAM CLI deploy the last build without a question; artefacts go to the bucket."""
    return [
        *("deploy", "--template-file", str(paths.build / "artefacts" / template)),
        *("--stack-name", stack, "--s3-bucket", bucket),
        *("--capabilities", "CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"),
        *("--no-confirm-changeset", "--no-fail-on-empty-changeset", "--no-progressbar"),
        *parameter_overrides(paths, parameters),
    ]


def parameter_overrides(paths: Paths, parameters: Mapping[str, str]) -> list[str]:
    """
    Pass parameters by file (JSON is YAML): on the command line, SAM CLI cuts a value off at its first blank.

    The file's name is not a URL in spite of its beginning: SAM CLI does not decode %20.
    """
    path = paths.data / "parameters.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({name: value for name, value in parameters.items() if value}))
    return ["--parameter-overrides", f"file://{path}"]


def run_sam(  # noqa: PLR0913 -- a command, and what bounds it
    paths: Paths,
    arguments: list[str],
    *,
    timeout_s: float,
    account: Mapping[str, str],
    needs: Server | None = None,
    look: Callable[[], None] | None = None,
) -> None:
    """
    Run SAM CLI; an interrupt ends its children (pip, above all) with it.

    Args:
        paths: of its log, its settings and temporary files.
        arguments: command and options.
        timeout_s: after which it is ended.
        account: the environment variables that say which account, region and endpoint it works on.
        needs: the emulator's server, if it works on one of ours; its end ends the command.
        look: called meanwhile, to notify how far it is.

    Raises:
        LocalEnvironmentError: it failed, was not done in time, or the emulator has ended; with the end of its output,
            and its remedy.
    """
    try:
        run_logged(
            [paths.tool("sam", "sam"), *arguments],
            f"`sam {arguments[0]}`",
            log=sam_log(paths, arguments[0]),
            timeout_s=timeout_s,
            env=sam_environment(paths, account),
            cwd=paths.root,
            needs=needs,
            look=look,
        )
    except LocalEnvironmentError as error:
        if not (remedy := quota_remedy(str(error))):
            raise
        message = f"{error}{remedy}"
        raise LocalEnvironmentError(message) from error


def sam_log(paths: Paths, command: str) -> Path:
    """Return the file of what SAM CLI says to a command."""
    return paths.logs / f"sam-{command}.log"


def sam_environment(paths: Paths, account: Mapping[str, str]) -> dict[str, str]:
    """
    Return an environment in which SAM CLI has settings of its own and no telemetry.

    PATH begins with the Lambda environment, whose interpreter has the name that `BuildMethod` asks for.
    """
    paths.sam_settings.mkdir(parents=True, exist_ok=True)
    scratch = paths.data / "tmp"  # SAM CLI leaves empty folders in it
    scratch.mkdir(parents=True, exist_ok=True)
    metadata = {"telemetryEnabled": False, "lastVersionCheck": time.time()}
    (paths.sam_settings / "metadata.json").write_text(json.dumps(metadata))
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)}
    return {
        **inherited,
        "TMPDIR": str(scratch),
        "PATH": f"{paths.tool('lambda', 'python').parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "SAM_CLI_TELEMETRY": "0",
        "__SAM_CLI_APP_DIR": str(paths.sam_settings),
        **account,
    }


def emulator_account(endpoint: str) -> dict[str, str]:
    """Return variables by which SAM CLI and boto3 reach an emulator, and nobody's account."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_REGION": REGION,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
        "SAM_CLI_POLL_DELAY": "0.5",
    }


def quota_remedy(text: str) -> str:
    """Return a line about each quota that a message is about, with what to do; empty if it is about none."""
    joined = " ".join(text.split())  # SAM CLI breaks the lines of its table
    found = [remedy for sign, remedy in _REMEDIES.items() if sign in joined]
    return "".join(f"\n{remedy}, or have the quota raised (Service Quotas)" for remedy in found)
