from __future__ import annotations

import json
import math
from typing import Any

import pytest
from tests.samples.refusals import Refused, check_plan, problems_of_plan

from stepbench.errors import PlanError
from stepbench.planning import check_budget, parse_plan
from stepbench.planning.reading import HugeInteger

STEP = {"rate_per_s": 1, "count": 2}
PHASE = {"name": "load", "load": [STEP]}


def plan(**trial: object) -> dict[str, Any]:
    """Return a good plan of one trial, with some of the trial's fields replaced."""
    return {"name": "bad", "trials": [{"target": {"store": "s3"}, "phases": [PHASE], **trial}]}


def load(**step: object) -> dict[str, Any]:
    """Return a plan with this one load step."""
    return plan(phases=[{"name": "load", "load": [step]}])


BAD_PLANS = {
    "empty file": Refused("", "plan", "nothing", "stepbench plans"),
    "blank file": Refused(b" \n ", "plan", "nothing", "stepbench plans"),
    "not JSON": Refused("name: x", "line 1, column 1", "(hidden)", "Mend"),
    "trailing comma": Refused('{"name": "x",\n}', "line 1, column 13", "(hidden)", "Remove the comma"),
    "comment": Refused('{\n  "name": "x", // why\n}', "line 2, column 16", "(hidden)", "JSON has none"),
    "number as YAML has it": Refused('{"a": .5}', "line 1, column 7", "(hidden)", "0.5"),
    "single quotes": Refused("{'name': 1}", "line 1, column 2", "(hidden)", "double quotes"),
    "cut off": Refused('{"name": ', "line 1, column 10", "end of the text", "close what is open"),
    "two plans": Refused("{} {}", "line 1, column 4", "(hidden)", "Remove what follows"),
    "not UTF-8": Refused(b'{"name": "\xff"}', "plan", "byte 0xff at offset 10", "Save the file as UTF-8"),
    "array instead of object": Refused("[]", "plan", "a list", "between { and }"),
    "null": Refused(None, "plan", "null", "between { and }"),
    "number": Refused("5", "plan", "a number", "between { and }"),
    "too large": Refused("[" + " " * 300_000, "plan", "300,001 bytes", "Split it"),
    "too deep": Refused('{"a":' * 100 + "1" + "}" * 100, "a.a.a", "a deep nesting", "Remove the inner levels"),
    "bottomless": Refused("[" * 200_000, "plan", "a deep nesting", "Remove the inner levels"),
    "endless number": Refused({**plan(), "budget_usd": HugeInteger("9" * 5_000)}, "budget_usd", "9...", "at least 0,"),
    "NaN": Refused(plan(drain_limit_s=float("nan")), "trials[0].drain_limit_s", "NaN", "in digits"),
    "infinite": Refused({**plan(), "budget_usd": float("inf")}, "budget_usd", "Infinity", "in digits"),
    "duplicate name": Refused(json.dumps(plan())[:-1] + ', "name": "x"}', "name", '"x"', "Keep one"),
    "no JSON value": Refused({"name": {1, 2}}, "name", "a Python set", "Give text"),
    "no trials": Refused({"name": "x", "trials": []}, "trials", "[]", "1 to 100 entries"),
    "trials missing": Refused({"name": "x"}, "trials", "nothing", 'Add "trials": a list'),
    "trial no object": Refused({"name": "x", "trials": [1]}, "trials[0]", "1", "Give an object"),
    "bad name": Refused({**plan(), "name": "a b"}, "name", '"a b"', "letters, digits"),
    "form that has examples": Refused(
        plan(target={"store": "s3", "function": {"code": "app", "handler": "a.b", "runtime": "python2.7"}}),
        "trials[0].target.function.runtime",
        '"python2.7"',
        'such as "python3.12"',
    ),
    "rate 0": Refused(load(rate_per_s=0, count=1), "trials[0].phases[0].load[0].rate_per_s", "0", "at least 0.001"),
    "rate negative": Refused(
        load(rate_per_s=-3, count=1), "trials[0].phases[0].load[0].rate_per_s", "-3", "at least 0.001"
    ),
    "rate as text": Refused(
        load(rate_per_s="20", count=1), "trials[0].phases[0].load[0].rate_per_s", '"20"', "a number"
    ),
    "rate as yes": Refused(
        load(rate_per_s=True, count=1), "trials[0].phases[0].load[0].rate_per_s", "true", "a number"
    ),
    "half an event": Refused(load(rate_per_s=1, count=1.5), "trials[0].phases[0].load[0].count", "1.5", "whole number"),
    "neither length": Refused(load(rate_per_s=1), "trials[0].phases[0].load[0].duration_s", "nothing", "exactly one"),
    "both lengths": Refused(
        load(rate_per_s=1, count=1, duration_s=1), "trials[0].phases[0].load[0].count", "1", "Remove one of the two"
    ),
    "10^9 events by count": Refused(
        load(rate_per_s=1, count=10**9), "trials[0].phases[0].load[0].count", "1000000000", "at most 20,000,000"
    ),
    "10^9 events by time": Refused(
        load(rate_per_s=2e5, duration_s=5_000), "trials[0].phases", "200000.0", "Lower rate"
    ),
    "unknown field": Refused(
        load(rate_per_sec=1, rate_per_s=1, count=1), "trials[0].phases[0].load[0].rate_per_sec", "1", '"rate_per_s"?'
    ),
    "a trial's field at the plan's": Refused(
        {**plan(), "repeats": 3}, "repeats", "3", "It belongs at trials[0].repeats."
    ),
    "a phase's field at the trial's": Refused(
        plan(rate_per_s=3), "trials[0].rate_per_s", "3", "It belongs at trials[0].phases[0].load[0].rate_per_s."
    ),
    "the plan's field at a trial's": Refused(
        plan(budget_usd=3), "trials[0].budget_usd", "3", "It belongs at budget_usd."
    ),
    "another store's field": Refused(
        plan(target={"store": "etcd", "batch_size": 3}), "trials[0].target.batch_size", "3", "Known here"
    ),
    "a trial's field within its target": Refused(
        plan(target={"store": "etcd", "writers": 3}),
        "trials[0].target.writers",
        "3",
        "It belongs at trials[0].writers.",
    ),
    "unknown field with dots": Refused(plan(**{"a.b": 5}), "trials[0].a.b", "5", "Known here"),
    "unknown store": Refused(
        plan(target={"store": "dynamo"}), "trials[0].target.store", '"dynamo"', 'mean "dynamodb"?'
    ),
    "store not yet": Refused(plan(target={"store": "kinesis"}), "trials[0].target.store", '"kinesis"', "Use one of"),
    "no store": Refused(plan(target={}), "trials[0].target.store", "nothing", 'Add "store": one of'),
    "target as text": Refused(plan(target="s3"), "trials[0].target", '"s3"', '"store" one of'),
    "field in a union": Refused(
        plan(target={"store": "dynamodb", "batchsize": 3}), "trials[0].target.batchsize", "3", '"batch_size"?'
    ),
    "field in a nested union": Refused(
        plan(target={"store": "dynamodb", "capacity": {"mode": "provisioned", "write_units": 0}}),
        "trials[0].target.capacity.write_units",
        "0",
        "at least 1, at most 40,000",
    ),
    "unknown experiment": Refused(plan(experiment="data"), "trials[0].experiment", '"data"', '"trigger"'),
    "unknown arrivals": Refused(plan(arrivals="poison"), "trials[0].arrivals", '"poison"', 'mean "poisson"?'),
    "too much to hand on": Refused(
        {"name": "x", "trials": plan(phases=[{**PHASE, "name": f"p{index}"} for index in range(50)])["trials"] * 80},
        "trials",
        "p0",
        "Split the plan",
    ),
    "trial names": Refused(
        {"name": "x", "trials": [*plan(name="a")["trials"], *plan(name="a")["trials"]]},
        "trials[1].name",
        '"a"',
        "a name of its own",
    ),
    "too many repeats": Refused(plan(repeats=101), "trials[0].repeats", "101", "at most 100"),
    "too many repeats together": Refused(
        {"name": "x", "trials": plan(repeats=60)["trials"] * 2}, "trials[0].repeats", "60", "lower repeats"
    ),
    "key too small": Refused(plan(record={"key_bytes": 20}), "trials[0].record.key_bytes", "20", "at least 48"),
    "threshold of something else": Refused(
        {**plan(), "thresholds": ["errors < 2 %", "p98 < 20 ms"]},
        "thresholds[1]",
        '"p98 < 20 ms"',
        'Did you mean "p99"?',
        'has "p98", which is no measure',
    ),
    "threshold of nothing": Refused(
        {**plan(), "thresholds": ["errors < 0 %"]}, "thresholds[0]", '"errors < 0 %"', "at most 100 %", "nothing keeps"
    ),
    "threshold of a window that is not there": Refused(
        {**plan(), "thresholds": ["p99 in laod < 2 ms"]},
        "thresholds[0]",
        '"p99 in laod < 2 ms"',
        'Did you mean "load"? The plan measures "load".',
        'names a window that the plan does not measure: "laod"',
    ),
    "threshold no text": Refused({**plan(), "thresholds": [0.01]}, "thresholds[0]", "0.01", "a text"),
    "threshold not in a list": Refused(
        {**plan(), "thresholds": "errors < 1 %"}, "thresholds", '"errors < 1 %"', "a list"
    ),
    "seed too large": Refused(plan(seed=2**63), "trials[0].seed", str(2**63), "below 9,223,372,036,854,775,808"),
}


