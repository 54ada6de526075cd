"""Which stack takes a function of the command line's."""

from __future__ import annotations

import pytest

from stepbench.errors import PlanError
from stepbench.planning import expanded, parse_plan
from stepbench.planning.limits import check_stack
from stepbench.settings import Settings

PACKAGE = {"package": f"functions/{'0' * 64}/app.zip", "variables_key": "functions/env.variables.json"}
CODE = {"code": "/app", "variables_file": "/app/.env"}
PHASES = [{"name": "p", "load": [{"rate_per_s": 1, "count": 2}]}]


def refused(fields: dict[str, str], emulator: str = "") -> list[str]:
    """Return the fields that a stack, or an emulator's, refuses."""
    function = {"handler": "app.handler", **fields}
    trial = {"target": {"store": "s3", "function": function}, "phases": PHASES}
    trials = expanded(parse_plan({"name": "x", "trials": [trial]}))
    try:
        check_stack(trials, Settings(results_table="t", results_bucket="b", emulator=emulator))
    except PlanError as error:
        return [problem.path.rpartition(".")[2] for problem in error.problems]
    return []


@pytest.mark.parametrize("emulator", ["", "MiniStack"])
def test_no_stack_takes_a_folder(emulator: str) -> None:
    """Whoever may start a run, by API, schedule or console, could run any code on it."""
    assert refused(CODE, emulator) == ["code", "variables_file"]


def test_only_an_emulator_takes_a_package() -> None:
    """It belongs to who has packed it."""
    assert refused(PACKAGE) == ["package", "variables_key"]
    assert refused(PACKAGE, "MiniStack") == []
