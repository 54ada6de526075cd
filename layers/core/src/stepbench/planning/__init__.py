"""From text to a plan, from a plan to trials; presets and the published schema."""

from stepbench.planning.budget import check_budget
from stepbench.planning.expansion import Expanded, expand, expanded, group_names
from stepbench.planning.parsing import parse_plan
from stepbench.planning.presets import find_plan, list_plans
from stepbench.planning.schema import plan_schema
from stepbench.planning.tracing import refuse_traces

__all__ = [
    "Expanded",
    "check_budget",
    "expand",
    "expanded",
    "find_plan",
    "group_names",
    "list_plans",
    "parse_plan",
    "plan_schema",
    "refuse_traces",
]
