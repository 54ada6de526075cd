"""Commands about plans: `plans`, `schema` and `init`."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepbench.errors import PlanError, Problem
from stepbench_tools.cli.command import OK, PLAN, Command, argument
from stepbench_tools.cli.streams import messages, write

if TYPE_CHECKING:
    from stepbench.contracts.plan import Plan

OTHERS = "Others"
TEMPLATE = Path(__file__).with_name("template.yaml")


def list_presets(_options: argparse.Namespace) -> int:
    """List the presets by the question that they ask, one line each."""
    from stepbench.planning import find_plan, list_plans, parse_plan, questions

    groups = questions()
    width = max(map(len, list_plans()))
    for number, group in enumerate(groups):
        write(f"{'' if number == 0 else chr(10)}{group.question or OTHERS}")
        for name in group.presets:
            write(_shortened(f"  {name:<{width}}  ", _summarise(parse_plan(find_plan(name)))))
    return OK


def _summarise(plan: Plan) -> str:
    """Return the first sentence of a plan's description, or its stores."""
    stores = ", ".join(dict.fromkeys(trial.target.store for trial in plan.trials))
    return re.split(r"\. (?=[A-Z])", plan.description or stores, maxsplit=1)[0].rstrip(".")


def _shortened(begin: str, text: str) -> str:
    """Return a line that fits the terminal; elsewhere a line may be as long as it is."""
    if not sys.stdout.isatty():
        return f"{begin}{text}"
    room = max(20, shutil.get_terminal_size().columns - len(begin))
    return f"{begin}{textwrap.shorten(text, room, placeholder=' …')}"


def show_preset(options: argparse.Namespace) -> int:
    """Print a plan, for somebody to change."""
    from stepbench_tools.cli.inputs import read_document

    document = read_document(options.name)
    if options.yaml:
        from stepbench_tools.cli.yaml_plan import to_yaml

        write(to_yaml(document).rstrip())
    else:
        write(json.dumps(document, indent=2, ensure_ascii=False))
    return OK


def schema(_options: argparse.Namespace) -> int:
    """Print the JSON Schema of a plan."""
    from stepbench.planning import plan_schema

    write(json.dumps(plan_schema(), indent=2))
    return OK


def init(options: argparse.Namespace) -> int:
    """Write a commented template, never over a file that is somebody's work."""
    if options.file.suffix.lower() not in {".yaml", ".yml"}:
        remedy = "Name it plan.yaml, say; `stepbench plans show NAME` prints presets as JSON."
        raise _refusal(options.file, "is no name of a YAML file", remedy)
    try:
        with options.file.open("w" if options.force else "x", encoding="utf-8") as file:
            file.write(TEMPLATE.read_text("utf-8"))
    except FileExistsError as error:
        raise _refusal(options.file, "exists", "Give another name, or --force to overwrite it.") from error
    messages(options)(f"next: stepbench validate {options.file}")
    write(str(options.file))
    return OK


def _refusal(file: Path, message: str, remedy: str) -> PlanError:
    return PlanError([Problem(path="FILE", value=f'"{file}"', message=message, remedy=remedy)])


_SHOW: tuple[Any, ...] = (
    argument("name", metavar=PLAN, help="a preset's name, or a file"),
    argument("--yaml", action="store_true", help="as YAML"),
)

COMMANDS = (
    Command(
        "plans",
        list_presets,
        "list the presets by question; `plans show NAME` prints one",
        commands=(Command("show", show_preset, "print a preset as JSON, for you to change", _SHOW),),
    ),
    Command("schema", schema, "print the JSON Schema of a plan"),
    Command(
        "init",
        init,
        "write a commented plan to begin with",
        (
            argument("file", type=Path, nargs="?", default=Path("plan.yaml"), metavar="FILE", help="(plan.yaml)"),
            argument("--force", action="store_true", help="overwrite the file"),
        ),
    ),
)
