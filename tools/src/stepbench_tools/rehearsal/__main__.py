"""`make rehearse`: `python -m stepbench_tools.rehearsal`; see docs/deploy.md."""

from __future__ import annotations

import argparse
import os
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from stepbench.compiled import processor
from stepbench.errors import PlanError, Problem, StepbenchError
from stepbench.loading import read_model
from stepbench_tools.local.deploy import python_runtime
from stepbench_tools.local.interrupts import shielded
from stepbench_tools.local.paths import Paths, find_paths
from stepbench_tools.local.streams import message_console
from stepbench_tools.rehearsal.account import Account, find_account
from stepbench_tools.rehearsal.assumptions import judge_all
from stepbench_tools.rehearsal.bill import EXPLORER_REGION, read_bill
from stepbench_tools.rehearsal.budget import Meter, choose
from stepbench_tools.rehearsal.deploying import delete_everything
from stepbench_tools.rehearsal.inventory import take_inventory
from stepbench_tools.rehearsal.plans import (
    GIVEN,
    MANY_WRITERS,
    NEEDED_CONCURRENCY,
    first_round,
    store_plan,
    store_rounds,
)
from stepbench_tools.rehearsal.record import Rehearsal
from stepbench_tools.rehearsal.rehearse import DOCUMENT, REPORT, Rehearser, RunLog, begin, write
from stepbench_tools.rehearsal.text import announcement, assumptions_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench_tools.rehearsal.budget import Round

