"""What a command reads: plans by name, from a file or from stdin, and the clone that it works in."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepbench.errors import PlanError, Problem, raise_problems
from stepbench_tools.cli.command import messages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.plan import Plan
    from stepbench.planning.changes import Changes
    from stepbench_tools.local.paths import Paths

STDIN = "-"
YAML_SUFFIXES = (".yaml", ".yml")


def requested_changes(options: argparse.Namespace) -> Changes:
    """Return the changes that `CHANGES` of a command line ask for, and say on stderr what they are."""
    from stepbench.planning.changes import Changes

    changes = Changes(options.duration, options.repeats, tuple(options.set))
    if changes:
        messages(options)(f"changed: {changes}")
    return changes


def read_plans(names: Sequence[str], changes: Changes | None = None) -> list[Plan]:
    """
    Return valid plans within their budgets; any other is refused before anything is started.

    Raises:
        PlanError: with the problems of all plans, each with its plan's name if there are several.
    """
    plans: list[Plan] = []
    problems: list[Problem] = []
    require_one_stdin(names)
    for name in names:
        try:
            plans.append(read_plan(name, changes))
        except PlanError as error:
            prefix = f"{name}: " if len(names) > 1 else ""
            problems.extend(each._replace(path=f"{prefix}{each.path}") for each in error.problems)
    raise_problems(problems)
    return plans


def require_one_stdin(names: Sequence[str]) -> None:
    """Raise PlanError where stdin is to be read more than once: the second time, it would be empty."""
    if names.count(STDIN) > 1:
        remedy = "Give a file in place of the others."
        raise PlanError([Problem("PLAN", "-", "stdin can be read once only", remedy)])


def read_plan(name: str, changes: Changes | None = None) -> Plan:
    """Return a valid plan within its budget that lacks nothing; raises PlanError for any other."""
    from stepbench.planning import check_budget, expanded, open_problems

    plan = read_any_plan(name, changes)
    raise_problems(open_problems(plan, expanded(plan)))
    check_budget(plan)
    return plan


def read_any_plan(name: str, changes: Changes | None = None) -> Plan:
    """Return a valid plan, whatever it costs, with the changes made; raises PlanError for any other."""
    from stepbench.planning import parse_plan
    from stepbench_tools.local.packing.rows import resolve_row_files, with_facts
    from stepbench_tools.local.packing.slots import resolve_paths

    document = _decoded(name)
    base = Path(name).parent if Path(name).is_file() else Path.cwd()
    resolve_paths(document, base)
    resolve_row_files(document, base)
    plan = parse_plan(document)
    if not changes:
        return with_facts(plan)
    from stepbench.planning.changes import changed

    document = changed(document, plan.model_dump(mode="json"), changes)
    resolve_paths(document, Path.cwd())  # of --set, which somebody types
    resolve_row_files(document, Path.cwd())
    return with_facts(parse_plan(document))


def read_document(name: str) -> dict[str, Any]:
    """
    Return a plan's object, from JSON or YAML: by the file's name, or else by the text, of which JSON begins with {.

    Raises:
        PlanError: there is no such plan, or it is neither.
    """
    from stepbench.planning import read_json

    return read_json(_decoded(name))


def _decoded(name: str) -> Any:  # noqa: ANN401 -- any JSON
    from stepbench.planning import decode_json, decode_text, find_plan, read_text

    text = read_text(sys.stdin.buffer) if name == STDIN else find_plan(name)
    if not _is_yaml(name, text):
        return decode_json(text)
    from stepbench_tools.cli.yaml_plan import read_yaml

    return read_yaml(decode_text(text))


def _is_yaml(name: str, text: bytes) -> bool:
    suffix = Path(name).suffix.lower()
    begin = text.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    return suffix in YAML_SUFFIXES or (suffix != ".json" and begin not in {b"", b"{", b"["})


def clone_paths() -> Paths:
    """Return the paths of the clone that this package is of, or that the user stands in."""
    from stepbench_tools.local.paths import find_paths

    return find_paths(os.environ, Path.cwd())
