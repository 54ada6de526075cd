"""What starts an execution: a plan, or a request that names a preset, changes it, and says whose run it is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from stepbench.contracts.runs import RunRequest
from stepbench.errors import PlanError, Problem
from stepbench.planning.changes import Changes, changed, is_path
from stepbench.planning.presets import NO_PRESET, find_preset
from stepbench.planning.problems import NOTHING, shown
from stepbench.planning.reading import parse_expanded, read_json
from stepbench.planning.schema import path_text

if TYPE_CHECKING:
    from pathlib import Path

    from stepbench.contracts.plan import Plan
    from stepbench.planning.expansion import Expanded

M = TypeVar("M", bound=BaseModel)
PLAN = "plan"
ASKED = frozenset({"plan", "set", "regressions"})
"""What a caller of the API says of a run; the rest is known of the caller."""


def parse_submission(text: str) -> RunRequest:
    """
    Return the request that the body of a call of the API is.

    Raises:
        PlanError: it is none, or says what only the API itself may say.
    """
    found = read_json(text)
    remedy = f"Give {' and '.join(sorted(ASKED))} alone."
    problems = [
        Problem(name, shown(value), "is no field of a run that is asked for", remedy)
        for name, value in found.items()
        if name not in ASKED
    ]
    if problems:
        raise PlanError(problems)
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
            value=NOTHING if detail["type"] == "missing" else shown(detail["input"]),
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
    if problems:
        raise PlanError(problems)
    changes = Changes(values=tuple(request.set.items()))
    return parse_expanded(changed(document, plan.model_dump(mode="json"), changes))
