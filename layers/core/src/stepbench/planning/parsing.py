"""A plan from what a user wrote, or every reason why not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from stepbench.contracts.plan import Plan
from stepbench.errors import PlanError
from stepbench.planning.expansion import expanded
from stepbench.planning.problems import problems_of
from stepbench.planning.reading import read_json

if TYPE_CHECKING:
    from collections.abc import Mapping


def parse_plan(source: str | bytes | Mapping[str, Any]) -> Plan:
    """
    A plan from JSON text, or from JSON already parsed (an execution's input).

    Types are taken strictly: "20" is no number and true is no count, since a benchmark of a guess is worse than none.

    Raises:
        PlanError: with every problem that can be told at once. Rules that span fields are looked at where the
            fields themselves are right, and combinations of a matrix where the plan is right without them.
    """
    document = read_json(source)
    try:
        plan = Plan.model_validate_json(json.dumps(document), strict=True)
    except ValidationError as error:
        raise PlanError(problems_of(error, document)) from error
    expanded(plan)
    return plan
