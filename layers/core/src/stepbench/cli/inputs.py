"""What a command reads: plans by name, from a file or from stdin, and the clone that it works in."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from stepbench.errors import PlanError

if TYPE_CHECKING:
    from stepbench.contracts.plan import Plan
    from stepbench.local.paths import Paths

STDIN = "-"


def read_plan(name: str, *, named: bool = False) -> Plan:
    """Read a valid plan within its budget; any other is refused before anything is started, by its name of several."""
    from stepbench.planning import check_budget, find_plan, parse_plan, read_text

    try:
        plan = parse_plan(read_text(sys.stdin.buffer) if name == STDIN else find_plan(name))
        check_budget(plan)
    except PlanError as error:
        prefix = f"{name}: " if named else ""
        raise PlanError([each._replace(path=f"{prefix}{each.path}") for each in error.problems]) from error
    return plan


def clone_paths() -> Paths:
    """Return the paths of the clone that this package is of, or that the user stands in."""
    from stepbench.local.paths import find_paths

    return find_paths(os.environ, Path.cwd())
