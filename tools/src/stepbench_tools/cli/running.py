"""Commands that measure: `run`, and `calibrate`, which measures Stepbench itself."""

from __future__ import annotations

import argparse

from stepbench_tools.cli.command import (
    CHANGES,
    ETCD_MEMBERS,
    EXIT_CODES,
    FAILED,
    OK,
    OPEN,
    PLANS,
    THRESHOLD_MISSED,
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
from stepbench_tools.cli.inputs import clone_paths, read_plan, read_plans, requested_changes

MAX_CALIBRATION_RATE = 5_000
"""One writer offers less on two cores; at a higher rate the writer itself would be measured."""

CALIBRATION_TRANSFERS, LEAST_CALIBRATION_TRANSFERS = 672, 504
"""One an hour of four simulated weeks, and of the three that it takes to judge weekdays."""


def run(options: argparse.Namespace) -> int:
    """Run plans, one after the other."""
    plans = read_plans(options.plans, requested_changes(options))
    from stepbench_tools.local.commands import Ending, Options, run_here, run_there
    from stepbench_tools.local.machine_limits import expected_bytes, require_writable
    from stepbench_tools.local.packing.package import refuse_local_files
    from stepbench_tools.local.streams import data_console, interruptible, message_console

    require_writable(options.out, expected_bytes(plans))
    how = Options(
        out=options.out,
        json=options.json,
        strict=options.strict,
        floors=not options.no_floors,
        quiet=options.quiet,
        verbose=options.verbose,
        open_page=open_page if options.open else None,
        etcd_members=options.etcd_members,
    )
    console = message_console(quiet=options.quiet)
    with interruptible():
        if options.stack:
            for plan in plans:
                refuse_local_files(plan)
            ending = run_there(options.stack, plans, how, console, data_console())
        else:
            ending = run_here(clone_paths(), plans, how, console, data_console())
    return {Ending.WHOLE: OK, Ending.THRESHOLD_MISSED: THRESHOLD_MISSED, Ending.NOT_WHOLE: FAILED}[ending]


def calibrate(options: argparse.Namespace) -> int:
    """Measure Stepbench against servers of ours, whose delays and faults are known."""
    from stepbench_tools.local import calibrating
    from stepbench_tools.local.machine_limits import expected_bytes, require_writable
    from stepbench_tools.local.streams import interruptible, message_console

    console = message_console(quiet=options.quiet)
    with interruptible():
        if options.transfers:
            from stepbench_tools.local.calibrating_transfers import calibrate_transfers_here

            require_writable(options.out)
            report = calibrate_transfers_here(options.transfers, options.out, messages(options))
        elif options.runs:
            report = calibrating.calibrate_runs(options.runs, options.rate, messages(options))
        else:
            plan = calibrating.with_rate(read_plan(calibrating.PRESET), options.rate)
            require_writable(options.out, expected_bytes([plan]))
            report = calibrating.calibrate_plan(clone_paths(), plan, options.out, console)
    calibrating.print_report(report, console)
    if options.json:
        write(calibrating.to_json(report))
    return OK if report.passed else FAILED


COMMANDS = (
    Command(
        "run",
        run,
        "run plans, here or on a deployed stack, and fetch their reports",
        (
            PLANS,
            *CHANGES,
            OneOf(
                (
                    argument("--stack", metavar="NAME", help="on this CloudFormation stack, with your AWS credentials"),
                    argument("--local", action="store_true", help="on this machine (the default)"),
                )
            ),
            out("results go there"),
            argument("--json", action="store_true", help="print summary.json on stdout, one line a run"),
            argument("--strict", action="store_true", help="take a threshold that is not decided for a missed one"),
            OPEN,
            argument("--no-floors", action="store_true", help="locally: do not measure bare triggers first"),
            ETCD_MEMBERS,
        ),
        epilog=f"Exit codes: {EXIT_CODES}. The worst of several plans counts, and 1 is worse than 3.",
    ),
    Command(
        "calibrate",
        calibrate,
        "measure Stepbench itself, against servers whose delays and faults are known",
        (
            argument("--json", action="store_true", help="print the outcome on stdout, in one line"),
            OneOf(
                (
                    argument(
                        "--runs",
                        type=at_least(1),
                        metavar="N",
                        help="instead of the plan `calibrate`: so many short seeded runs without an emulator, for "
                        "their counts",
                    ),
                    argument(
                        "--transfers",
                        type=at_least(LEAST_CALIBRATION_TRANSFERS),
                        nargs="?",
                        const=CALIBRATION_TRANSFERS,
                        metavar="N",
                        help="instead of the plan `calibrate`: so many transfers of files without an emulator, for "
                        f"their times and for what is found in them (default: {CALIBRATION_TRANSFERS})",
                    ),
                )
            ),
            argument(
                "--rate",
                type=between(1, MAX_CALIBRATION_RATE),
                metavar="R",
                default=500,
                help="events a second (default: 500)",
            ),
            out("results of the plan, or records of transfers, go there"),
        ),
    ),
)