@pytest.mark.parametrize("bad", BAD_PLANS.values(), ids=BAD_PLANS.keys())
def test_a_bad_plan_is_refused_with_path_value_and_remedy(bad: Refused) -> None:
    """Its author mends it from this line alone, with nothing created yet."""
    check_plan(bad)


@pytest.mark.parametrize(
    "text",
    [
        '{"password": hunter2}',
        "{'password': 'hunter2'}",
        '"hunter2"',
        '["hunter2"]',
        '{"a": 1}\n{"hunter2": 1}',
        '"hunter2',
    ],
)
def test_what_stands_where_a_text_is_no_plan_is_not_shown(text: str) -> None:
    """It may be a secret or somebody's row, and the message goes to logs and histories."""
    with pytest.raises(PlanError) as refused:
        parse_plan(text)
    assert "hunter2" not in str(refused.value)


def test_every_problem_is_told_at_once() -> None:
    """One round of mending, not one per mistake."""
    bad = plan(writers=0, arrivals="poison", phases=[{"name": "load", "load": [{"rate_per_s": 0}]}])
    assert {problem.path for problem in problems_of_plan({**bad, "thresholds": ["p98"]})} == {
        "thresholds[0]",
        "trials[0].phases[0].load[0].rate_per_s",
        "trials[0].arrivals",
        "trials[0].writers",
    }


