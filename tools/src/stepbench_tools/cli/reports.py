"""Commands about finished runs: `report` and `compare`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from stepbench.errors import PlanError, Problem
from stepbench_tools.cli.browser import OPEN, open_page
from stepbench_tools.cli.command import FAILED, OK, Command, argument, out, per_cent
from stepbench_tools.cli.datasets import DATASET, report_dataset, require_one_subject
from stepbench_tools.cli.inputs import clone_paths
from stepbench_tools.cli.streams import messages, write

if TYPE_CHECKING:
    from stepbench.contracts.result import RunSummary

_FORMATS = (
    "html: the page, written to the run's folder (the default); md: Markdown on stdout, for a pull request; "
    "csv: on stdout, a row for each window, measure and statistic; junit: on stdout, each trial and threshold as a "
    "test; "
    "json: of a dataset, on stdout, all that was found"
)


def report(options: argparse.Namespace) -> int:
    """Render a finished run's report again, fetched from a kept environment if need be; or that of a dataset."""
    require_one_subject(options)
    if options.dataset is not None:
        return report_dataset(options)
    if options.format == "json":
        remedy = "A run's numbers are in its summary.json; json is for --dataset."
        raise PlanError([Problem("--format", "json", "is no form of a run's report", remedy)])
    if options.strict and options.format != "junit":
        remedy = "Add --format junit, or ask for it with stepbench run."
        raise PlanError([Problem("--strict", "given", "is for the tests of a build server", remedy)])
    from stepbench.loading import load_run
    from stepbench_tools.local.headline import headline
    from stepbench_tools.local.results import find_run, rerender, sentences
    from stepbench_tools.local.session import fetch_kept
    from stepbench_tools.local.streams import message_console

    try:
        folder = find_run(options.run, options.out, messages(options))
    except PlanError:
        kept = fetch_kept(clone_paths(), options.run, options.out)
        if kept is None:
            raise
        folder = kept
    if options.format != "html":
        write(_render(load_run(folder).summary, options.format, strict=options.strict).rstrip())
        return OK
    summary, page = rerender(folder)
    console = message_console(quiet=options.quiet)
    console.print(headline(summary, console.width))
    for sentence in sentences(summary):
        messages(options)(f"  {sentence}".rstrip())
    write(str(page))
    if options.open:
        open_page(page)
    return OK


def _render(summary: RunSummary, format_: str, *, strict: bool) -> str:
    from stepbench.experiments.report.tables import render_csv
    from stepbench.report.junit import to_xml
    from stepbench_tools.printing.markdown import render_markdown
    from stepbench_tools.printing.suite import run_suite

    match format_:
        case "md":
            return render_markdown(summary)
        case "junit":
            return to_xml([run_suite(summary, strict=strict)])
        case _:
            return render_csv(summary)


def compare(options: argparse.Namespace) -> int:
    """Set runs against others, and fail where one is shown to be worse."""
    from stepbench_tools.local import comparing
    from stepbench_tools.printing import run_comparison

    tolerance, studied = options.tolerance / 100, options.studied
    found = comparing.compare(options.a, options.b, options.out, tolerance, messages(options), studied)
    formats = {
        "text": run_comparison.format_text,
        "md": run_comparison.format_markdown,
        "json": lambda comparison: comparison.model_dump_json(indent=2),
        "junit": run_comparison.format_junit,
    }
    write(formats[options.format](found))
    return OK if found.passed else FAILED


_RUNS = "a run's id, folder or summary.json, or a folder of several, which are repeats; #TRIAL picks one of its trials"
COMMANDS = (
    Command(
        "report",
        report,
        "render a finished run's report again, fetched from a kept environment if need be, or the report of a dataset, "
        "and say where it is",
        (
            argument("run", nargs="?", metavar="RUN", help="a run's id, its folder, or latest"),
            *DATASET,
            argument("--format", choices=("html", "md", "csv", "junit", "json"), default="html", help=_FORMATS),
            argument("--strict", action="store_true", help="junit: let a threshold that is not decided fail its test"),
            OPEN,
            out("where runs and datasets are"),
        ),
    ),
    Command(
        "compare",
        compare,
        "compare run B with run A, and fail (exit code 1) where B is shown to be worse, newly falls behind its load, "
        "or nothing of it may be compared",
        (
            argument("a", metavar="A", help=f"what is compared with: {_RUNS}"),
            argument("b", metavar="B", help="what is judged, named likewise"),
            argument(
                "--tolerance",
                type=per_cent,
                default=5.0,
                metavar="PERCENT",
                help="a change for the worse of up to so many per cent is no regression (default: 5)",
            ),
            argument(
                "--studied",
                default="",
                metavar="WHAT",
                help="the one thing that may differ: server (another product or version), or a setting's path, as "
                "target.batch_size; all else has to be the same (default: nothing may differ)",
            ),
            argument(
                "--format",
                choices=("text", "md", "json", "junit"),
                default="text",
                help="md for a pull request, junit for a pipeline (default: text)",
            ),
            out("where runs are"),
        ),
    ),
)
