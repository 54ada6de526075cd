"""Commands about finished runs: `report`."""

from __future__ import annotations

import argparse

from stepbench.cli.command import OK, Command, argument, out
from stepbench.cli.inputs import clone_paths
from stepbench.cli.streams import write, write_message
from stepbench.errors import PlanError


def report(options: argparse.Namespace) -> int:
    """Render a finished run's report again, fetched from a kept environment if need be."""
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
    summary, page = rerender(folder)
    console = message_console()
    console.print(headline(summary, console.width))
    for remedy in remedies(summary):
        write_message(f"  {remedy}")
    write(str(page))
    return OK


COMMANDS = (
    Command(
        "report",
        report,
        "render a finished run's report again, fetched from a kept environment if need be, and say where it is",
        (argument("run", metavar="RUN", help="a run's id, or its folder"), out("where runs are")),
    ),
)
