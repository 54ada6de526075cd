"""The command `import`: rows of transfers that others have measured become a dataset."""

from __future__ import annotations

import argparse
from datetime import date
from pathlib import Path

from stepbench.cli.command import OK, Command, argument, out
from stepbench.cli.streams import messages, write


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
    from stepbench.local.datasets import import_file
    from stepbench.records.storage import layout

    rows = import_file(options.file, options.dataset, options.out)
    messages(options)(f"{counted(len(rows), 'transfer')} imported; see `stepbench report --dataset {options.dataset}`")
    write(str(options.out / layout.dataset_prefix(options.dataset)))
    return OK


COMMANDS = (
    Command(
        "import",
        import_rows,
        "add rows of transfers to a dataset: NDJSON of our own form, or of that of ecs-lambda-read-perf",
        (
            argument("file", type=Path, metavar="FILE", help="one JSON object a line; its first line tells which form"),
            argument("--dataset", type=dataset_name, required=True, metavar="NAME", help="which dataset they join"),
            out("where datasets are, in its folder datasets"),
        ),
        epilog="The published form has on each line: type (lambda or fargate), storage (EFS or S3), file, file-size in "
        "bytes, duration-ns, timestamp (of the end, UTC), and where there are file-size-mb, duration-s, start-time, "
        "end-time and mbs (MiB/s), which have to agree; event is not read. All rows are imported or none; a file that "
        "is imported again replaces itself.",
    ),
)
