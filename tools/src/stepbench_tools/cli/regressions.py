"""The command `regressions`: what changed over the runs of each plan, and whether that stops a pipeline."""

from __future__ import annotations

import argparse

from stepbench_tools.cli.command import FAILED, NOT_DONE, OK, Command, argument, out, per_cent
from stepbench_tools.cli.streams import messages, write, write_errors


def regressions(options: argparse.Namespace) -> int:
    """Follow each plan's runs, and fail where one of them stands worse than its baseline."""
    import json

    from stepbench.contracts.regressions import DetectorSettings
    from stepbench.errors import PlanError, Problem
    from stepbench.report import regressions as report
    from stepbench_tools.local.regressions import acknowledge, regressions_below, unread_last

    if (options.acknowledge is None) != (options.why is None):
        given = "--acknowledge" if options.why is None else "--why"
        remedy = "Give both: --acknowledge RUN --why TEXT."
        raise PlanError([Problem(path=given, value="", message="is given without the other", remedy=remedy)])
    if options.acknowledge is not None:
        accepted = acknowledge(options.acknowledge, options.why, options.out, messages(options))
        messages(options)(f"the level that begins with {accepted} is accepted")
    settings = DetectorSettings(
        min_effect=options.min_effect / 100,
        baseline=options.baseline,
        false_alarms_per_100_runs=options.false_alarms,
    )
    found = regressions_below(options.out, settings, messages(options), options.plan)
    match options.format:
        case "json":
            write(json.dumps([each.model_dump(mode="json") for _, each in found], ensure_ascii=False, indent=2))
        case "junit":
            write(report.format_junit([each for _, each in found]))
        case "html":
            write("\n".join(str(report.render_trends(series, each)) for series, each in found))
        case _:
            write("\n\n".join(report.format_text(each) for _, each in found))
    if not all(each.passed for _, each in found):
        return FAILED
    unread = unread_last(options.out, options.plan)
    write_errors(*(f"{folder} may be the last run, and cannot be read: nothing is decided" for folder in unread))
    return NOT_DONE if unread else OK


def _baseline(text: str) -> dict[str, object]:
    """Read `median`, `median:50`, `green`, `green:50` or a run's id."""
    if not 1 <= len(text) <= 200:  # noqa: PLR2004 -- as the contract has it
        message = f"with {len(text)} characters it names no run"
        raise argparse.ArgumentTypeError(message)
    word, _, number = text.partition(":")
    kinds = {"median": "rolling_median", "green": "last_green"}
    if word in kinds:
        runs = int(number) if number else 100
        if not 10 <= runs <= 400:  # noqa: PLR2004 -- as the contract has it
            message = f"{runs} is not between 10 and 400 runs"
            raise argparse.ArgumentTypeError(message)
        return {"kind": kinds[word], "runs": runs}
    return {"kind": "named_run", "run_id": text}


def _why(text: str) -> str:
    if not 1 <= len(text) <= 500:  # noqa: PLR2004 -- as the contract has it
        message = f"has {len(text)} characters and not 1 to 500"
        raise argparse.ArgumentTypeError(message)
    return text


def _effect(text: str) -> float:
    number = per_cent(text)
    if not 1 <= number <= 100:  # noqa: PLR2004 -- as the contract has it
        message = f"{text} is not between 1 and 100"
        raise argparse.ArgumentTypeError(message)
    return number


def _rate(text: str) -> float:
    number = float(text)
    if not 0.001 <= number <= 5:  # noqa: PLR2004 -- as the contract has it
        message = f"{text} is not between 0.001 and 5"
        raise argparse.ArgumentTypeError(message)
    return number


COMMANDS = (
    Command(
        "regressions",
        regressions,
        "follow the runs of each plan, and fail (exit code 1) where one stands worse than its baseline",
        (
            argument("plan", nargs="?", metavar="NAME", help="only the runs of the plan of this name"),
            argument(
                "--baseline",
                type=_baseline,
                default=_baseline("median"),
                metavar="median[:N]|green[:N]|RUN",
                help="the level of the last N runs, of the last N that missed no threshold, or of the runs that "
                "began with RUN (default: median:100)",
            ),
            argument(
                "--min-effect", type=_effect, default=5.0, metavar="PERCENT", help="less is no change (default: 5)"
            ),
            argument(
                "--false-alarms",
                type=_rate,
                default=0.1,
                metavar="N",
                help="how many are allowed in 100 runs, all series of a plan together (default: 0.1)",
            ),
            argument("--acknowledge", metavar="RUN", help="accept the level that begins with this run; needs --why"),
            argument("--why", type=_why, metavar="TEXT", help="why it is accepted; kept beside the runs"),
            argument(
                "--format",
                choices=("text", "json", "junit", "html"),
                default="text",
                help="junit for a pipeline, html for a page's section (default: text)",
            ),
            out("where runs are"),
        ),
    ),
)
