"""Commands about finished runs and datasets of transfers: `report`, `compare` and `import`."""

from __future__ import annotations

import argparse
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from stepbench.errors import PlanError, Problem
from stepbench_tools.cli.command import (
    FAILED,
    OK,
    OPEN,
    PLAN,
    TOLERANCE,
    Command,
    argument,
    messages,
    open_page,
    out,
    write,
)
from stepbench_tools.cli.inputs import clone_paths

if TYPE_CHECKING:
    from stepbench.contracts.result import RunSummary
    from stepbench.contracts.transfer.plan import PublishedTransfer


def dataset_name(text: str) -> str:
    """Return a dataset's name, which is a folder's too."""
    from pydantic import TypeAdapter, ValidationError

    from stepbench.contracts.phase import Name

    try:
        return TypeAdapter(Name).validate_python(text)
    except ValidationError as error:
        message = f'"{text}" is no name: letters, digits, "_", "." and "-", at most 60, a letter or digit first'
        raise argparse.ArgumentTypeError(message) from error


def day(text: str) -> date:
    """Return a day of UTC, given as 2025-06-01."""
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        message = f'"{text}" is no day such as 2025-06-01'
        raise argparse.ArgumentTypeError(message) from error


def import_rows(options: argparse.Namespace) -> int:
    """Add a file's rows to a dataset, and say where it is."""
    from stepbench.digits import counted
    from stepbench.records.storage import layout
    from stepbench_tools.local.datasets import import_file

    published = () if options.plan is None else _published(options.plan)
    rows = import_file(options.file, options.dataset, options.out, published)
    messages(options)(f"{counted(len(rows), 'transfer')} imported; see `stepbench report --dataset {options.dataset}`")
    write(str(options.out / layout.dataset_prefix(options.dataset)))
    return OK


DATASET = (
    argument("--dataset", type=dataset_name, metavar="NAME", help="in place of RUN: a dataset of transfers"),
    argument("--from", type=day, metavar="DAY", dest="first", help="the dataset's first day, such as 2025-06-01 (UTC)"),
    argument("--to", type=day, metavar="DAY", dest="end", help="the first day after it"),
    argument(
        "--plan",
        metavar=PLAN,
        help="for a dataset: the plan whose published numbers stand beside it (default: its own plans')",
    ),
    argument("--page", type=Path, metavar="FILE", help="for a dataset: where to write its page (default: its folder)"),
)
"""Options of `report` that ask for a dataset in place of a run."""
_ONLY_DATASETS = {"first": "--from", "end": "--to", "plan": "--plan", "page": "--page"}
_PAGE = "report.html"


def require_one_subject(options: argparse.Namespace) -> None:
    """Raise PlanError unless either a run or a dataset is asked for, and nothing of a dataset is said of a run."""
    if (options.run is None) == (options.dataset is None):
        given = "none" if options.run is None else f'"{options.run}" and --dataset "{options.dataset}"'
        remedy = "Name a run, such as latest, or a dataset with --dataset."
        raise PlanError([Problem("RUN", given, "has to be one of the two", remedy)])
    wrong = [name for field, name in _ONLY_DATASETS.items() if getattr(options, field) is not None]
    if options.dataset is None and wrong:
        raise PlanError([Problem(wrong[0], options.run, "is of datasets only", "Leave it out, or use --dataset.")])
    if options.first is not None and options.end is not None and options.first >= options.end:
        remedy = "Name a later day with --to; that day itself is left out."
        raise PlanError([Problem("--to", str(options.end), f"is not after --from {options.first}", remedy)])
    if options.dataset is not None and options.format in {"csv", "junit"}:
        message, remedy = "is no form of a dataset's report", "Use html, md or json; its rows are Parquet files."
        raise PlanError([Problem("--format", options.format, message, remedy)])


def _published(plan: str) -> tuple[PublishedTransfer, ...]:
    """Return the published numbers of a plan's trials of `transfer`."""
    from stepbench.contracts.experiment import traits_of
    from stepbench.contracts.plan import transfer_plan
    from stepbench_tools.cli.inputs import read_any_plan

    trials = (trial for trial in read_any_plan(plan).trials if not traits_of(trial.experiment).windows)
    return tuple(each for trial in trials for each in transfer_plan(trial).published)


def report_dataset(options: argparse.Namespace) -> int:
    """Analyse a dataset over a span, and write its page, or print it in another form."""
    from stepbench.experiments.report.dataset_page import render_dataset
    from stepbench.experiments.transfer.words import describe_stand_ins
    from stepbench.records.storage import layout
    from stepbench.records.storage.transfers import Span
    from stepbench_tools.local.datasets import analyse_dataset
    from stepbench_tools.printing import render_dataset_markdown

    published = None if options.plan is None else _published(options.plan)
    found = analyse_dataset(options.dataset, options.out, Span(options.first, options.end), published)
    match options.format:
        case "md":
            view = found.view
            write(render_dataset_markdown(view.label, view.findings, view.stand_ins).rstrip())
            return OK
        case "json":
            write(found.view.findings.model_dump_json(indent=2))
            return OK
    page: Path = options.page or options.out / layout.dataset_prefix(options.dataset) / _PAGE
    page.write_text(render_dataset(*found), "utf-8")
    stand_ins = [describe_stand_ins(found.view.stand_ins)] if found.view.stand_ins else []
    for sentence in (*found.view.findings.answers, *stand_ins):
        messages(options)(sentence)
    write(str(page))
    if options.open:
        open_page(page)
    return OK


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
    from stepbench_tools.local.results import find_run, rerender, sentences
    from stepbench_tools.local.session import fetch_kept
    from stepbench_tools.local.streams import message_console
    from stepbench_tools.local.terminal import headline

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
    from stepbench_tools.junit import run_suite, to_xml
    from stepbench_tools.printing import render_markdown

    match format_:
        case "md":
            return render_markdown(summary)
        case "junit":
            return to_xml([run_suite(summary, strict=strict)])
        case _:
            return render_csv(summary)


def compare(options: argparse.Namespace) -> int:
    """Set runs against others, and fail where one is shown to be worse."""
    from stepbench_tools import printing
    from stepbench_tools.local import results

    tolerance, studied = options.tolerance / 100, options.studied
    found = results.compare(options.a, options.b, options.out, tolerance, messages(options), studied)
    formats = {
        "text": printing.format_text,
        "md": printing.format_markdown,
        "json": lambda comparison: comparison.model_dump_json(indent=2),
        "junit": printing.format_junit,
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
                type=TOLERANCE,
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
    Command(
        "import",
        import_rows,
        "add rows of transfers to a dataset: NDJSON of our own form, or of that of ecs-lambda-read-perf",
        (
            argument("file", type=Path, metavar="FILE", help="one JSON object a line; its first line names the form"),
            argument("--dataset", type=dataset_name, required=True, metavar="NAME", help="which dataset they join"),
            argument("--plan", metavar=PLAN, help="whose published numbers its reports show"),
            out("where datasets are, in its folder datasets"),
        ),
        epilog="The published form has on each line: type (lambda or fargate), storage (EFS or S3), file, file-size in "
        "bytes, duration-ns, timestamp (of the end, UTC), and where there are file-size-mb, duration-s, start-time, "
        "end-time and mbs (MiB/s), which have to agree; event is not read. All rows are imported or none; a file that "
        "is imported again replaces itself.",
    ),
)
