"""Commands on this machine's environment: `stores`, `up`, `down`, `sweep`, `load-host`, `invoke`, `dashboard`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from stepbench.errors import PlanError, Problem
from stepbench_tools.cli.command import (
    BAD_INPUT,
    CASSANDRA,
    ETCD_MEMBERS,
    FAILED,
    NOT_DONE,
    OK,
    Command,
    OneOf,
    argument,
    at_least,
    between,
    messages,
    open_page,
    out,
    write,
)
from stepbench_tools.cli.inputs import clone_paths

if TYPE_CHECKING:
    from stepbench_tools.local.proxy import Server
    from stepbench_tools.local.stack import Upstream


def dashboard(options: argparse.Namespace) -> int:
    """Serve the dashboard until Ctrl-C, or until its environment is gone."""
    from stepbench_tools.local.streams import interruptible

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
    from stepbench_tools.local.processes import free_port
    from stepbench_tools.local.proxy import Server

    try:
        return Server(port or free_port(), upstream.send)
    except OSError as error:
        message, remedy = f"cannot be listened on ({error.strerror})", "Name another port, or none for a free one."
        raise PlanError([Problem("--port", str(port), message, remedy)]) from error


def _upstream(stack: str | None) -> tuple[Upstream, Callable[[], bool]]:
    """Return the API of a deployed stack, or of this machine's, and a check whether it is still there."""
    from stepbench_tools.local.dashboard import emulator_runs, open_environment
    from stepbench_tools.local.environment import is_up
    from stepbench_tools.local.stack import StackError, Upstream, remote_stack

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
    if not wanted:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="stepbench-") as folder:
        page = Path(folder) / "dashboard.html"
        page.touch(mode=0o600)
        page.write_text(f'<!DOCTYPE html><meta http-equiv="refresh" content="0;url={address}">', "utf-8")
        open_page(page, "open the address above")
        yield


def stores(options: argparse.Namespace) -> int:
    """List the stores; with details, what the trigger of each can do."""
    from stepbench.contracts.api import StoreList
    from stepbench.costs.prices import DEFAULT_REGION
    from stepbench.experiments.trigger.catalogue import feature_rows, store_catalogue
    from stepbench_tools.local.store_list import store_list

    catalogue = {info.store: info for info in store_catalogue(DEFAULT_REGION)}
    if options.json:
        write(StoreList(stores=tuple(catalogue.values())).model_dump_json(indent=1))
        return OK
    for row in store_list():
        write(f"{row.store:<11} {row.trigger:<45} {row.here}")
        if options.details:
            info = catalogue[row.store]
            for name, text, source in feature_rows(info):
                write(f"  {name:<18} {text}\n  {'':<18} {source}")
            write("")
    return OK


def up(options: argparse.Namespace) -> int:
    """Start the environment, and list its servers."""
    from stepbench_tools.local.environment import EMULATOR, EnvironmentOptions
    from stepbench_tools.local.programs import following_logs
    from stepbench_tools.local.session import start_environment
    from stepbench_tools.local.stack import API_URL, local_stack
    from stepbench_tools.local.stores.servers import CASSANDRA
    from stepbench_tools.local.streams import interruptible

    paths, notify = clone_paths(), messages(options)
    with interruptible(), following_logs(paths.logs, notify) if options.verbose else nullcontext():
        servers = EnvironmentOptions(options.etcd_members, frozenset({CASSANDRA} if options.cassandra else ()))
        state, dashboard = start_environment(paths, notify, servers)
    for server in state.servers:
        write(f"{server.name:<16} {server.endpoint:<34} {server.version}")
    for name, reason in state.skipped.items():
        write(f"{name:<16} skipped: {reason}")
    if (emulator := state.server(EMULATOR)) is not None:
        write(f"{'api':<16} {local_stack(state.stack, emulator.endpoint).outputs[API_URL]}")
    write(f"{'dashboard':<16} {dashboard}")
    return OK


def down(options: argparse.Namespace) -> int:
    """End the environment; runs that nobody has fetched are named, fetched, or keep it from ending."""
    from stepbench_tools.local.machine_limits import require_writable
    from stepbench_tools.local.session import stop_environment

    if options.fetch:
        require_writable(options.out)
    out = options.out if options.fetch else None
    ended = stop_environment(clone_paths(), messages(options), out=out, keep=options.keep)
    messages(options)(f"ended {_counted(ended)}" if ended else "nothing was running")
    return OK


