from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from stepbench.errors import PlanError
from stepbench.planning import check_budget, parse_plan


class Bad(NamedTuple):
    """A plan that is refused: what it is, and words of the value and the remedy that its author is told."""

    plan: Any
    path: str
    value: str
    remedy: str


STEP = {"rate_per_s": 1, "count": 2}
PHASE = {"name": "load", "load": [STEP]}


def plan(**trial: object) -> dict[str, Any]:
    """A good plan of one trial, with some of the trial's fields replaced."""
    return {"name": "bad", "trials": [{"target": {"store": "s3"}, "phases": [PHASE], **trial}]}


def load(**step: object) -> dict[str, Any]:
    """A plan with this one load step."""
    return plan(phases=[{"name": "load", "load": [step]}])


def phase(**fields: object) -> dict[str, Any]:
    """A plan whose only phase has these fields too."""
    return plan(phases=[{**PHASE, **fields}])


ONE_SANDBOX = {"store": "dynamodb", "same_sandbox": True}
UPDATE_WINDOW = [{"name": "end", "from_s": 1, "to_s": 3}]
BAD_PLANS = {
    "empty file": Bad("", "plan", "nothing", "stepbench plans"),
    "blank file": Bad(b" \n ", "plan", "nothing", "stepbench plans"),
    "not JSON": Bad("name: x", "line 1, column 1", "name: x", "Mend"),
    "trailing comma": Bad('{"name": "x",\n}', "line 1, column 13", ",", "Remove the comma"),
    "comment": Bad('{\n  "name": "x", // why\n}', "line 2, column 16", "// why", "JSON has none"),
    "single quotes": Bad("{'name': 1}", "line 1, column 2", "'name'", "double quotes"),
    "cut off": Bad('{"name": ', "line 1, column 10", "end of the text", "close what is open"),
    "two plans": Bad("{} {}", "line 1, column 4", "{}", "Remove what follows"),
    "not UTF-8": Bad(b'{"name": "\xff"}', "plan", "byte 0xff at offset 10", "Save the file as UTF-8"),
    "array instead of object": Bad("[]", "plan", "[]", "between { and }"),
    "null": Bad(None, "plan", "null", "between { and }"),
    "number": Bad("5", "plan", "5", "between { and }"),
    "too large": Bad("[" + " " * 300_000, "plan", "300,001 bytes", "Split it"),
    "too deep": Bad('{"a":' * 100 + "1" + "}" * 100, "a.a.a", "a deep nesting", "Remove the inner levels"),
    "bottomless": Bad("[" * 200_000, "plan", "a deep nesting", "Remove the inner levels"),
    "endless number": Bad('{"name": ' + "9" * 5_000 + "}", "plan", "a huge number", "smaller"),
    "NaN": Bad('{"trials": [{"drain_limit_s": NaN}]}', "trials[0].drain_limit_s", "NaN", "in digits"),
    "infinite": Bad('{"budget_usd": 1e999}', "budget_usd", "Infinity", "in digits"),
    "duplicate name": Bad('{"trials": [{"seed": 1, "seed": 2}]}', "trials[0].seed", "2", "Keep one"),
    "no JSON value": Bad({"name": {1, 2}}, "name", "a Python set", "Give text"),
    "no trials": Bad({"name": "x", "trials": []}, "trials", "[]", "1 to 100 entries"),
    "trials missing": Bad({"name": "x"}, "trials", "nothing", 'Add "trials": a list'),
    "trial no object": Bad({"name": "x", "trials": [1]}, "trials[0]", "1", "Give an object"),
    "bad name": Bad({**plan(), "name": "a b"}, "name", '"a b"', "letters, digits"),
    "rate 0": Bad(load(rate_per_s=0, count=1), "trials[0].phases[0].load[0].rate_per_s", "0", "above 0"),
    "rate negative": Bad(load(rate_per_s=-3, count=1), "trials[0].phases[0].load[0].rate_per_s", "-3", "above 0"),
    "rate as text": Bad(load(rate_per_s="20", count=1), "trials[0].phases[0].load[0].rate_per_s", '"20"', "a number"),
    "rate as yes": Bad(load(rate_per_s=True, count=1), "trials[0].phases[0].load[0].rate_per_s", "true", "a number"),
    "half an event": Bad(load(rate_per_s=1, count=1.5), "trials[0].phases[0].load[0].count", "1.5", "whole number"),
    "neither length": Bad(load(rate_per_s=1), "trials[0].phases[0].load[0].duration_s", "nothing", "exactly one"),
    "both lengths": Bad(
        load(rate_per_s=1, count=1, duration_s=1), "trials[0].phases[0].load[0].count", "1", "Remove one of the two"
    ),
    "10^9 events by count": Bad(
        load(rate_per_s=1, count=10**9), "trials[0].phases[0].load[0].count", "1000000000", "at most 20,000,000"
    ),
    "10^9 events by time": Bad(load(rate_per_s=2e5, duration_s=5_000), "trials[0].phases", "200000.0", "Lower rate"),
    "no event at all": Bad(load(rate_per_s=0.1, duration_s=1), "trials[0].phases[0].load", "0.1", "Raise rate_per_s"),
    "unknown field": Bad(
        load(rate_per_sec=1, rate_per_s=1, count=1), "trials[0].phases[0].load[0].rate_per_sec", "1", '"rate_per_s"?'
    ),
    "unknown field with dots": Bad(plan(**{"a.b": 5}), "trials[0].a.b", "5", "Known here"),
    "unknown store": Bad(plan(target={"store": "dynamo"}), "trials[0].target.store", '"dynamo"', 'mean "dynamodb"?'),
    "store not yet": Bad(plan(target={"store": "redis"}), "trials[0].target.store", '"redis"', "Use one of"),
    "no store": Bad(plan(target={}), "trials[0].target.store", "nothing", 'Add "store": one of'),
    "target as text": Bad(plan(target="s3"), "trials[0].target", '"s3"', '"store" one of'),
    "field in a union": Bad(
        plan(target={"store": "dynamodb", "batchsize": 3}), "trials[0].target.batchsize", "3", '"batch_size"?'
    ),
    "field in a nested union": Bad(
        plan(target={"store": "dynamodb", "capacity": {"mode": "provisioned", "write_units": 0}}),
        "trials[0].target.capacity.write_units",
        "0",
        "at least 1, at most 40,000",
    ),
    "experiment not yet": Bad(plan(experiment="dataflow"), "trials[0].experiment", '"dataflow"', '"trigger"'),
    "unknown arrivals": Bad(plan(arrivals="poison"), "trials[0].arrivals", '"poison"', 'mean "poisson"?'),
    "no measured phase": Bad(phase(measured=False), "trials[0].phases[0].measured", "false", "at least one phase"),
    "window outside": Bad(phase(windows=UPDATE_WINDOW), "trials[0].phases[0].windows[0].to_s", "3", "Let it end by 2"),
    "window backwards": Bad(
        phase(windows=[{"name": "w", "from_s": 1, "to_s": 1}]), "trials[0].phases[0].windows[0].to_s", "1", "Raise to_s"
    ),
    "window names": Bad(
        phase(windows=[{"name": "w", "from_s": 0, "to_s": 1}] * 2),
        "trials[0].phases[0].windows[1].name",
        '"w"',
        "a name of its own",
    ),
    "window of a warm-up": Bad(
        plan(
            phases=[
                PHASE,
                {**PHASE, "name": "w", "measured": False, "windows": [{"name": "w", "from_s": 0, "to_s": 1}]},
            ]
        ),
        "trials[0].phases[1].windows",
        "from_s",
        "measured: true",
    ),
    "phase names": Bad(plan(phases=[PHASE, PHASE]), "trials[0].phases[1].name", '"load"', "a name of its own"),
    "watched for days": Bad(
        plan(target={"store": "etcd"}, phases=[{"name": "load", "load": [{"rate_per_s": 1, "duration_s": 28_801}]}]),
        "trials[0].phases",
        "28801",
        "split the trial",
    ),
    "watched and drained for hours": Bad(
        plan(
            target={"store": "etcd"},
            drain_limit_s=1_800,
            phases=[{"name": "load", "load": [{"rate_per_s": 1, "duration_s": 28_800}]}],
        ),
        "trials[0].drain_limit_s",
        "1800",
        "Lower it",
    ),
    "too much to hand on": Bad(
        {
            "name": "x",
            "trials": plan(phases=[{**PHASE, "name": f"p{index}"} for index in range(50)])["trials"] * 80,
        },
        "trials",
        "p0",
        "Split the plan",
    ),
    "trial names": Bad(
        {"name": "x", "trials": [*plan(name="a")["trials"], *plan(name="a")["trials"]]},
        "trials[1].name",
        '"a"',
        "a name of its own",
    ),
    "max_concurrency below writers": Bad(
        plan(writers=4, max_concurrency=2), "trials[0].max_concurrency", "2", "Raise it to 4"
    ),
    "too many slices": Bad(
        {"name": "x", "trials": [{**load(rate_per_s=1, duration_s=604_800)["trials"][0], "writers": 100}]},
        "trials[0].phases[0].load",
        "604800",
        "Shorten the phase",
    ),
    "scale on s3": Bad(
        phase(scale={"capacity": {"mode": "on_demand"}}), "trials[0].phases[0].scale", "on_demand", "Remove it"
    ),
    "a table's capacity for postgresql": Bad(
        plan(target={"store": "postgresql"}, phases=[{**PHASE, "scale": {"capacity": {"mode": "on_demand"}}}]),
        "trials[0].phases[0].scale.capacity.mode",
        "on_demand",
        "Make it serverless_v2",
    ),
    "a cluster's capacity for another server": Bad(
        plan(
            target={"store": "postgresql", "endpoint": "10.0.0.1:5432"},
            phases=[{**PHASE, "scale": {"capacity": {"mode": "serverless_v2", "min_acu": 1, "max_acu": 2}}}],
        ),
        "trials[0].phases[0].scale",
        "serverless_v2",
        "Remove one of the two",
    ),
    "bounds in the wrong order": Bad(
        plan(
            target={"store": "postgresql"},
            phases=[{**PHASE, "scale": {"capacity": {"mode": "serverless_v2", "min_acu": 4, "max_acu": 2}}}],
        ),
        "trials[0].phases[0].scale.capacity.max_acu",
        "2",
        "Raise max_acu",
    ),
    "too many repeats": Bad(plan(repeats=101), "trials[0].repeats", "101", "at most 100"),
    "too many repeats together": Bad(
        {"name": "x", "trials": plan(repeats=60)["trials"] * 2}, "trials[0].repeats", "60", "lower repeats"
    ),
    "zipf of a put": Bad(
        plan(record={"key_distribution": "zipf"}), "trials[0].record.key_distribution", '"zipf"', '"update"'
    ),
    "delete with keys": Bad(
        plan(record={"operation": "delete", "distinct_keys": 5}), "trials[0].record.distinct_keys", "5", '"update"'
    ),
    "a filter for the reference store": Bad(
        plan(target={"store": "reference"}, record={"matching_share": 0.5}),
        *("trials[0].record.matching_share", "0.5", "Remove it"),
    ),
    "two filters": Bad(
        plan(target={"store": "dynamodb", "filter": {}}, record={"matching_share": 0.5}),
        *("trials[0].record.matching_share", "0.5", "Remove one of the two"),
    ),
    "one sandbox, two writers": Bad(plan(target=ONE_SANDBOX, writers=2), "trials[0].writers", "2", "Make it 1"),
    "one sandbox, too fast": Bad(
        plan(target=ONE_SANDBOX, phases=[{"name": "load", "load": [{"rate_per_s": 11, "count": 2}]}]),
        *("trials[0].phases[0].load", '"rate_per_s": 11', "Offer 10 a second at most"),
    ),
    "one sandbox, another DynamoDB": Bad(
        plan(target={**ONE_SANDBOX, "endpoint": "http://10.0.0.7:8000"}),
        *("trials[0].target.endpoint", "http://10.0.0.7:8000", "Remove one of the two"),
    ),
    "one sandbox, printing": Bad(
        plan(target=ONE_SANDBOX, log_t4="all"), "trials[0].log_t4", '"all"', "remove same_sandbox"
    ),
    "a filter in one sandbox": Bad(
        plan(target={"store": "dynamodb", "same_sandbox": True}, record={"matching_share": 0.5}),
        *("trials[0].record.matching_share", "0.5", "Remove one of the two"),
    ),
    "a filter by keys that updates share": Bad(
        plan(record={"operation": "update", "distinct_keys": 5, "matching_share": 0.5}),
        *("trials[0].record.matching_share", "0.5", 'Use "put"'),
    ),
    "a filter that nothing passes": Bad(
        plan(record={"matching_share": 0.4}), "trials[0].phases[0].load", '"count": 2', "Raise record.matching_share"
    ),
    "too many deletes": Bad(
        plan(
            record={"operation": "delete"}, phases=[{"name": "load", "load": [{"rate_per_s": 1e3, "count": 200_001}]}]
        ),
        "trials[0].phases",
        "200001",
        "split the trial",
    ),
    "deletes in the reference store": Bad(
        plan(record={"operation": "delete"}, target={"store": "reference"}),
        "trials[0].record.operation",
        '"delete"',
        'Use "put"',
    ),
    "one key is hot": Bad(
        plan(record={"operation": "update", "distinct_keys": 1, "key_distribution": "hot"}),
        "trials[0].record.distinct_keys",
        "1",
        "Raise it to 2",
    ),
    "exponent without zipf": Bad(
        plan(record={"operation": "update", "distinct_keys": 5, "zipf_exponent": 2}),
        "trials[0].record.zipf_exponent",
        "2",
        'key_distribution to "zipf"',
    ),
    "share without a hot key": Bad(
        plan(record={"operation": "update", "distinct_keys": 5, "hot_share": 0.9}),
        "trials[0].record.hot_share",
        "0.9",
        'key_distribution to "hot"',
    ),
    "update without keys": Bad(
        plan(record={"operation": "update"}), "trials[0].record.distinct_keys", "nothing", "how many keys"
    ),
    "put with keys": Bad(plan(record={"distinct_keys": 5}), "trials[0].record.distinct_keys", "5", '"update"'),
    "key too small": Bad(plan(record={"key_bytes": 20}), "trials[0].record.key_bytes", "20", "at least 48"),
    "link-local endpoint": Bad(
        plan(target={"store": "s3", "endpoint": "http://169.254.169.254/"}),
        "trials[0].target.endpoint",
        "169.254.169.254",
        "a store of your own",
    ),
    "endpoint without scheme": Bad(
        plan(target={"store": "s3", "endpoint": "minio:9000"}), "trials[0].target.endpoint", "minio:9000", "http://"
    ),
    "endpoint with scheme": Bad(
        plan(target={"store": "etcd", "endpoint": "http://etcd:2379"}),
        "trials[0].target.endpoint",
        "http://etcd:2379",
        "before the host",
    ),
    "seed too large": Bad(plan(seed=2**63), "trials[0].seed", str(2**63), "below 9,223,372,036,854,775,808"),
}


