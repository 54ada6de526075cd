"""The command `init`: a commented plan to begin with, of a store, or of a function in a folder."""

from __future__ import annotations

import argparse
import json
import os
import re
from pathlib import Path

from stepbench.errors import PlanError, Problem
from stepbench_tools.cli.command import OK, Command, argument, folder, messages, write

TEMPLATE = Path(__file__).with_name("template.yaml")
FUNCTION_TEMPLATE = Path(__file__).with_name("function.yaml")
PUSH_STORES = ("dynamodb", "s3", "postgresql")
_FOREIGN = re.compile(r"[^A-Za-z0-9_.-]+")


def init(options: argparse.Namespace) -> int:
    """Write a commented template, never over a file that is somebody's work."""
    if options.file.suffix.lower() not in {".yaml", ".yml"}:
        remedy = "Name it plan.yaml, say; `stepbench plans show NAME` prints presets as JSON."
        raise _refusal(options.file, "is no name of a YAML file", remedy)
    if options.store and not options.function:
        raise PlanError([Problem("--store", options.store, "is about a function", "Give --function FOLDER as well.")])
    text = _of_function(options) if options.function else TEMPLATE.read_text("utf-8")
    try:
        with options.file.open("w" if options.force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise _refusal(options.file, "exists", "Give another name, or --force to overwrite it.") from error
    next_command = "run" if options.function else "validate"
    messages(options)(f"next: stepbench {next_command} {options.file}")
    write(str(options.file))
    return OK


def _of_function(options: argparse.Namespace) -> str:
    """Return the plan of a function, with what its folder says of it; what was found is printed."""
    from stepbench_tools.local.packing.discovery import discover, sample_rows

    found = discover(options.function)
    store = options.store or PUSH_STORES[0]
    rows = sample_rows(options.function, store)
    notify = messages(options)
    notify(f"found {found.handler.name} in {found.folder} ({found.handler.language})")
    if found.others:
        notify(f"there is also {', '.join(found.others)}; change `handler` to measure another")
    if rows:
        notify(f"it writes {len(rows)} of the rows in {options.function / 'events'}")
    relative = os.path.relpath(found.folder, options.file.parent)
    name = _FOREIGN.sub("-", found.folder.resolve().name).strip("-._")[:40] or "function"
    return FUNCTION_TEMPLATE.read_text("utf-8").format(
        described=found.handler.name,
        name=json.dumps(name),
        store=store,
        code=json.dumps(relative if relative.startswith(".") else f"./{relative}"),
        handler=json.dumps(found.handler.name),
        fields="".join(f"        {field}: {value}\n" for field, value in found.limits.items()),
        record=f"    record: {{values: {{rows: {_yaml(rows)}}}}}\n" if rows else "",
    )


def _yaml(value: object) -> str:
    """Return a value as JSON that YAML reads alike: there, half of a character has no escape, and a whole one has."""
    text = json.dumps(value, ensure_ascii=False)
    return re.sub(r"[^ -~]", lambda found: f"\\U{ord(found[0]):08x}", text)


def _refusal(file: Path, message: str, remedy: str) -> PlanError:
    return PlanError([Problem(path="FILE", value=f'"{file}"', message=message, remedy=remedy)])


COMMANDS = (
    Command(
        "init",
        init,
        "write a commented plan to begin with",
        (
            argument("file", type=Path, nargs="?", default=Path("plan.yaml"), metavar="FILE", help="(plan.yaml)"),
            argument("--force", action="store_true", help="overwrite the file"),
            argument(
                "--function",
                type=folder,
                metavar="DIR",
                help="of a Lambda function of yours, whose handler is found in this folder",
            ),
            argument("--store", choices=PUSH_STORES, help="that invokes it (default: dynamodb)"),
        ),
    ),
)