def invoke(options: argparse.Namespace) -> int:
    """Invoke functions with their sample events, and say which answered."""
    from stepbench_tools.local.invoking import (
        chosen_steps,
        event_maker,
        invoke_steps,
        new_run_id,
        read_event,
        torn_down,
        with_needed,
    )
    from stepbench_tools.local.sam_local import sam_local
    from stepbench_tools.local.session import local_session
    from stepbench_tools.local.streams import interruptible

    paths, notify = clone_paths(), messages(options)
    named = chosen_steps(options.functions)
    own = read_event(options.event, options.functions) if options.event else None
    make_event = event_maker(paths.root, new_run_id(), own)
    steps = named if own is not None else with_needed(named)
    answers = []
    with interruptible(), local_session(paths, notify) as session:
        docker = options.docker or options.restricted
        with (
            sam_local(paths, session, restricted=options.restricted) if docker else nullcontext() as call,
            torn_down(steps, session.stack, make_event) if own is None else nullcontext(),
        ):
            for answer in invoke_steps(steps, session.stack, make_event, call):
                write(str(answer))
                if options.functions and answer.step in named and answer.asked and not answer.error:
                    write(json.dumps(answer.value, indent=1))
                answers.append(answer)
    asked = [answer for answer in answers if answer.asked]
    failed = sum(bool(answer.error) for answer in asked)
    notify(f"{len(asked) - failed} of {len(asked)} answered without an error")
    if options.functions and len(asked) < len(answers):
        return BAD_INPUT
    return FAILED if failed else OK


def sweep(options: argparse.Namespace) -> int:
    """Release what ended runs still hold."""
    from stepbench_tools.local.session import running_stack, sweep
    from stepbench_tools.local.stack import remote_stack

    stack = remote_stack(options.stack) if options.stack else running_stack(clone_paths())
    if stack is None:
        write("nothing is held: no environment runs here (--stack names a deployed one)")
        return OK
    lines, all_free = sweep(stack)
    write("\n".join(lines) or "nothing is held")
    return OK if all_free else NOT_DONE


def _counted(processes: Sequence[str]) -> str:
    """Count `etcd (pid 7)`, `python (pid 8)`, ... by program."""
    programs = Counter(process.partition(" (")[0] for process in processes)
    return ", ".join(f"{number} {program}" if number > 1 else program for program, number in sorted(programs.items()))


def load_host(options: argparse.Namespace) -> int:
    """Serve as a load host of a deployed stack."""
    from stepbench.load_host.__main__ import main
    from stepbench_tools.local.commands import program_arguments
    from stepbench_tools.local.stack import remote_stack

    arguments = program_arguments(remote_stack(options.stack))
    main([*arguments, "--at-once", str(options.at_once), "--machine", options.machine])
    return OK


COMMANDS = (
    Command(
        "stores",
        stores,
        "list the stores, and what stands for each on this machine",
        (
            OneOf(
                (
                    argument("--details", action="store_true", help="what the trigger of each can do, with sources"),
                    argument("--json", action="store_true", help="the same as JSON, as the API's GET /stores has it"),
                )
            ),
        ),
    ),
    Command("up", up, "start emulator and stores, deploy, and leave everything running", (ETCD_MEMBERS, CASSANDRA)),
    Command(
        "down",
        down,
        "end what `up` has started; of runs that nobody has fetched it says how many are gone with it",
        (
            OneOf(
                (
                    argument("--fetch", action="store_true", help="fetch them first"),
                    argument("--keep", action="store_true", help="end nothing if there are any (exit code 4)"),
                )
            ),
            out("where --fetch puts them"),
        ),
    ),
    Command(
        "sweep",
        sweep,
        "remove what runs that are over have left in stores, and free their targets; also while others go on",
        (argument("--stack", metavar="NAME", help="of this CloudFormation stack, with your AWS credentials"),),
    ),
    Command(
        "load-host",
        load_host,
        "run the writers of plans with load_from=host here, for a deployed stack, until Ctrl-C",
        (
            argument("--stack", metavar="NAME", required=True, help="CloudFormation's; deployed with LoadHost=own"),
            argument(
                "--at-once", type=at_least(1), default=64, metavar="N", help="writers, each a process (default: 64)"
            ),
            argument("--machine", default="own host", metavar="NAME", help="what reports call it (default: own host)"),
        ),
    ),
    Command(
        "invoke",
        invoke,
        "invoke functions with their sample events (events/) and say which answered; of those named, what",
        (
            argument(
                "functions",
                metavar="FUNCTION",
                nargs="*",
                help="RunWriter, or ReceiveEvents.dynamodb for another source; in this order, each after the functions "
                "that it needs (default: all, in the order of a run)",
            ),
            argument(
                "--event",
                metavar="FILE",
                help="for one FUNCTION: send this JSON file unchanged in place of its sample; - for stdin",
            ),
            argument("--docker", action="store_true", help="by `sam local invoke`, one container each"),
            argument(
                "--restricted",
                action="store_true",
                help="the same, with an unprivileged user and a read-only root, as on Lambda",
            ),
        ),
    ),
    Command(
        "dashboard",
        dashboard,
        "show runs, queue and trends in your browser, and start, compare and stop runs, until Ctrl-C",
        (
            argument("--stack", metavar="NAME", help="a deployed stack (default: the one that `up` has started here)"),
            argument(
                "--port", type=between(1, 65_535, int), metavar="N", help="on loopback (default: any that is free)"
            ),
            argument("--open", action="store_true", help="open it in your browser"),
        ),
    ),
)