@pytest.mark.parametrize("bad", BAD_PLANS.values(), ids=BAD_PLANS.keys())
def test_a_bad_plan_is_refused_with_path_value_and_remedy(bad: Bad) -> None:
    """Its author mends it from this line alone, with nothing created yet."""
    with pytest.raises(PlanError) as refused:
        parse_plan(bad.plan)
    (problem,) = refused.value.problems
    assert problem.path == bad.path
    assert bad.value in problem.value
    assert bad.remedy in problem.remedy
    assert problem.message


def test_every_problem_is_told_at_once() -> None:
    """One round of mending, not one per mistake."""
    bad = plan(writers=0, arrivals="poison", phases=[{"name": "load", "load": [{"rate_per_s": 0}]}])
    with pytest.raises(PlanError) as refused:
        parse_plan(bad)
    assert {problem.path for problem in refused.value.problems} == {
        "trials[0].phases[0].load[0].rate_per_s",
        "trials[0].arrivals",
        "trials[0].writers",
    }


def test_rules_that_span_fields_are_told_at_once_too() -> None:
    """They come from one validator, which would stop at its first."""
    target = {"store": "s3", "endpoint": "minio"}
    bad = plan(target=target, writers=4, max_concurrency=2, phases=[{**PHASE, "measured": False}])
    with pytest.raises(PlanError) as refused:
        parse_plan(bad)
    assert [problem.path for problem in refused.value.problems] == [
        "trials[0].max_concurrency",
        "trials[0].phases[0].measured",
        "trials[0].target.endpoint",
    ]


def test_a_plan_above_its_budget_is_told_both_numbers_and_the_biggest_line() -> None:
    """The reader has to see what to lower, or how far to raise."""
    document = {**plan(phases=[{"name": "load", "load": [{"rate_per_s": 1_000, "count": 1_000_000}]}]), "budget_usd": 5}
    with pytest.raises(PlanError) as refused:
        check_budget(parse_plan(document))
    (problem,) = refused.value.problems
    assert (problem.path, problem.value) == ("budget_usd", "5")
    # 1,000,000 events and 30 canaries at $5 per million.
    assert "1,000,030 S3 PUT requests in trials[0], $5.00" in problem.message
    needed = float(problem.remedy.split()[5].rstrip(","))
    assert check_budget(parse_plan({**document, "budget_usd": needed})) <= needed


def test_the_message_is_one_line_per_problem() -> None:
    """It is an execution's Cause, and what the terminal prints."""
    with pytest.raises(PlanError) as refused:
        parse_plan(json.dumps(plan(writers=0)))
    assert str(refused.value) == (
        "trials[0].writers: has to be greater than or equal to 1 (got 0). "
        "Give a whole number, at least 1, at most 1,000."
    )
