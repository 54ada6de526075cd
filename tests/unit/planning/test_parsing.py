from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from stepbench.contracts.problem import Problem
from stepbench.contracts.target import DynamoDbTarget
from stepbench.errors import PlanError
from stepbench.planning import parse_plan

DESIGN_EXAMPLE = """
{"name": "dynamodb-elastic",
 "trials": [{
   "experiment": "trigger",
   "target": {"store": "dynamodb", "batch_size": 100, "batching_window_s": 0, "filter": null},
   "record": {"operation": "put", "key_bytes": 59, "value_bytes": 889, "distinct_keys": null},
   "phases": [
     {"name": "warm-up", "measured": false, "load": [{"rate_per_s": 2000, "duration_s": 900}]},
     {"name": "step", "settle_s": 10,
      "load": [{"rate_per_s": 2000, "duration_s": 180}, {"rate_per_s": 4000, "duration_s": 180}],
      "windows": [{"name": "before", "from_s": 120, "to_s": 180}, {"name": "after", "from_s": 180, "to_s": 240}]}],
   "arrivals": "constant", "writers": 10, "max_concurrency": 10, "drain_limit_s": 120, "repeats": 1, "seed": 7}],
 "order": "interleaved", "budget_usd": 5.0}
"""


def test_the_design_s_own_example_is_a_plan() -> None:
    """It is what every reader tries first."""
    plan = parse_plan(DESIGN_EXAMPLE)
    (trial,) = plan.trials
    assert isinstance(trial.target, DynamoDbTarget)
    assert trial.events == 2000 * 900 + 2000 * 180 + 4000 * 180
    assert trial.phases[0].slices == 2


def test_text_bytes_and_parsed_json_mean_the_same() -> None:
    """The command line has bytes, the state machine has an object, an editor may add a byte order mark."""
    plan = parse_plan(DESIGN_EXAMPLE)
    assert parse_plan(DESIGN_EXAMPLE.encode()) == plan
    assert parse_plan(b"\xef\xbb\xbf" + DESIGN_EXAMPLE.encode()) == plan
    assert parse_plan("\ufeff" + DESIGN_EXAMPLE) == plan
    assert parse_plan(json.loads(DESIGN_EXAMPLE)) == plan


def test_a_stored_plan_reads_back_as_itself() -> None:
    """`plan.json` of a run is a plan that can be run again."""
    plan = parse_plan(DESIGN_EXAMPLE)
    assert parse_plan(plan.model_dump_json()) == plan


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ("name", "trials", "target", "store", "phases", "load", "rate_per_s", "count", "windows", "x")
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@settings(max_examples=150, deadline=None)
@given(JSON)
def test_no_input_breaks_the_parser_itself(document: object) -> None:
    """Whatever is pasted into the console, the answer is a list of problems, never a traceback."""
    problems = _problems(document)
    assert all(problem.path and problem.remedy for problem in problems)
    assert problems or document


def _problems(document: object) -> tuple[Problem, ...]:
    try:
        parse_plan(document)  # type: ignore[arg-type]
    except PlanError as refused:
        return refused.problems
    return ()
