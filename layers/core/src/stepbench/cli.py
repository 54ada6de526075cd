"""The command line. Data goes to stdout, messages for people to stderr; `--help` tells the exit codes."""

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
from stepbench.local.streams import data_console, dropping_messages, flush_data, message_console
from stepbench.planning import (
    check_budget,
    expanded,
    find_plan,
    list_plans,
    parse_plan,
    plan_schema,
    read_text,
    require_servers,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.plan import Plan
    from stepbench.local.paths import Paths

OK, FAILED, BAD_INPUT, THRESHOLD_MISSED = 0, 1, 2, 3
_EXIT_CODES = (
    "0 ok; 1 a run failed, was stopped, or left a trial out; 2 bad input; 3 a run missed a threshold of its plan"
)
STDIN = "-"
MAX_CALIBRATION_RATE = 5_000
"""More than one writer of ours offers on two cores; beyond it the writer is what would be measured."""
Command = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. A failure is one line, not a traceback."""
    with dropping_messages():
        options = _parser().parse_args(arguments)
        code = _run_command(options)
        error = flush_data()
        if error is None:
            return code
        if code == OK and not isinstance(error, BrokenPipeError):  # `… schema | head -1`: nobody reads on, and knows it
            _write_errors(f"stdout: {error}")
        return code or FAILED


def _run_command(options: argparse.Namespace) -> int:
    command: Command = options.command
    try:
        return command(options)
    except PlanError as error:
        _write_errors(*(str(problem) for problem in error.problems))
        return BAD_INPUT
    except StepbenchError as error:
        _write_errors(str(error))
    except KeyboardInterrupt:
        _write_errors("interrupted")
    except NoRegionError:
        _write_errors("AWS: no region is set; set AWS_DEFAULT_REGION, or a region in your profile")
    except (BotoCoreError, ClientError) as error:
        _write_errors(f"AWS: {error}")
    except ModuleNotFoundError as error:
        _write_errors(f"{error}; install stepbench[analysis,local,report,stores], as `make setup` does")
    except BrokenPipeError:
        pass  # see `flush_data`
    except (OSError, subprocess.SubprocessError) as error:
        _write_errors(str(error))
    return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="stepbench",
        description="Latency of the data stores behind serverless applications, measured with an error bar.",
        epilog=f"Exit codes: {_EXIT_CODES}.",
    )
    parser.add_argument("--version", action="version", version=f"stepbench {stepbench.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_run(commands)
    validate = _add(commands, "validate", _validate, "check a plan, and say what it would do")
    validate.add_argument("plan", metavar="PLAN", help="a file, a preset's name, or - for stdin")
    remote = "for a deployed stack, which may have servers that this machine has not"
    validate.add_argument("--stack", action="store_true", help=remote)
    _add(commands, "plans", _plans, "list the presets")
    _add(commands, "stores", _stores, "list the stores, and what stands for each on this machine")
    report = _add(
        commands,
        "report",
        _report,
        "render a finished run's report again, fetched from a kept environment if need be, and say where it is",
    )
    report.add_argument("run", metavar="RUN", help="a run's id, or its folder")
    report.add_argument("--out", type=_folder, default=Path("out"), metavar="DIR", help="where runs are (default: out)")
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
    run.epilog = f"Exit codes: {_EXIT_CODES}. The worst of several plans counts, and 1 is worse than 3."
    which = "a file, a preset's name (see `stepbench plans`), or - for stdin"
    run.add_argument("plans", metavar="PLAN", nargs="+", help=which)
    where = run.add_mutually_exclusive_group()
    where.add_argument("--stack", metavar="NAME", help="on this CloudFormation stack, with your AWS credentials")
    where.add_argument("--local", action="store_true", help="on this machine (the default)")
    run.add_argument("--out", type=_folder, default=Path("out"), metavar="DIR", help="results go there (default: out)")
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
    calibrate.add_argument("--out", type=_folder, default=Path("out"), metavar="DIR", help=where)


def _folder(text: str) -> Path:
    if not text:
        message = "names no folder"
        raise argparse.ArgumentTypeError(message)
    return Path(text)


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
        _write_errors("PLAN: stdin can be read once only, and - stands there more often")
        return BAD_INPUT
    plans = [_read_plan(name, named=len(options.plans) > 1) for name in options.plans]
    # Optional libraries, and half a second of imports that no other command needs.
    from stepbench.local.commands import Ending, Options, run_here, run_there  # noqa: PLC0415
    from stepbench.local.fetching import expected_bytes, require_writable  # noqa: PLC0415
    from stepbench.local.processes import interruptible  # noqa: PLC0415

    require_writable(options.out, expected_bytes(plans))
    how = Options(out=options.out, json=options.json, floors=not options.no_floors)
    with interruptible():
        if options.stack:
            ending = run_there(options.stack, plans, how, message_console(), data_console())
        else:
            ending = run_here(_find_paths(), plans, how, message_console(), data_console())
    return {Ending.WHOLE: OK, Ending.THRESHOLD_MISSED: THRESHOLD_MISSED, Ending.NOT_WHOLE: FAILED}[ending]


def _validate(options: argparse.Namespace) -> int:
    from stepbench.digits import count, counted, dollars, duration  # noqa: PLC0415
    from stepbench.local.session import is_started_here  # noqa: PLC0415 -- see _run

    plan = _read_plan(options.plan)
    if not options.stack:
        require_servers(plan, is_started_here, "this machine", "validate for a deployed stack with --stack")
    specs = expanded(plan)
    events = sum(spec.plan.events for spec in specs)
    length_s = sum(spec.plan.length_s for spec in specs)
    trials = counted(len(specs), "trial")
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
    from stepbench.local.session import store_list  # noqa: PLC0415 -- see _run

    for row in store_list():
        _write(f"{row.store:<11} {row.trigger:<45} {row.here}")
    return OK


def _report(options: argparse.Namespace) -> int:
    from stepbench.local.results import find_run, headline, remedies, rerender  # noqa: PLC0415 -- see _run
    from stepbench.local.session import fetch_kept  # noqa: PLC0415

    try:
        folder = find_run(options.run, options.out)
    except PlanError:
        kept = fetch_kept(_find_paths(), options.run, options.out)
        if kept is None:
            raise
        folder = kept
    summary, page = rerender(folder)
    console = message_console()
    console.print(headline(summary, console.width))
    for remedy in remedies(summary):
        _write_message(f"  {remedy}")
    _write(str(page))
    return OK


def _calibrate(options: argparse.Namespace) -> int:
    from stepbench.local import calibrating  # noqa: PLC0415 -- see _run
    from stepbench.local.fetching import expected_bytes, require_writable  # noqa: PLC0415
    from stepbench.local.processes import interruptible  # noqa: PLC0415

    console = message_console()
    with interruptible():
        if options.runs:
            report = calibrating.calibrate_runs(options.runs, options.rate, _write_message)
        else:
            plan = calibrating.with_rate(_read_plan(calibrating.PRESET), options.rate)
            require_writable(options.out, expected_bytes([plan]))
            report = calibrating.calibrate_plan(_find_paths(), plan, options.out, console)
    calibrating.print_report(report, console)
    if options.json:
        _write(calibrating.to_json(report))
    return OK if report.passed else FAILED


def _schema(_options: argparse.Namespace) -> int:
    _write(json.dumps(plan_schema(), indent=2))
    return OK


def _up(_options: argparse.Namespace) -> int:
    from stepbench.local.processes import interruptible  # noqa: PLC0415 -- see _run
    from stepbench.local.session import start_environment  # noqa: PLC0415

    with interruptible():
        state = start_environment(_find_paths(), _write_message)
    for server in state.servers:
        _write(f"{server.name:<16} {server.endpoint:<34} {server.version}")
    for name, reason in state.skipped.items():
        _write(f"{name:<16} skipped: {reason}")
    return OK


def _down(_options: argparse.Namespace) -> int:
    from stepbench.local.processes import shielded  # noqa: PLC0415 -- see _run
    from stepbench.local.session import stop_environment  # noqa: PLC0415

    with shielded():
        ended = stop_environment(_find_paths())
    _write_message(f"ended {_counted(ended)}" if ended else "nothing was running")
    return OK


def _counted(processes: Sequence[str]) -> str:
    """Count `etcd (pid 7)`, `python (pid 8)`, ... by program."""
    programs = Counter(process.partition(" (")[0] for process in processes)
    return ", ".join(f"{number} {program}" if number > 1 else program for program, number in sorted(programs.items()))


def _read_plan(name: str, *, named: bool = False) -> Plan:
    """Read a valid plan within its budget; any other is refused before anything is started, by its name of several."""
    try:
        plan = parse_plan(read_text(sys.stdin.buffer) if name == STDIN else find_plan(name))
        check_budget(plan)
    except PlanError as error:
        prefix = f"{name}: " if named else ""
        raise PlanError([each._replace(path=f"{prefix}{each.path}") for each in error.problems]) from error
    return plan


def _find_paths() -> Paths:
    from stepbench.local.paths import find_paths  # noqa: PLC0415 -- see _run

    return find_paths(os.environ, Path.cwd())


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _write_message(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _write_errors(*texts: str) -> None:
    for text in texts:
        _write_message(f"stepbench: {text}")


if __name__ == "__main__":
    sys.exit(main())