OK, FAILED, BAD_INPUT = 0, 1, 2
STACK_NAME = re.compile(r"[a-z][a-z0-9-]{0,23}")
CLOCK_REFERENCE = "time.aws.com:123"
ON_EMULATOR = "an emulator plays none of its hosts and clusters"
ROUND_OF = {"postgresql": "aurora", "etcd": "etcd", "redis": "elasticache", "cassandra": "cassandra", "dsql": "dsql"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Make a rehearsal, finish one that was killed, or compare one with its bill; return the exit code."""
    options = _parser().parse_args(arguments)
    console = message_console()
    try:
        if options.assumptions:
            write_out(assumptions_text())
            return OK
        if options.costs:
            return compare_costs(options.costs)
        if options.delete:
            return delete_left(options.delete)
        return rehearse(options)
    except PlanError as error:
        code, text = BAD_INPUT, str(error)
    except (StepbenchError, ClientError, BotoCoreError, OSError) as error:
        code, text = FAILED, str(error)
    except KeyboardInterrupt:
        code, text = FAILED, "interrupted"
    console.print(text, markup=False, highlight=False, soft_wrap=True)
    return code


def rehearse(options: argparse.Namespace) -> int:
    """Announce, ask, and make a rehearsal."""
    _refuse_name(options.stack)
    parameters = dict(options.parameter)
    account = find_account(options.emulator)
    rounds, left_out = plan_rounds(account, parameters, options.budget)
    _refuse_taken(account, options.stack)
    write_out(announcement(account, options.stack, rounds, left_out, options.budget))
    if not options.yes and not _agreed():
        write_out("nothing was made")
        return FAILED
    folder = options.out.resolve() / f"rehearsal-{options.stack}-{datetime.now(UTC):%Y%m%dT%H%M%S}"
    paths = Paths(find_paths(os.environ, Path.cwd()).root, folder / "sam")
    runtime = runtime_parameters(python_runtime(paths))
    named = {
        "ClockReference": "" if account.emulator else CLOCK_REFERENCE,
        "Emulator": account.emulator,
        "Architecture": processor() if account.emulator else "x86_64",
    }
    log = RunLog(folder, account, begin(account, options.stack, rounds, options.budget))
    log.note()
    rehearser = Rehearser(
        account,
        options.stack,
        paths,
        message_console(),
        log,
        {**runtime, **named, **parameters},
        Meter(options.budget),
    )
    return _conclude(rehearser.rehearse(rounds, left_out), folder)


def runtime_parameters(runtime: str) -> dict[str, str]:
    """Return the parameters for layers of this machine's Python; of 3.11, applications have no libraries on Lambda."""
    return {"PythonRuntime": runtime, **({"Applications": "off"} if runtime == "python3.11" else {})}


def plan_rounds(account: Account, parameters: dict[str, str], budget_usd: float) -> tuple[list[Round], dict[str, str]]:
    """Return the rounds that are made, and why others are not. Raises PlanError: the budget is too small for any."""
    given = {store: store_plan(store) for name, store in GIVEN.items() if parameters.get(name)}
    limit = account.client("lambda").get_account_settings()["AccountLimit"]
    roomy = min(limit["ConcurrentExecutions"], limit["UnreservedConcurrentExecutions"]) > NEEDED_CONCURRENCY
    writers = MANY_WRITERS if roomy and not account.emulator else 1
    first = first_round(writers=writers, clock_check=roomy, given=given)
    if account.emulator:
        rounds, left_out = choose(first, (), budget_usd)
        return rounds, {**left_out, **{each.name: ON_EMULATOR for each in store_rounds()}}
    own = {ROUND_OF[store]: "a server of your own is rehearsed in its place" for store in given}
    rounds, left_out = choose(first, [each for each in store_rounds() if each.name not in own], budget_usd)
    return rounds, {**left_out, **own}


def compare_costs(folder: Path) -> int:
    """Ask Cost Explorer for the days of a finished rehearsal, and judge again."""
    found = read_model(folder / DOCUMENT, Rehearsal)
    if found.emulator:
        problem = Problem("COSTS", f'"{folder}"', f"was made on {found.emulator}, which bills nobody", "Name another.")
        raise PlanError([problem])
    account = _account_of(found, "COSTS", folder)
    explorer = account.session.client("ce", region_name=EXPLORER_REGION)
    found = found.model_copy(update={"bill": read_bill(explorer, found)})
    return _conclude(_judged(found, folder, account), folder)


def delete_left(folder: Path) -> int:
    """Delete what a rehearsal that was killed has left."""
    found = read_model(folder / DOCUMENT, Rehearsal)
    account = _account_of(found, "DELETE", folder)
    paths = Paths(find_paths(os.environ, Path.cwd()).root, folder.resolve() / "sam")
    with shielded():
        deletion = delete_everything(account, paths, found.stack, write_out)
    found = found.model_copy(update={"deletion": deletion, "ended": found.ended or "it was killed"})
    return _conclude(_judged(found, folder, account), folder)


def _account_of(found: Rehearsal, option: str, folder: Path) -> Account:
    """Return the account that a rehearsal was made in. Raises PlanError: the environment's is another."""
    account = find_account(found.emulator)
    if account.artefacts(found.stack) != found.artefacts or bool(account.emulator) != bool(found.emulator):
        place = f"{found.region} on {found.emulator}" if found.emulator else found.region
        message = f"was made in {place}, and these credentials are of another account, region or endpoint"
        raise PlanError([Problem(option, f'"{folder}"', message, "Choose the same account, region and endpoint.")])
    return account


def _judged(found: Rehearsal, folder: Path, account: Account) -> Rehearsal:
    judged = found.model_copy(update={"assumptions": judge_all(found)})
    write(folder, judged, account.number)
    return judged


def _conclude(found: Rehearsal, folder: Path) -> int:
    for each in found.assumptions:
        write_out(f"{each.status:<10} {each.id}: {each.observed}")
    write_out(str(folder / REPORT))
    return OK if found.whole and all(each.status != "refuted" for each in found.assumptions) else FAILED


def _refuse_name(stack: str) -> None:
    if not STACK_NAME.fullmatch(stack):
        message = "is no name for a rehearsal's stack"
        remedy = "Give at most 24 lower-case letters, digits and hyphens, a letter first."
        raise PlanError([Problem("STACK", f'"{stack}"', message, remedy)])


def _refuse_taken(account: Account, stack: str) -> None:
    """Refuse a name of which anything is there already: at the end, all that has it is deleted."""
    there = take_inventory(account, stack)
    if there.found or there.unlisted:
        found = [f"{kind}: {', '.join(names)}" for kind, names in there.found.items()]
        found += [f"{kind} cannot be listed ({reason})" for kind, reason in there.unlisted.items()]
        remedy = "Give a name of which nothing is there, and credentials that may list it all."
        raise PlanError([Problem("STACK", f'"{stack}"', f"is taken: {'; '.join(found)}", remedy)])


def _agreed() -> bool:
    if not sys.stdin.isatty():
        problem = Problem("YES", "nothing", "is not given, and nobody can be asked", "Give YES=1.")
        raise PlanError([problem])
    return input("Type yes to go on: ").strip().lower() == "yes"


def write_out(text: str) -> None:
    """Write a line to stdout."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _parameter(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        message = f"{text} is no NAME=VALUE"
        raise argparse.ArgumentTypeError(message)
    return name, value


def _dollars(text: str) -> float:
    usd = float(text)
    if not 0 < usd < float("inf"):
        message = f"{text} is no sum above 0"
        raise argparse.ArgumentTypeError(message)
    return usd


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make rehearse", description=__doc__)
    parser.add_argument("--stack", default="stepbench-rehearsal", metavar="NAME", help="of which nothing is there")
    parser.add_argument("--budget", type=_dollars, default=5.0, metavar="USD", help="upper bound, in dollars")
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="DIR", help="results go below it")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--emulator", default="", metavar="NAME", help="what plays AWS at AWS_ENDPOINT_URL")
    parser.add_argument(
        "--parameter",
        type=_parameter,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="of the template, such as the endpoint of a server of your own; may be given again",
    )
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--costs", type=Path, metavar="FOLDER", help="compare a rehearsal with its bill")
    other.add_argument("--delete", type=Path, metavar="FOLDER", help="delete what a killed rehearsal has left")
    other.add_argument("--assumptions", action="store_true", help="print the list of docs/deploy.md")
    return parser


if __name__ == "__main__":
    sys.exit(main())
