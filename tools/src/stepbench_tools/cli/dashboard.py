"""The command `dashboard`: a stack's runs in the user's browser."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from stepbench.errors import PlanError, Problem
from stepbench_tools.cli.command import OK, Command, argument
from stepbench_tools.cli.inputs import clone_paths
from stepbench_tools.cli.streams import messages, write, write_errors

if TYPE_CHECKING:
    from stepbench_tools.local.dashboard.proxy import Server
    from stepbench_tools.local.dashboard.upstream import Upstream

MAX_PORT = 65_535


def dashboard(options: argparse.Namespace) -> int:
    """Serve the dashboard until Ctrl-C, or until its environment is gone."""
    from stepbench_tools.local.interrupts import interruptible

    upstream, wanted = _upstream(options.stack)
    upstream.check()
    with interruptible(), _listening(options.port, upstream) as server:
        write(server.gate.address)
        sys.stdout.flush()
        messages(options)("Ctrl-C ends it")
        try:
            with _opened(server.gate.address, wanted=options.open):
                server.serve_while(wanted)
        except KeyboardInterrupt:
            return OK
    messages(options)("the environment is gone")
    return OK


def _listening(port: int, upstream: Upstream) -> Server:
    """
    Return the server on a port; 0: on a free one.

    Raises:
        PlanError: somebody else listens there, or nobody may.
    """
    from stepbench_tools.local.dashboard.proxy import Server
    from stepbench_tools.local.processes import free_port

    try:
        return Server(port or free_port(), upstream.send)
    except OSError as error:
        message, remedy = f"cannot be listened on ({error.strerror})", "Name another port, or none for a free one."
        raise PlanError([Problem("--port", str(port), message, remedy)]) from error


def _upstream(stack: str | None) -> tuple[Upstream, Callable[[], bool]]:
    """Return the API of a deployed stack, or of this machine's, and a check whether it is still there."""
    from stepbench_tools.local.dashboard.background import emulator_runs, open_environment
    from stepbench_tools.local.dashboard.upstream import Upstream
    from stepbench_tools.local.environment import is_up
    from stepbench_tools.local.stack import StackError, remote_stack

    if stack is not None:
        return Upstream(remote_stack(stack)), lambda: True
    paths = clone_paths()
    if not is_up(paths):
        message = "nothing is running here: `stepbench up` starts it, and --stack names a deployed stack"
        raise StackError(message)
    upstream, state = open_environment(paths.home)
    return upstream, lambda: emulator_runs(state)


@contextmanager
def _opened(address: str, *, wanted: bool) -> Iterator[None]:
    """Have a browser led to the address by a file of the user's: all users read what a process was started with."""
    import webbrowser

    if not wanted:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="stepbench-") as folder:
        page = Path(folder) / "dashboard.html"
        page.touch(mode=0o600)
        page.write_text(f'<!DOCTYPE html><meta http-equiv="refresh" content="0;url={address}">', "utf-8")
        try:
            opened = webbrowser.open(page.as_uri())
        except webbrowser.Error:
            opened = False
        if not opened:
            write_errors("no browser could be started; open the address above")
        yield


def _port(text: str) -> int:
    number = int(text)
    if not 1 <= number <= MAX_PORT:
        message = f"{number} is no port; they are 1 to {MAX_PORT}"
        raise argparse.ArgumentTypeError(message)
    return number


COMMANDS = (
    Command(
        "dashboard",
        dashboard,
        "show runs, queue and trends in your browser, and start, compare and stop runs, until Ctrl-C",
        (
            argument("--stack", metavar="NAME", help="a deployed stack (default: the one that `up` has started here)"),
            argument("--port", type=_port, metavar="N", help="on loopback (default: any that is free)"),
            argument("--open", action="store_true", help="open it in your browser"),
        ),
    ),
)
