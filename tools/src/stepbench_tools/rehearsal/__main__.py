"""`make rehearse`: `python -m stepbench_tools.rehearsal`; see docs/rehearse.md."""

from __future__ import annotations

import argparse
import os
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

import stepbench
from stepbench.compiled import processor
from stepbench.errors import PlanError, Problem, StepbenchError
from stepbench.loading import read_model
from stepbench_tools.local.deploy import python_runtime
from stepbench_tools.local.paths import Paths, find_paths
from stepbench_tools.local.streams import message_console, shielded
from stepbench_tools.rehearsal.account import Account, delete_everything, find_account, take_inventory
from stepbench_tools.rehearsal.judges import DOCUMENT, REPORT, Rehearsal, read_assumptions
from stepbench_tools.rehearsal.rehearse import Rehearser, RunLog, budget_hours, find_plans, now

if TYPE_CHECKING:
    from collections.abc import Sequence

OK, FAILED, BAD_INPUT = 0, 1, 2
STACK_NAME = re.compile(r"[a-z][a-z0-9-]{0,23}")
CLOCK_REFERENCE = "time.aws.com:123"
NEEDED_CONCURRENCY = 100
"""Lambda keeps so many executions unreserved, and a rehearsal with a dozen writers takes some twenty."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Make a rehearsal, or delete what one that was killed has left; return the exit code."""
    options = _parser().parse_args(arguments)
    try:
        return delete_left(options.delete) if options.delete else rehearse(options)
    except PlanError as error:
        code, text = BAD_INPUT, str(error)
    except (StepbenchError, ClientError, BotoCoreError, OSError) as error:
        code, text = FAILED, str(error)
    except KeyboardInterrupt:
        code, text = FAILED, "interrupted"
    message_console().print(text, markup=False, highlight=False, soft_wrap=True)
    return code


def rehearse(options: argparse.Namespace) -> int:
    """Announce, ask, and make a rehearsal."""
    account, root = find_account(options.emulator), find_paths(os.environ, Path.cwd()).root
    parameters = default_parameters(account, root) | dict(options.parameter)
    plans = find_plans(parameters)
    hours, most_usd = budget_hours(plans, parameters, options.budget)
    _refuse_taken(account, options.stack)
    begun = Rehearsal(
        stepbench=stepbench.__version__,
        stack=options.stack,
        region=account.region,
        emulator=account.emulator,
        artefacts=account.artefacts(options.stack),
        started_at=now(),
        budget_usd=options.budget,
        bound_usd=most_usd,
    )
    where = f"{account.emulator} ({account.endpoint})" if account.emulator else f"AWS account {account.number}"
    write_out(
        f"This deploys the stack {begun.stack} to {where}, region {account.region}, runs small plans "
        f"({', '.join(plans)}), and deletes everything again.\n"
        f"It may cost ${most_usd:.2f} by list prices of us-east-1, and is ended after {hours:.1f} hours at most.\n"
        f"Resources are named {begun.stack}-…; there are none of that name now, and none may be left at the end."
    )
    if not options.yes and not _agreed():
        write_out("nothing was made")
        return FAILED
    folder = options.out.resolve() / f"rehearsal-{begun.stack}-{datetime.now(UTC):%Y%m%dT%H%M%S}"
    log = RunLog(folder, account, _assumptions(root), begun)
    log.note()
    Rehearser(account, Paths(root, folder / "sam"), message_console(), log, parameters).rehearse(plans, hours)
    return _conclude(log)


def default_parameters(account: Account, root: Path) -> dict[str, str]:
    """Return what is deployed where nothing else is given; of Python 3.11, applications have no libraries."""
    runtime = python_runtime(Paths(root, root))
    limit = account.client("lambda").get_account_settings()["AccountLimit"]
    roomy = min(limit["ConcurrentExecutions"], limit["UnreservedConcurrentExecutions"]) > NEEDED_CONCURRENCY
    return {
        "PythonRuntime": runtime,
        **({"Applications": "off"} if runtime == "python3.11" else {}),
        "ClockReference": "" if account.emulator else CLOCK_REFERENCE,
        "ClockCheck": "on" if roomy else "off",
        "Emulator": account.emulator,
        "Architecture": processor() if account.emulator else "x86_64",
    }


def delete_left(folder: Path) -> int:
    """Delete what a rehearsal that was killed has left."""
    found = read_model(folder / DOCUMENT, Rehearsal)
    account = find_account(found.emulator)
    if account.artefacts(found.stack) != found.artefacts or bool(account.emulator) != bool(found.emulator):
        place = f"{found.region} on {found.emulator}" if found.emulator else found.region
        message = f"was made in {place}, and these credentials are of another account, region or endpoint"
        raise PlanError([Problem("DELETE", f'"{folder}"', message, "Choose the same account, region and endpoint.")])
    log = RunLog(folder, account, _assumptions(find_paths(os.environ, Path.cwd()).root), found)
    with shielded():
        deletion = delete_everything(account, found.stack, write_out)
    log.note(deletion=deletion, ended=found.ended or "it was killed")
    return _conclude(log)


def _assumptions(root: Path) -> dict[str, str]:
    return read_assumptions((root / "docs/rehearse.md").read_text("utf-8"))


def _conclude(log: RunLog) -> int:
    for each in log.found.assumptions:
        write_out(f"{each.status:<10} {each.id}: {each.observed}")
    write_out(str(log.folder / REPORT))
    return OK if log.found.good else FAILED


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
        raise PlanError([Problem("YES", "nothing", "is not given, and nobody can be asked", "Give YES=1.")])
    return input("Type yes to go on: ").strip().lower() == "yes"


def write_out(text: str) -> None:
    """Write a line to stdout."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _stack(text: str) -> str:
    if not STACK_NAME.fullmatch(text):
        message = f"{text!r} are not at most 24 lower-case letters, digits and hyphens, a letter first"
        raise argparse.ArgumentTypeError(message)
    return text


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
    parser.add_argument("--stack", type=_stack, default="stepbench-rehearsal", help="of which nothing is there")
    parser.add_argument("--budget", type=_dollars, default=5.0, metavar="USD", help="upper bound, in dollars")
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="DIR", help="results go below it")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--emulator", default="", metavar="NAME", help="what plays AWS at AWS_ENDPOINT_URL")
    helped = "of the template, as EtcdNodes=on; may be given again"
    parser.add_argument("--parameter", type=_parameter, action="append", default=[], help=helped)
    parser.add_argument("--delete", type=Path, metavar="FOLDER", help="delete what a killed rehearsal has left")
    return parser


if __name__ == "__main__":
    sys.exit(main())