def test_a_wrong_name_in_a_threshold_is_told_beside_mistakes_elsewhere() -> None:
    """The trials are right, so what they measure is known; of trials that are wrong it is not."""
    texts = ["p98 < 20 ms", "p99 in laod < 2 ms", 7]
    bad = {**plan(), "question": "?", "thresholds": texts}
    told = [(problem.path, "laod" in problem.message) for problem in problems_of_plan(bad)]
    assert told == [
        ("question", False), ("thresholds[0]", False), ("thresholds[2]", False), ("thresholds[1]", True),
    ]  # fmt: skip
    assert {problem.path for problem in problems_of_plan({**bad, "trials": []})} == {
        "trials", "question", "thresholds[0]", "thresholds[2]",
    }  # fmt: skip


def test_rules_that_span_fields_are_told_at_once_too() -> None:
    """They come from one validator, which would stop at its first."""
    target = {"store": "dynamodb", "tls": True, "endpoint": "http://h:1"}
    bad = plan(target=target, writers=4, max_concurrency=2, phases=[{**PHASE, "measured": False}])
    assert [problem.path for problem in problems_of_plan(bad)] == [
        "trials[0].max_concurrency",
        "trials[0].phases[0].measured",
        "trials[0].target.tls",
    ]


def test_mistakes_of_every_kind_are_told_at_once() -> None:
    """A name given twice, a number without end and a login in an address hide no others, nor one another."""
    trial = plan(target={"store": "redis", "endpoint": "user:secret@h:1"}, seed=HugeInteger("9" * 200))["trials"][0]
    transfer = {"experiment": "transfer", "transfers": 0, "target": {"endpoint": "http://169.254.169.254"}}
    text = json.dumps({"name": "a b", "trials": [trial, transfer], "budget_usd": math.nan})[:-1] + ', "name": "b"}'
    text = text.replace('"' + "9" * 200 + '"', "9" * 200)
    problems = problems_of_plan(text)
    assert sorted(problem.path for problem in problems) == [
        "budget_usd", "name", "trials[0].seed", "trials[0].target.endpoint", "trials[1].target.endpoint",
        "trials[1].transfers",
    ]  # fmt: skip
    assert "secret" not in str(problems)


