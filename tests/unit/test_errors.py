from __future__ import annotations

import json

from stepbench.errors import MOST_CHARACTERS, PlanError, Problem


def test_a_refusal_fits_an_executions_cause_and_keeps_every_problem() -> None:
    """Step Functions cuts a cause at 32,768 characters, and what is cut is no JSON any more."""
    problems = [Problem(f"trials[{number}]", '"x"' * 20, "is wrong", "Mend it.") for number in range(1_000)]
    error = PlanError(problems)
    assert len(error.problems) == 1_000
    assert len(json.dumps({"errorMessage": str(error)})) < 25_000
    *lines, last = str(error).splitlines()
    assert lines == [str(problem) for problem in problems[: len(lines)]]
    assert last == "and more: 1000 problems in all"
    assert len(str(PlanError([Problem("plan", "x" * 100_000, "is long", "Cut it.")]))) < MOST_CHARACTERS + 100
    assert str(PlanError(problems[:2])) == "\n".join(map(str, problems[:2]))
