"""Reading a plan from text and expanding it into trials; presets and the published schema."""

from stepbench.planning.expansion import Expanded, describe_copies, expand, expanded, group_names
from stepbench.planning.limits import check_budget, open_problems, refuse_on_emulator
from stepbench.planning.presets import Question, find_plan, list_plans, questions, read_text
from stepbench.planning.reading import decode_json, decode_text, parse_plan, read_json
from stepbench.planning.references import thresholds_about
from stepbench.planning.schema import plan_schema

__all__ = [
    "Expanded",
    "Question",
    "check_budget",
    "decode_json",
    "decode_text",
    "describe_copies",
    "expand",
    "expanded",
    "find_plan",
    "group_names",
    "list_plans",
    "open_problems",
    "parse_plan",
    "plan_schema",
    "questions",
    "read_json",
    "read_text",
    "refuse_on_emulator",
    "thresholds_about",
]