def test_rules_at_every_depth_are_asked_at_once() -> None:
    """A window's mistake kept back the phase's, that the trial's, and that the plan's: a turn for each."""
    windows = [{"name": "w", "from_s": 3, "to_s": 2}, {"name": "w", "from_s": 0, "to_s": 9}]
    timed = {"name": "load", "load": [{"rate_per_s": 10, "duration_s": 5}]}
    first = plan(name="a", writers=3, max_concurrency=1, phases=[{**timed, "windows": windows}])["trials"]
    until = {"metric": "p50", "relative_width": 0.1, "max_events": 5}
    second = plan(name="a", phases=[{**timed, "until": until}], log_t4="all")["trials"]
    problems = problems_of_plan({"name": "bad", "trials": first + second, "thresholds": ["p99 in steady < 2 ms"]})
    assert [problem.path for problem in problems] == [
        "trials[0].phases[0].windows[0].to_s", "trials[0].phases[0].windows[1].to_s",
        "trials[0].phases[0].windows[1].name", "trials[0].max_concurrency", "trials[1].phases[0].until.max_events",
        "trials[1].name", "thresholds[0]",
    ]  # fmt: skip


def test_a_name_of_digits_is_no_place_in_a_list() -> None:
    """The path of a variable called 1 was one of a list, where nothing stands."""
    function = {"name": "orders", "variables": {"1": "first"}}
    (problem,) = problems_of_plan(plan(target={"store": "dynamodb", "function": function}))
    assert (problem.path, problem.value) == ("trials[0].target.function.variables.1", '"first"')


def test_a_rule_that_makes_no_sense_behind_another_is_not_asked() -> None:
    """Without a length there is no end that a window could lie after, and no number of events to be too large."""
    windows = [{"name": "w", "from_s": 0, "to_s": 9}]
    no_length = {"name": "load", "load": [{"rate_per_s": 10}], "windows": windows}
    problems = problems_of_plan({**plan(phases=[no_length]), "thresholds": ["p99 in steady < 2 ms"]})
    assert [problem.path for problem in problems] == ["trials[0].phases[0].load[0].duration_s"]


def test_a_trial_too_long_is_not_reported_twice_where_thresholds_end_it() -> None:
    """Its history is full without the checks, too."""
    too_long = plan(target={"store": "etcd"}, phases=[{"name": "x", "load": [{"rate_per_s": 1, "count": 25_000}]}])
    too_long["trials"][0]["drain_limit_s"] = 7_000
    problems = problems_of_plan({**too_long, "abort_on_fail": True})
    assert [problem.path for problem in problems] == ["trials[0].drain_limit_s"]


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
