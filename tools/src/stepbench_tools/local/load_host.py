"""The load host of a run here: the program that EC2 runs, beside the emulator, with the rights of the host's role."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import stepbench
from stepbench.records.storage import layout
from stepbench_tools.local.processes import spawn, terminate, wait_until
from stepbench_tools.local.stack import REGION, StackError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stepbench_tools.local.paths import Paths
    from stepbench_tools.local.stack import Stack

NAME, MACHINE = "load-host", "this machine"
QUEUE, ROLE = "LoadQueueUrl", "LoadHostRoleArn"
START_S, DRAIN_S = 30, 15
SESSION_S = 12 * 3_600


@contextlib.contextmanager
def load_host(stack: Stack, paths: Paths) -> Iterator[int]:
    """
    Yield the pid of a load host of a stack on the emulator; end it at the end.

    Raises:
        LocalEnvironmentError: it does not start; with the end of its log.
    """
    log = paths.logs / f"{NAME}.log"
    before = set(stack.table.beats(layout.LOAD_HOSTS))

    def is_there() -> bool:
        return bool(set(stack.table.beats(layout.LOAD_HOSTS)) - before)

    arguments = [sys.executable, "-m", "stepbench.load_host", *program_arguments(stack)]
    pid = spawn([*arguments, "--machine", MACHINE], log=log, env=_environment(stack), cwd=paths.home)
    try:
        wait_until("the load host takes writers", is_there, timeout_s=START_S, pid=pid, log=log)
        yield pid
    finally:
        terminate([pid], grace_s=DRAIN_S)


def program_arguments(stack: Stack) -> list[str]:
    """
    Return what a load host of a stack is started with, beside how many writers it takes and what it is.

    Raises:
        StackError: the stack takes no load from hosts.
    """
    if ROLE not in stack.outputs:
        message = f"stack {stack.name!r} takes no load from hosts; deploy it with LoadHost=own (or on, which makes one)"
        raise StackError(message)
    return ["--queue-url", stack.outputs[QUEUE], "--function", f"{stack.name}-RunWriter"]


def _environment(stack: Stack) -> Mapping[str, str]:
    """Return a fresh environment, with credentials of the role that the host has on AWS."""
    session = stack.aws("sts").assume_role(
        RoleArn=stack.outputs[ROLE], RoleSessionName=NAME, DurationSeconds=SESSION_S
    )["Credentials"]
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "PYTHONPATH": str(Path(stepbench.__file__).parents[1]),
        "AWS_ACCESS_KEY_ID": session["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": session["SecretAccessKey"],
        "AWS_SESSION_TOKEN": session["SessionToken"],
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ENDPOINT_URL": stack.endpoint or "",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "NO_PROXY": "127.0.0.1,localhost",
    }
