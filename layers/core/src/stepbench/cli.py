"""
The command line. Data goes to stdout, words for people to stderr.

Exit codes: 0 everything went through, 1 a run failed, was stopped, or left a trial out, 2 bad input.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError, NoRegionError

import stepbench
from stepbench.errors import PlanError, StepbenchError
from stepbench.planning import check_budget, expanded, find_plan, list_plans, parse_plan, plan_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from stepbench.contracts.plan import Plan
    from stepbench.local.places import Places

OK, FAILED, BAD_INPUT = 0, 1, 2
STDIN = "-"
MAX_CALIBRATION_RATE = 5_000
"""More than one writer of ours offers on two cores; beyond it the writer is what would be measured."""
_LOG_COLUMNS = 200
"""Where stderr is a file, nothing needs to be left out for want of width."""
Command = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code. What goes wrong is told in one line, not in a traceback."""
    options = _parser().parse_args(arguments)
    command: Command = options.command
    try:
        return command(options)
    except PlanError as error:
        _complain(*(str(problem) for problem in error.problems))
        return BAD_INPUT
    except StepbenchError as error:
        _complain(str(error))
    except KeyboardInterrupt:
        _complain("interrupted")
    except NoRegionError:
        _complain("AWS: no region is set; set AWS_DEFAULT_REGION, or a region in your profile")
    except (BotoCoreError, ClientError) as error:
        _complain(f"AWS: {error}")
    except ModuleNotFoundError as error:
        _complain(f"{error}; install stepbench[local,report,stores]")
    except BrokenPipeError:
        # `stepbench schema | head -1`: nobody reads on. Python would complain once more when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, subprocess.SubprocessError) as error:
        _complain(str(error))
    return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="stepbench",
        description="Latency of the data stores behind serverless applications, measured with an error bar.",
        epilog="Exit codes: 0 ok; 1 a run failed, was stopped, or left a trial out; 2 bad input.",
    )
    parser.add_argument("--version", action="version", version=f"stepbench {stepbench.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_run(commands)
    validate = _add(commands, "validate", _validate, "check a plan, and say what it would do")
    validate.add_argument("plan", metavar="PLAN", help="a file, a preset's name, or - for stdin")
    _add(commands, "plans", _plans, "list the presets")
    _add(commands, "stores", _stores, "list the stores, and what stands for each on this machine")
    report = _add(commands, "report", _report, "render a finished run's report again, and say where it is")
    report.add_argument("run", metavar="RUN", help="a run's id, or its folder")
    report.add_argument("--out", type=Path, default=Path("out"), metavar="DIR", help="where runs are (default: out)")
    _add_calibrate(commands)
    _add(commands, "schema", _schema, "print the JSON Schema of a plan")
    _add(commands, "up", _up, "start emulator and stores, deploy, and leave everything running")
    _add(commands, "down", _down, "end what `up` has started")
    return parser


def _add(commands: Any, name: str, command: Command, text: str) -> argparse.ArgumentParser:  # noqa: ANN401 -- private type
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    parser.set_defaults(command=command)
    return parser


def _add_run(commands: Any) -> None:  # noqa: ANN401 -- argparse's own type is private
    run = _add(commands, "run", _run, "run plans, here or on a deployed stack, and fetch their reports")
    which = "a file, a preset's name (see `stepbench plans`), or - for stdin"
    run.add_argument("plans", metavar="PLAN", nargs="+", help=which)
    where = run.add_mutually_exclusive_group()
    where.add_argument("--stack", metavar="NAME", help="on this CloudFormation stack, with your AWS credentials")
    where.add_argument("--local", action="store_true", help="on this machine (the default)")
    run.add_argument("--out", type=Path, default=Path("out"), metavar="DIR", help="results go there (default: out)")
    run.add_argument("--json", action="store_true", help="print summary.json on stdout, one line a run")
    run.add_argument("--no-floors", action="store_true", help="locally: do not measure the machine's floors first")


def _add_calibrate(commands: Any) -> None:  # noqa: ANN401 -- argparse's own type is private
    text = "measure Stepbench itself, against a store whose delays and faults are known"
    calibrate = _add(commands, "calibrate", _calibrate, text)
    calibrate.add_argument("--json", action="store_true", help="print the outcome on stdout, in one line")
    runs = "instead of the plan `calibrate`: so many short seeded runs without an emulator, for their counts"
    calibrate.add_argument("--runs", type=_at_least_one, metavar="N", help=runs)
    calibrate.add_argument("--rate", type=_rate, metavar="R", default=500, help="events a second (default: 500)")
    where = "results of the plan go there (default: out)"
    calibrate.add_argument("--out", type=Path, default=Path("out"), metavar="DIR", help=where)


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        message = f"{number} is below 1"
        raise argparse.ArgumentTypeError(message)
    return number


def _rate(text: str) -> float:
    rate_per_s = float(text)
    if not 1 <= rate_per_s <= MAX_CALIBRATION_RATE:
        message = f"{text} is not from 1 to {MAX_CALIBRATION_RATE:,}"
        raise argparse.ArgumentTypeError(message)
    return rate_per_s


def _run(options: argparse.Namespace) -> int:
    if options.plans.count(STDIN) > 1:
        _complain("PLAN: stdin can be read once only, and - stands there more often")
        return BAD_INPUT
    plans = [_read_plan(name) for name in options.plans]
    # Optional libraries, and half a second of imports that no other command needs.
    from stepbench.local.commands import Options, run_here, run_there  # noqa: PLC0415
    from stepbench.local.interrupts import interruptible  # noqa: PLC0415
    from stepbench.local.results import require_writable  # noqa: PLC0415

    require_writable(options.out)
    how = Options(out=options.out, json=options.json, floors=not options.no_floors)
    with interruptible():
        if options.stack:
            whole = run_there(options.stack, plans, how, _people(), _data())
        else:
            whole = run_here(_places(), plans, how, _people(), _data())
    return OK if whole else FAILED


def _validate(options: argparse.Namespace) -> int:
    from stepbench.report.digits import count, dollars, duration  # noqa: PLC0415 -- see _run

    plan = _read_plan(options.plan)
    specs = expanded(plan)
    events = sum(spec.plan.events for spec in specs)
    length_s = sum(spec.plan.length_s for spec in specs)
    trials = "1 trial" if len(specs) == 1 else f"{len(specs)} trials"
    most = "up to " if any(phase.closed for spec in specs for phase in spec.plan.phases) else ""
    cost = f"estimate {dollars(check_budget(plan))} on AWS, budget {dollars(plan.budget_usd)}"
    _write(f"{plan.name}: {trials}, {most}{count(events)} events in {duration(length_s)} of load; {cost}")
    if len(specs) > len(plan.trials):
        for number, spec in enumerate(specs, 1):
            values = ", ".join(f"{path}={json.dumps(value)}" for path, value in spec.point.items())
            _write(f"{number:>4}  {spec.name}{f'  {values}' if values else ''}")
    return OK


def _plans(_options: argparse.Namespace) -> int:
    names = list_plans()
    width = max((len(name) for name in names), default=0)
    for name in names:
        plan = parse_plan(find_plan(name))
        _write(f"{name:<{width}}  {plan.description or ', '.join(trial.target.store for trial in plan.trials)}")
    return OK


def _stores(_options: argparse.Namespace) -> int:
    from stepbench.local.store_list import store_list  # noqa: PLC0415 -- see _run

    for row in store_list():
        _write(f"{row.store:<11} {row.trigger:<45} {row.here}")
    return OK


def _report(options: argparse.Namespace) -> int:
    from stepbench.local.reports import find_run, rerender  # noqa: PLC0415 -- see _run
    from stepbench.local.results import headline, remedies  # noqa: PLC0415

    folder = find_run(options.run, options.out)
    summary, page = rerender(folder)
    people = _people()
    people.print(headline(summary, people.width))
    for remedy in remedies(summary):
        _say(f"  {remedy}")
    _write(str(page))
    return OK


def _calibrate(options: argparse.Namespace) -> int:
    from stepbench.local import calibrating  # noqa: PLC0415 -- see _run
    from stepbench.local.interrupts import interruptible  # noqa: PLC0415
    from stepbench.local.results import require_writable  # noqa: PLC0415

    people = _people()
    with interruptible():
        if options.runs:
            report = calibrating.calibrate_runs(options.runs, options.rate, _say)
        else:
            require_writable(options.out)
            plan = calibrating.at_rate(_read_plan(calibrating.PRESET), options.rate)
            report = calibrating.calibrate_plan(_places(), plan, options.out, people)
    calibrating.show(report, people)
    if options.json:
        _write(calibrating.to_json(report))
    return OK if report.passed else FAILED


def _schema(_options: argparse.Namespace) -> int:
    _write(json.dumps(plan_schema(), indent=2))
    return OK


def _up(_options: argparse.Namespace) -> int:
    from stepbench.local.interrupts import interruptible  # noqa: PLC0415 -- see _run
    from stepbench.local.session import keep_up  # noqa: PLC0415

    with interruptible():
        state = keep_up(_places(), _say)
    for server in state.servers:
        _write(f"{server.name:<16} {server.endpoint:<34} {server.version}")
    for name, reason in state.skipped.items():
        _write(f"{name:<16} skipped: {reason}")
    return OK


def _down(_options: argparse.Namespace) -> int:
    from stepbench.local.interrupts import shielded  # noqa: PLC0415 -- see _run
    from stepbench.local.session import bring_down  # noqa: PLC0415

    with shielded():
        ended = bring_down(_places())
    _say(f"ended {_counted(ended)}" if ended else "nothing was running")
    return OK


def _counted(processes: Sequence[str]) -> str:
    """`etcd (pid 7)`, `python (pid 8)`, ... by program, with how many of it there were."""
    programs = Counter(process.partition(" (")[0] for process in processes)
    return ", ".join(f"{number} {program}" if number > 1 else program for program, number in sorted(programs.items()))


def _read_plan(name: str) -> Plan:
    """A valid plan within its budget; refused before anything is started."""
    plan = parse_plan(sys.stdin.buffer.read() if name == STDIN else find_plan(name))
    check_budget(plan)
    return plan


def _places() -> Places:
    from stepbench.local.places import find_places  # noqa: PLC0415 -- see _run

    return find_places(os.environ, Path.cwd())


def _people() -> Console:
    from rich.console import Console  # noqa: PLC0415 -- see _run

    people = Console(stderr=True, emoji=False)
    return people if people.is_terminal else Console(stderr=True, width=_LOG_COLUMNS, emoji=False)


def _data() -> Console:
    """For data, which goes out as it is: without this, `:key:` in a path would come out as a picture of a key."""
    from rich.console import Console  # noqa: PLC0415 -- see _run

    return Console(emoji=False, no_color=True)


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _complain(*texts: str) -> None:
    for text in texts:
        _say(f"stepbench: {text}")
