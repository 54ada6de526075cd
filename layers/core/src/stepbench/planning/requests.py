"""
What starts an execution: a plan, or a request that names a preset, changes it, and says whose run it is.

Whether a stack takes it, and how its run is entered in the register, is asked here by the API and by `ValidatePlan`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from stepbench.contracts.runs import RunRecord, RunRequest
from stepbench.errors import PlanError, Problem, raise_problems
from stepbench.planning.changes import Changes, changed, is_path
from stepbench.planning.limits import check_budget, check_stack, open_problems
from stepbench.planning.presets import NO_PRESET, find_preset
from stepbench.planning.problems import NOTHING, shown, shown_below
from stepbench.planning.reading import parse_expanded, read_json
from stepbench.planning.schema import path_text
from stepbench.planning.values import RowReader, admit_rows
from stepbench.planning.wall_time import expected

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path

    from stepbench.contracts.plan import Plan
    from stepbench.planning.expansion import Expanded
    from stepbench.planning.values import ReadFile
    from stepbench.settings import Settings

M = TypeVar("M", bound=BaseModel)
PLAN = "plan"
ASKED = frozenset({"plan", "set", "regressions"})
"""What a caller of the API says of a run; the rest is known of the caller."""


class Admitted(NamedTuple):
    """
    A plan that a stack takes, with its trials in the order of execution, and what they may cost.

    files: rows of the user's own that the trials name by their content, and that are not stored yet, by key.
    read_again: keys of stored rows that the plan names.
    """

    plan: Plan
    trials: tuple[Expanded, ...]
    at_most_usd: float
    files: dict[str, bytes]
    read_again: tuple[str, ...]


def parse_submission(text: str) -> RunRequest:
    """
    Return the request that the body of a call of the API is.

    Raises:
        PlanError: it is none, or says what only the API itself may say.
    """
    found = read_json(text)
    remedy = f"Give {' and '.join(sorted(ASKED))} alone."
    problems = [
        Problem(name, shown_below((name,), value), "is no field of a run that is asked for", remedy)
        for name, value in found.items()
        if name not in ASKED
    ]
    raise_problems(problems)
    return _parsed(RunRequest, found)


def parse_request(document: object) -> RunRequest:
    """
    Return the request that an execution's input is; a plan by itself is one, too. The plan is not yet looked at.

    Raises:
        PlanError: it is neither.
    """
    if isinstance(document, dict) and PLAN not in document:
        return RunRequest(plan=document)
    return _parsed(RunRequest, read_json(document))


def parse_body(model: type[M], body: object) -> M:
    """Return the model that a body is, as text or already parsed; raises PlanError with every field that is wrong."""
    return _parsed(model, read_json(body))


def _parsed(model: type[M], found: dict[str, Any]) -> M:
    try:
        return model.model_validate_json(json.dumps(found), strict=True)
    except ValidationError as error:
        raise PlanError(field_problems(error)) from error


def field_problems(error: ValidationError) -> list[Problem]:
    """Return what is wrong with the fields around a plan, of a request or of a query, in the order found."""
    return [
        Problem(
            path=path_text(detail["loc"]) or "body",
            value=NOTHING if detail["type"] == "missing" else shown_below(detail["loc"], detail["input"]),
            message=f"is refused: {detail['msg'][:1].lower()}{detail['msg'][1:]}",
            remedy="Remove it." if detail["type"] == "extra_forbidden" else "See the description of the API.",
        )
        for detail in error.errors(include_url=False)
    ]


def requested_plan(request: RunRequest, presets: Path | None = None) -> tuple[Plan, tuple[Expanded, ...]]:
    """
    Return the plan that a request asks for, with its changes made, and its trials.

    Args:
        request: any.
        presets: the folder of presets; the checkout's or the layer's if None.

    Raises:
        PlanError: there is no such preset, a change leads nowhere, or the plan is not valid with them.
    """
    document: Any = request.plan
    if isinstance(document, str):
        document = json.loads(find_preset(document, presets, NO_PRESET))
    plan, trials = parse_expanded(document)
    if not request.set:
        return plan, trials
    problems = [
        Problem(
            f"set.{path}", shown(path), "is no path of a plan", "Write it as trials[0].writers, or trials[*] for all."
        )
        for path in request.set
        if not is_path(path)
    ]
    raise_problems(problems)
    changes = Changes(values=tuple(request.set.items()))
    return parse_expanded(changed(document, plan.model_dump(mode="json"), changes))


def admitted(request: RunRequest, settings: Settings, read: ReadFile) -> Admitted:
    """
    Return the plan that a request asks for; `read` is for the files of rows in the bucket.

    Raises:
        PlanError: it is none, or the stack cannot run it within its budget.
    """
    plan, trials = requested_plan(request)
    rows = admit_rows(trials, RowReader(read))
    return Admitted(plan, rows.trials, check_plan(plan, rows.trials, settings), rows.files, rows.read)


def check_plan(plan: Plan, trials: Sequence[Expanded], settings: Settings) -> float:
    """
    Return what a valid plan may cost, in US dollars.

    Raises:
        PlanError: what the stack lacks for it or does not permit; else what the plan lacks; else that its budget is
            too small.
    """
    check_stack(trials, settings)
    raise_problems(open_problems(plan, trials))
    return check_budget(plan, trials)


def run_record(
    run_id: str, request: RunRequest, found: Admitted, submitted_at: datetime, settings: Settings
) -> RunRecord:
    """Return what the register says of a run that was asked for, and may begin."""
    known = expected([trial.plan for trial in found.trials], settings, aborts=found.plan.abort_on_fail)
    return RunRecord(
        run_id=run_id,
        plan=found.plan.name,
        state="submitted",
        submitted_at=submitted_at,
        trials=known.trials,
        estimate_usd=known.estimate_usd,
        at_most_usd=found.at_most_usd,
        expected_s=known.expected_s,
        **request.model_dump(include={"team", "caller", "source", "confirms"}),
    )
