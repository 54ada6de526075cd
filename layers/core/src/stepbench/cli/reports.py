"""Commands about finished runs: `report`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from stepbench.cli.command import OK, Command, argument, out
from stepbench.cli.inputs import clone_paths
from stepbench.cli.streams import write, write_message
from stepbench.errors import PlanError

if TYPE_CHECKING:
    from stepbench.contracts.result import RunSummary

_FORMATS = (
    "html: the page, written to the run's folder (the default); md: Markdown on stdout, for a pull request; "
    "csv: on stdout, a row for each window, measure and statistic; junit: on stdout, each trial and threshold as a test"
)


def report(options: argparse.Namespace) -> int:
    """Render a finished run's report again, fetched from a kept environment if need be."""
    from stepbench.loading import load_run
    from stepbench.local.results import find_run, headline, remedies, rerender
    from stepbench.local.session import fetch_kept
    from stepbench.local.streams import message_console

    try:
        folder = find_run(options.run, options.out)
    except PlanError:
        kept = fetch_kept(clone_paths(), options.run, options.out)
        if kept is None:
            raise
        folder = kept
    if options.format != "html":
        write(_render(load_run(folder).summary, options.format).rstrip())
        return OK
    summary, page = rerender(folder)
    console = message_console()
    console.print(headline(summary, console.width))
    for remedy in remedies(summary):
        write_message(f"  {remedy}")
    write(str(page))
    return OK


def _render(summary: RunSummary, format_: str) -> str:
    from stepbench.report.junit import to_xml
    from stepbench.report.markdown import render_markdown
    from stepbench.report.suite import run_suite
    from stepbench.report.tables import render_csv

    match format_:
        case "md":
            return render_markdown(summary)
        case "junit":
            return to_xml([run_suite(summary)])
        case _:
            return render_csv(summary)


COMMANDS = (
    Command(
        "report",
        report,
        "render a finished run's report again, fetched from a kept environment if need be, and say where it is",
        (
            argument("run", metavar="RUN", help="a run's id, or its folder"),
            argument("--format", choices=("html", "md", "csv", "junit"), default="html", help=_FORMATS),
            out("where runs are"),
        ),
    ),
)
